// What would move if a cluster were lost, what moves now and what moved, and the way back.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { readMoves, useMoves, useWhole } from "../api/bindings";
import { type ApiError, getJson, query, send } from "../api/client";
import type { Followed } from "../api/followed";
import type { Row } from "../api/live";
import { apiVersionOf, BINDINGS, CLUSTERS, pathOf, REBALANCERS } from "../api/resources";
import { useRows } from "../api/rows";
import type { KObject, Simulation, Taint } from "../api/types";
import { useUrlState } from "../app/urlState";
import { t } from "../i18n";
import { isCordoned, stateOf, taintsOf, toneOf } from "../model/cluster";
import { type Move, type Moves, stateOfMove } from "../model/failover";
import { subjectOf } from "../model/links";
import { ObjectLink } from "../ui/objectLink";
import { Age, attempt, Badge, Button, Card, Command, Dialog, Empty, Loading, PageHead, Problem, Stale } from "../ui/parts";
import { DataTable, type TableColumn } from "../ui/table";
import { changeTaints, setCordoned } from "./clusters/actions";
import { SimulationView } from "./SimulationView";
import "./workloads/why.css";

export default function Failover() {
  const clusters = useWhole({ path: pathOf(CLUSTERS) });
  const leaving = useRows({ resource: BINDINGS, bindings: { leaving: true }, whole: true });
  const moves = useMoves();
  const [chosen, setChosen] = useUrlState("cluster", "");
  const simulation = useQuery<Simulation, ApiError>({
    queryKey: ["failover", chosen],
    queryFn: () => getJson(`/flotilla/v1alpha1/failover${query({ cluster: chosen })}`),
    enabled: chosen !== "",
  });
  const cluster = clusters.items.find((one) => one.metadata.name === chosen);
  return (
    <>
      <PageHead title={t("Failover")} />
      <Stale show={clusters.stale || leaving.stale || moves.stale} />
      <Card title={t("Simulate a cluster failure")}>
        {clusters.phase === "loading" ? <Loading /> : clusters.phase === "error" && clusters.error ? <Problem error={clusters.error} retry={clusters.reload} /> : clusters.items.length === 0 ? (
          <Empty title={t("No clusters yet")} icon="cluster" />
        ) : (
          <div className="stack loose">
            <p className="muted">{t("Shows where the scheduler would place the workloads of the cluster on the remaining capacity. Nothing is changed.")}</p>
            <ClusterChoice clusters={clusters.items} chosen={chosen} onChoose={setChosen} />
            {cluster && <ClusterActions key={chosen} cluster={cluster} />}
            {chosen === "" ? null : simulation.isPending ? <Loading /> : simulation.error ? <Problem error={simulation.error} retry={() => void simulation.refetch()} /> : <SimulationView simulation={simulation.data} />}
          </div>
        )}
      </Card>
      <h2 className="section-title">{t("Evictions in progress")}</h2>
      <Evictions live={leaving} />
      <Card title={t("Past failovers")} flush><Past moves={moves} /></Card>
    </>
  );
}

const CHOICES_MAX = 40;

/** Buttons for the clusters; with many of them, for those that match a text. */
function ClusterChoice({ clusters, chosen, onChoose }: { clusters: KObject[]; chosen: string; onChoose: (name: string) => void }) {
  const [filter, setFilter] = useState("");
  const matching = clusters.filter((one) => one.metadata.name.includes(filter.trim()));
  const shown = matching.slice(0, CHOICES_MAX);
  const own = clusters.find((one) => one.metadata.name === chosen);
  if (own && !shown.includes(own)) shown.unshift(own);
  return (
    <>
      {clusters.length > CHOICES_MAX && <input className="input" type="search" style={{ maxWidth: 280 }} aria-label={t("Filter by name")} placeholder={t("Filter by name")} value={filter} onChange={(event) => setFilter(event.target.value)} />}
      <div className="chips" role="group" aria-label={t("Cluster")}>
        {shown.map(({ metadata: { name } }, index) => (
          <button key={name} type="button" className={`btn ${chosen === name ? "primary" : ""}`} aria-pressed={chosen === name} onClick={() => onChoose(name)}>
            {chosen !== name && <span className={`dot ${toneOf(stateOf(shown[index]!))}`} />}
            {name}
          </button>
        ))}
        {matching.length > CHOICES_MAX && <span className="small muted">{t("and {count} more", { count: (matching.length - CHOICES_MAX).toLocaleString() })}</span>}
      </div>
    </>
  );
}

/** Evicts what does not tolerate it; the name says who set it. */
const EVACUATED: Taint = { key: "flotilla.dev/evacuated", effect: "NoExecute" };
const isEvacuated = (cluster: KObject) => taintsOf(cluster).some((taint) => taint.key === EVACUATED.key);

/** Cordon, evacuate and the way back for one cluster. */
function ClusterActions({ cluster }: { cluster: KObject }) {
  const [asking, setAsking] = useState(false);
  const name = cluster.metadata.name;
  const moves = useMoves(name);
  const leftTotal = moves.data?.leftTotal ?? 0;
  const evacuate = async () => {
    if (await changeTaints(name, (all) => [...all.filter((one) => one.key !== EVACUATED.key), EVACUATED], t("Workloads are being evicted from {name}", { name }))) setAsking(false);
  };
  const failBack = () =>
    attempt(t("{name} receives workloads again", { name }), async () => {
      if (isEvacuated(cluster)) await changeTaints(name, (all) => all.filter((one) => one.key !== EVACUATED.key), t("Taint removed"));
      const { left } = moves.error?.notFound ? { left: [] } : await readMoves(name);
      if (left.length > 0) await send("POST", pathOf(REBALANCERS), { apiVersion: apiVersionOf(REBALANCERS), kind: REBALANCERS.kind, metadata: { generateName: "fail-back-" }, spec: { workloads: left, ttlSecondsAfterFinished: 600 } });
    });
  return (
    <div className="row wrap">
      {(isEvacuated(cluster) || leftTotal > 0) && <Button icon="undo" kind={isEvacuated(cluster) ? "primary" : undefined} onClick={() => void failBack()}>{t("Fail back")}</Button>}
      {!isEvacuated(cluster) && <Button icon="failover" onClick={() => setAsking(true)}>{t("Evacuate…")}</Button>}
      <Button icon={isCordoned(cluster) ? "play" : "pause"} onClick={() => void setCordoned(cluster, !isCordoned(cluster))}>{isCordoned(cluster) ? t("Uncordon") : t("Cordon")}</Button>
      {isEvacuated(cluster) && <Badge tone="warn">{t("Evacuated")}</Badge>}
      {isCordoned(cluster) && <Badge tone="warn">{t("Cordoned")}</Badge>}
      {leftTotal > 0 && <span className="small muted">{t("Workloads moved away by failover that have not returned: {count}", { count: leftTotal.toLocaleString() })}</span>}
      {asking && (
        <Dialog title={t("Evacuate {name}", { name })} onClose={() => setAsking(false)} onSubmit={() => void evacuate()} footer={<><Button onClick={() => setAsking(false)}>{t("Cancel")}</Button><Button kind="danger" type="submit">{t("Evacuate")}</Button></>}>
          <p>{t("All workloads that do not tolerate the taint are evicted from the cluster, as the simulation shows. Each keeps running there until its replacement is ready.")}</p>
          <Command text={`flotilla taint clusters ${name} ${EVACUATED.key}:${EVACUATED.effect}`} />
        </Dialog>
      )}
    </div>
  );
}

/** What bindings remember of their moves: the latest of each, for as long as it exists. */
function Past({ moves }: { moves: Followed<Moves> }) {
  if (moves.error?.notFound) return <Empty title={t("This control plane does not record failovers")} icon="failover" />;
  if (!moves.data) return moves.error ? <Problem error={moves.error} retry={moves.reload} /> : <Loading />;
  const { items, total } = moves.data;
  if (items.length === 0) return <Empty title={t("No failovers yet")} icon="check" />;
  return (
    <div className="body">
      <ol className="timeline">{items.map((move) => <PastMove key={`${move.subject.kind}/${move.subject.namespace}/${move.subject.name}/${move.time}/${move.from}`} move={move} />)}</ol>
      {total > items.length && <p className="muted small">{t("The newest {shown} of {total}.", { shown: items.length, total: total.toLocaleString() })}</p>}
    </div>
  );
}

function PastMove({ move }: { move: Move }) {
  const [state, tone] = stateOfMove(move);
  const { subject, from, replicas, to = [] } = move;
  const targets = to.map((target) => (target.replicas ? `${target.name} (${target.replicas})` : target.name)).join(", ");
  return (
    <li>
      <span className="when"><Age at={move.time} /></span>
      <span className="rail"><span className={`dot ${tone}`} /></span>
      <span className="what">
        <b><ObjectLink to={subject} /></b> <span className="muted">{subject.kind}{subject.namespace && ` · ${subject.namespace}`}</span> <Badge tone={tone}>{t(state)}</Badge>
        <div className="small">{replicas === undefined ? from : `${from} (${replicas})`} → {targets || "–"}</div>
        <div className="small muted">{[move.reason, move.message].filter(Boolean).join(": ")}</div>
      </span>
    </li>
  );
}

/** Tasks of the bindings that leave a cluster. */
function Evictions({ live }: { live: ReturnType<typeof useRows> }) {
  const tasks = (row: Row): any[] => row.object?.spec?.gracefulEvictionTasks ?? [];
  const columns: TableColumn<Row>[] = [
    { id: "workload", title: t("Workload"), width: "minmax(180px, 1.4fr)", cell: (row) => <><ObjectLink to={subjectOf(row.object!)} /> <span className="muted small">{row.object?.spec?.resource?.kind} · {row.metadata.namespace}</span></> },
    { id: "leaves", title: t("From cluster"), width: "minmax(150px, 1fr)", cell: (row) => tasks(row).map((task) => (task.replicas === undefined ? task.fromCluster : `${task.fromCluster} (${task.replicas})`)).join(", ") },
    { id: "reason", title: t("Reason"), width: "minmax(220px, 2fr)", cell: (row) => <span title={tasks(row)[0]?.message}><Badge tone="warn">{tasks(row)[0]?.reason}</Badge> <span className="small muted">{tasks(row)[0]?.message}</span></span> },
    { id: "since", title: t("Since"), width: "80px", cell: (row) => <Age at={tasks(row)[0]?.creationTimestamp} /> },
  ];
  return <DataTable label={t("Evictions in progress")} live={live} rows={live.rows} columns={columns} rowKey={(row) => `${row.metadata.namespace}/${row.metadata.name}`} height={420} empty={<Empty title={t("No evictions in progress")} icon="check" />} />;
}
