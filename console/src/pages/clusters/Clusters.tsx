// All clusters with state, capacity and place; cordon, join and remove.

import { useState } from "react";
import { useLive } from "../../api/live";
import { formatBytes, formatCpu } from "../../api/quantity";
import { CLUSTERS, pathOf } from "../../api/resources";
import type { KObject } from "../../api/types";
import { useUrlState } from "../../app/urlState";
import { t } from "../../i18n";
import { capacityOf, isCordoned, nodesOf, placeOf, stateOf, taintsOf, toneOf } from "../../model/cluster";
import { Age, Badge, Button, Empty, Menu, Meter, PageHead, Stale, usageTone } from "../../ui/parts";
import { DataTable, type TableColumn } from "../../ui/table";
import { setCordoned } from "./actions";
import { JoinDialog } from "./JoinDialog";
import { RemoveDialog } from "./RemoveDialog";

export default function Clusters() {
  const live = useLive({ path: pathOf(CLUSTERS) });
  const [filter, setFilter] = useUrlState("q", "");
  const [join, setJoin] = useUrlState("join", "");
  const [removing, setRemoving] = useState<KObject>();
  const rows = filter ? live.items.filter((cluster) => JSON.stringify([cluster.metadata.name, cluster.metadata.labels, placeOf(cluster)]).toLowerCase().includes(filter.toLowerCase())) : live.items;
  const columns: TableColumn<KObject>[] = [
    { id: "name", title: t("Name"), width: "minmax(150px, 2.2fr)", cell: (cluster) => cluster.metadata.name, sort: (cluster) => cluster.metadata.name },
    { id: "state", title: t("State"), width: "minmax(205px, 1fr)", cell: (cluster) => <State cluster={cluster} />, sort: stateOf },
    { id: "mode", title: t("Mode"), width: "66px", cell: (cluster) => cluster.spec?.syncMode, sort: (cluster) => cluster.spec?.syncMode },
    { id: "version", title: t("Kubernetes"), width: "minmax(100px, 0.6fr)", cell: (cluster) => <span title={cluster.status?.kubernetesVersion}>{cluster.status?.kubernetesVersion?.split("+")[0] ?? "–"}</span>, sort: (cluster) => cluster.status?.kubernetesVersion ?? "" },
    { id: "nodes", title: t("Nodes"), width: "84px", cell: (cluster) => `${nodesOf(cluster).ready}/${nodesOf(cluster).total}`, sort: (cluster) => nodesOf(cluster).total },
    { id: "cpu", title: t("CPU"), width: "minmax(130px, 1fr)", cell: (cluster) => <Usage cluster={cluster} resource="cpu" />, sort: (cluster) => capacityOf(cluster, "cpu").allocated },
    { id: "memory", title: t("Memory"), width: "minmax(140px, 1fr)", cell: (cluster) => <Usage cluster={cluster} resource="memory" />, sort: (cluster) => capacityOf(cluster, "memory").allocated },
    { id: "place", title: t("Location"), width: "minmax(80px, 1fr)", cell: (cluster) => placeOf(cluster) || <span className="muted">–</span>, sort: placeOf },
    { id: "age", title: t("Age"), width: "64px", cell: (cluster) => <Age at={cluster.metadata.creationTimestamp} />, sort: (cluster) => -Date.parse(cluster.metadata.creationTimestamp ?? "") },
    {
      id: "actions",
      title: "",
      width: "58px",
      cell: (cluster) => (
        <Menu
          label={t("Actions for {name}", { name: cluster.metadata.name })}
          items={[
            isCordoned(cluster)
              ? { text: t("Uncordon"), icon: "play", onSelect: () => void setCordoned(cluster, false) }
              : { text: t("Cordon"), icon: "pause", onSelect: () => void setCordoned(cluster, true) },
            { text: t("Remove…"), icon: "trash", danger: true, onSelect: () => setRemoving(cluster) },
          ]}
        />
      ),
    },
  ];
  return (
    <>
      <PageHead title={t("Clusters")}>
        <Button kind="primary" icon="plus" onClick={() => setJoin("push")}>{t("Join a cluster")}</Button>
      </PageHead>
      <Stale show={live.stale} />
      <div className="toolbar">
        <input className="input" data-filter type="search" aria-label={t("Filter")} placeholder={t("Filter by name, label or location")} value={filter} onChange={(event) => setFilter(event.target.value)} />
      </div>
      <DataTable
        label={t("Clusters")}
        live={live}
        rows={rows}
        columns={columns}
        rowKey={(cluster) => cluster.metadata.name}
        href={(cluster) => `/clusters/${cluster.metadata.name}`}
        filtered={filter !== ""}
        empty={<Empty title={t("No clusters yet")} icon="cluster"><p>{t("Join a cluster to run workloads in it.")}</p><Button kind="primary" onClick={() => setJoin("push")}>{t("Join a cluster")}</Button></Empty>}
      />
      {join && <JoinDialog mode={join} onMode={setJoin} onClose={() => setJoin("")} />}
      {removing && <RemoveDialog cluster={removing} onClose={() => setRemoving(undefined)} />}
    </>
  );
}

export function State({ cluster }: { cluster: KObject }) {
  const state = stateOf(cluster);
  const taints = taintsOf(cluster).length - (isCordoned(cluster) ? 1 : 0);
  return (
    <span className="row">
      <Badge tone={toneOf(state)}>{t(state)}</Badge>
      {isCordoned(cluster) && <Badge tone="warn">{t("Cordoned")}</Badge>}
      {taints > 0 && <span className="muted small">{t("Taints: {count}", { count: taints })}</span>}
    </span>
  );
}

function Usage({ cluster, resource }: { cluster: KObject; resource: "cpu" | "memory" }) {
  const { allocatable, allocated } = capacityOf(cluster, resource);
  if (!allocatable) return <span className="muted">–</span>;
  const format = resource === "cpu" ? formatCpu : formatBytes;
  return (
    <div style={{ display: "grid", gap: 4 }}>
      <span className="small">{format(allocated)} / {format(allocatable)}</span>
      <Meter parts={[{ value: allocated, tone: usageTone(allocated / allocatable) }]} total={allocatable} label={resource} />
    </div>
  );
}
