// Dialogs that create users, groups, bindings and workspaces of a manager.

import { useState } from "react";
import { send } from "../../api/client";
import { useLive } from "../../api/live";
import { pathOf } from "../../api/resources";
import { t } from "../../i18n";
import { INSTANCES_PATH, instanceOf } from "../../model/instance";
import { attempt, Button, Dialog, Field } from "../../ui/parts";
import { BINDINGS, create, FOLDERS, GROUPS, USERS, WORKSPACES } from "./Members";

const ROLES = ["view", "edit", "admin", "instance-owner", "iam-owner", "auditor", "platform-admin"];
/** These are granted on the whole platform only. */
const PLATFORM_ROLES = ["instance-owner", "iam-owner", "auditor", "platform-admin"];

const isName = (name: string) => /^[a-z0-9]([-a-z0-9.]{0,200}[a-z0-9])?$/.test(name);

function Text({ label, value, onChange, type, focus, hint }: { label: string; value: string; onChange: (value: string) => void; type?: string; focus?: boolean; hint?: string }) {
  return <Field label={label} hint={hint}>{(id) => <input id={id} className="input" type={type} autoFocus={focus} autoComplete={type === "password" ? "new-password" : "off"} value={value} onChange={(event) => onChange(event.target.value)} />}</Field>;
}

function Form({ title, valid, onSubmit, onClose, children, done }: { title: string; valid: boolean; onSubmit: () => Promise<unknown>; onClose: () => void; children: React.ReactNode; done: string }) {
  const run = async () => {
    if (await attempt(done, onSubmit)) onClose();
  };
  return (
    <Dialog title={title} onClose={onClose} onSubmit={() => valid && void run()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="primary" type="submit" disabled={!valid}>{t("Save")}</Button></>}>
      {children}
    </Dialog>
  );
}

const setPassword = (user: string, password: string) => send("POST", "/flotilla/manager/passwords", { user, password });

export function NewUser({ onClose }: { onClose: () => void }) {
  const [form, setForm] = useState({ name: "", displayName: "", email: "", password: "" });
  const save = async () => {
    const { displayName, email } = form;
    await create(USERS, form.name, { ...(displayName ? { displayName } : {}), ...(email ? { email } : {}) });
    if (form.password) await setPassword(form.name, form.password);
  };
  return (
    <Form title={t("New user")} valid={isName(form.name)} onSubmit={save} onClose={onClose} done={t("{name} is created", { name: form.name })}>
      <div className="grid-s">
        <Text focus label={t("Name")} value={form.name} onChange={(name) => setForm({ ...form, name })} />
        <Text label={t("Display name")} value={form.displayName} onChange={(displayName) => setForm({ ...form, displayName })} />
        <Text label={t("E-mail")} value={form.email} onChange={(email) => setForm({ ...form, email })} />
        <Text label={t("Password")} type="password" value={form.password} onChange={(password) => setForm({ ...form, password })} hint={t("Without one the user signs in at the identity provider.")} />
      </div>
    </Form>
  );
}

export function PasswordDialog({ user, onClose }: { user: string; onClose: () => void }) {
  const [password, setValue] = useState("");
  return (
    <Form title={t("Password of {name}", { name: user })} valid={password.length >= 8} onSubmit={() => setPassword(user, password)} onClose={onClose} done={t("The password of {name} is set", { name: user })}>
      <Text focus label={t("Password")} type="password" value={password} onChange={setValue} />
    </Form>
  );
}

export function NewGroup({ onClose }: { onClose: () => void }) {
  const [form, setForm] = useState({ name: "", members: "" });
  const members = form.members.split(/[\s,]+/).filter(Boolean);
  return (
    <Form title={t("New group")} valid={isName(form.name)} onSubmit={() => create(GROUPS, form.name, { members })} onClose={onClose} done={t("{name} is created", { name: form.name })}>
      <Text focus label={t("Name")} value={form.name} onChange={(name) => setForm({ ...form, name })} />
      <Text label={t("Members")} value={form.members} onChange={(value) => setForm({ ...form, members: value })} hint={t("Names of users, separated by commas")} />
    </Form>
  );
}

export function NewBinding({ onClose }: { onClose: () => void }) {
  const [form, setForm] = useState({ kind: "User", name: "", role: "view", on: "instance", instance: "", namespace: "", workspace: "" });
  const set = (change: Partial<typeof form>) => setForm({ ...form, ...change });
  const instances = useLive({ path: INSTANCES_PATH });
  const workspaces = useLive({ path: pathOf(WORKSPACES) });
  const on = PLATFORM_ROLES.includes(form.role) ? "platform" : form.on;
  const target = on === "instance" ? { instance: form.instance, ...(form.namespace ? { namespace: form.namespace } : {}) } : on === "workspace" ? { workspace: form.workspace } : undefined;
  const valid = form.name !== "" && (on === "platform" || (on === "instance" ? form.instance !== "" : form.workspace !== ""));
  const name = [form.name, form.role, form.instance || form.workspace].filter(Boolean).join("-").toLowerCase().replace(/[^a-z0-9.-]+/g, "-");
  const spec = { subject: { kind: form.kind, name: form.name }, role: form.role, ...(target ? { target } : {}) };
  return (
    <Form title={t("New binding")} valid={valid} onSubmit={() => create(BINDINGS, name, spec)} onClose={onClose} done={t("{role} is bound to {name}", { role: form.role, name: form.name })}>
      <div className="grid-s">
        <Field label={t("Kind of subject")}>{(id) => <select id={id} className="select" value={form.kind} onChange={(event) => set({ kind: event.target.value })}><option>User</option><option>Group</option></select>}</Field>
        <Text focus label={t("Name of the subject")} value={form.name} onChange={(value) => set({ name: value })} />
        <Field label={t("Role")}>{(id) => <select id={id} className="select" value={form.role} onChange={(event) => set({ role: event.target.value })}>{ROLES.map((role) => <option key={role}>{role}</option>)}</select>}</Field>
        <Field label={t("On")}>{(id) => <select id={id} className="select" disabled={on === "platform" && form.on !== "platform"} value={on} onChange={(event) => set({ on: event.target.value })}><option value="instance">{t("Instance")}</option><option value="workspace">{t("Workspace")}</option><option value="platform">{t("the whole platform")}</option></select>}</Field>
        {on === "instance" && <Field label={t("Instance")}>{(id) => <select id={id} className="select" value={form.instance} onChange={(event) => set({ instance: event.target.value })}><option value="" disabled>{t("Choose one")}</option>{instances.items.map((one) => <option key={instanceOf(one)}>{instanceOf(one)}</option>)}</select>}</Field>}
        {on === "instance" && <Text label={t("Namespace")} value={form.namespace} onChange={(namespace) => set({ namespace })} hint={t("Empty means all of the instance.")} />}
        {on === "workspace" && <Field label={t("Workspace")}>{(id) => <select id={id} className="select" value={form.workspace} onChange={(event) => set({ workspace: event.target.value })}><option value="" disabled>{t("Choose one")}</option>{workspaces.items.map((one) => <option key={one.metadata.name}>{one.metadata.name}</option>)}</select>}</Field>}
      </div>
    </Form>
  );
}

export function NewWorkspace({ onClose }: { onClose: () => void }) {
  const [form, setForm] = useState({ name: "", displayName: "", folder: "", instances: [] as string[] });
  const instances = useLive({ path: INSTANCES_PATH });
  const folders = useLive({ path: pathOf(FOLDERS) });
  const spec = { ...(form.displayName ? { displayName: form.displayName } : {}), ...(form.folder ? { folder: form.folder } : {}), instances: form.instances };
  return (
    <Form title={t("New workspace")} valid={isName(form.name)} onSubmit={() => create(WORKSPACES, form.name, spec)} onClose={onClose} done={t("{name} is created", { name: form.name })}>
      <div className="grid-s">
        <Text focus label={t("Name")} value={form.name} onChange={(name) => setForm({ ...form, name })} />
        <Text label={t("Display name")} value={form.displayName} onChange={(displayName) => setForm({ ...form, displayName })} />
        {folders.items.length > 0 && <Field label={t("Folder")}>{(id) => <select id={id} className="select" value={form.folder} onChange={(event) => setForm({ ...form, folder: event.target.value })}><option value="">–</option>{folders.items.map((one) => <option key={one.metadata.name}>{one.metadata.name}</option>)}</select>}</Field>}
      </div>
      <div className="field">
        <span className="label">{t("Instances")}</span>
        <span className="row wrap">{instances.items.map((one) => { const name = instanceOf(one); return <label className="check" key={name}><input type="checkbox" checked={form.instances.includes(name)} onChange={(event) => setForm({ ...form, instances: event.target.checked ? [...form.instances, name] : form.instances.filter((other) => other !== name) })} />{name}</label>; })}</span>
      </div>
    </Form>
  );
}

export function NewFolder({ onClose }: { onClose: () => void }) {
  const [form, setForm] = useState({ name: "", displayName: "" });
  return (
    <Form title={t("New folder")} valid={isName(form.name)} onSubmit={() => create(FOLDERS, form.name, form.displayName ? { displayName: form.displayName } : {})} onClose={onClose} done={t("{name} is created", { name: form.name })}>
      <div className="grid-s">
        <Text focus label={t("Name")} value={form.name} onChange={(name) => setForm({ ...form, name })} />
        <Text label={t("Display name")} value={form.displayName} onChange={(displayName) => setForm({ ...form, displayName })} />
      </div>
    </Form>
  );
}
