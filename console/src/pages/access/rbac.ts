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
