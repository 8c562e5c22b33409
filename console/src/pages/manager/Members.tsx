// Users, groups, roles and bindings of a manager, the workspaces they apply to, and its integrations.

import { useState } from "react";
import { mergePatch } from "../../api/client";
import { MANAGER, usePermissions } from "../../api/manager";
import { useLive } from "../../api/live";
import { pathOf, type Resource, slugOf } from "../../api/resources";
import type { KObject } from "../../api/types";
import { useUrlState } from "../../app/urlState";
import { t } from "../../i18n";
import type { MenuItem } from "../../ui/overlays";
import { Age, attempt, Badge, Button, Empty, Menu, PageHead, Stale, Tabs } from "../../ui/parts";
import { DataTable, type TableColumn } from "../../ui/table";
import { Bindings } from "./Bindings";
import { RemoveObject } from "./Form";
import { emailsOf, FolderForm, GroupForm, PasswordDialog, RoleForm, UserForm, WorkspaceForm } from "./forms";
import { Tokens, Webhooks } from "./Hooks";
import { FOLDERS, GROUPS, ROLES, USERS, WORKSPACES } from "./kinds";
import { Registrations } from "./Registrations";
import { WorkspaceResources } from "./WorkspaceResources";

const TABS: Record<string, { resource: Resource; form: typeof UserForm }> = {
  users: { resource: USERS, form: UserForm },
  groups: { resource: GROUPS, form: GroupForm },
  roles: { resource: ROLES, form: RoleForm },
  workspaces: { resource: WORKSPACES, form: WorkspaceForm },
  folders: { resource: FOLDERS, form: FolderForm },
};

/** The sections that the user may use; their own tokens have all users. */
function sectionsOf(may: (permission: string) => boolean) {
  const sees = may("iam.manage") || may("integration.read");
  const people = sees ? [{ id: "users", text: t("Users") }, { id: "groups", text: t("Groups") }] : [];
  const bindings = sees || may("bindings.manage") ? [{ id: "bindings", text: t("Bindings") }] : [];
  const places = sees ? [{ id: "roles", text: t("Roles") }, { id: "workspaces", text: t("Workspaces") }, { id: "folders", text: t("Folders") }, { id: "registrations", text: t("Registrations") }] : [];
  const hooks = may("webhooks.manage") ? [{ id: "webhooks", text: t("Webhooks") }] : [];
  return [...people, ...bindings, ...places, ...hooks, { id: "tokens", text: t("My tokens") }];
}

export default function Members() {
  const may = usePermissions();
  const sections = sectionsOf(may);
  const first = sections[0]?.id ?? "tokens";
  const [chosen, setTab] = useUrlState("tab", "");
  const tab = chosen || first;
  return (
    <>
      <PageHead title={t("Users and roles")} />
      <Tabs label={t("Sections")} current={tab} onChange={setTab} tabs={sections} />
      {tab === "webhooks" ? <Webhooks /> : tab === "tokens" ? <Tokens /> : tab === "bindings" ? <Bindings /> : tab === "registrations" ? <Registrations /> : <Section key={tab} tab={tab} mayWrite={may("iam.manage")} />}
    </>
  );
}

function columnsOf(tab: string): TableColumn<KObject>[] {
  const name: TableColumn<KObject> = { id: "name", title: t("Name"), width: "minmax(180px, 1.4fr)", cell: (one) => one.metadata.name, sort: (one) => one.metadata.name };
  const text = (one: KObject) => one.spec?.displayName || "–";
  const display: TableColumn<KObject> = { id: "display", title: t("Display name"), width: "minmax(140px, 1.2fr)", cell: text, sort: text };
  switch (tab) {
    case "users":
      return [name, display, { id: "email", title: t("Email"), width: "minmax(160px, 1.4fr)", cell: (one) => emailsOf(one).join(", ") || "–" }, { id: "source", title: t("Source"), width: "90px", cell: (one) => one.spec?.source ?? "local" }, { id: "state", title: t("State"), width: "120px", cell: (one) => <Badge tone={one.spec?.disabled ? "warn" : "ok"}>{one.spec?.disabled ? t("Disabled") : t("Active")}</Badge> }];
    case "groups":
      return [name, display, { id: "members", title: t("Members"), width: "minmax(220px, 2.4fr)", cell: (one) => (one.spec?.members ?? []).join(", ") || "–" }];
    case "roles":
      return [name, display, { id: "grants", title: t("Permissions of"), width: "minmax(150px, 1.4fr)", cell: (one) => one.spec?.grants ?? "–" }];
    case "folders":
      return [name, display, { id: "parent", title: t("Parent folder"), width: "minmax(120px, 1fr)", cell: (one) => one.spec?.parent || "–" }];
    default:
      return [name, display, { id: "folder", title: t("Folder"), width: "minmax(110px, 1fr)", cell: (one) => one.spec?.folder || "–" }, { id: "instances", title: t("Instances"), width: "minmax(180px, 2fr)", cell: (one) => [...(one.spec?.instances ?? []), ...(one.spec?.namespaces ?? []).map((place: any) => `${place.instance}/${place.namespace}`)].join(", ") || "–" }];
  }
}

type Opened = { what: "new" } | { what: "change" | "password" | "contents" | "remove"; object: KObject };

function setDisabled(user: KObject, disabled: boolean) {
  const { name } = user.metadata;
  return attempt(disabled ? t("{name} is disabled", { name }) : t("{name} may sign in again", { name }), () => mergePatch(pathOf(USERS, "", name), { spec: { disabled } }));
}

function Section({ tab, mayWrite }: { tab: string; mayWrite: boolean }) {
  const { resource, form: ObjectForm } = TABS[tab] ?? TABS.users!;
  const live = useLive({ path: pathOf(resource) });
  const [filter, setFilter] = useUrlState("q", "");
  const [opened, setOpened] = useState<Opened>();
  const rows = live.items.filter((one) => JSON.stringify([one.metadata.name, one.spec]).toLowerCase().includes(filter.toLowerCase()));
  const close = () => setOpened(undefined);
  const actions = (object: KObject): MenuItem[] => [
    { text: t("Change…"), icon: "config", onSelect: () => setOpened({ what: "change", object }) },
    ...(tab === "workspaces" ? [{ text: t("Contents"), icon: "overview" as const, onSelect: () => setOpened({ what: "contents", object }) }] : []),
    ...(tab === "users" ? [
      { text: t("Set the password…"), icon: "lock" as const, onSelect: () => setOpened({ what: "password", object }) },
      object.spec?.disabled
        ? { text: t("Enable"), icon: "play" as const, onSelect: () => void setDisabled(object, false) }
        : { text: t("Disable"), icon: "pause" as const, onSelect: () => void setDisabled(object, true) },
    ] : []),
    { text: t("Delete…"), icon: "trash", danger: true, onSelect: () => setOpened({ what: "remove", object }) },
  ];
  const columns: TableColumn<KObject>[] = [
    ...columnsOf(tab),
    { id: "age", title: t("Age"), width: "70px", cell: (one) => <Age at={one.metadata.creationTimestamp} /> },
    ...(mayWrite ? [{ id: "actions", title: "", width: "58px", cell: (one: KObject) => <Menu label={t("Actions for {name}", { name: one.metadata.name })} items={actions(one)} /> }] : []),
  ];
  return (
    <>
      <Stale show={live.stale} />
      <div className="toolbar">
        <input className="input" data-filter type="search" aria-label={t("Filter")} placeholder={t("Filter")} value={filter} onChange={(event) => setFilter(event.target.value)} />
        <span className="grow" />
        {mayWrite && <Button icon="plus" kind="primary" onClick={() => setOpened({ what: "new" })}>{t("New")}</Button>}
      </div>
      <DataTable label={resource.kind} live={live} rows={rows} columns={columns} rowKey={(one) => one.metadata.name} href={(one) => `/resources/${slugOf(resource)}/${encodeURIComponent(one.metadata.name)}`} filtered={filter !== ""} empty={<Empty title={t("Nothing here yet")} icon="access" />} />
      {opened?.what === "new" && <ObjectForm onClose={close} />}
      {opened?.what === "change" && <ObjectForm object={opened.object} onClose={close} />}
      {opened?.what === "password" && <PasswordDialog user={opened.object.metadata.name} onClose={close} />}
      {opened?.what === "contents" && <WorkspaceResources workspace={opened.object.metadata.name} onClose={close} />}
      {opened?.what === "remove" && <RemoveObject kind={resource.kind} name={opened.object.metadata.name} path={`${MANAGER}/${resource.plural}/${encodeURIComponent(opened.object.metadata.name)}`} onClose={close} />}
    </>
  );
}
