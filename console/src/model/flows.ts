// Which workloads put how many replicas into which clusters, bounded so that the map stays readable.

import type { KObject } from "../api/types";
import { targetsOf } from "./binding";

export interface FlowNode {
  id: string;
  text: string;
  weight: number;
}

export interface Flow {
  from: string;
  to: string;
  replicas: number;
}

export interface FlowMap {
  sources: FlowNode[];
  clusters: FlowNode[];
  flows: Flow[];
}

export type Grouping = "namespace" | "workload" | "policy";

const SOURCES_MAX = 24;
const CLUSTERS_MAX = 40;
export const REST = "…";

function sourceOf(binding: KObject, by: Grouping): string {
  const { kind, name } = binding.spec?.resource ?? {};
  const namespace = binding.metadata.namespace ?? "";
  if (by === "namespace") return namespace;
  if (by === "workload") return `${namespace}/${name} (${kind})`;
  const annotations = binding.metadata.annotations ?? {};
  return annotations["propagationpolicy.karmada.io/name"] ?? annotations["clusterpropagationpolicy.karmada.io/name"] ?? "–";
}

/** The largest sources and clusters by name; the rest of each side is one node. */
export function flowMap(bindings: KObject[], by: Grouping): FlowMap {
  const counts = new Map<string, Map<string, number>>();
  for (const binding of bindings) {
    for (const target of targetsOf(binding)) {
      const source = sourceOf(binding, by);
      const row = counts.get(source) ?? new Map<string, number>();
      // Objects without replicas, such as ConfigMaps, are no flow of replicas.
      if (target.replicas) row.set(target.name, (row.get(target.name) ?? 0) + target.replicas);
      if (row.size > 0) counts.set(source, row);
    }
  }
  const sum = (entries: Iterable<[string, number]>) => {
    const totals = new Map<string, number>();
    for (const [key, value] of entries) totals.set(key, (totals.get(key) ?? 0) + value);
    return totals;
  };
  const bySource = sum([...counts].map(([source, row]) => [source, [...row.values()].reduce((a, b) => a + b, 0)]));
  const byCluster = sum([...counts.values()].flatMap((row) => [...row]));
  const kept = (totals: Map<string, number>, max: number) => new Set([...totals].sort((a, b) => b[1] - a[1]).slice(0, max).map(([key]) => key));
  const [sources, clusters] = [kept(bySource, SOURCES_MAX), kept(byCluster, CLUSTERS_MAX)];
  const flows = new Map<string, Flow>();
  for (const [source, row] of counts) {
    for (const [cluster, replicas] of row) {
      const [from, to] = [sources.has(source) ? source : REST, clusters.has(cluster) ? cluster : REST];
      const key = JSON.stringify([from, to]);
      const flow = flows.get(key) ?? { from, to, replicas: 0 };
      flow.replicas += replicas;
      flows.set(key, flow);
    }
  }
  const all = [...flows.values()];
  const nodes = (side: "from" | "to"): FlowNode[] =>
    [...sum(all.map((flow) => [flow[side], flow.replicas]))]
      .map(([id, weight]) => ({ id, text: id, weight }))
      .sort((a, b) => Number(a.id === REST) - Number(b.id === REST) || a.id.localeCompare(b.id));
  return { sources: nodes("from"), clusters: nodes("to"), flows: all };
}
