// What the console derives from an instance of a manager.

import { conditionOf, type KObject } from "../api/types";
import { parseQuantity } from "../api/quantity";
import type { Tone } from "../ui/parts";

export const INSTANCES_PATH = "/apis/operator.karmada.io/v1alpha1/karmadas";
/** Of the manager's own API. */
export const INSTANCES_API = "/flotilla/manager/v1alpha1/instances";

export const pathOfInstance = ({ metadata }: KObject) => `/apis/operator.karmada.io/v1alpha1/namespaces/${metadata.namespace}/karmadas/${metadata.name}`;

/** The namespace of instances that are addressed by their name alone. */
const HOME = "karmada-system";

/** The name of the instance in paths. */
export const instanceOf = ({ metadata }: KObject) => (metadata.namespace === HOME ? metadata.name : `${metadata.namespace}~${metadata.name}`);

export const displayNameOf = (instance: KObject) => instance.metadata.annotations?.["flotilla.dev/display-name"] ?? "";

export const modeOf = (instance: KObject) => instance.metadata.annotations?.["flotilla.dev/mode"] ?? "in-process";

export function phaseOf(instance: KObject): [string, Tone] {
  const ready = conditionOf(instance, "Ready")?.status === "True";
  const phase: string = instance.status?.phase || (ready ? "Running" : "Pending");
  return [phase, ready ? "ok" : phase === "Hibernated" || phase === "Suspended" ? "" : phase === "Failed" ? "bad" : "warn"];
}

/** What needs attention has a low rank: failed, then not ready, then stopped on purpose, then running. */
const RANKS: Record<Tone, number> = { bad: 0, warn: 1, info: 2, "": 3, ok: 4 };

export const byAttention = (a: KObject, b: KObject) => RANKS[phaseOf(a)[1]] - RANKS[phaseOf(b)[1]] || (instanceOf(a) < instanceOf(b) ? -1 : 1);

/** What the clusters of an instance have and what of it is requested. */
export function usageOf(instance: KObject, resource: "cpu" | "memory") {
  const sums = instance.status?.summary?.resourceSummary ?? {};
  return { allocatable: parseQuantity(sums.allocatable?.[resource]), allocated: parseQuantity(sums.allocated?.[resource]) };
}

export function workloadsOf(instance: KObject): number | undefined {
  const counts = instance.status?.summary?.workLoadSummary;
  return counts && Object.values(counts).reduce((sum: number, one: any) => sum + (one.totalNum ?? 0), 0);
}
