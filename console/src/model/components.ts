// The report of a health check, as /readyz?verbose prints it.

export interface HealthCheck {
  name: string;
  ok: boolean;
}

/** Checks without those that only say that a hook has run. */
export function checksOf(report: string): HealthCheck[] {
  return report.split("\n").flatMap((line) => {
    const [, sign, name = ""] = /^\[([+-])\](\S+)/.exec(line) ?? [];
    return sign && !name.startsWith("poststarthook/") ? [{ name, ok: sign === "+" }] : [];
  });
}
