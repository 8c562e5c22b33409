// Roles and bindings of Kubernetes.

import type { Resource } from "../../api/resources";
import type { KObject } from "../../api/types";

export const RBAC = "rbac.authorization.k8s.io";

const resourceOf = (plural: string, kind: string, namespaced: boolean): Resource => ({ group: RBAC, version: "v1", plural, kind, namespaced, verbs: [], shortNames: [], subresources: [] });

export const CLUSTER_ROLE_BINDINGS = resourceOf("clusterrolebindings", "ClusterRoleBinding", false);
export const ROLE_BINDINGS = resourceOf("rolebindings", "RoleBinding", true);
export const CLUSTER_ROLES = resourceOf("clusterroles", "ClusterRole", false);
export const ROLES = resourceOf("roles", "Role", true);

export interface BindingSubject {
  kind: string;
  name: string;
  namespace?: string;
  apiGroup?: string;
}

export interface Grant {
  role: string;
  /** Empty for all namespaces. */
  namespace: string;
  binding: KObject;
}

export interface Grantee {
  subject: BindingSubject;
  grants: Grant[];
}

const order = ["User", "Group", "ServiceAccount"];

/** Who has which roles, through which bindings. */
export function granteesOf(bindings: KObject[]): Grantee[] {
  const found = new Map<string, Grantee>();
  for (const binding of bindings) {
    for (const subject of (binding.subjects ?? []) as BindingSubject[]) {
      const key = `${subject.kind}/${subject.namespace ?? ""}/${subject.name}`;
      const grantee = found.get(key) ?? { subject, grants: [] };
      grantee.grants.push({ role: binding.roleRef?.name ?? "", namespace: binding.metadata.namespace ?? "", binding });
      found.set(key, grantee);
    }
  }
  return [...found.values()].sort((a, b) => order.indexOf(a.subject.kind) - order.indexOf(b.subject.kind) || a.subject.name.localeCompare(b.subject.name));
}

/** A name for a new binding that another one is unlikely to have. */
export const bindingName = (role: string, subject: string) => `${role}-${subject}`.toLowerCase().replace(/[^a-z0-9.-]+/g, "-").replace(/^[-.]+|[-.]+$/g, "").slice(0, 63) || "binding";

/** What a request does, as in an access review. */
export interface Attributes {
  verb: string;
  /** With `/` and the subresource, if there is one. */
  resource: string;
  group: string;
  namespace: string;
  name: string;
}

interface Rule {
  verbs?: string[];
  apiGroups?: string[];
  resources?: string[];
  resourceNames?: string[];
}

const has = (values: string[] = [], wanted: string) => values.includes("*") || values.includes(wanted);

/** Reports whether a rule of the role allows a request, as the authorizer of Kubernetes decides. */
export function allows(role: KObject, { verb, resource, group, name }: Attributes): boolean {
  const subresource = resource.split("/")[1];
  const fits = ({ verbs, apiGroups, resources, resourceNames = [] }: Rule) =>
    has(verbs, verb) && has(apiGroups, group) && (has(resources, resource) || (subresource !== undefined && resources?.includes(`*/${subresource}`) === true)) && (resourceNames.length === 0 || resourceNames.includes(name));
  return ((role.rules ?? []) as Rule[]).some(fits);
}
