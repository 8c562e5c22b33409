// Reads manifests, plans them and applies them in an order in which their references exist.

import { ApiError, FIELD_MANAGER, query, send } from "../../api/client";
import { findByKind, pathOf, type Resource } from "../../api/resources";
import type { ChangePlan, KObject } from "../../api/types";
import { t } from "../../i18n";

/** Kinds that others refer to come first, workloads after policies so that they are placed at once. */
const ORDER = ["Namespace", "CustomResourceDefinition", "ServiceAccount", "Secret", "ConfigMap", "ClusterPropagationPolicy", "PropagationPolicy", "ClusterOverridePolicy", "OverridePolicy"];

export async function readManifests(text: string, resources: Resource[], namespace: string): Promise<KObject[]> {
  const { parseAllDocuments } = await import("yaml");
  const objects: KObject[] = [];
  parseAllDocuments(text).forEach((document, index) => {
    const error = document.errors[0];
    if (error) throw new Error(t("Document {number}: {problem}", { number: index + 1, problem: error.message.split("\n")[0] ?? "" }));
    const value = document.toJS();
    if (value == null) return;
    objects.push(...(value.kind === "List" ? (value.items ?? []) : [value]));
  });
  return objects.map((object, index) => {
    if (!object?.apiVersion || !object.kind || !object.metadata?.name) throw new Error(t("Document {number}: {problem}", { number: index + 1, problem: t("apiVersion, kind and metadata.name are required") }));
    const resource = findByKind(resources, object.apiVersion, object.kind);
    if (!resource) throw new Error(t("The control plane does not serve {kind} of {version}", { kind: object.kind, version: object.apiVersion }));
    if (resource.namespaced && !object.metadata.namespace) return { ...object, metadata: { ...object.metadata, namespace } };
    return object;
  });
}

export const planOf = (objects: KObject[]) => send<ChangePlan>("POST", "/flotilla/v1alpha1/plan", objects);

/** A field that another program or user has set to another value. */
export interface FieldConflict {
  field: string;
  message: string;
}

export interface Outcome {
  object: KObject;
  error?: string;
  /** Fields of others that stopped it; applying with force takes them over. */
  conflicts?: FieldConflict[];
}

/** The fields of others in a refusal; none when it has another reason. */
export function conflictsOf(error: unknown): FieldConflict[] | undefined {
  if (!(error instanceof ApiError) || error.code !== 409) return undefined;
  const found = error.causes.filter((cause) => cause.reason === "FieldManagerConflict");
  return found.length > 0 ? found.map(({ field = "", message = "" }) => ({ field, message })) : undefined;
}

/** Applies one object; fields of others are taken over only by force. */
export async function applyOne(object: KObject, resources: Resource[], force: boolean): Promise<Outcome> {
  const resource = findByKind(resources, object.apiVersion ?? "", object.kind ?? "")!;
  try {
    const path = pathOf(resource, object.metadata.namespace, object.metadata.name) + query({ fieldManager: FIELD_MANAGER, force: force || undefined, fieldValidation: "Strict" });
    await send("PATCH", path, object, "application/apply-patch+yaml");
    return { object };
  } catch (error) {
    return { object, error: (error as Error).message, conflicts: conflictsOf(error) };
  }
}

export async function applyAll(objects: KObject[], resources: Resource[], onStep: (outcomes: Outcome[]) => void): Promise<Outcome[]> {
  const rank = (object: KObject) => (ORDER.includes(object.kind ?? "") ? ORDER.indexOf(object.kind ?? "") : ORDER.length);
  const outcomes: Outcome[] = [];
  for (const object of [...objects].sort((a, b) => rank(a) - rank(b))) {
    outcomes.push(await applyOne(object, resources, false));
    onStep([...outcomes]);
  }
  return outcomes;
}
