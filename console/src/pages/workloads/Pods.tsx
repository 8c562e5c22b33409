// The pods of a workload in all its clusters, with logs and a terminal.

import { useQueries } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Link } from "wouter";
import { type ApiError, request } from "../../api/client";
import { type PodList, podsOf, refreshOf } from "../../api/memberPods";
import { memberPath } from "../../api/resources";
import type { KObject } from "../../api/types";
import { useUrlState } from "../../app/urlState";
import { t } from "../../i18n";
import { perCluster } from "../../model/binding";
import { isPodOf, selectorText } from "../../model/workload";
import { Age, attempt, Badge, Button, Empty, Loading, Problem, type Tone } from "../../ui/parts";
import { DataTable, type TableColumn } from "../../ui/table";
import { Logs } from "./Logs";
import { PortDialog } from "./PortDialog";
import { TerminalDialog } from "./TerminalDialog";

export interface MemberPod extends KObject {
  cluster: string;
}

export const podsPath = (cluster: string, namespace: string, name = "") =>
  memberPath(cluster, `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods${name ? `/${encodeURIComponent(name)}` : ""}`);

export function podState(pod: KObject): [string, Tone] {
  if (pod.metadata.deletionTimestamp) return ["Terminating", "warn"];
  const waiting = (pod.status?.containerStatuses ?? []).find((one: any) => one.state?.waiting?.reason && one.state.waiting.reason !== "ContainerCreating");
  if (waiting) return [waiting.state.waiting.reason, "bad"];
  const phase: string = pod.status?.phase ?? "Unknown";
  return [phase, phase === "Running" || phase === "Succeeded" ? "ok" : phase === "Failed" ? "bad" : "info"];
}

export function Pods({ workload, binding }: { workload: KObject; binding?: KObject }) {
  const clusters = perCluster(binding).map((one) => one.name);
  const namespace = workload.metadata.namespace ?? "";
  const labelSelector = selectorText(workload);
  const [logsOf, setLogsOf] = useUrlState("logs", "");
  const [terminal, setTerminal] = useState<MemberPod>();
  const [ports, setPorts] = useState<MemberPod>();
  const answers = useQueries({
    queries: clusters.map((cluster) => ({
      queryKey: ["pods", cluster, namespace, labelSelector],
      queryFn: () => podsOf(podsPath(cluster, namespace), labelSelector),
      refetchInterval: ({ state }: { state: { data?: PodList } }) => refreshOf(state.data),
    })),
  });
  const pods = useMemo(
    () => answers.flatMap((answer, index) => (answer.data?.items ?? []).filter((pod) => isPodOf(workload, pod)).map((pod): MemberPod => ({ ...pod, cluster: clusters[index] ?? "" }))),
    [answers.map((answer) => answer.dataUpdatedAt).join()],
  );
  if (clusters.length === 0) return <section className="card"><Empty title={t("Not in any cluster")} icon="cluster"><p>{t("The Why tab shows the step that failed.")}</p></Empty></section>;
  if (!labelSelector) return <section className="card"><Empty title={t("This workload selects no pods")} /></section>;
  if (answers.every((answer) => answer.isPending)) return <Loading />;
  const failed = answers.map((answer, index) => [clusters[index] ?? "", answer.error as ApiError | null] as const).filter(([, error]) => error);
  if (failed.length === clusters.length && failed[0]?.[1]) return <section className="card"><Problem error={failed[0][1]} /></section>;
  const cut = answers.map((answer, index) => [clusters[index] ?? "", answer.data] as const).filter(([, data]) => data?.hasMore);
  const chosen = logsOf === "*" ? pods : pods.filter((pod) => `${pod.cluster}/${pod.metadata.name}` === logsOf);
  return (
    <div className="stack">
      {failed.map(([cluster, error]) => <div className="banner" key={cluster}>{cluster}: {error?.message}</div>)}
      {cut.map(([cluster, data]) => <div className="banner" key={cluster}>{cluster}: {cutText(data!)}</div>)}
      <div className="toolbar">
        <Button icon="log" onClick={() => setLogsOf(logsOf === "*" ? "" : "*")} pressed={logsOf === "*"}>{t("Logs of all pods")}</Button>
      </div>
      {logsOf && <Logs pods={chosen} onClose={() => setLogsOf("")} />}
      <DataTable
        label={t("Pods")}
        live={{ phase: "ready", total: pods.length, hasMore: false, loadingMore: false, loadMore: () => {}, reload: () => {} }}
        rows={pods}
        columns={columns(setLogsOf, setTerminal, setPorts)}
        rowKey={(pod) => `${pod.cluster}/${pod.metadata.name}`}
        counted={cut.length > 0 ? t("{shown} shown", { shown: pods.length.toLocaleString() }) : undefined}
        empty={<Empty title={t("No pods yet")} icon="workload" />}
      />
      {ports && <PortDialog pod={ports} onClose={() => setPorts(undefined)} />}
      {terminal && <TerminalDialog pod={terminal} onClose={() => setTerminal(undefined)} />}
    </div>
  );
}

/** Servers do not count what a selector leaves. */
const cutText = ({ items, total }: PodList) =>
  total === undefined
    ? t("Only the first {shown} pods are shown.", { shown: items.length.toLocaleString() })
    : t("The first {shown} of {total} pods are shown.", { shown: items.length.toLocaleString(), total: total.toLocaleString() });

function columns(showLogs: (key: string) => void, openTerminal: (pod: MemberPod) => void, openPorts: (pod: MemberPod) => void): TableColumn<MemberPod>[] {
  const restarts = (pod: KObject): number => (pod.status?.containerStatuses ?? []).reduce((all: number, one: any) => all + (one.restartCount ?? 0), 0);
  return [
    { id: "name", title: t("Name"), width: "minmax(190px, 1.6fr)", cell: (pod) => <span className="mono" title={pod.metadata.name}>{pod.metadata.name}</span>, sort: (pod) => pod.metadata.name },
    { id: "cluster", title: t("Cluster"), width: "minmax(110px, 1fr)", cell: (pod) => <Link href={`/clusters/${pod.cluster}`}>{pod.cluster}</Link>, sort: (pod) => pod.cluster },
    { id: "state", title: t("State"), width: "130px", cell: (pod) => { const [text, tone] = podState(pod); return <Badge tone={tone}>{text}</Badge>; }, sort: (pod) => podState(pod)[0] },
    { id: "restarts", title: t("Restarts"), width: "90px", numeric: true, cell: (pod) => restarts(pod), sort: restarts },
    { id: "node", title: t("Node"), width: "minmax(150px, 1.3fr)", cell: (pod) => <span title={pod.spec?.nodeName}>{pod.spec?.nodeName ?? "–"}</span>, sort: (pod) => pod.spec?.nodeName ?? "" },
    { id: "ip", title: "IP", width: "120px", cell: (pod) => <code>{pod.status?.podIP ?? "–"}</code> },
    { id: "age", title: t("Age"), width: "70px", cell: (pod) => <Age at={pod.metadata.creationTimestamp} />, sort: (pod) => -Date.parse(pod.metadata.creationTimestamp ?? "") },
    {
      id: "actions", title: "", width: "156px", cell: (pod) => (
        <span className="row" style={{ gap: 2 }}>
          <Button small kind="ghost" icon="log" label={t("Logs of {name}", { name: pod.metadata.name })} onClick={() => showLogs(`${pod.cluster}/${pod.metadata.name}`)} />
          <Button small kind="ghost" icon="terminal" label={t("Terminal in {name}", { name: pod.metadata.name })} onClick={() => openTerminal(pod)} />
          <Button small kind="ghost" icon="network" label={t("Ports of {name}", { name: pod.metadata.name })} onClick={() => openPorts(pod)} />
          <Button small kind="ghost" icon="trash" label={t("Delete pod {name}", { name: pod.metadata.name })} onClick={() => void attempt(t("{name} is deleted; its workload replaces it", { name: pod.metadata.name }), () => request(podsPath(pod.cluster, pod.metadata.namespace ?? "", pod.metadata.name), { method: "DELETE" }))} />
        </span>
      ),
    },
  ];
}
