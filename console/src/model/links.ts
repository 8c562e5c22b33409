// The page of an object. Names of resources come from discovery: they do not follow from the kind.

import { findByKind, type Resource, slugOf, WORKLOADS } from "../api/resources";
import type { KObject, Subject } from "../api/types";

/** The page of an object of a known resource. */
export function pageOf(resource: Resource, namespace: string | undefined, name: string): string {
  if (resource.group === "cluster.karmada.io" && resource.plural === "clusters") return `/clusters/${name}`;
  const isWorkload = WORKLOADS.some((one) => one.group === resource.group && one.kind === resource.kind);
  return `/${isWorkload ? "workloads" : "resources"}/${slugOf(resource)}/${namespace ? `${namespace}/` : ""}${encodeURIComponent(name)}`;
}

/** The page of an object that is named by its kind; nothing while the kind is not known to the control plane. */
export function pageOfKind(resources: Resource[] | undefined, { apiVersion, kind, namespace, name }: Subject): string | undefined {
  const [group = "", version = ""] = apiVersion.includes("/") ? apiVersion.split("/") : ["", apiVersion];
  const workload = WORKLOADS.find((one) => one.group === group && one.kind === kind);
  const resource = workload ?? findByKind(resources, apiVersion, kind);
  return resource && pageOf({ ...resource, version: version || resource.version }, namespace, name);
}

/** The template of a binding. */
export function subjectOf(binding: KObject): Subject {
  const { apiVersion = "", kind = "", namespace, name = "" } = binding.spec?.resource ?? {};
  return { apiVersion, kind, namespace, name };
}
