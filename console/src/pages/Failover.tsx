// What would move if a cluster were lost, what moves now and what moved, and the way back.

import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { useState } from "react";
import { type ApiError, getJson, query, send } from "../api/client";
import { useLive } from "../api/live";
import { apiVersionOf, BINDINGS, CLUSTERS, EVENTS, pathOf, REBALANCERS } from "../api/resources";
import type { KObject, Simulation, Subject, Taint } from "../api/types";
import { useUrlState } from "../app/urlState";
import { t } from "../i18n";
import { isCordoned, stateOf, taintsOf, toneOf } from "../model/cluster";
import { Age, attempt, Badge, Button, Card, Command, Dialog, Empty, Loading, PageHead, Problem, Stale } from "../ui/parts";
import { changeTaints, setCordoned } from "./clusters/actions";
import { newestFirst, timeOfEvent } from "./EventList";
import { subjectLink } from "./Overview";
import { SimulationView } from "./SimulationView";
import "./workloads/why.css";

export default function Failover() {
  const clusters = useLive({ path: pathOf(CLUSTERS) });
  const bindings = useLive({ path: pathOf(BINDINGS) });
  const [chosen, setChosen] = useUrlState("cluster", "");
  const simulation = useQuery<Simulation, ApiError>({
    queryKey: ["failover", chosen],
    queryFn: () => getJson(`/flotilla/v1alpha1/failover${query({ cluster: chosen })}`),
    enabled: chosen !== "",
  });
  const events = useLive({ path: pathOf(EVENTS), limit: 1000 });
  const cluster = clusters.items.find((one) => one.metadata.name === chosen);
  const leaving = bindings.items.filter((binding) => (binding.spec?.gracefulEvictionTasks ?? []).length > 0);
  return (
    <>
      <PageHead title={t("Failover")} />
      <Stale show={clusters.stale || bindings.stale || events.stale} />
      <Card title={t("Simulate the loss of a cluster")}>
        {clusters.phase === "loading" ? <Loading /> : clusters.phase === "error" && clusters.error ? <Problem error={clusters.error} retry={clusters.reload} /> : clusters.items.length === 0 ? (
          <Empty title={t("No clusters yet")} icon="cluster" />
        ) : (
          <div className="stack loose">
            <p className="muted">{t("The scheduler places the workloads of the cluster one after another on the capacity left. Nothing is changed.")}</p>
            <ClusterChoice clusters={clusters.items} chosen={chosen} onChoose={setChosen} />
            {cluster && <ClusterActions cluster={cluster} events={events.items} />}
            {chosen === "" ? null : simulation.isPending ? <Loading /> : simulation.error ? <Problem error={simulation.error} retry={() => void simulation.refetch()} /> : <SimulationView simulation={simulation.data} />}
          </div>
        )}
      </Card>
      <Card title={t("Evictions in progress")} flush>
        {bindings.phase === "loading" ? <Loading /> : bindings.phase === "error" && bindings.error ? <Problem error={bindings.error} retry={bindings.reload} /> : <Evictions bindings={leaving} />}
      </Card>
      <Card title={t("Past failovers")} flush>
        {events.phase === "loading" ? <Loading /> : events.phase === "error" && events.error ? <Problem error={events.error} retry={events.reload} /> : <Past events={events.items} />}
      </Card>
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
function ClusterActions({ cluster, events }: { cluster: KObject; events: KObject[] }) {
  const [asking, setAsking] = useState(false);
  const name = cluster.metadata.name;
  const gone = evictedFrom(name, events);
  const evacuate = async () => {
    if (await changeTaints(name, (all) => [...all.filter((one) => one.key !== EVACUATED.key), EVACUATED], t("Workloads leave {name}", { name }))) setAsking(false);
  };
  const failBack = () =>
    attempt(t("{name} receives workloads again", { name }), async () => {
      await changeTaints(name, (all) => all.filter((one) => one.key !== EVACUATED.key), t("Taint removed"));
      if (gone.length > 0) await send("POST", pathOf(REBALANCERS), { apiVersion: apiVersionOf(REBALANCERS), kind: REBALANCERS.kind, metadata: { generateName: "fail-back-" }, spec: { workloads: gone, ttlSecondsAfterFinished: 600 } });
    });
  return (
    <div className="row wrap">
      {isEvacuated(cluster) ? <Button icon="undo" kind="primary" onClick={() => void failBack()}>{t("Fail back")}</Button> : <Button icon="failover" onClick={() => setAsking(true)}>{t("Evacuate…")}</Button>}
      <Button icon={isCordoned(cluster) ? "play" : "pause"} onClick={() => void setCordoned(cluster, !isCordoned(cluster))}>{isCordoned(cluster) ? t("Uncordon") : t("Cordon")}</Button>
      {isEvacuated(cluster) && <Badge tone="warn">{t("Evacuated")}</Badge>}
      {isCordoned(cluster) && <Badge tone="warn">{t("Cordoned")}</Badge>}
      {isEvacuated(cluster) && gone.length > 0 && <span className="small muted">{t("Workloads that left it and are placed again: {count}", { count: gone.length })}</span>}
      {asking && (
        <Dialog title={t("Evacuate {name}", { name })} onClose={() => setAsking(false)} onSubmit={() => void evacuate()} footer={<><Button onClick={() => setAsking(false)}>{t("Cancel")}</Button><Button kind="danger" type="submit">{t("Evacuate")}</Button></>}>
          <p>{t("All workloads that do not tolerate it leave the cluster as the simulation shows. Each stays there until its replacement is ready.")}</p>
          <Command text={`flotilla taint clusters ${name} ${EVACUATED.key}:${EVACUATED.effect}`} />
        </Dialog>
      )}
    </div>
  );
}

/** Workloads that were evicted from the cluster, as far as events say. */
function evictedFrom(cluster: string, events: KObject[]): Subject[] {
  const found = new Map<string, Subject>();
  for (const event of events) {
    const { apiVersion, kind, namespace, name } = event.involvedObject ?? {};
    if (event.reason !== "EvictWorkloadFromClusterSucceed" || kind?.endsWith("ResourceBinding") || !String(event.message).includes(`from cluster ${cluster} `)) continue;
    found.set(`${kind}/${namespace}/${name}`, { apiVersion, kind, namespace, name });
  }
  return [...found.values()];
}

const FAILOVER = /^(EvictWorkloadFromCluster|TaintCluster|UntaintCluster|ClusterNotReady|ClusterReady|ClusterUnhealthy|TaintManagerEviction)/;
const PAST_MAX = 100;

/** Evictions of the last hour, which is how long events are kept; one line for each workload. */
function Past({ events }: { events: KObject[] }) {
  const past = newestFirst(events.filter((event) => FAILOVER.test(event.reason ?? "") && !event.involvedObject?.kind?.endsWith("ResourceBinding"))).slice(0, PAST_MAX);
  if (past.length === 0) return <Empty title={t("No failover in the last hour")} icon="check" />;
  return (
    <div className="body">
      <ol className="timeline">
        {past.map((event) => (
          <li key={event.metadata.uid}>
            <span className="when"><Age at={timeOfEvent(event)} /></span>
            <span className="rail"><span className={`dot ${event.type === "Warning" ? "warn" : "ok"}`} /></span>
            <span className="what"><b>{event.involvedObject?.kind} {event.involvedObject?.name}</b> <span className="muted">{event.involvedObject?.namespace}</span><div className="small muted">{event.message}</div></span>
          </li>
        ))}
      </ol>
    </div>
  );
}

function Evictions({ bindings }: { bindings: KObject[] }) {
  if (bindings.length === 0) return <Empty title={t("No workload is leaving a cluster")} icon="check" />;
  return (
    <div className="hscroll" tabIndex={0} role="group">
      <table className="simple">
        <thead><tr><th>{t("Workload")}</th><th>{t("Leaves")}</th><th>{t("Reason")}</th><th>{t("Since")}</th></tr></thead>
        <tbody>
          {bindings.flatMap((binding) =>
            binding.spec.gracefulEvictionTasks.map((task: any) => (
              <tr key={`${binding.metadata.uid}/${task.fromCluster}`}>
                <td><Link href={subjectLink(binding)}>{binding.spec.resource.name}</Link><div className="muted small">{binding.spec.resource.kind} · {binding.metadata.namespace}</div></td>
                <td>{task.fromCluster} {task.replicas !== undefined && <span className="muted">({task.replicas})</span>}</td>
                <td><Badge tone="warn">{task.reason}</Badge><div className="small muted">{task.message}</div></td>
                <td><Age at={task.creationTimestamp} /></td>
              </tr>
            )),
          )}
        </tbody>
      </table>
    </div>
  );
}
