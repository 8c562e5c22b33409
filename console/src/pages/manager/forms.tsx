// Forms of users, groups, roles, workspaces and folders of a manager.

import { useState } from "react";
import { send } from "../../api/client";
import { MANAGER, useInstances } from "../../api/manager";
import { useLive } from "../../api/live";
import { pathOf } from "../../api/resources";
import type { KObject } from "../../api/types";
import { t } from "../../i18n";
import { Choices, Form, NameField, Select, Text } from "./Form";
import { FOLDERS, GROUPS, INSTANCE_ROLES, PLATFORM_ROLES, ROLES, save, USERS, WORKSPACES } from "./kinds";
import { isObjectName } from "./names";

interface Props {
  /** The object to change; a new one without it. */
  object?: KObject;
  onClose: () => void;
}

const PASSWORD_MIN = 10;

const setPassword = (user: string, password: string) => send("POST", `${MANAGER}/users/${encodeURIComponent(user)}:setPassword`, { password });

const titleOf = (object: KObject | undefined, created: string) => (object ? t("Change {name}", { name: object.metadata.name }) : created);
const doneOf = (object: KObject | undefined, name: string) => (object ? t("Saved") : t("{name} is created", { name }));
const words = (text: string) => [...new Set(text.split(/[\s,]+/).filter(Boolean))];

export const emailsOf = (user?: KObject): string[] => user?.spec?.emails ?? [user?.spec?.email].filter(Boolean);

export function UserForm({ object, onClose }: Props) {
  const { displayName = "" } = object?.spec ?? {};
  const [form, setForm] = useState({ name: object?.metadata.name ?? "", displayName, emails: emailsOf(object).join(", "), password: "" });
  const set = (change: Partial<typeof form>) => setForm({ ...form, ...change });
  const { name, password } = form;
  const isShort = password !== "" && password.length < PASSWORD_MIN;
  const submit = async () => {
    await save(USERS, name, { displayName: form.displayName, emails: words(form.emails) }, object);
    if (password) await setPassword(name, password);
  };
  return (
    <Form title={titleOf(object, t("New user"))} valid={isObjectName(name) && !isShort} onSubmit={submit} onClose={onClose} done={doneOf(object, name)}>
      <div className="grid-s">
        <NameField isNew={!object} value={name} onChange={(value) => set({ name: value })} />
        <Text label={t("Display name")} value={form.displayName} onChange={(value) => set({ displayName: value })} />
        <Text label={t("Email")} value={form.emails} onChange={(value) => set({ emails: value })} hint={t("Several are separated by commas.")} />
        {!object && <Text label={t("Password")} type="password" value={password} onChange={(value) => set({ password: value })} hint={t("Without one the user signs in at the identity provider.")} problem={isShort ? t("At least {count} characters.", { count: PASSWORD_MIN }) : ""} />}
      </div>
    </Form>
  );
}

export function PasswordDialog({ user, onClose }: { user: string; onClose: () => void }) {
  const [password, setValue] = useState("");
  return (
    <Form title={t("Password of {name}", { name: user })} valid={password.length >= PASSWORD_MIN} onSubmit={() => setPassword(user, password)} onClose={onClose} done={t("The password of {name} is set", { name: user })}>
      <Text focus label={t("Password")} type="password" value={password} onChange={setValue} hint={t("At least {count} characters.", { count: PASSWORD_MIN })} />
    </Form>
  );
}

export function GroupForm({ object, onClose }: Props) {
  const { displayName = "", members = [] } = object?.spec ?? {};
  const [form, setForm] = useState({ name: object?.metadata.name ?? "", displayName, members: members as string[], others: "" });
  const users = useLive({ path: pathOf(USERS) });
  const set = (change: Partial<typeof form>) => setForm({ ...form, ...change });
  const all = [...new Set([...form.members, ...words(form.others)])];
  return (
    <Form title={titleOf(object, t("New group"))} valid={isObjectName(form.name)} onSubmit={() => save(GROUPS, form.name, { displayName: form.displayName, members: all }, object)} onClose={onClose} done={doneOf(object, form.name)}>
      <div className="grid-s">
        <NameField isNew={!object} value={form.name} onChange={(name) => set({ name })} />
        <Text label={t("Display name")} value={form.displayName} onChange={(value) => set({ displayName: value })} />
      </div>
      <Choices label={t("Members")} names={users.items.map((one) => one.metadata.name)} chosen={form.members} onChange={(chosen) => set({ members: chosen })} />
      <Text label={t("Additional members")} value={form.others} onChange={(others) => set({ others })} hint={t("User names, separated by commas. Users that only the identity provider knows can be members too.")} />
    </Form>
  );
}

export function RoleForm({ object, onClose }: Props) {
  const { displayName = "", grants = "view" } = object?.spec ?? {};
  const [form, setForm] = useState({ name: object?.metadata.name ?? "", displayName, grants });
  const set = (change: Partial<typeof form>) => setForm({ ...form, ...change });
  const isBuiltin = [...PLATFORM_ROLES, ...INSTANCE_ROLES].includes(form.name);
  return (
    <Form title={titleOf(object, t("New role"))} valid={isObjectName(form.name) && !isBuiltin} onSubmit={() => save(ROLES, form.name, { displayName: form.displayName, grants: form.grants }, object)} onClose={onClose} done={doneOf(object, form.name)}>
      <div className="grid-s">
        <NameField isNew={!object} value={form.name} onChange={(name) => set({ name })} />
        <Text label={t("Display name")} value={form.displayName} onChange={(value) => set({ displayName: value })} />
        <Select label={t("Permissions of")} value={form.grants} onChange={(value) => set({ grants: value })} options={[...INSTANCE_ROLES, ...PLATFORM_ROLES]} hint={PLATFORM_ROLES.includes(form.grants) ? t("Granted on the whole platform only.") : t("Granted on an instance, a namespace, a workspace or a folder.")} />
      </div>
      {isBuiltin && <div className="banner bad" role="alert">{t("This is the name of a built-in role.")}</div>}
      <p className="muted small">{t("A custom role is an alias of a built-in role: bindings name what the user does, and a change of the role applies to all of them.")}</p>
    </Form>
  );
}

const placesText = (places: { instance: string; namespace: string }[]) => places.map((one) => `${one.instance}/${one.namespace}`).join(", ");

export function WorkspaceForm({ object, onClose }: Props) {
  const spec = object?.spec ?? {};
  const [form, setForm] = useState({ name: object?.metadata.name ?? "", displayName: spec.displayName ?? "", folder: spec.folder ?? "", instances: (spec.instances ?? []) as string[], namespaces: placesText(spec.namespaces ?? []) });
  const instances = useInstances();
  const folders = useLive({ path: pathOf(FOLDERS) });
  const set = (change: Partial<typeof form>) => setForm({ ...form, ...change });
  const places = words(form.namespaces).map((word) => word.split("/"));
  const isWrong = places.some((parts) => parts.length !== 2 || parts.some((part) => part === ""));
  const fields = { displayName: form.displayName, folder: form.folder, instances: form.instances, namespaces: places.map(([instance, namespace]) => ({ instance, namespace })) };
  return (
    <Form title={titleOf(object, t("New workspace"))} valid={isObjectName(form.name) && !isWrong} onSubmit={() => save(WORKSPACES, form.name, fields, object)} onClose={onClose} done={doneOf(object, form.name)}>
      <div className="grid-s">
        <NameField isNew={!object} value={form.name} onChange={(name) => set({ name })} />
        <Text label={t("Display name")} value={form.displayName} onChange={(value) => set({ displayName: value })} />
        {folders.items.length > 0 && <Select label={t("Folder")} value={form.folder} onChange={(folder) => set({ folder })} options={[{ id: "", text: "–" }, ...folders.items.map((one) => one.metadata.name)]} />}
      </div>
      <Choices label={t("Instances")} names={instances.items.map((one) => one.name)} chosen={form.instances} onChange={(chosen) => set({ instances: chosen })} />
      <Text label={t("Namespaces")} value={form.namespaces} onChange={(value) => set({ namespaces: value })} placeholder="east/shop, west/shop" hint={t("As INSTANCE/NAMESPACE, separated by commas. Each belongs to one workspace at most.")} problem={isWrong ? t("As INSTANCE/NAMESPACE") : ""} />
    </Form>
  );
}

export function FolderForm({ object, onClose }: Props) {
  const spec = object?.spec ?? {};
  const [form, setForm] = useState({ name: object?.metadata.name ?? "", displayName: spec.displayName ?? "", parent: spec.parent ?? "" });
  const folders = useLive({ path: pathOf(FOLDERS) });
  const set = (change: Partial<typeof form>) => setForm({ ...form, ...change });
  const others = folders.items.map((one) => one.metadata.name).filter((name) => name !== form.name);
  return (
    <Form title={titleOf(object, t("New folder"))} valid={isObjectName(form.name)} onSubmit={() => save(FOLDERS, form.name, { displayName: form.displayName, parent: form.parent }, object)} onClose={onClose} done={doneOf(object, form.name)}>
      <div className="grid-s">
        <NameField isNew={!object} value={form.name} onChange={(name) => set({ name })} />
        <Text label={t("Display name")} value={form.displayName} onChange={(value) => set({ displayName: value })} />
        {others.length > 0 && <Select label={t("Parent folder")} value={form.parent} onChange={(parent) => set({ parent })} options={[{ id: "", text: "–" }, ...others]} />}
      </div>
    </Form>
  );
}
