// Which kinds policies place into clusters.

import type { Resource } from "../api/resources";

/** Karmada's own kinds, and those that describe the control plane itself, stay in it. */
const STAYS = /^(work|policy|cluster|search|config|apps)\.karmada\.io$|^events\.k8s\.io$|authorization|coordination/;

export const hasPlacement = (resource: Resource) => !STAYS.test(resource.group) && resource.kind !== "Event";
