// What the console derives from an instance of a manager.

import type { Instance, Statistic } from "../api/manager";
import { parseQuantity } from "../api/quantity";
import type { Tone } from "../ui/parts";

const MODES: Record<string, string> = { MODE_IN_PROCESS: "in-process", MODE_PROCESS: "process", MODE_IMPORTED: "imported" };

export const modeOf = (instance: Instance) => MODES[instance.mode] ?? "–";

export const isImported = (instance: Instance) => instance.mode === "MODE_IMPORTED";

/** The first page of an instance. */
export const instanceHome = (name: string) => `/console/i/${encodeURIComponent(name)}/`;

export function phaseOf({ phase, state, message }: Instance): [string, Tone] {
  const shown = phase || "Pending";
  if (state === "STATE_RUNNING") return [shown, message ? "warn" : "ok"];
  return [shown, state === "STATE_HIBERNATED" || state === "STATE_SUSPENDED" ? "" : phase === "Failed" ? "bad" : "warn"];
}

/** What needs attention has a low rank: failed, then not ready, then stopped on purpose, then running. */
const RANKS: Record<Tone, number> = { bad: 0, warn: 1, info: 2, "": 3, ok: 4 };

export const byAttention = (a: Instance, b: Instance) => RANKS[phaseOf(a)[1]] - RANKS[phaseOf(b)[1]] || (a.name < b.name ? -1 : 1);

/** What the clusters of an instance have and what of it is requested. */
export function usageOf({ summary }: Instance, resource: "cpu" | "memory") {
  return { allocatable: parseQuantity(summary?.allocatable?.[resource]), allocated: parseQuantity(summary?.allocated?.[resource]) };
}

export function workloadsOf({ summary }: Instance): number | undefined {
  const counts = summary?.workloads;
  return counts && Object.values(counts).reduce((sum, one) => sum + Number(one.total ?? 0), 0);
}

export const countedOf = (counted?: Statistic) => (counted ? `${Number(counted.ready ?? 0)}/${Number(counted.total ?? 0)}` : "–");
