// What the console derives from a Cluster.

import { parseQuantity } from "../api/quantity";
import { conditionOf, type KObject, type Taint } from "../api/types";
import { msg } from "../i18n";
import type { Tone } from "../ui/parts";

export const UNSCHEDULABLE = "cluster.karmada.io/unschedulable";

export const taintsOf = (cluster: KObject): Taint[] => cluster.spec?.taints ?? [];

export const isCordoned = (cluster: KObject) => taintsOf(cluster).some((taint) => taint.key === UNSCHEDULABLE);

export type ClusterState = "Ready" | "Not ready" | "Unknown" | "Leaving";

export function stateOf(cluster: KObject): ClusterState {
  if (cluster.metadata.deletionTimestamp) return msg("Leaving");
  const ready = conditionOf(cluster, "Ready");
  return ready?.status === "True" ? msg("Ready") : ready?.status === "False" ? msg("Not ready") : msg("Unknown");
}

export const toneOf = (state: ClusterState): Tone => (state === "Ready" ? "ok" : state === "Leaving" ? "warn" : state === "Unknown" ? "warn" : "bad");

export interface Capacity {
  allocatable: number;
  allocated: number;
}

export function capacityOf(cluster: KObject, resource: "cpu" | "memory" | "pods"): Capacity {
  const summary = cluster.status?.resourceSummary ?? {};
  const allocated = parseQuantity(summary.allocated?.[resource]) + parseQuantity(summary.allocating?.[resource]);
  return { allocatable: parseQuantity(summary.allocatable?.[resource]), allocated };
}

export const nodesOf = (cluster: KObject) => ({
  ready: cluster.status?.nodeSummary?.readyNum ?? 0,
  total: cluster.status?.nodeSummary?.totalNum ?? 0,
});

export const placeOf = (cluster: KObject) =>
  [cluster.spec?.provider, cluster.spec?.region, cluster.spec?.zone ?? cluster.spec?.zones?.join(",")].filter(Boolean).join(" · ");

export const sum = (all: Capacity[]): Capacity =>
  all.reduce((total, one) => ({ allocatable: total.allocatable + one.allocatable, allocated: total.allocated + one.allocated }), { allocatable: 0, allocated: 0 });
