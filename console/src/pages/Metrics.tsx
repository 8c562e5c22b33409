// Charts of the control plane's own metrics. No other program is needed; the samples are taken while the page is open.

import { useEffect, useState } from "react";
import { ApiError, request } from "../api/client";
import { formatBytes, formatCpu } from "../api/quantity";
import { t } from "../i18n";
import { gauge, keysOf, parseMetrics, rate, type Sample } from "../model/metrics";
import { Chart, type Series } from "../ui/chart";
import { Card, Empty, Loading, PageHead, Problem, Stale } from "../ui/parts";

const INTERVAL_MS = 5_000;
const SAMPLES_MAX = 720;

/** They outlive a visit of another page. */
let kept: Sample[] = [];

function useSamples(): { samples: Sample[]; error?: ApiError } {
  const [state, setState] = useState<{ samples: Sample[]; error?: ApiError }>({ samples: kept });
  useEffect(() => {
    const stop = new AbortController();
    const take = async () => {
      try {
        const response = await request("/metrics", { signal: stop.signal, headers: { Accept: "text/plain" } });
        kept = [...kept, { at: Date.now() / 1000, values: parseMetrics(await response.text()) }].slice(-SAMPLES_MAX);
        setState({ samples: kept });
      } catch (error) {
        if (!stop.signal.aborted && error instanceof ApiError) setState({ samples: kept, error });
      }
    };
    void take();
    const timer = setInterval(() => !document.hidden && void take(), INTERVAL_MS);
    return () => {
      stop.abort();
      clearInterval(timer);
    };
  }, []);
  return state;
}

const perSecond = (value: number) => `${value >= 10 ? value.toFixed(0) : value.toFixed(1)}/s`;
const labelOf = (key: string, metric: string) => key.slice(metric.length + 1);

export default function Metrics() {
  const { samples, error } = useSamples();
  const times = samples.map((sample) => sample.at);
  const rates = (metric: string, name: string): Series[] => keysOf(samples, metric).map((key) => ({ name: labelOf(key, metric) || name, values: rate(samples, key) }));
  const gauges = (metric: string, name: string): Series[] => keysOf(samples, metric).map((key) => ({ name: labelOf(key, metric) || name, values: gauge(samples, key) }));
  const charts: { title: string; series: Series[]; format: (value: number) => string }[] = [
    { title: t("Schedulings"), series: rates("karmada_scheduler_schedule_attempts_total", t("attempts")), format: perSecond },
    { title: t("API requests"), series: rates("apiserver_request_total", t("requests")), format: perSecond },
    { title: t("Reconciliations"), series: [...rates("controller_runtime_reconcile_total", t("all")), ...rates("controller_runtime_reconcile_errors_total", t("with an error"))], format: perSecond },
    { title: t("Keys in queues"), series: gauges("workqueue_depth", t("keys")), format: String },
    { title: t("CPU requested by cluster"), series: gauges("cluster_cpu_allocated_number", t("CPU")), format: formatCpu },
    { title: t("Memory requested by cluster"), series: gauges("cluster_memory_allocated_bytes", t("Memory")), format: formatBytes },
    { title: t("CPU of the control plane"), series: rates("process_cpu_seconds_total", t("cores")), format: formatCpu },
    { title: t("Memory of the control plane"), series: gauges("process_resident_memory_bytes", t("resident")), format: formatBytes },
  ];
  return (
    <>
      <PageHead title={t("Metrics")} />
      <Stale show={error !== undefined && samples.length > 0} />
      {samples.length === 0 ? <section className="card">{error ? <Problem error={error} /> : <Loading />}</section> : (
        <div className="grid2">
          {charts.map(({ title, series, format }) => (
            <Card title={title} key={title}>
              {series.length === 0 ? <Empty title={t("Nothing is measured yet")} icon="events" /> : <Chart label={title} times={times} series={series} format={format} />}
            </Card>
          ))}
        </div>
      )}
      <p className="muted small">{t("Samples are taken every 5 seconds while this page is open, for up to one hour. /metrics has the same values for Prometheus.")}</p>
    </>
  );
}
