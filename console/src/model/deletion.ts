// What deleting an object means for the clusters it is in.

import type { KObject, Subject } from "../api/types";
import { type PerCluster, perCluster } from "./binding";
import { podTemplateOf } from "./workload";

const DEPENDENCIES = "resourcebinding.karmada.io/dependencies";
/** The label with which admission refuses a deletion. */
export const PROTECTED = "resourcetemplate.karmada.io/deletion-protected";

export interface Deletion {
  clusters: PerCluster[];
  /** The clusters keep their copies. */
  keeps: boolean;
  /** Objects that are in the clusters because this one needs them. */
  followers: Subject[];
}

export const isProtected = (object: KObject) => object.metadata.labels?.[PROTECTED] === "Always";

export function deletionOf(binding: KObject | undefined): Deletion {
  return { clusters: perCluster(binding), keeps: binding?.spec?.preserveResourcesOnDeletion === true, followers: followersOf(binding) };
}

function followersOf(binding: KObject | undefined): Subject[] {
  try {
    const found: unknown = JSON.parse(binding?.metadata.annotations?.[DEPENDENCIES] ?? "[]");
    return Array.isArray(found) ? found.filter((one) => one?.kind && one.name) : [];
  } catch {
    return [];
  }
}

/** The services that send requests to the pods of a workload. */
export function servicesOf(workload: KObject, services: KObject[]): string[] {
  const labels: Record<string, string> = podTemplateOf(workload)?.metadata?.labels ?? {};
  const selects = (service: KObject) => {
    const selector = Object.entries<string>(service.spec?.selector ?? {});
    return selector.length > 0 && selector.every(([key, value]) => labels[key] === value);
  };
  return services.filter(selects).map((service) => service.metadata.name);
}
