// The report of a health check, as /readyz?verbose prints it.

export interface HealthCheck {
  name: string;
  ok: boolean;
}

const isHook = ({ name }: HealthCheck) => name.startsWith("poststarthook/");

function linesOf(report: string): HealthCheck[] {
  return report.split("\n").flatMap((line) => {
    const [, sign, name = ""] = /^\[([+-])\](\S+)/.exec(line) ?? [];
    return sign ? [{ name, ok: sign === "+" }] : [];
  });
}

/** Checks without those that only say that a hook has run. */
export const checksOf = (report: string) => linesOf(report).filter((one) => !isHook(one));

/** Hooks that run when the server starts. */
export const hooksOf = (report: string) => linesOf(report).filter(isHook);
