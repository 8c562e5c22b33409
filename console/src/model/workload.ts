// What the console derives from a workload template.

import type { KObject } from "../api/types";

export const podTemplateOf = (workload: KObject) =>
  workload.kind === "CronJob" ? workload.spec?.jobTemplate?.spec?.template : workload.spec?.template;

export const imagesOf = (workload: KObject): string[] =>
  (podTemplateOf(workload)?.spec?.containers ?? []).map((container: { image?: string }) => container.image ?? "");

export const canScale = (kind: string) => kind === "Deployment" || kind === "StatefulSet";
export const canRestart = (kind: string) => kind === "Deployment" || kind === "StatefulSet" || kind === "DaemonSet";
export const canRollBack = canRestart;

/** The field that stops a workload from rolling out or from starting, where its kind has one. */
export function pauseField(kind: string): "paused" | "suspend" | undefined {
  return kind === "Deployment" ? "paused" : kind === "CronJob" || kind === "Job" ? "suspend" : undefined;
}

export function isPaused(workload: KObject): boolean {
  const field = pauseField(workload.kind ?? "");
  return field ? Boolean(workload.spec?.[field]) : false;
}

/** Ready and desired pods over all clusters, as the template's status sums them up. */
export function podsOf(workload: KObject): { ready: number; desired: number } | undefined {
  const { status = {}, spec = {} } = workload;
  switch (workload.kind) {
    case "Deployment":
    case "StatefulSet":
      return { ready: status.readyReplicas ?? 0, desired: Math.max(status.replicas ?? 0, spec.replicas ?? 1) };
    case "DaemonSet":
      return { ready: status.numberReady ?? 0, desired: status.desiredNumberScheduled ?? 0 };
    case "Job":
      return { ready: status.succeeded ?? 0, desired: spec.completions ?? 1 };
    default:
      return undefined;
  }
}

export function selectorText(workload: KObject): string {
  const labels: Record<string, string> = workload.spec?.selector?.matchLabels ?? podTemplateOf(workload)?.metadata?.labels ?? {};
  return Object.entries(labels).map(([key, value]) => `${key}=${value}`).join(",");
}

/**
 * Whether a workload runs a pod that its selector finds: two workloads may share labels, so that the controller of the pod decides.
 * Pods of a Deployment belong to a ReplicaSet that has the name of the Deployment and the hash of its template.
 */
export function isPodOf(workload: KObject, pod: KObject): boolean {
  const owner = pod.metadata.ownerReferences?.find((one) => one.controller) ?? pod.metadata.ownerReferences?.[0];
  if (!owner) return true;
  const { name } = workload.metadata;
  switch (workload.kind) {
    case "Deployment":
      return owner.kind === "ReplicaSet" && owner.name === `${name}-${pod.metadata.labels?.["pod-template-hash"]}`;
    case "CronJob":
      return owner.kind === "Job" && owner.name.startsWith(`${name}-`);
    default:
      return owner.kind === workload.kind && owner.name === name;
  }
}
