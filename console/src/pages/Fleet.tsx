// The instances of a manager that the user may see.

import { useMemo, useState } from "react";
import { Link, useLocation } from "wouter";
import { send } from "../api/client";
import { type Instance, instancePath, useInstances, usePermissions } from "../api/manager";
import { formatBytes, formatCpu } from "../api/quantity";
import { useUrlState } from "../app/urlState";
import { t } from "../i18n";
import { byAttention, countedOf, instanceHome, isImported, modeOf, phaseOf, usageOf, workloadsOf } from "../model/instance";
import type { MenuItem } from "../ui/overlays";
import { Age, attempt, Badge, Empty, Menu, Meter, PageHead, Stale, usageTone } from "../ui/parts";
import { DataTable, type TableColumn } from "../ui/table";
import { downloadKubeconfig } from "./manager/Kubeconfigs";
import { RemoveInstance } from "./manager/RemoveInstance";

export default function Fleet() {
  const live = useInstances();
  const may = usePermissions();
  const [filter, setFilter] = useUrlState("q", "");
  const [removing, setRemoving] = useState<Instance>();
  const [, navigate] = useLocation();
  const rows = useMemo(() => {
    const wanted = filter.toLowerCase();
    const matches = ({ name, displayName, description, labels }: Instance) => JSON.stringify([name, displayName, description, labels]).toLowerCase().includes(wanted);
    return (wanted ? live.items.filter(matches) : [...live.items]).sort(byAttention);
  }, [live.items, filter]);
  const [mayCreate, mayManage, mayDelete] = [may("instances.create"), may("instances.manage"), may("instances.delete")];
  const columns = useMemo(
    () => columnsOf((one) => actionsOf(one, { manages: mayManage || one.role === "admin", deletes: mayDelete, navigate, remove: setRemoving })),
    [navigate, mayManage, mayDelete],
  );
  const create = mayCreate && <><Link className="btn" href="/import">{t("Import")}</Link><Link className="btn primary" href="/new">{t("New instance")}</Link></>;
  return (
    <>
      <PageHead title={t("Instances")}>{create}</PageHead>
      <Stale show={live.stale} />
      <Counts instances={live.items} />
      <div className="toolbar"><input className="input" data-filter type="search" aria-label={t("Filter")} placeholder={t("Filter by name or label")} value={filter} onChange={(event) => setFilter(event.target.value)} /></div>
      <DataTable label={t("Instances")} live={live} rows={rows} columns={columns} rowKey={(one) => one.uid || one.name} filtered={filter !== ""} empty={<Empty title={t("No instances yet")} icon="cluster"><p>{mayCreate ? t("An instance is a separate control plane with its own clusters, policies and users.") : t("Instances appear here when you get a role on them or in one of their namespaces.")}</p>{create && <span className="row">{create}</span>}</Empty>} />
      {removing && <RemoveInstance instance={removing} onClose={() => setRemoving(undefined)} />}
    </>
  );
}

function columnsOf(actions: (instance: Instance) => MenuItem[]): TableColumn<Instance>[] {
  return [
    { id: "name", title: t("Name"), width: "minmax(130px, 1.4fr)", cell: (one) => <a className="name" title={one.displayName ? one.name : undefined} href={instanceHome(one.name)}>{one.displayName || one.name}</a>, sort: (one) => one.name },
    { id: "state", title: t("State"), width: "118px", cell: (one) => { const [text, tone] = phaseOf(one); return <Badge tone={tone}>{t(text)}</Badge>; }, sort: (one) => phaseOf(one)[0] },
    { id: "mode", title: t("Mode"), width: "98px", cell: modeOf, sort: modeOf },
    { id: "clusters", title: t("Clusters"), width: "78px", cell: (one) => countedOf(one.summary?.clusters), sort: (one) => Number(one.summary?.clusters?.total ?? -1) },
    { id: "nodes", title: t("Nodes"), width: "68px", cell: (one) => countedOf(one.summary?.nodes), sort: (one) => Number(one.summary?.nodes?.total ?? -1) },
    { id: "workloads", title: t("Workloads"), width: "98px", cell: (one) => workloadsOf(one) ?? "–", sort: (one) => workloadsOf(one) ?? -1 },
    { id: "cpu", title: t("CPU"), width: "100px", cell: (one) => <Usage instance={one} resource="cpu" />, sort: (one) => usageOf(one, "cpu").allocated },
    { id: "memory", title: t("Memory"), width: "136px", cell: (one) => <Usage instance={one} resource="memory" />, sort: (one) => usageOf(one, "memory").allocated },
    { id: "version", title: t("Version"), width: "82px", cell: (one) => <span title={one.kubernetesVersion}>{one.kubernetesVersion.split("+")[0] || "–"}</span>, sort: (one) => one.kubernetesVersion },
    { id: "note", title: t("Message"), width: "minmax(84px, 2fr)", cell: (one) => <Note instance={one} /> },
    { id: "age", title: t("Age"), width: "54px", cell: (one) => <Age at={one.createTime} />, sort: (one) => -Date.parse(one.createTime ?? "") },
    { id: "actions", title: "", width: "58px", cell: (one) => <Menu label={t("Actions for {name}", { name: one.name })} items={actions(one)} /> },
  ];
}

/** Why it is not ready, or the roles of a user who sees only a part of it. */
function Note({ instance }: { instance: Instance }) {
  const roles = Object.entries(instance.namespaceRoles ?? {}).map(([namespace, role]) => `${namespace} (${role})`).join(", ");
  const text = instance.message || (roles && t("your roles: {roles}", { roles }));
  return <span title={text || undefined}>{text || "–"}</span>;
}

/** How many instances are in each state, what needs attention first. */
function Counts({ instances }: { instances: Instance[] }) {
  if (instances.length < 2) return null;
  const states = new Map<string, number>();
  for (const one of [...instances].sort(byAttention)) states.set(phaseOf(one)[0], (states.get(phaseOf(one)[0]) ?? 0) + 1);
  return <div className="chips">{[...states].map(([state, count]) => <span className="chip" key={state}>{t(state)} <b>{count.toLocaleString()}</b></span>)}</div>;
}

function Usage({ instance, resource }: { instance: Instance; resource: "cpu" | "memory" }) {
  const { allocatable, allocated } = usageOf(instance, resource);
  if (!allocatable) return <span className="muted">–</span>;
  const format = resource === "cpu" ? formatCpu : formatBytes;
  return (
    <div style={{ display: "grid", gap: 4 }}>
      <span className="small ellipsis">{format(allocated)} / {format(allocatable)}</span>
      <Meter parts={[{ value: allocated, tone: usageTone(allocated / allocatable) }]} total={allocatable} label={resource} />
    </div>
  );
}

interface Allowed {
  manages: boolean;
  deletes: boolean;
  navigate: (path: string) => void;
  remove: (instance: Instance) => void;
}

/** What the user may do with an instance. Auditors see its name and may not use it. */
function actionsOf(instance: Instance, { manages, deletes, navigate, remove }: Allowed): MenuItem[] {
  const { name, suspended, state, reduced } = instance;
  const page = (tab: string) => navigate(`/instances/${encodeURIComponent(name)}${tab}`);
  const call = (done: string, verb: string) => void attempt(done, () => send("POST", instancePath(name, `:${verb}`), {}));
  const asleep = state === "STATE_HIBERNATED";
  return [
    { text: t("Kubeconfig"), icon: "apply", onSelect: () => void attempt(t("The kubeconfig of {name} is downloaded", { name }), () => downloadKubeconfig(name)) },
    ...(reduced ? [] : [{ text: t("Details and settings"), icon: "settings" as const, onSelect: () => page("") }]),
    ...(asleep ? [{ text: t("Wake up"), icon: "play" as const, onSelect: () => call(t("{name} starts", { name }), "wake") }] : []),
    ...(manages ? [
      { text: t("Restart"), icon: "restart" as const, disabled: suspended, onSelect: () => call(t("{name} restarts", { name }), "restart") },
      ...(asleep || isImported(instance) ? [] : [{ text: t("Hibernate"), icon: "pause" as const, disabled: suspended, onSelect: () => call(t("{name} hibernates", { name }), "hibernate") }]),
      suspended
        ? { text: t("Resume"), icon: "play" as const, onSelect: () => call(t("Resumed"), "resume") }
        : { text: t("Suspend"), icon: "pause" as const, onSelect: () => call(t("{name} is suspended", { name }), "suspend") },
      ...(isImported(instance) ? [] : [{ text: t("Backups"), icon: "copy" as const, onSelect: () => page("?tab=backups") }]),
    ] : []),
    ...(deletes ? [{ text: t("Delete…"), icon: "trash" as const, danger: true, onSelect: () => remove(instance) }] : []),
  ];
}
