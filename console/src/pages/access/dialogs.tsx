// Dialogs that bind roles and create them.

import { useState } from "react";
import { send } from "../../api/client";
import { type Row, useLive } from "../../api/live";
import { NAMESPACES, pathOf } from "../../api/resources";
import { usePrefs } from "../../app/prefs";
import { t } from "../../i18n";
import { attempt, Button, Command, Dialog, Field } from "../../ui/parts";
import { bindingName, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, RBAC, ROLE_BINDINGS, ROLES } from "./rbac";

interface BindProps {
  subject?: { kind: string; name: string; namespace?: string };
  role?: string;
  /** The namespace that is chosen first. */
  in?: string;
  namespaced?: boolean;
  onClose: () => void;
}

export function BindDialog({ subject, role = "", in: place, namespaced, onClose }: BindProps) {
  const prefs = usePrefs();
  const [form, setForm] = useState({ kind: subject?.kind ?? "User", name: subject?.name ?? "", accountNamespace: subject?.namespace ?? "default", role, namespace: place ?? (namespaced ? prefs.namespace || "default" : "") });
  const roles = useLive<Row>({ path: pathOf(CLUSTER_ROLES), table: true, limit: 1000 });
  const own = useLive<Row>(form.namespace ? { path: pathOf(ROLES, form.namespace), table: true } : undefined);
  const namespaces = useLive<Row>({ path: pathOf(NAMESPACES), table: true, limit: 1000 });
  const set = (change: Partial<typeof form>) => setForm({ ...form, ...change });
  const isOwn = own.items.some((one) => one.metadata.name === form.role);
  const resource = form.namespace ? ROLE_BINDINGS : CLUSTER_ROLE_BINDINGS;
  const valid = form.name.trim() !== "" && form.role !== "";
  const bind = async () => {
    const account = form.kind === "ServiceAccount";
    const binding = {
      apiVersion: `${RBAC}/v1`,
      kind: resource.kind,
      metadata: { name: bindingName(form.role, form.name), ...(form.namespace ? { namespace: form.namespace } : {}) },
      roleRef: { apiGroup: RBAC, kind: isOwn ? "Role" : "ClusterRole", name: form.role },
      subjects: [{ kind: form.kind, name: form.name.trim(), ...(account ? { namespace: form.accountNamespace } : { apiGroup: RBAC }) }],
    };
    if (await attempt(t("{role} is bound to {name}", { role: form.role, name: form.name }), () => send("POST", pathOf(resource, form.namespace), binding))) onClose();
  };
  const option = { User: "--user", Group: "--group", ServiceAccount: "--serviceaccount" }[form.kind] ?? "--user";
  return (
    <Dialog title={t("Bind a role")} onClose={onClose} onSubmit={() => valid && void bind()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="primary" type="submit" disabled={!valid}>{t("Bind")}</Button></>}>
      <div className="grid-s">
        <Field label={t("Kind of subject")}>{(id) => <select id={id} className="select" value={form.kind} onChange={(event) => set({ kind: event.target.value })}><option>User</option><option>Group</option><option>ServiceAccount</option></select>}</Field>
        <Field label={t("Name of the subject")} hint={t("As certificates, tokens or the identity provider name it.")}>{(id) => <input id={id} className="input" autoFocus value={form.name} onChange={(event) => set({ name: event.target.value })} />}</Field>
        {form.kind === "ServiceAccount" && <Field label={t("Namespace of the account")}>{(id) => <input id={id} className="input" value={form.accountNamespace} onChange={(event) => set({ accountNamespace: event.target.value })} />}</Field>}
      </div>
      <div className="grid-s">
        <Field label={t("Where")}>{(id) => <select id={id} className="select" value={form.namespace} onChange={(event) => set({ namespace: event.target.value, role: "" })}><option value="">{t("All namespaces")}</option>{namespaces.items.map((one) => <option key={one.metadata.name}>{one.metadata.name}</option>)}</select>}</Field>
        <Field label={t("Role")}>{(id) => <select id={id} className="select" value={form.role} onChange={(event) => set({ role: event.target.value })}><option value="" disabled>{t("Choose a role")}</option>{[...own.items, ...roles.items].filter((one, index, all) => all.findIndex((other) => other.metadata.name === one.metadata.name) === index && !one.metadata.name.startsWith("system:")).map((one) => <option key={one.metadata.name}>{one.metadata.name}</option>)}</select>}</Field>
      </div>
      {valid && <Command text={`kubectl create ${form.namespace ? "rolebinding" : "clusterrolebinding"} ${bindingName(form.role, form.name)}${form.namespace ? ` -n ${form.namespace}` : ""} --${isOwn ? "role" : "clusterrole"}=${form.role} ${option}=${form.kind === "ServiceAccount" ? `${form.accountNamespace}:` : ""}${form.name}`} />}
    </Dialog>
  );
}

const VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"];

export function RoleDialog({ namespaced, onClose }: { namespaced: boolean; onClose: () => void }) {
  const prefs = usePrefs();
  const [form, setForm] = useState({ name: "", namespace: prefs.namespace || "default", verbs: ["get", "list", "watch"], resources: "", groups: "" });
  const set = (change: Partial<typeof form>) => setForm({ ...form, ...change });
  const resource = namespaced ? ROLES : CLUSTER_ROLES;
  const words = (text: string) => text.split(/[\s,]+/).filter(Boolean);
  const valid = /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(form.name) && form.verbs.length > 0 && words(form.resources).length > 0;
  const create = async () => {
    const groups = words(form.groups).map((group) => (group === "core" ? "" : group));
    const role = {
      apiVersion: `${RBAC}/v1`,
      kind: resource.kind,
      metadata: { name: form.name, ...(namespaced ? { namespace: form.namespace } : {}) },
      rules: [{ verbs: form.verbs, resources: words(form.resources), apiGroups: groups.length > 0 ? groups : [""] }],
    };
    if (await attempt(t("{name} is created", { name: form.name }), () => send("POST", pathOf(resource, form.namespace), role))) onClose();
  };
  return (
    <Dialog title={t("New role")} onClose={onClose} onSubmit={() => valid && void create()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="primary" type="submit" disabled={!valid}>{t("Create")}</Button></>}>
      <div className="grid-s">
        <Field label={t("Name")}>{(id) => <input id={id} className="input" autoFocus value={form.name} onChange={(event) => set({ name: event.target.value })} />}</Field>
        {namespaced && <Field label={t("Namespace")}>{(id) => <input id={id} className="input" value={form.namespace} onChange={(event) => set({ namespace: event.target.value })} />}</Field>}
      </div>
      <div className="field">
        <span className="label">{t("Verbs")}</span>
        <span className="row wrap">{VERBS.map((verb) => <label className="check" key={verb}><input type="checkbox" checked={form.verbs.includes(verb)} onChange={(event) => set({ verbs: event.target.checked ? [...form.verbs, verb] : form.verbs.filter((one) => one !== verb) })} />{verb}</label>)}</span>
      </div>
      <div className="grid-s">
        <Field label={t("Resources")} hint={t("For example deployments, deployments/scale")}>{(id) => <input id={id} className="input" value={form.resources} onChange={(event) => set({ resources: event.target.value })} />}</Field>
        <Field label={t("API groups")} hint={t("For example apps, policy.karmada.io; empty means the core group")}>{(id) => <input id={id} className="input" value={form.groups} onChange={(event) => set({ groups: event.target.value })} />}</Field>
      </div>
      <p className="small muted">{t("You can grant only permissions that you have yourself. More rules can be added in the YAML of the role.")}</p>
    </Dialog>
  );
}
