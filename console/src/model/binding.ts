// What the console derives from a ResourceBinding.

import { type AggregatedStatus, conditionOf, type KObject, type TargetCluster } from "../api/types";
import { msg } from "../i18n";
import type { Tone } from "../ui/parts";

export type BindingState = "Not scheduled" | "Applying" | "Unhealthy" | "Healthy";

export const targetsOf = (binding: KObject | undefined): TargetCluster[] => binding?.spec?.clusters ?? [];
export const statusesOf = (binding: KObject | undefined): AggregatedStatus[] => binding?.status?.aggregatedStatus ?? [];

export function stateOfBinding(binding: KObject): BindingState {
  const targets = targetsOf(binding);
  const scheduled = conditionOf(binding, "Scheduled");
  if (targets.length === 0 || scheduled?.status === "False") return msg("Not scheduled");
  const statuses = statusesOf(binding);
  const of = (name: string) => statuses.find((status) => status.clusterName === name);
  if (targets.some((target) => !of(target.name)?.applied)) return msg("Applying");
  return targets.every((target) => of(target.name)?.health !== "Unhealthy") ? msg("Healthy") : msg("Unhealthy");
}

export const toneOfBinding = (state: BindingState): Tone =>
  state === "Healthy" ? "ok" : state === "Applying" ? "info" : state === "Unhealthy" ? "warn" : "bad";

/** Why a binding is not healthy, in one line. */
export function reasonOf(binding: KObject): string {
  const scheduled = conditionOf(binding, "Scheduled");
  if (scheduled?.status === "False") return scheduled.message ?? scheduled.reason ?? "";
  const failed = statusesOf(binding).find((status) => status.appliedMessage || status.applied === false);
  if (failed) return `${failed.clusterName}: ${failed.appliedMessage ?? "not applied"}`;
  const unhealthy = statusesOf(binding).filter((status) => status.health === "Unhealthy").map((status) => status.clusterName);
  return unhealthy.length > 0 ? unhealthy.join(", ") : (conditionOf(binding, "FullyApplied")?.message ?? "");
}

export interface PerCluster {
  name: string;
  desired?: number;
  ready?: number;
  tone: Tone;
  state: string;
  message?: string;
}

/** Target clusters with what they report; also clusters that still report but are no target any more. */
export function perCluster(binding: KObject | undefined): PerCluster[] {
  const targets = targetsOf(binding);
  const statuses = statusesOf(binding);
  const names = [...new Set([...targets.map((target) => target.name), ...statuses.map((status) => status.clusterName)])];
  return names.sort().map((name) => {
    const target = targets.find((one) => one.name === name);
    const status = statuses.find((one) => one.clusterName === name);
    const state = !target ? msg("Leaving") : !status?.applied ? msg("Applying") : (status.health ?? msg("Unknown"));
    const tone: Tone = state === "Healthy" ? "ok" : state === "Unhealthy" ? "bad" : state === "Unknown" ? "" : "warn";
    const reported = status?.status;
    const ready = reported?.readyReplicas ?? reported?.numberReady ?? reported?.active ?? (reported ? 0 : undefined);
    return { name, desired: target?.replicas ?? reported?.desiredNumberScheduled, ready, tone, state, message: status?.appliedMessage };
  });
}

/** The name of the binding of a template. */
export const bindingNameOf = (kind: string, name: string) => `${name.replaceAll(":", ".")}-${kind}`.toLowerCase();

/** The key by which a template finds its binding. */
export const subjectKey = (kind: string, namespace: string | undefined, name: string) => `${kind}/${namespace ?? ""}/${name}`;

export function indexBySubject(bindings: KObject[]): Map<string, KObject> {
  return new Map(bindings.map((binding) => {
    const resource = binding.spec?.resource ?? {};
    return [subjectKey(resource.kind, resource.namespace, resource.name), binding];
  }));
}

/** The policy a binding was made by. */
export function policyOf(object: KObject | undefined): { kind: "PropagationPolicy" | "ClusterPropagationPolicy"; namespace?: string; name: string } | undefined {
  const annotations = object?.metadata.annotations ?? {};
  const name = annotations["propagationpolicy.karmada.io/name"];
  if (name) return { kind: "PropagationPolicy", namespace: annotations["propagationpolicy.karmada.io/namespace"], name };
  const cluster = annotations["clusterpropagationpolicy.karmada.io/name"];
  return cluster ? { kind: "ClusterPropagationPolicy", name: cluster } : undefined;
}
