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
