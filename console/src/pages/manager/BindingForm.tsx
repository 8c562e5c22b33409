// Binds a role of the manager to a user or group, or changes when a binding ends.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError, getJson, send } from "../../api/client";
import { listAll, MANAGER, useInstances, usePermissions } from "../../api/manager";
import { t } from "../../i18n";
import { Form, Select, Text } from "./Form";
import { INSTANCE_ROLES, PLATFORM_ROLES, type Target, targetText } from "./kinds";

/** A binding as the manager's own API has it: administrators of an instance see those on it. */
export interface Binding {
  name: string;
  etag?: string;
  createTime?: string;
  subject?: { kind: string; name: string };
  role: string;
  target?: Target;
  expiresAt?: string;
}

export const BINDINGS_PATH = `${MANAGER}/bindings`;
export const bindingPath = (name: string) => `${BINDINGS_PATH}/${encodeURIComponent(name)}`;

const nameOf = (...parts: string[]) => parts.filter(Boolean).join("-").toLowerCase().replace(/[^a-z0-9.-]+/g, "-").replace(/^[-.]+|[-.]+$/g, "").slice(0, 200);

/** RFC 3339 of the value of a date field, which is in local time. */
const timeOf = (local: string) => (local ? new Date(local).toISOString().replace(/\.\d+Z$/, "Z") : "");
const localOf = (time: string) => {
  if (!time) return "";
  const at = new Date(time);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
};

/** Names of objects that only some users may list; empty for the others. */
function useNames(plural: string, wanted: boolean): { name: string; grants?: string }[] {
  const list = useQuery<{ name: string; grants?: string }[], ApiError>({ queryKey: ["names", plural], queryFn: () => listAll(`${MANAGER}/${plural}`, plural), enabled: wanted });
  return list.data ?? [];
}

/** Creates the binding under the first of its names that is free. */
async function create(name: string, fields: Omit<Binding, "name">) {
  for (let count = 1; ; count++) {
    try {
      return await send("POST", BINDINGS_PATH, { name: count === 1 ? name : `${name}-${count}`, ...fields });
    } catch (error) {
      if (!(error instanceof ApiError && error.code === 409) || count === 5) throw error;
    }
  }
}

interface Choice {
  on: string;
  instance: string;
  namespace: string;
  workspace: string;
  folder: string;
}

function targetOf({ on, instance, namespace, workspace, folder }: Choice): Target | undefined {
  switch (on) {
    case "instance":
      return { instance, ...(namespace ? { namespace } : {}) };
    case "workspace":
      return { workspace };
    case "folder":
      return { folder };
    default:
      return undefined;
  }
}

export function NewBinding({ onClose }: { onClose: () => void }) {
  const [form, setForm] = useState({ kind: "User", name: "", role: "view", on: "instance", instance: "", namespace: "", workspace: "", folder: "", ends: "" });
  const set = (change: Partial<typeof form>) => setForm({ ...form, ...change });
  const everywhere = usePermissions()("iam.manage");
  const instances = useInstances().items.filter((one) => everywhere || one.role === "admin");
  const [workspaces, folders, roles, users, groups] = [useNames("workspaces", everywhere), useNames("folders", everywhere), useNames("roles", everywhere), useNames("users", everywhere), useNames("groups", everywhere)];
  const grants = roles.find((one) => one.name === form.role)?.grants ?? form.role;
  const onPlatform = PLATFORM_ROLES.includes(grants);
  const on = onPlatform ? "platform" : form.on;
  const target = targetOf({ ...form, on });
  const isComplete = on === "platform" || form[on as "instance" | "workspace" | "folder"] !== "";
  const submit = () => create(nameOf(form.name, form.role, target?.instance ?? target?.workspace ?? target?.folder ?? "", target?.namespace ?? ""), { subject: { kind: form.kind, name: form.name }, role: form.role, target, expiresAt: timeOf(form.ends) });
  const known = (form.kind === "User" ? users : groups).map((one) => one.name);
  const places = [{ id: "instance", text: t("Instance") }, ...(everywhere ? [{ id: "workspace", text: t("Workspace") }, { id: "folder", text: t("Folder") }, { id: "platform", text: t("the whole platform") }] : [])];
  return (
    <Form title={t("New binding")} valid={form.name.trim() !== "" && isComplete} onSubmit={submit} onClose={onClose} done={t("{role} is bound to {name}", { role: form.role, name: form.name })}>
      <div className="grid-s">
        <Select label={t("Kind of subject")} value={form.kind} onChange={(kind) => set({ kind })} options={["User", "Group"]} />
        <Text focus label={t("Name of the subject")} value={form.name} onChange={(name) => set({ name })} hint={known.length > 0 ? t("Known here: {names}", { names: known.slice(0, 6).join(", ") + (known.length > 6 ? " …" : "") }) : t("As the identity provider names it.")} />
        <Select label={t("Role")} value={form.role} onChange={(role) => set({ role })} options={[...INSTANCE_ROLES, ...(everywhere ? [...PLATFORM_ROLES, ...roles.map((one) => one.name)] : [])]} />
        <Select label={t("Scope")} disabled={onPlatform} value={on} onChange={(value) => set({ on: value })} options={places} />
        {on === "instance" && <Select label={t("Instance")} value={form.instance} onChange={(instance) => set({ instance })} options={instances.map((one) => one.name)} />}
        {on === "instance" && <Text label={t("Namespace")} value={form.namespace} onChange={(namespace) => set({ namespace })} hint={t("Empty means all of the instance.")} />}
        {on === "workspace" && <Select label={t("Workspace")} value={form.workspace} onChange={(workspace) => set({ workspace })} options={workspaces.map((one) => one.name)} />}
        {on === "folder" && <Select label={t("Folder")} value={form.folder} onChange={(folder) => set({ folder })} options={folders.map((one) => one.name)} />}
        <Text type="datetime-local" label={t("Expires (optional)")} value={form.ends} onChange={(ends) => set({ ends })} />
      </div>
    </Form>
  );
}

/** Everything else of a binding cannot change. */
export function BindingEnd({ name, onClose }: { name: string; onClose: () => void }) {
  const [ends, setEnds] = useState<string>();
  const binding = useQuery<Binding, ApiError>({ queryKey: ["binding", name], queryFn: () => getJson(bindingPath(name)), gcTime: 0 });
  const value = ends ?? localOf(binding.data?.expiresAt ?? "");
  return (
    <Form title={t("Change {name}", { name })} valid={binding.data !== undefined} onSubmit={() => send("PUT", bindingPath(name), { ...binding.data, expiresAt: timeOf(value) })} onClose={onClose} done={t("Saved")}>
      {binding.error && <div className="banner bad" role="alert">{binding.error.message}</div>}
      {binding.data && <p>{t("{role} of {subject} on {target}", { role: binding.data.role, subject: binding.data.subject?.name ?? "", target: targetText(reduced(binding.data.target)) })}</p>}
      <Text focus type="datetime-local" label={t("Expires (optional)")} value={value} onChange={setEnds} hint={t("If empty, the binding does not expire.")} />
      <p className="muted small">{t("Everything else of a binding cannot change: delete it and create another.")}</p>
    </Form>
  );
}

/** A target without its empty fields, so that none is sent back as if it were set. */
export const reduced = (target?: Target): Target | undefined => target && Object.fromEntries(Object.entries(target).filter(([, value]) => value));
