// Workloads of every kind with their replicas by cluster.

import { useMemo } from "react";
import { Link } from "wouter";
import { useBindingsInView } from "../../api/bindings";
import { type Row, useLive } from "../../api/live";
import { BINDINGS, pathOf, slugOf, WORKLOADS } from "../../api/resources";
import { useRows } from "../../api/rows";
import type { KObject } from "../../api/types";
import { usePrefs } from "../../app/prefs";
import { useUrlState } from "../../app/urlState";
import { t } from "../../i18n";
import { indexBySubject, perCluster, stateOfBinding, subjectKey, toneOfBinding } from "../../model/binding";
import { imagesOf, isPaused, podsOf } from "../../model/workload";
import { ClusterChips } from "../../ui/clusterChips";
import { Age, Badge, Empty, PageHead, Segmented, Stale } from "../../ui/parts";
import { DataTable, type TableColumn } from "../../ui/table";

export default function Workloads() {
  const { namespace } = usePrefs();
  const [kind, setKind] = useUrlState("kind", "Deployment");
  const [filter, setFilter] = useUrlState("q", "");
  const resource = WORKLOADS.find((one) => one.kind === kind) ?? WORKLOADS[0]!;
  const [order] = useUrlState("sort", "");
  const live = useRows({ resource, namespace, contains: filter, sort: serverOrder(resource.kind, order), whole: true });
  const bindings = useLive({ path: pathOf(BINDINGS, namespace), limit: 1000 });
  const rows = useMemo(() => live.rows.map((row: Row | undefined) => row?.object), [live.rows]);
  const { show, further } = useBindingsInView(bindings.hasMore ? resource.kind : "", namespace, rows, live.show);
  const bySubject = useMemo(() => indexBySubject([...bindings.items, ...further]), [bindings.items, further]);
  const bindingOf = (workload: KObject) => bySubject.get(subjectKey(resource.kind, workload.metadata.namespace, workload.metadata.name));
  const typed = (workload: KObject) => ({ ...workload, kind: resource.kind });
  const columns: TableColumn<KObject>[] = [
    { id: "name", title: t("Name"), width: "minmax(150px, 1.5fr)", cell: (one) => one.metadata.name, sort: (one) => one.metadata.name },
    { id: "namespace", title: t("Namespace"), width: "minmax(96px, 0.8fr)", cell: (one) => one.metadata.namespace, sort: (one) => one.metadata.namespace ?? "" },
    { id: "state", title: t("State"), width: "132px", cell: (one) => <WorkloadState workload={typed(one)} binding={bindingOf(one)} known={bindings.phase === "ready" && !bindings.hasMore} /> },
    { id: "pods", title: resource.kind === "CronJob" ? t("Schedule") : t("Ready"), width: "84px", cell: (one) => <Pods workload={typed(one)} />, sort: (one) => podsOf(typed(one))?.ready ?? 0 },
    { id: "clusters", title: t("Clusters"), width: "minmax(412px, 2.8fr)", cell: (one) => <ClusterChips clusters={perCluster(bindingOf(one))} max={3} /> },
    { id: "image", title: t("Image"), width: "minmax(96px, 1fr)", cell: (one) => <code title={imagesOf(typed(one)).join(", ")}>{imagesOf(typed(one)).map(shortImage).join(", ") || "–"}</code> },
    { id: "age", title: t("Age"), width: "60px", cell: (one) => <Age at={one.metadata.creationTimestamp} />, sort: (one) => -Date.parse(one.metadata.creationTimestamp ?? "") },
  ];
  return (
    <>
      <PageHead title={t("Workloads")}>
        <Link className="btn primary" href="/apply">{t("Deploy a workload")}</Link>
      </PageHead>
      <Stale show={live.stale} />
      <div className="toolbar">
        <Segmented label={t("Kind")} value={resource.kind} onChange={setKind} options={WORKLOADS.map((one) => ({ id: one.kind, text: `${one.kind}s` }))} />
        <input className="input" data-filter type="search" aria-label={t("Filter")} placeholder={t("Filter by name or image")} value={filter} onChange={(event) => setFilter(event.target.value)} />
      </div>
      <DataTable
        label={t("Workloads")}
        live={live.show ? { ...live, show } : live}
        rows={rows}
        columns={columns}
        rowKey={(one) => `${one.metadata.namespace}/${one.metadata.name}`}
        href={(one) => `/workloads/${slugOf(resource)}/${one.metadata.namespace}/${one.metadata.name}`}
        filtered={filter !== ""}
        empty={<Empty title={t("No {kind} here", { kind: `${resource.kind}s` })} icon="workload"><p>{t("Apply a workload and a policy that selects it.")}</p><Link className="btn" href="/apply">{t("Plan and apply")}</Link></Empty>}
      />
    </>
  );
}

/** The columns by which the server sorts. */
const READY: Record<string, string> = { Job: "completions", CronJob: "schedule" };

function serverOrder(kind: string, order: string): string {
  const column = order.replace(/^-/, "");
  return order.replace(column, column === "pods" ? (READY[kind] ?? "ready") : column);
}

/** The image without registry and folders. */
const shortImage = (image: string) => image.split("/").at(-1) ?? image;

export function WorkloadState({ workload, binding, known }: { workload: KObject; binding?: KObject; known: boolean }) {
  if (workload.metadata.deletionTimestamp) return <Badge tone="warn">{t("Deleting")}</Badge>;
  if (isPaused(workload)) return <Badge tone="warn">{t("Paused")}</Badge>;
  if (binding) {
    const state = stateOfBinding(binding);
    return <Badge tone={toneOfBinding(state)}>{t(state)}</Badge>;
  }
  return known ? <Badge>{t("No policy")}</Badge> : <span className="muted">–</span>;
}

function Pods({ workload }: { workload: KObject }) {
  if (workload.kind === "CronJob") return <code>{workload.spec?.schedule}</code>;
  const pods = podsOf(workload);
  return pods ? <>{pods.ready}<span className="muted">/{pods.desired}</span></> : <span className="muted">–</span>;
}
