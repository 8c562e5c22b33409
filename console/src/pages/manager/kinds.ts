// The kinds by which a manager knows users and their rights.

import { mergePatch, send } from "../../api/client";
import { pathOf, type Resource } from "../../api/resources";
import type { KObject } from "../../api/types";
import { t } from "../../i18n";

const API_VERSION = "manager.flotilla.dev/v1alpha1";

const resourceOf = (plural: string, kind: string): Resource => ({ group: "manager.flotilla.dev", version: "v1alpha1", plural, kind, namespaced: false, verbs: [], shortNames: [], subresources: [] });

export const USERS = resourceOf("users", "User");
export const GROUPS = resourceOf("groups", "Group");
export const WORKSPACES = resourceOf("workspaces", "Workspace");
export const ROLES = resourceOf("roles", "Role");
export const FOLDERS = resourceOf("folders", "Folder");
export const WEBHOOKS = resourceOf("webhooks", "Webhook");

/** These are granted on the whole platform only. */
export const PLATFORM_ROLES = ["platform-admin", "instance-owner", "iam-owner", "auditor"];
export const INSTANCE_ROLES = ["view", "edit", "admin"];

export interface Target {
  folder?: string;
  workspace?: string;
  instance?: string;
  namespace?: string;
}

export function targetText(target?: Target): string {
  if (target?.instance) return `${target.instance}${target.namespace ? ` / ${target.namespace}` : ""}`;
  if (target?.workspace) return t("workspace {name}", { name: target.workspace });
  return target?.folder ? t("folder {name}", { name: target.folder }) : t("the whole platform");
}

/** Writes the fields of an object that a form has; empty ones are removed. */
export function save(resource: Resource, name: string, fields: Record<string, unknown>, object?: KObject) {
  const isEmpty = (value: unknown) => value === "" || value === undefined || value === false || (Array.isArray(value) && value.length === 0);
  if (object) {
    const spec = Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, isEmpty(value) ? null : value]));
    return mergePatch(pathOf(resource, "", name), { metadata: { resourceVersion: object.metadata.resourceVersion }, spec });
  }
  const spec = Object.fromEntries(Object.entries(fields).filter(([, value]) => !isEmpty(value)));
  return send("POST", pathOf(resource), { apiVersion: API_VERSION, kind: resource.kind, metadata: { name }, spec });
}
