// From the fields of the form to a policy, and back.

import { apiVersionOf, type Resource } from "../../api/resources";
import type { KObject } from "../../api/types";
import { wordsOfCommand } from "../../model/containers";

export interface Draft {
  name: string;
  namespace: string;
  /** Of kinds that the form does not offer. */
  apiVersion: string;
  kind: string;
  objectName: string;
  labels: string;
  clusters: string[];
  scheduling: "Duplicated" | "Divided";
  division: "Even" | "Available" | "Aggregated";
  priority: string;
  overrider: Overrider;
  /** The key, path or container that the overrider is about. */
  overrideKey: string;
  /** The place inside the text of a field, as a JSON pointer. */
  overrideSub: string;
  overrideValue: string;
}

export type Overrider = "imageTag" | "imageRegistry" | "imageRepository" | "command" | "args" | "label" | "annotation" | "field" | "plaintext";

export const emptyDraft = (namespace: string): Draft => ({
  name: "", namespace, apiVersion: "", kind: "Deployment", objectName: "", labels: "", clusters: [], scheduling: "Duplicated", division: "Even",
  priority: "", overrider: "imageTag", overrideKey: "", overrideSub: "", overrideValue: "",
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

const COMPONENTS: Record<string, string> = { imageTag: "Tag", imageRegistry: "Registry", imageRepository: "Repository" };

export function overridersOf(draft: Draft): Record<string, unknown> {
  const { overrider, overrideKey: key, overrideSub: sub, overrideValue: value } = draft;
  switch (overrider) {
    case "imageTag":
    case "imageRegistry":
    case "imageRepository":
      return { imageOverrider: [{ component: COMPONENTS[overrider], operator: "replace", value }] };
    case "command":
      return { commandOverrider: [{ containerName: key, operator: "add", value: wordsOfCommand(value) }] };
    case "args":
      return { argsOverrider: [{ containerName: key, operator: "add", value: wordsOfCommand(value) }] };
    case "field":
      return { fieldOverrider: [{ fieldPath: key, yaml: [{ subPath: sub, operator: "replace", value: literal(value) }] }] };
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
    apiVersion: VERSIONS[draft.kind] || draft.apiVersion || "v1", kind: draft.kind,
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

const textOf = (labels: Record<string, string>) => Object.entries(labels).map(([key, value]) => `${key}=${value}`).join(", ");
const text = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value) ?? "");
const quoted = (words: string[]) => words.map((word) => (/[\s"']/.test(word) ? `"${word}"` : word)).join(" ");

function overriderOf(overriders: any): Pick<Draft, "overrider" | "overrideKey" | "overrideSub" | "overrideValue"> {
  const none = { overrideKey: "", overrideSub: "", overrideValue: "" };
  const [image] = overriders?.imageOverrider ?? [];
  if (image) return { ...none, overrider: (Object.keys(COMPONENTS).find((one) => COMPONENTS[one] === image.component) ?? "imageTag") as Overrider, overrideValue: image.value ?? "" };
  for (const overrider of ["command", "args"] as const) {
    const [first] = overriders?.[`${overrider}Overrider`] ?? [];
    if (first) return { ...none, overrider, overrideKey: first.containerName ?? "", overrideValue: quoted(first.value ?? []) };
  }
  for (const [overrider, field] of [["label", "labelsOverrider"], ["annotation", "annotationsOverrider"]] as const) {
    const [key = "", value = ""] = Object.entries<string>(overriders?.[field]?.[0]?.value ?? {})[0] ?? [];
    if (key) return { ...none, overrider, overrideKey: key, overrideValue: value };
  }
  const [field] = overriders?.fieldOverrider ?? [];
  const [change] = field?.yaml ?? field?.json ?? [];
  if (change) return { overrider: "field", overrideKey: field.fieldPath ?? "", overrideSub: change.subPath ?? "", overrideValue: text(change.value) };
  const [plain] = overriders?.plaintext ?? [];
  return plain ? { ...none, overrider: "plaintext", overrideKey: plain.path ?? "", overrideValue: text(plain.value) } : { ...none, overrider: "imageTag" };
}

/** The parts of a policy that the form shows: the first selector, the first rule, the first overrider. */
export function draftOf(policy: KObject): Draft {
  const { resourceSelectors = [], placement = {}, overrideRules, priority } = policy.spec ?? {};
  const selector = resourceSelectors[0] ?? {};
  const rule = overrideRules?.[0];
  const scheduling = placement.replicaScheduling ?? {};
  const division = scheduling.replicaDivisionPreference === "Aggregated" ? "Aggregated" : scheduling.weightPreference?.dynamicWeight ? "Available" : "Even";
  return {
    name: policy.metadata.name,
    namespace: policy.metadata.namespace ?? "",
    apiVersion: selector.apiVersion ?? "",
    kind: selector.kind ?? "Deployment",
    objectName: selector.name ?? "",
    labels: textOf(selector.labelSelector?.matchLabels ?? {}),
    clusters: (rule ? rule.targetCluster?.clusterNames : placement.clusterAffinity?.clusterNames) ?? [],
    scheduling: scheduling.replicaSchedulingType === "Divided" ? "Divided" : "Duplicated",
    division,
    priority: priority ? String(priority) : "",
    ...overriderOf(rule?.overriders),
  };
}

const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);

/** The policy with what was changed in the form; everything that the form does not show stays. */
export function changedPolicy(resource: Resource, policy: KObject, draft: Draft): KObject {
  const before = policyFrom(resource, draftOf(policy)).spec;
  const after = policyFrom(resource, draft).spec;
  const spec = structuredClone(policy.spec ?? {});
  if (!same(before.resourceSelectors, after.resourceSelectors)) spec.resourceSelectors = [{ ...spec.resourceSelectors?.[0], ...NO_SELECTION, ...after.resourceSelectors[0] }, ...(spec.resourceSelectors ?? []).slice(1)];
  if (after.overrideRules) {
    const [rule = {}, ...rest] = spec.overrideRules ?? [];
    const [was, is] = [before.overrideRules[0], after.overrideRules[0]];
    if (!same(was.targetCluster, is.targetCluster)) rule.targetCluster = withNames(rule.targetCluster, is.targetCluster);
    if (!same(was.overriders, is.overriders)) rule.overriders = withFirst(rule.overriders, was.overriders, is.overriders);
    spec.overrideRules = [rule, ...rest];
  } else {
    const placement = (spec.placement ??= {});
    if (!same(before.placement.clusterAffinity, after.placement.clusterAffinity)) placement.clusterAffinity = withNames(placement.clusterAffinity, after.placement.clusterAffinity);
    if (!same(before.placement.replicaScheduling, after.placement.replicaScheduling)) placement.replicaScheduling = after.placement.replicaScheduling;
    if (before.priority !== after.priority) spec.priority = after.priority ?? 0;
  }
  return { ...policy, apiVersion: apiVersionOf(resource), kind: resource.kind, spec };
}

/** A selector has a name, labels or neither. */
const NO_SELECTION = { name: undefined, labelSelector: undefined };

/** Other parts of an affinity stay, only its names change. */
function withNames(affinity: any, wanted: any): any {
  const { clusterNames: _, ...rest } = affinity ?? {};
  const found = { ...rest, ...wanted };
  return Object.keys(found).length > 0 ? found : undefined;
}

/** The overriders with the first one of the form in place of the former. */
function withFirst(all: any = {}, was: Record<string, unknown>, is: Record<string, any>): any {
  const [old = ""] = Object.keys(was);
  const [field = ""] = Object.keys(is);
  const rest = { ...all, [old]: (all[old] ?? []).slice(1) };
  const found = { ...rest, [field]: [...is[field], ...(rest[field] ?? [])] };
  return Object.fromEntries(Object.entries(found).filter(([, list]) => (list as unknown[]).length > 0));
}

/** Parts of a policy that the form does not show, so that the page can say that they stay. */
export function hiddenParts(policy: KObject): { selectors: number; rules: number; overriders: number; affinities: number } {
  const { resourceSelectors = [], overrideRules = [], placement = {} } = policy.spec ?? {};
  const overriders = Object.values<any>(overrideRules[0]?.overriders ?? {}).reduce((sum, list) => sum + (Array.isArray(list) ? list.length : 0), 0);
  return { selectors: Math.max(0, resourceSelectors.length - 1), rules: Math.max(0, overrideRules.length - 1), overriders: Math.max(0, overriders - 1), affinities: (placement.clusterAffinities ?? []).length };
}
