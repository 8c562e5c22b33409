// Kubernetes quantities as numbers and as text.

const FACTORS: Record<string, number> = {
  n: 1e-9, u: 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60,
};

export function parseQuantity(text: string | number | undefined): number {
  if (text === undefined) return 0;
  const match = /^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)$/.exec(String(text).trim());
  if (!match) return 0;
  return Number(match[1]) * (match[2] ? (FACTORS[match[2]] ?? 1) : 1);
}

/** Three digits or more; zeros are left out behind the point only. */
const trim = (value: number) => (value >= 1000 ? Math.round(value).toLocaleString() : value >= 100 ? value.toFixed(0) : (value >= 10 ? value.toFixed(1) : value.toFixed(2)).replace(/\.?0+$/, ""));

export function formatCpu(cores: number): string {
  return cores < 1 && cores > 0 ? `${Math.round(cores * 1000)}m` : trim(cores);
}

export function formatBytes(bytes: number): string {
  for (const unit of ["Ei", "Pi", "Ti", "Gi", "Mi", "Ki"]) {
    const factor = FACTORS[unit] ?? 1;
    if (bytes >= factor) return `${trim(bytes / factor)} ${unit}B`;
  }
  return `${bytes} B`;
}
