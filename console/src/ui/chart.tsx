// A line chart over time; the code that draws is loaded when the first chart is shown.

import { useEffect, useRef } from "react";
import { formatBytes } from "../api/quantity";
import { currentPrefs, useDark } from "../app/prefs";
import { t } from "../i18n";

export interface Series {
  name: string;
  values: (number | null)[];
}

interface ChartProps {
  /** Seconds since 1970. */
  times: number[];
  series: Series[];
  format: (value: number) => string;
  label: string;
}

const COLOURS = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6"];
/** Steps of an axis of bytes, so that its values are whole numbers of KiB, MiB and so on. */
const BINARY_STEPS = Array.from({ length: 60 }, (_, power) => 2 ** power);
export const colourOf = (index: number) => `var(${COLOURS[index % COLOURS.length]})`;

function clock(seconds: number): string {
  const time = new Date(seconds * 1000);
  return currentPrefs().utc ? time.toISOString().slice(11, 19) : time.toTimeString().slice(0, 8);
}

export function Chart({ times, series, format, label }: ChartProps) {
  const parent = useRef<HTMLDivElement>(null);
  const chart = useRef<{ setData(data: any): void; destroy(): void; setSize(size: { width: number; height: number }): void }>(undefined);
  const names = series.map((one) => one.name).join();
  const dark = useDark();
  const data = [times, ...series.map((one) => one.values)];
  const latest = useRef(data);
  latest.current = data;
  useEffect(() => {
    let ended = false;
    let observer: ResizeObserver | undefined;
    void Promise.all([import("uplot"), import("uplot/dist/uPlot.min.css")]).then(([{ default: uPlot }]) => {
      const element = parent.current;
      if (ended || !element) return;
      const style = getComputedStyle(document.documentElement);
      const read = (name: string) => style.getPropertyValue(name).trim();
      const axis = { stroke: read("--text-3"), grid: { stroke: read("--border"), width: 1 }, ticks: { show: false }, font: `11px ${read("--font")}` };
      chart.current = new uPlot(
        {
          width: element.clientWidth, height: 180, legend: { show: false }, cursor: { y: false, points: { size: 6 } },
          axes: [{ ...axis, size: 30, values: (_: unknown, ticks: number[]) => ticks.map(clock) }, { ...axis, size: 64, incrs: format === formatBytes ? BINARY_STEPS : undefined, values: (_: unknown, ticks: number[]) => ticks.map(format) }],
          scales: { y: { range: (_: unknown, __: number, max: number) => [0, max > 0 ? max * 1.15 : 1] } },
          series: [{}, ...series.map((_, index) => ({ stroke: read(COLOURS[index % COLOURS.length]!), width: 2, spanGaps: true, points: { show: false } }))],
        },
        latest.current as any,
        element,
      );
      observer = new ResizeObserver(() => chart.current?.setSize({ width: element.clientWidth, height: 180 }));
      observer.observe(element);
    });
    return () => {
      ended = true;
      observer?.disconnect();
      chart.current?.destroy();
      chart.current = undefined;
    };
  }, [names, dark]);
  useEffect(() => chart.current?.setData(data), [times.length, times.at(-1)]);
  return (
    <div className="stack tight">
      <div ref={parent} style={{ height: 184 }} aria-hidden="true" />
      <ul className="chips" aria-label={t("Latest values of {name}", { name: label })}>
        {series.map((one, index) => (
          <li className="chip" key={one.name}>
            <span className="dot" style={{ background: colourOf(index) }} />
            {one.name} <b>{one.values.at(-1) == null ? "–" : format(one.values.at(-1)!)}</b>
          </li>
        ))}
      </ul>
    </div>
  );
}
