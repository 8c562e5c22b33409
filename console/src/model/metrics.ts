// Samples of the control plane's metrics, taken while the page that shows them is open.

export interface Sample {
  at: number;
  values: Map<string, number>;
}

/** What is kept of each sample: the sum over all labels but those named. */
const KEPT: [metric: string, by?: string][] = [
  ["karmada_scheduler_schedule_attempts_total", "result"],
  ["apiserver_request_total"],
  ["controller_runtime_reconcile_errors_total"],
  ["controller_runtime_reconcile_total"],
  ["workqueue_depth"],
  ["cluster_cpu_allocated_number", "member_cluster"],
  ["cluster_memory_allocated_bytes", "member_cluster"],
  ["process_resident_memory_bytes"],
  ["process_cpu_seconds_total"],
];

export function parseMetrics(text: string): Map<string, number> {
  const values = new Map<string, number>();
  for (const line of text.split("\n")) {
    if (line.startsWith("#")) continue;
    const end = line.search(/[{ ]/);
    const kept = KEPT.find(([metric]) => metric === line.slice(0, end));
    if (!kept) continue;
    const [metric, by] = kept;
    const label = by ? new RegExp(`[{,](?:${by})="([^"]*)"`).exec(line)?.[1] : undefined;
    const key = label === undefined ? metric : `${metric}/${label}`;
    values.set(key, (values.get(key) ?? 0) + Number(line.slice(line.lastIndexOf(" ") + 1)));
  }
  return values;
}

export const keysOf = (samples: Sample[], metric: string): string[] =>
  [...new Set(samples.flatMap((sample) => [...sample.values.keys()].filter((key) => key === metric || key.startsWith(`${metric}/`))))].sort();

/** The value in every sample. */
export const gauge = (samples: Sample[], key: string) => samples.map((sample) => sample.values.get(key) ?? null);

/** Growth in each second between samples; a restart of the server makes a gap. */
export function rate(samples: Sample[], key: string): (number | null)[] {
  return samples.map((sample, index) => {
    const before = samples[index - 1];
    const [now, then] = [sample.values.get(key) ?? 0, before?.values.get(key) ?? 0];
    return !before || now < then ? null : (now - then) / (sample.at - before.at);
  });
}
