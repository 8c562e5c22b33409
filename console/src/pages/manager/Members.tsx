// Users, groups, roles and bindings of a manager, and the workspaces they apply to.

import { useState } from "react";
import { mergePatch, request, send } from "../../api/client";
import { useLive } from "../../api/live";
import { pathOf, type Resource, slugOf } from "../../api/resources";
import type { KObject } from "../../api/types";
import { useUrlState } from "../../app/urlState";
import { t } from "../../i18n";
import { Age, attempt, Badge, Button, Dialog, Empty, Field, Menu, PageHead, Stale, Tabs } from "../../ui/parts";
import { DataTable, type TableColumn } from "../../ui/table";
import { Tokens, Webhooks } from "./Hooks";
import { NewBinding, NewFolder, NewGroup, NewUser, NewWorkspace, PasswordDialog } from "./dialogs";

const resourceOf = (plural: string, kind: string): Resource => ({ group: "manager.flotilla.dev", version: "v1alpha1", plural, kind, namespaced: false, verbs: [], shortNames: [], subresources: [] });

export const USERS = resourceOf("users", "User");
export const GROUPS = resourceOf("groups", "Group");
export const BINDINGS = resourceOf("bindings", "Binding");
export const WORKSPACES = resourceOf("workspaces", "Workspace");
const ROLES = resourceOf("roles", "Role");
export const FOLDERS = resourceOf("folders", "Folder");

const TABS: Record<string, Resource> = { users: USERS, groups: GROUPS, bindings: BINDINGS, roles: ROLES, workspaces: WORKSPACES, folders: FOLDERS };

export const targetText = (target?: { folder?: string; workspace?: string; instance?: string; namespace?: string }) =>
  target?.instance ? `${target.instance}${target.namespace ? ` / ${target.namespace}` : ""}` : target?.workspace ? t("workspace {name}", { name: target.workspace }) : target?.folder ? t("folder {name}", { name: target.folder }) : t("the whole platform");

function columnsOf(tab: string): TableColumn<KObject>[] {
  const name: TableColumn<KObject> = { id: "name", title: t("Name"), width: "minmax(180px, 1.4fr)", cell: (one) => one.metadata.name, sort: (one) => one.metadata.name };
  const text = (one: KObject) => one.spec?.displayName || "–";
  const display: TableColumn<KObject> = { id: "display", title: t("Display name"), width: "minmax(140px, 1.2fr)", cell: text, sort: text };
  switch (tab) {
    case "users":
      return [name, display, { id: "email", title: t("E-mail"), width: "minmax(160px, 1.4fr)", cell: (one) => one.spec?.email || "–" }, { id: "source", title: t("Source"), width: "90px", cell: (one) => one.spec?.source ?? "local" }, { id: "state", title: t("State"), width: "120px", cell: (one) => <Badge tone={one.spec?.disabled ? "warn" : "ok"}>{one.spec?.disabled ? t("Disabled") : t("Active")}</Badge> }];
    case "groups":
      return [name, display, { id: "members", title: t("Members"), width: "minmax(220px, 2.4fr)", cell: (one) => (one.spec?.members ?? []).join(", ") || "–" }];
    case "bindings":
      return [name, { id: "subject", title: t("Subject"), width: "minmax(160px, 1.4fr)", cell: (one) => <span className="chip"><span className="muted">{one.spec?.subject?.kind}</span>{one.spec?.subject?.name}</span>, sort: (one) => one.spec?.subject?.name ?? "" }, { id: "role", title: t("Role"), width: "minmax(120px, 1fr)", cell: (one) => <b>{one.spec?.role}</b>, sort: (one) => one.spec?.role ?? "" }, { id: "target", title: t("On"), width: "minmax(150px, 1.4fr)", cell: (one) => targetText(one.spec?.target) }, { id: "until", title: t("Ends"), width: "110px", cell: (one) => one.spec?.expiresAt ?? "–" }];
    case "roles":
      return [name, display, { id: "grants", title: t("Rights of"), width: "minmax(150px, 1.4fr)", cell: (one) => one.spec?.grants ?? "–" }];
    case "folders":
      return [name, display];
    default:
      return [name, display, { id: "folder", title: t("Folder"), width: "minmax(110px, 1fr)", cell: (one) => one.spec?.folder ?? "–" }, { id: "instances", title: t("Instances"), width: "minmax(180px, 2fr)", cell: (one) => [...(one.spec?.instances ?? []), ...(one.spec?.namespaces ?? []).map((place: any) => `${place.instance}/${place.namespace}`)].join(", ") || "–" }];
  }
}

export default function Members() {
  const [tab, setTab] = useUrlState("tab", "users");
  return (
    <>
      <PageHead title={t("Users and roles")} />
      <Tabs label={t("Sections")} current={tab} onChange={setTab} tabs={[{ id: "users", text: t("Users") }, { id: "groups", text: t("Groups") }, { id: "bindings", text: t("Bindings") }, { id: "roles", text: t("Roles") }, { id: "workspaces", text: t("Workspaces") }, { id: "folders", text: t("Folders") }, { id: "webhooks", text: t("Webhooks") }, { id: "tokens", text: t("My tokens") }]} />
      {tab === "webhooks" ? <Webhooks /> : tab === "tokens" ? <Tokens /> : <Section key={tab} tab={tab} />}
    </>
  );
}

function Section({ tab }: { tab: string }) {
  const resource = TABS[tab] ?? USERS;
  const live = useLive({ path: pathOf(resource) });
  const [filter, setFilter] = useUrlState("q", "");
  const [creating, setCreating] = useState(false);
  const [password, setPassword] = useState<KObject>();
  const [removing, setRemoving] = useState<KObject>();
  const rows = live.items.filter((one) => JSON.stringify([one.metadata.name, one.spec]).toLowerCase().includes(filter.toLowerCase()));
  const actions = (one: KObject) => [
    ...(tab === "users" ? [
      { text: t("Set the password…"), icon: "lock" as const, onSelect: () => setPassword(one) },
      { text: one.spec?.disabled ? t("Enable") : t("Disable"), icon: one.spec?.disabled ? "play" as const : "pause" as const, onSelect: () => void attempt(one.spec?.disabled ? t("{name} may sign in again", { name: one.metadata.name }) : t("{name} is disabled", { name: one.metadata.name }), () => mergePatch(pathOf(USERS, "", one.metadata.name), { spec: { disabled: !one.spec?.disabled } })) },
    ] : []),
    { text: t("Delete…"), icon: "trash" as const, danger: true, onSelect: () => setRemoving(one) },
  ];
  const columns: TableColumn<KObject>[] = [
    ...columnsOf(tab),
    { id: "age", title: t("Age"), width: "70px", cell: (one) => <Age at={one.metadata.creationTimestamp} /> },
    { id: "actions", title: "", width: "58px", cell: (one) => <Menu label={t("Actions for {name}", { name: one.metadata.name })} items={actions(one)} /> },
  ];
  const close = () => setCreating(false);
  return (
    <>
      <Stale show={live.stale} />
      <div className="toolbar">
        <input className="input" data-filter type="search" aria-label={t("Filter")} placeholder={t("Filter")} value={filter} onChange={(event) => setFilter(event.target.value)} />
        <span className="grow" />
        {tab === "roles" ? <a className="btn" href="/console/resources/manager.flotilla.dev~v1alpha1~roles">YAML</a> : <Button icon="plus" kind="primary" onClick={() => setCreating(true)}>{t("New")}</Button>}
      </div>
      <DataTable label={resource.kind} live={live} rows={rows} columns={columns} rowKey={(one) => one.metadata.name} href={(one) => `/resources/${slugOf(resource)}/${encodeURIComponent(one.metadata.name)}`} filtered={filter !== ""} empty={<Empty title={t("Nothing here yet")} icon="access" />} />
      {creating && tab === "users" && <NewUser onClose={close} />}
      {creating && tab === "groups" && <NewGroup onClose={close} />}
      {creating && tab === "bindings" && <NewBinding onClose={close} />}
      {creating && tab === "folders" && <NewFolder onClose={close} />}
      {creating && tab === "workspaces" && <NewWorkspace onClose={close} />}
      {password && <PasswordDialog user={password.metadata.name} onClose={() => setPassword(undefined)} />}
      {removing && <Remove resource={resource} object={removing} onClose={() => setRemoving(undefined)} />}
    </>
  );
}

function Remove({ resource, object, onClose }: { resource: Resource; object: KObject; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const { name } = object.metadata;
  const remove = async () => {
    if (await attempt(t("{name} is deleted", { name }), () => request(pathOf(resource, "", name), { method: "DELETE" }))) onClose();
  };
  return (
    <Dialog title={t("Delete {kind} {name}", { kind: resource.kind, name })} onClose={onClose} onSubmit={() => typed === name && void remove()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="danger" type="submit" icon="trash" disabled={typed !== name}>{t("Delete")}</Button></>}>
      <p>{t("It takes effect with the next request of the users concerned.")}</p>
      <Field label={t("Type {name} to confirm", { name })}>{(id) => <input id={id} className="input" autoComplete="off" autoFocus value={typed} onChange={(event) => setTyped(event.target.value)} />}</Field>
    </Dialog>
  );
}

export const create = (resource: Resource, name: string, spec: unknown) =>
  send("POST", pathOf(resource), { apiVersion: "manager.flotilla.dev/v1alpha1", kind: resource.kind, metadata: { name }, spec });
