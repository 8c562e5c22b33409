// Names and paths of resources, from discovery.

import { useQuery } from "@tanstack/react-query";
import { type ApiError, getJson } from "./client";

export interface Resource {
  group: string;
  version: string;
  plural: string;
  kind: string;
  namespaced: boolean;
  verbs: string[];
  shortNames: string[];
  subresources: string[];
}

const known = (group: string, version: string, plural: string, kind: string, namespaced = true): Resource => ({
  group,
  version,
  plural,
  kind,
  namespaced,
  verbs: ["get", "list", "watch", "create", "update", "patch", "delete"],
  shortNames: [],
  subresources: [],
});

export const CLUSTERS = known("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", false);
export const BINDINGS = known("work.karmada.io", "v1alpha2", "resourcebindings", "ResourceBinding");
export const CLUSTER_BINDINGS = known("work.karmada.io", "v1alpha2", "clusterresourcebindings", "ClusterResourceBinding", false);
export const WORKS = known("work.karmada.io", "v1alpha1", "works", "Work");
export const EVENTS = known("", "v1", "events", "Event");
export const NAMESPACES = known("", "v1", "namespaces", "Namespace", false);
export const PODS = known("", "v1", "pods", "Pod");
export const SECRETS = known("", "v1", "secrets", "Secret");
export const SERVICES = known("", "v1", "services", "Service");
export const LEASES = known("coordination.k8s.io", "v1", "leases", "Lease");
export const PROPAGATION_POLICIES = known("policy.karmada.io", "v1alpha1", "propagationpolicies", "PropagationPolicy");
export const CLUSTER_PROPAGATION_POLICIES = known("policy.karmada.io", "v1alpha1", "clusterpropagationpolicies", "ClusterPropagationPolicy", false);
export const OVERRIDE_POLICIES = known("policy.karmada.io", "v1alpha1", "overridepolicies", "OverridePolicy");
export const CLUSTER_OVERRIDE_POLICIES = known("policy.karmada.io", "v1alpha1", "clusteroverridepolicies", "ClusterOverridePolicy", false);
export const REBALANCERS = known("apps.karmada.io", "v1alpha1", "workloadrebalancers", "WorkloadRebalancer", false);
export const WORKLOADS: Resource[] = [
  known("apps", "v1", "deployments", "Deployment"),
  known("apps", "v1", "statefulsets", "StatefulSet"),
  known("apps", "v1", "daemonsets", "DaemonSet"),
  known("batch", "v1", "jobs", "Job"),
  known("batch", "v1", "cronjobs", "CronJob"),
];

export const POLICIES: Resource[] = [PROPAGATION_POLICIES, CLUSTER_PROPAGATION_POLICIES, OVERRIDE_POLICIES, CLUSTER_OVERRIDE_POLICIES];

export const isSecrets = (resource: Resource) => resource.group === "" && resource.plural === "secrets";

export const apiVersionOf = (resource: Resource) => (resource.group ? `${resource.group}/${resource.version}` : resource.version);

/** The path of a list, or of an object when a name is given. */
export function pathOf(resource: Resource, namespace = "", name = ""): string {
  const root = resource.group ? `/apis/${resource.group}/${resource.version}` : `/api/${resource.version}`;
  const place = resource.namespaced && namespace ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  return `${root}${place}/${resource.plural}${name ? `/${encodeURIComponent(name)}` : ""}`;
}

/** The path of a member's API behind the control plane's proxy. */
export const memberPath = (cluster: string, path: string) =>
  `/apis/cluster.karmada.io/v1alpha1/clusters/${encodeURIComponent(cluster)}/proxy${path}`;

/** The part of an address that names a resource: `apps.v1.deployments`, `core.v1.services`. */
export const slugOf = (resource: Resource) => `${resource.group || "core"}~${resource.version}~${resource.plural}`;

interface DiscoveryList {
  items: {
    metadata: { name?: string };
    versions: {
      version: string;
      resources: {
        resource: string;
        responseKind?: { kind: string };
        scope: string;
        verbs: string[];
        shortNames?: string[];
        subresources?: { subresource: string }[];
      }[];
    }[];
  }[];
}

const ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

async function discover(): Promise<Resource[]> {
  const [core, groups] = await Promise.all(
    ["/api", "/apis"].map((path) => getJson<DiscoveryList>(path, { headers: { Accept: ACCEPT } })),
  );
  const found: Resource[] = [];
  for (const group of [...(core?.items ?? []), ...(groups?.items ?? [])]) {
    const seen = new Set<string>();
    for (const { version, resources } of group.versions) {
      for (const one of resources) {
        // The preferred version comes first.
        if (seen.has(one.resource)) continue;
        seen.add(one.resource);
        found.push({
          group: group.metadata.name ?? "",
          version,
          plural: one.resource,
          kind: one.responseKind?.kind ?? one.resource,
          namespaced: one.scope === "Namespaced",
          verbs: one.verbs,
          shortNames: one.shortNames ?? [],
          subresources: (one.subresources ?? []).map((sub) => sub.subresource),
        });
      }
    }
  }
  return found;
}

export function useDiscovery() {
  return useQuery<Resource[], ApiError>({ queryKey: ["discovery"], queryFn: discover, staleTime: 60_000 });
}

/** The resource of a slug; from discovery when it is known there, otherwise as the slug says. */
export function useResource(slug: string): { resource?: Resource; error?: ApiError | null; pending: boolean } {
  const discovery = useDiscovery();
  const [group = "", version = "", plural = ""] = slug.split("~");
  const wanted = group === "core" ? "" : group;
  const resource = discovery.data?.find((one) => one.group === wanted && one.plural === plural);
  return { resource: resource && { ...resource, version: version || resource.version }, error: discovery.error, pending: discovery.isPending };
}

export function findByKind(resources: Resource[] | undefined, apiVersion: string, kind: string): Resource | undefined {
  const group = apiVersion.includes("/") ? apiVersion.split("/")[0] : "";
  return resources?.find((one) => one.group === group && one.kind === kind);
}
