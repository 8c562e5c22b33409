// Who may do what: the own rights, a check for others, and roles with their bindings.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { type ApiError, send } from "../../api/client";
import { type Row, useLive } from "../../api/live";
import { pathOf, type Resource } from "../../api/resources";
import type { KObject } from "../../api/types";
import { usePrefs } from "../../app/prefs";
import { useUrlState } from "../../app/urlState";
import { t } from "../../i18n";
import { Age, Button, Card, Empty, Labels, Loading, PageHead, Problem, Stale, Tabs } from "../../ui/parts";
import { DataTable, type TableColumn } from "../../ui/table";
import { BindDialog, RoleDialog } from "./dialogs";
import { Check } from "./Check";
import { Permissions } from "./Permissions";
import { CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, RBAC, ROLE_BINDINGS, ROLES } from "./rbac";
import { Subjects } from "./Subjects";

const TABS = { clusterrolebindings: CLUSTER_ROLE_BINDINGS, rolebindings: ROLE_BINDINGS, clusterroles: CLUSTER_ROLES, roles: ROLES };

export default function Access({ ofManager }: { ofManager: boolean }) {
  const [tab, setTab] = useUrlState("tab", "mine");
  return (
    <>
      <PageHead title={t("Access")} />
      <Tabs
        label={t("Sections")}
        current={tab}
        onChange={setTab}
        tabs={[
          { id: "mine", text: t("My permissions") },
          { id: "check", text: t("Check access") },
          ...(ofManager ? [{ id: "permissions", text: t("Manager permissions") }] : []),
          { id: "subjects", text: t("Users and groups") },
          { id: "clusterrolebindings", text: t("ClusterRoleBindings") },
          { id: "rolebindings", text: t("RoleBindings") },
          { id: "clusterroles", text: t("ClusterRoles") },
          { id: "roles", text: t("Roles") },
        ]}
      />
      {tab === "mine" && <Mine />}
      {tab === "check" && <Check />}
      {tab === "permissions" && <Permissions />}
      {tab === "subjects" && <Subjects />}
      {tab.endsWith("bindings") && <Bindings key={tab} resource={TABS[tab as keyof typeof TABS]} />}
      {tab.endsWith("roles") && <Roles key={tab} resource={TABS[tab as keyof typeof TABS]} />}
    </>
  );
}

function Mine() {
  const { namespace } = usePrefs();
  const place = namespace || "default";
  const who = useQuery<KObject, ApiError>({ queryKey: ["self"], queryFn: () => send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview", metadata: {} }) });
  const rules = useQuery<KObject, ApiError>({
    queryKey: ["rules", place],
    queryFn: () => send("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectRulesReview", spec: { namespace: place } }),
  });
  const user = who.data?.status?.userInfo;
  return (
    <div className="grid2">
      <Card title={t("You")}>
        {who.isPending ? <Loading /> : who.error ? <Problem error={who.error} /> : (
          <div className="stack"><b style={{ overflowWrap: "anywhere" }}>{user?.username}</b><span className="chips">{(user?.groups ?? []).map((group: string) => <span className="chip" key={group}>{group}</span>)}</span></div>
        )}
      </Card>
      <Card title={t("Permissions in namespace {namespace}", { namespace: place })} flush>
        {rules.isPending ? <Loading /> : rules.error ? <Problem error={rules.error} /> : <RuleTable rules={rules.data.status?.resourceRules ?? []} />}
      </Card>
    </div>
  );
}

function RuleTable({ rules }: { rules: any[] }) {
  if (rules.length === 0) return <Empty title={t("No permissions")} icon="lock" />;
  return (
    <div className="hscroll" tabIndex={0} role="group">
      <table className="simple">
        <thead><tr><th>{t("Verbs")}</th><th>{t("Resources")}</th><th>{t("API groups")}</th></tr></thead>
        <tbody>
          {rules.map((rule, index) => (
            <tr key={index}>
              <td>{(rule.verbs ?? []).join(", ")}</td>
              <td>{(rule.resources ?? []).join(", ")}{rule.resourceNames?.length > 0 && <div className="small muted">{rule.resourceNames.join(", ")}</div>}</td>
              <td className="muted">{(rule.apiGroups ?? []).map((group: string) => group || "core").join(", ")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Bindings({ resource }: { resource: Resource }) {
  const { namespace } = usePrefs();
  const live = useLive({ path: pathOf(resource, namespace) });
  const [filter, setFilter] = useUrlState("q", "");
  const [creating, setCreating] = useState(false);
  const rows = live.items.filter((one) => JSON.stringify([one.metadata.name, one.subjects, one.roleRef]).toLowerCase().includes(filter.toLowerCase()));
  const columns: TableColumn<KObject>[] = [
    { id: "name", title: t("Name"), width: "minmax(220px, 2.4fr)", cell: (one) => one.metadata.name, sort: (one) => one.metadata.name },
    ...(resource.namespaced ? [{ id: "namespace", title: t("Namespace"), width: "minmax(110px, 1fr)", cell: (one: KObject) => one.metadata.namespace }] : []),
    { id: "role", title: t("Role"), width: "minmax(180px, 2.2fr)", cell: (one) => `${one.roleRef?.name}`, sort: (one) => one.roleRef?.name },
    { id: "subjects", title: t("Subjects"), width: "minmax(260px, 2.2fr)", cell: (one) => <span className="chips">{(one.subjects ?? []).slice(0, 3).map((subject: any, index: number) => <span className="chip" key={index} title={subject.name}><span className="muted">{subject.kind}</span><span className="ellipsis">{subject.name}</span></span>)}</span> },
    { id: "age", title: t("Age"), width: "70px", cell: (one) => <Age at={one.metadata.creationTimestamp} /> },
  ];
  return (
    <>
      <Stale show={live.stale} />
      <div className="toolbar"><input className="input" data-filter type="search" aria-label={t("Filter")} placeholder={t("Filter by role or subject")} value={filter} onChange={(event) => setFilter(event.target.value)} /><span className="grow" /><Button icon="plus" kind="primary" onClick={() => setCreating(true)}>{t("Bind a role")}</Button></div>
      {creating && <BindDialog namespaced={resource.namespaced} onClose={() => setCreating(false)} />}
      <DataTable label={resource.kind} live={live} rows={rows} columns={columns} rowKey={(one) => `${one.metadata.namespace}/${one.metadata.name}`} href={(one) => detail(resource, one)} filtered={filter !== ""} empty={<Empty title={t("No bindings")} icon="access" />} />
    </>
  );
}

const detail = (resource: Resource, { metadata }: { metadata: { name: string; namespace?: string } }) =>
  `/resources/${RBAC}~v1~${resource.plural}/${metadata.namespace ? `${metadata.namespace}/` : ""}${encodeURIComponent(metadata.name)}`;

function Roles({ resource }: { resource: Resource }) {
  const { namespace } = usePrefs();
  const live = useLive<Row>({ path: pathOf(resource, namespace), table: true });
  const [filter, setFilter] = useUrlState("q", "");
  const [creating, setCreating] = useState(false);
  const rows = live.items.filter((one) => one.metadata.name.toLowerCase().includes(filter.toLowerCase()));
  const columns: TableColumn<Row>[] = [
    { id: "name", title: t("Name"), width: "minmax(240px, 2fr)", cell: (one) => one.metadata.name, sort: (one) => one.metadata.name },
    ...(resource.namespaced ? [{ id: "namespace", title: t("Namespace"), width: "minmax(110px, 1fr)", cell: (one: Row) => one.metadata.namespace }] : []),
    { id: "labels", title: t("Labels"), width: "minmax(240px, 2fr)", cell: (one) => <Labels labels={one.metadata.labels} /> },
    { id: "age", title: t("Age"), width: "70px", cell: (one) => <Age at={one.metadata.creationTimestamp} /> },
  ];
  return (
    <>
      <Stale show={live.stale} />
      <div className="toolbar"><input className="input" data-filter type="search" aria-label={t("Filter")} placeholder={t("Filter by name")} value={filter} onChange={(event) => setFilter(event.target.value)} /><span className="grow" /><Button icon="plus" kind="primary" onClick={() => setCreating(true)}>{t("New role")}</Button></div>
      {creating && <RoleDialog namespaced={resource.namespaced} onClose={() => setCreating(false)} />}
      <DataTable label={resource.kind} live={live} rows={rows} columns={columns} rowKey={(one) => `${one.metadata.namespace}/${one.metadata.name}`} href={(one) => detail(resource, one)} filtered={filter !== ""} empty={<Empty title={t("No roles")} icon="access" />} />
    </>
  );
}
