// Samples of the control plane's metrics, as the server keeps them.

export interface History {
  stepSeconds: number;
  /** Seconds since 1970. */
  times: number[];
  /** By metric, or metric/label; counters are rates for each second. */
  series: Record<string, (number | null)[]>;
}

export interface NamedSeries {
  name: string;
  values: (number | null)[];
}

/** The series of each label of a metric, largest first. */
export function partsOf(history: History, metric: string, max = 6): NamedSeries[] {
  const found = Object.entries(history.series)
    .filter(([key]) => key.startsWith(`${metric}/`))
    .map(([key, values]) => ({ name: key.slice(metric.length + 1), values }));
  if (found.length <= max) return found;
  const last = (one: NamedSeries) => one.values.findLast((value) => value !== null) ?? 0;
  return found.sort((a, b) => last(b) - last(a)).slice(0, max);
}

/** The sum over all labels. */
export const totalOf = (history: History, metric: string, name: string): NamedSeries[] => {
  const values = history.series[metric];
  return values ? [{ name, values }] : [];
};

/** One series divided by another where the divisor is not zero. */
export function ratioOf(history: History, above: string, below: string, name: string): NamedSeries[] {
  const [up, down] = [history.series[above], history.series[below]];
  if (!up || !down) return [];
  return [{ name, values: up.map((value, index) => (value !== null && down[index] ? value / down[index]! : null)) }];
}

export interface Stretch {
  from: number;
  to: number;
  state: "ok" | "bad" | "none";
}

/** Equal states next to each other become one stretch. */
export function stretches(times: number[], values: (number | null)[], step: number): Stretch[] {
  const found: Stretch[] = [];
  times.forEach((time, index) => {
    const value = values[index];
    const state = value === null || value === undefined ? "none" : value > 0 ? "ok" : "bad";
    const last = found.at(-1);
    if (last?.state === state) last.to = time + step;
    else found.push({ from: time, to: time + step, state });
  });
  return found;
}
