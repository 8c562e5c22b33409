// What would move if a cluster were lost, and what is being evicted now.

import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { type ApiError, getJson, query } from "../api/client";
import { useLive } from "../api/live";
import { BINDINGS, CLUSTERS, pathOf } from "../api/resources";
import type { KObject, Simulation } from "../api/types";
import { useUrlState } from "../app/urlState";
import { t } from "../i18n";
import { stateOf, toneOf } from "../model/cluster";
import { Age, Badge, Card, Empty, Loading, PageHead, Problem } from "../ui/parts";
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
  const leaving = bindings.items.filter((binding) => (binding.spec?.gracefulEvictionTasks ?? []).length > 0);
  return (
    <>
      <PageHead title={t("Failover")} />
      <Card title={t("Simulate the loss of a cluster")}>
        {clusters.phase === "loading" ? <Loading /> : clusters.phase === "error" && clusters.error ? <Problem error={clusters.error} retry={clusters.reload} /> : clusters.items.length === 0 ? (
          <Empty title={t("No clusters yet")} icon="cluster" />
        ) : (
          <div className="stack loose">
            <p className="muted">{t("The scheduler places the workloads of the cluster one after another on the capacity left. Nothing is changed.")}</p>
            <div className="chips" role="group" aria-label={t("Cluster")}>
              {clusters.items.map((cluster) => (
                <button key={cluster.metadata.name} type="button" className={`btn ${chosen === cluster.metadata.name ? "primary" : ""}`} aria-pressed={chosen === cluster.metadata.name} onClick={() => setChosen(cluster.metadata.name)}>
                  {chosen !== cluster.metadata.name && <span className={`dot ${toneOf(stateOf(cluster))}`} />}
                  {cluster.metadata.name}
                </button>
              ))}
            </div>
            {chosen === "" ? null : simulation.isPending ? <Loading /> : simulation.error ? <Problem error={simulation.error} retry={() => void simulation.refetch()} /> : <SimulationView simulation={simulation.data} />}
          </div>
        )}
      </Card>
      <Card title={t("Evictions in progress")} flush>
        {bindings.phase === "loading" ? <Loading /> : bindings.phase === "error" && bindings.error ? <Problem error={bindings.error} retry={bindings.reload} /> : <Evictions bindings={leaving} />}
      </Card>
    </>
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
