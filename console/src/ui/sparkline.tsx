// A small chart of one series, without axes: the number next to it has its content for readers.

import type { Tone } from "./parts";

const WIDTH = 240;
const HEIGHT = 28;
/** Bars drawn at most; neighbours are added up. */
const BARS_MAX = 60;

export function Sparkline({ values, tone, label }: { values: number[]; tone: Tone; label: string }) {
  const each = Math.max(1, Math.ceil(values.length / BARS_MAX));
  const bars = Array.from({ length: Math.ceil(values.length / each) }, (_, bar) => values.slice(bar * each, (bar + 1) * each).reduce((sum, value) => sum + value, 0));
  const most = Math.max(...bars, 0);
  const step = WIDTH / BARS_MAX;
  // The newest sample is always at the right end.
  const first = WIDTH - bars.length * step;
  return (
    <svg className={`sparkline ${tone}`} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <line x1="0" x2={WIDTH} y1={HEIGHT - 0.5} y2={HEIGHT - 0.5} />
      {bars.map((value, bar) => value > 0 && <rect key={bar} x={first + bar * step} width={step - 1} y={HEIGHT - 1 - Math.max(2, (value / most) * (HEIGHT - 3))} height={Math.max(2, (value / most) * (HEIGHT - 3))} />)}
    </svg>
  );
}
