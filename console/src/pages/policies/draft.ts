// From the fields of the form to a policy.

import { apiVersionOf, type Resource } from "../../api/resources";
import type { KObject } from "../../api/types";

export interface Draft {
  name: string;
  namespace: string;
  kind: string;
  objectName: string;
  labels: string;
  clusters: string[];
  scheduling: "Duplicated" | "Divided";
  division: "Even" | "Available" | "Aggregated";
  priority: string;
  overrider: "imageTag" | "imageRegistry" | "label" | "annotation" | "plaintext";
  overrideKey: string;
  overrideValue: string;
}

export const emptyDraft = (namespace: string): Draft => ({
  name: "", namespace, kind: "Deployment", objectName: "", labels: "", clusters: [], scheduling: "Duplicated", division: "Even",
  priority: "", overrider: "imageTag", overrideKey: "", overrideValue: "",
});

const VERSIONS: Record<string, string> = {
  Deployment: "apps/v1", StatefulSet: "apps/v1", DaemonSet: "apps/v1", Job: "batch/v1", CronJob: "batch/v1", Ingress: "networking.k8s.io/v1",
  CustomResourceDefinition: "apiextensions.k8s.io/v1",
};

export function problemsOf(draft: Draft): string[] {
  return /^[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?$/.test(draft.name) ? [] : ["name"];
}

function labelsOf(text: string): Record<string, string> | undefined {
  const pairs = text.split(",").map((part) => part.trim().split("=")).filter(([key]) => key);
  return pairs.length > 0 ? Object.fromEntries(pairs.map(([key, value = ""]) => [key, value])) : undefined;
}

/** A number or a boolean is meant as such. */
function literal(text: string): unknown {
  return /^(true|false|-?\d+(\.\d+)?)$/.test(text) ? JSON.parse(text) : text;
}

export function overridersOf(draft: Draft): Record<string, unknown> {
  const { overrider, overrideKey: key, overrideValue: value } = draft;
  switch (overrider) {
    case "imageTag":
      return { imageOverrider: [{ component: "Tag", operator: "replace", value }] };
    case "imageRegistry":
      return { imageOverrider: [{ component: "Registry", operator: "replace", value }] };
    case "label":
      return { labelsOverrider: [{ operator: "add", value: { [key]: value } }] };
    case "annotation":
      return { annotationsOverrider: [{ operator: "add", value: { [key]: value } }] };
    case "plaintext":
      return { plaintext: [{ path: key, operator: "replace", value: literal(value) }] };
  }
}

export function placementOf(draft: Draft): Record<string, unknown> {
  const affinity = draft.clusters.length > 0 ? { clusterAffinity: { clusterNames: draft.clusters } } : {};
  if (draft.scheduling === "Duplicated") return { ...affinity, replicaScheduling: { replicaSchedulingType: "Duplicated" } };
  const divided = { replicaSchedulingType: "Divided" };
  const division =
    draft.division === "Aggregated"
      ? { replicaDivisionPreference: "Aggregated" }
      : { replicaDivisionPreference: "Weighted", ...(draft.division === "Available" ? { weightPreference: { dynamicWeight: "AvailableReplicas" } } : {}) };
  return { ...affinity, replicaScheduling: { ...divided, ...division } };
}

export function policyFrom(resource: Resource, draft: Draft): KObject {
  const labels = draft.objectName ? undefined : labelsOf(draft.labels);
  const selector = {
    apiVersion: VERSIONS[draft.kind] ?? "v1", kind: draft.kind,
    ...(draft.objectName ? { name: draft.objectName } : {}),
    ...(labels ? { labelSelector: { matchLabels: labels } } : {}),
  };
  const target = draft.clusters.length > 0 ? { targetCluster: { clusterNames: draft.clusters } } : {};
  const spec = resource.kind.endsWith("OverridePolicy")
    ? { resourceSelectors: [selector], overrideRules: [{ ...target, overriders: overridersOf(draft) }] }
    : { resourceSelectors: [selector], ...(draft.priority ? { priority: Number(draft.priority) } : {}), placement: placementOf(draft) };
  const metadata = resource.namespaced ? { name: draft.name, namespace: draft.namespace } : { name: draft.name };
  return { apiVersion: apiVersionOf(resource), kind: resource.kind, metadata, spec };
}
