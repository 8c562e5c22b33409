// One cluster: conditions, capacity, nodes, what runs there, taints and labels, events, YAML.

import { Chart } from "../../ui/chart";
import { useState } from "react";
import { Link } from "wouter";
import { type Row, useLiveObject } from "../../api/live";
import { useHistory } from "../../api/history";
import { formatBytes, formatCpu } from "../../api/quantity";
import { BINDINGS, CLUSTERS, LEASES, pathOf } from "../../api/resources";
import { useRows } from "../../api/rows";
import type { KObject } from "../../api/types";
import { useUrlState } from "../../app/urlState";
import { t } from "../../i18n";
import { perCluster, stateOfBinding, toneOfBinding } from "../../model/binding";
import { capacityOf, isCordoned, nodesOf } from "../../model/cluster";
import { subjectOf } from "../../model/links";
import { ObjectLink } from "../../ui/objectLink";
import { Age, Badge, Button, Card, Empty, KeyValues, Labels, Loading, Meter, PageHead, Problem, Stale, Tabs, usageTone } from "../../ui/parts";
import { DataTable, type TableColumn } from "../../ui/table";
import { ObjectYaml } from "../../editor/ObjectYaml";
import { ConditionTable } from "../ConditionTable";
import { EventList, useNewestEvents } from "../EventList";
import { HealthHistory } from "../Metrics";
import { setCordoned } from "./actions";
import { State } from "./Clusters";
import { Nodes } from "./Nodes";
import { RemoveDialog } from "./RemoveDialog";
import { Taints } from "./Taints";

/** Agents renew a lease here. */
const LEASES_IN = "karmada-cluster";

export default function ClusterDetail({ name }: { name: string }) {
  const live = useLiveObject(pathOf(CLUSTERS), name);
  const [tab, setTab] = useUrlState("tab", "summary");
  const [removing, setRemoving] = useState(false);
  const crumbs = [{ text: t("Clusters"), to: "/clusters" }, { text: name }];
  if (live.phase === "loading") return <><PageHead title={name} crumbs={crumbs} /><Loading /></>;
  if (live.phase === "error" && live.error) return <><PageHead title={name} crumbs={crumbs} /><section className="card"><Problem error={live.error} retry={live.reload} /></section></>;
  const cluster = live.object;
  if (!cluster) return <><PageHead title={name} crumbs={crumbs} /><section className="card"><Empty title={t("There is no cluster {name}", { name })} icon="cluster" /></section></>;
  const tabs = [
    { id: "summary", text: t("Summary") },
    { id: "workloads", text: t("Propagated objects") },
    { id: "nodes", text: t("Nodes"), count: nodesOf(cluster).total },
    { id: "taints", text: t("Taints and labels") },
    { id: "events", text: t("Events") },
    { id: "yaml", text: "YAML" },
  ];
  return (
    <>
      <PageHead title={name} crumbs={crumbs} badges={<State cluster={cluster} />}>
        <Link className="btn" href={`/failover?cluster=${name}`}>{t("Simulate failure")}</Link>
        <Button icon={isCordoned(cluster) ? "play" : "pause"} onClick={() => void setCordoned(cluster, !isCordoned(cluster))}>{isCordoned(cluster) ? t("Uncordon") : t("Cordon")}</Button>
        <Button kind="danger" icon="trash" onClick={() => setRemoving(true)}>{t("Remove…")}</Button>
      </PageHead>
      <Stale show={live.stale} />
      <Tabs tabs={tabs} current={tab} onChange={setTab} label={t("Sections")} />
      {tab === "summary" && <Summary cluster={cluster} />}
      {tab === "workloads" && <RunsHere name={name} />}
      {tab === "nodes" && <Nodes cluster={cluster} />}
      {tab === "taints" && <Taints cluster={cluster} />}
      {tab === "events" && <ClusterEvents name={name} />}
      {tab === "yaml" && <ObjectYaml resource={CLUSTERS} object={cluster} />}
      {removing && <RemoveDialog cluster={cluster} onClose={() => setRemoving(false)} />}
    </>
  );
}

function Summary({ cluster }: { cluster: KObject }) {
  const { spec = {}, status = {} } = cluster;
  const lease = useLiveObject(pathOf(LEASES, LEASES_IN), cluster.metadata.name).object;
  return (
    <div className="cols">
      <div>
      <Card title={t("Capacity")}>
        <div className="stack">
          {(["cpu", "memory", "pods"] as const).map((resource) => {
            const { allocatable, allocated } = capacityOf(cluster, resource);
            const format = resource === "cpu" ? formatCpu : resource === "memory" ? formatBytes : String;
            const title = { cpu: t("CPU"), memory: t("Memory"), pods: t("Pods") }[resource];
            return (
              <div className="stack tight" key={resource}>
                <div className="row between"><span>{title}</span><span><b>{format(allocated)}</b> <span className="muted">/ {format(allocatable)}</span></span></div>
                <Meter tall parts={[{ value: allocated, tone: usageTone(allocated / allocatable) }]} total={allocatable} label={title} />
              </div>
            );
          })}
          {!status.resourceSummary && <p className="muted small">{t("The cluster has not reported its capacity yet.")}</p>}
        </div>
      </Card>
      <Card title={t("Conditions")} flush><ConditionTable object={cluster} /></Card>
      </div>
      <div>
      <Card title={t("Details")}>
        <KeyValues
          entries={[
            [t("Mode"), spec.syncMode],
            [t("Kubernetes"), status.kubernetesVersion],
            [t("API server"), spec.apiEndpoint && <code>{spec.apiEndpoint}</code>],
            [t("Provider"), spec.provider],
            [t("Region"), spec.region],
            [t("Zones"), spec.zones?.join(", ") ?? spec.zone],
            [t("Labels"), <Labels labels={cluster.metadata.labels} />],
            [t("Heartbeat"), lease?.spec?.renewTime && <span><Age at={lease.spec.renewTime} ago /> <span className="muted">{t("from its agent")}</span></span>],
            [t("Joined"), <Age at={cluster.metadata.creationTimestamp} ago />],
            ["ID", spec.id && <code>{spec.id}</code>],
          ]}
        />
      </Card>
      <Models cluster={cluster} />
      <Past name={cluster.metadata.name} />
      </div>
    </div>
  );
}

/** How many nodes have room for pods of each grade, where the cluster reports capacity models. */
function Models({ cluster }: { cluster: KObject }) {
  const { allocatableModelings: free = [], allocatedModelings: used = [] } = cluster.status?.resourceSummary ?? {};
  const models: any[] = cluster.spec?.resourceModels ?? [];
  const graded = models.filter(({ grade }) => [...free, ...used].some((one: any) => one.grade === grade && one.count > 0));
  if (graded.length === 0) return null;
  const countOf = (all: any[], grade: number) => all.find((one) => one.grade === grade)?.count ?? 0;
  const range = ({ name, min, max }: any) => `${name} ${min}–${Number.parseFloat(max) > 9e15 ? "∞" : max}`;
  return (
    <Card title={t("Resource models")} flush>
      <div className="hscroll" tabIndex={0} role="group">
        <table className="simple">
          <thead><tr><th>{t("Grade")}</th><th>{t("Node resources")}</th><th>{t("Free")}</th><th>{t("In use")}</th></tr></thead>
          <tbody>{graded.map(({ grade, ranges = [] }) => <tr key={grade}><td>{grade}</td><td className="small">{ranges.map(range).join(", ")}</td><td>{countOf(free, grade)}</td><td>{countOf(used, grade)}</td></tr>)}</tbody>
        </table>
      </div>
    </Card>
  );
}

/** When the cluster was ready, and what of it was requested, in the samples of the server. */
function Past({ name }: { name: string }) {
  const history = useHistory(86_400, ["cluster_ready_state", "cluster_cpu_allocatable_number", "cluster_cpu_allocated_number"].map((metric) => `${metric}/${name}`));
  if (history.error) return null;
  return (
    <Card title={t("Last 24 hours")}>
      {history.data ? (
        <div className="stack">
          <HealthHistory history={history.data} only={name} />
          <Chart label={t("CPU")} times={history.data.times} format={formatCpu} series={[[t("CPU allocatable"), "cluster_cpu_allocatable_number"], [t("CPU requested"), "cluster_cpu_allocated_number"]].map(([text, metric]) => ({ name: text!, values: history.data.series[`${metric}/${name}`] ?? history.data.times.map(() => null) }))} />
        </div>
      ) : <Loading />}
    </Card>
  );
}

/** Everything that the cluster is a target of; the server finds and counts it. */
function RunsHere({ name }: { name: string }) {
  const live = useRows({ resource: BINDINGS, bindings: { cluster: name }, whole: true });
  const here = (row: Row) => perCluster(row.object).find((one) => one.name === name);
  const columns: TableColumn<Row>[] = [
    { id: "name", title: t("Name"), width: "minmax(180px, 2fr)", cell: (row) => <><ObjectLink to={subjectOf(row.object!)} /> <span className="muted small">{row.object?.spec?.resource?.kind}</span></> },
    { id: "namespace", title: t("Namespace"), width: "minmax(110px, 1fr)", cell: (row) => row.metadata.namespace ?? "–" },
    { id: "replicas", title: t("Replicas"), width: "100px", cell: (row) => { const own = here(row); return own?.desired !== undefined ? `${own.ready ?? 0}/${own.desired}` : "–"; } },
    { id: "state", title: t("In this cluster"), width: "140px", cell: (row) => { const own = here(row); return own && <Badge tone={own.tone}>{t(own.state)}</Badge>; } },
    { id: "everywhere", title: t("In all clusters"), width: "140px", cell: (row) => { const state = stateOfBinding(row.object!); return <Badge tone={toneOfBinding(state)}>{t(state)}</Badge>; } },
  ];
  return (
    <>
      <Stale show={live.stale} />
      <DataTable label={t("Propagated objects")} live={live} rows={live.rows} columns={columns} rowKey={(row) => `${row.metadata.namespace}/${row.metadata.name}`} empty={<Empty title={t("No workloads in {cluster}", { cluster: name })} icon="workload" />} />
    </>
  );
}

function ClusterEvents({ name }: { name: string }) {
  // Works of the cluster are in a namespace with its name.
  const live = useNewestEvents(undefined, name);
  return <Card flush><EventList live={live} filter={(event) => event.involvedObject?.kind === "Cluster" && event.involvedObject?.name === name || event.involvedObject?.namespace === `karmada-es-${name}`} /></Card>;
}
