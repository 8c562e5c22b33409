// What all bindings together say. The server counts it; for servers that cannot, it is counted here from all of them.

import type { KObject } from "../api/types";
import { policyOf, stateOfBinding, statusesOf, targetsOf } from "./binding";

export interface BindingSummary {
  total: number;
  /** With target clusters. */
  scheduled: number;
  /** Taken by every target cluster. */
  applied: number;
  healthy: number;
  /** On the way out of a cluster. */
  leaving: number;
  replicas: number;
  clusters: Record<string, { objects: number; replicas: number }>;
  /** Objects by policy, see `policyKey`. */
  policies: Record<string, number>;
  /** Some of the bindings that are not healthy. */
  attention: KObject[];
}

const ATTENTION_MAX = 8;
const RANKS = ["Not scheduled", "Unhealthy", "Applying"];

/** The name of a policy over all kinds of policies. */
export const policyKey = (policy: { kind: string; namespace?: string; name: string }) => `${policy.kind}/${policy.namespace ?? ""}/${policy.name}`;

export function summarize(bindings: KObject[]): BindingSummary {
  const found: BindingSummary = { total: bindings.length, scheduled: 0, applied: 0, healthy: 0, leaving: 0, replicas: 0, clusters: {}, policies: {}, attention: [] };
  const attention: [number, KObject][] = [];
  for (const binding of bindings) {
    const targets = targetsOf(binding);
    const state = stateOfBinding(binding);
    const applied = targets.length > 0 && targets.every((target) => statusesOf(binding).find((status) => status.clusterName === target.name)?.applied);
    if (targets.length > 0) found.scheduled += 1;
    if (applied) found.applied += 1;
    if (applied && state === "Healthy") found.healthy += 1;
    if (isLeaving(binding)) found.leaving += 1;
    for (const target of targets) {
      const share = (found.clusters[target.name] ??= { objects: 0, replicas: 0 });
      share.objects += 1;
      share.replicas += target.replicas ?? 0;
      found.replicas += target.replicas ?? 0;
    }
    const policy = policyOf(binding);
    if (policy) found.policies[policyKey(policy)] = (found.policies[policyKey(policy)] ?? 0) + 1;
    if (state !== "Healthy") attention.push([RANKS.indexOf(state), binding]);
  }
  found.attention = attention.sort((a, b) => a[0] - b[0]).slice(0, ATTENTION_MAX).map(([, binding]) => binding);
  return found;
}

export const isLeaving = (binding: KObject) => (binding.spec?.gracefulEvictionTasks ?? []).length > 0;

/** Which bindings a page asks for; absent parts match all. */
export interface BindingFilter {
  cluster?: string;
  /** See `policyKey`. */
  policy?: string;
  leaving?: boolean;
}

export function matchesFilter(binding: KObject, { cluster, policy, leaving }: BindingFilter): boolean {
  const by = policyOf(binding);
  return (
    (!cluster || targetsOf(binding).some((target) => target.name === cluster)) &&
    (!policy || (by !== undefined && policyKey(by) === policy)) &&
    (!leaving || isLeaving(binding))
  );
}
