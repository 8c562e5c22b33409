// Charts of the control plane's own metrics. The server keeps samples of the last day; no other program is needed.

import { Link } from "wouter";
import { useHistory } from "../api/history";
import { formatBytes, formatCpu } from "../api/quantity";
import { useUrlState } from "../app/urlState";
import { t } from "../i18n";
import { type History, type NamedSeries, partsOf, ratioOf, stretches, totalOf } from "../model/metrics";
import { Chart } from "../ui/chart";
import { Card, duration, Empty, exactTime, Loading, PageHead, Problem, Segmented, Stale } from "../ui/parts";
import "./fleetMap.css";

const WINDOWS: [id: string, seconds: number][] = [["15m", 900], ["1h", 3_600], ["6h", 21_600], ["24h", 86_400]];
const CLUSTERS_MAX = 50;

const perSecond = (value: number) => `${value === 0 ? 0 : value >= 10 ? value.toFixed(0) : value.toFixed(1)}/s`;
const milliseconds = (value: number) => `${value === 0 ? 0 : (value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms`;
const whole = (value: number) => String(Math.round(value));

export default function Metrics() {
  const [chosen, setChosen] = useUrlState("window", "1h");
  const seconds = WINDOWS.find(([id]) => id === chosen)?.[1] ?? 3_600;
  const history = useHistory(seconds);
  return (
    <>
      <PageHead title={t("Metrics")}>
        <Segmented label={t("Time")} value={chosen} onChange={setChosen} options={WINDOWS.map(([id]) => ({ id, text: id }))} />
      </PageHead>
      <Stale show={history.error !== null && history.data !== undefined} />
      {history.isPending ? <section className="card"><Loading /></section> : history.data ? <Charts history={history.data} /> : <section className="card"><Problem error={history.error!} retry={() => void history.refetch()} /></section>}
      <p className="muted small">{t("The server takes a sample every 10 seconds and keeps one hour, and one per minute for a day, since it was started. /metrics has the same values for Prometheus.")}</p>
    </>
  );
}

function Charts({ history }: { history: History }) {
  const charts: { title: string; series: NamedSeries[]; format: (value: number) => string }[] = [
    { title: t("Scheduling attempts"), series: partsOf(history, "karmada_scheduler_schedule_attempts_total"), format: perSecond },
    { title: t("Scheduling latency"), series: ratioOf(history, "karmada_scheduler_e2e_scheduling_duration_seconds_sum", "karmada_scheduler_e2e_scheduling_duration_seconds_count", t("average")), format: milliseconds },
    { title: t("CPU requested by cluster"), series: partsOf(history, "cluster_cpu_allocated_number"), format: formatCpu },
    { title: t("Memory requested by cluster"), series: partsOf(history, "cluster_memory_allocated_bytes"), format: formatBytes },
    { title: t("CPU of all clusters"), series: [...totalOf(history, "cluster_cpu_allocatable_number", t("allocatable")), ...totalOf(history, "cluster_cpu_allocated_number", t("requested"))], format: formatCpu },
    { title: t("Memory of all clusters"), series: [...totalOf(history, "cluster_memory_allocatable_bytes", t("allocatable")), ...totalOf(history, "cluster_memory_allocated_bytes", t("requested"))], format: formatBytes },
    { title: t("Evictions and pending bindings"), series: [...totalOf(history, "eviction_processing_total", t("evictions each second")), ...totalOf(history, "scheduler_pending_bindings", t("pending bindings"))], format: whole },
    { title: t("Work queue depth"), series: totalOf(history, "workqueue_depth", t("items")), format: whole },
    { title: t("API requests"), series: totalOf(history, "apiserver_request_total", t("requests")), format: perSecond },
    { title: t("Reconciliations"), series: [...totalOf(history, "controller_runtime_reconcile_total", t("all")), ...totalOf(history, "controller_runtime_reconcile_errors_total", t("with an error"))], format: perSecond },
    { title: t("CPU of the control plane"), series: totalOf(history, "process_cpu_seconds_total", t("cores")), format: formatCpu },
    { title: t("Memory of the control plane"), series: totalOf(history, "process_resident_memory_bytes", t("resident")), format: formatBytes },
  ];
  return (
    <>
      <Card title={t("Cluster readiness")}><HealthHistory history={history} /></Card>
      <div className="grid2">
        {charts.map(({ title, series, format }) => (
          <Card title={title} key={title}>
            {series.length === 0 ? <Empty title={t("No metrics yet")} icon="metrics" /> : <Chart label={title} times={history.times} series={series} format={format} />}
          </Card>
        ))}
      </div>
    </>
  );
}

/** One strip for each cluster: when it was ready, when it was not, and when nothing is known. */
export function HealthHistory({ history, only }: { history: History; only?: string }) {
  const clusters = partsOf(history, "cluster_ready_state", CLUSTERS_MAX).filter((one) => !only || one.name === only);
  if (clusters.length === 0) return <Empty title={t("No metrics yet")} icon="metrics"><p>{t("The first values appear after a few seconds.")}</p></Empty>;
  const [start = 0, end = 0] = [history.times[0], (history.times.at(-1) ?? 0) + history.stepSeconds];
  const texts = { ok: t("Ready"), bad: t("Not ready"), none: t("Unknown") };
  return (
    <ul className="health-history">
      {clusters.sort((a, b) => a.name.localeCompare(b.name)).map(({ name, values }) => {
        const parts = stretches(history.times, values, history.stepSeconds);
        const lost = parts.filter((part) => part.state === "bad").reduce((sum, part) => sum + part.to - part.from, 0);
        return (
          <li key={name}>
            <Link className="ellipsis" href={`/clusters/${name}`}>{name}</Link>
            <span className="strip" role="img" aria-label={lost > 0 ? t("Not ready for {time}", { time: duration(lost) }) : t("Always ready")}>
              {parts.map((part) => <i key={part.from} className={part.state} style={{ width: `${(100 * (part.to - part.from)) / (end - start)}%` }} title={`${texts[part.state]} · ${exactTime(part.from * 1000)} – ${exactTime(part.to * 1000)}`} />)}
            </span>
            <span className="small muted nowrap">{lost > 0 ? t("Not ready for {time}", { time: duration(lost) }) : t("Always ready")}</span>
          </li>
        );
      })}
    </ul>
  );
}
