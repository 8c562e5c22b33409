// The instances of a manager.

import { useMemo, useState } from "react";
import { useLocation } from "wouter";
import { mergePatch, send } from "../api/client";
import { useLive } from "../api/live";
import { formatBytes, formatCpu } from "../api/quantity";
import { conditionOf, type KObject } from "../api/types";
import { useUrlState } from "../app/urlState";
import { t } from "../i18n";
import { byAttention, displayNameOf, INSTANCES_API, INSTANCES_PATH, instanceOf, modeOf, pathOfInstance, phaseOf, usageOf, workloadsOf } from "../model/instance";
import type { MenuItem } from "../ui/overlays";
import { Age, attempt, Badge, Button, Empty, Menu, Meter, PageHead, Stale, usageTone } from "../ui/parts";
import { saveText } from "../ui/save";
import { DataTable, type TableColumn } from "../ui/table";
import { CreateDialog, RemoveInstance } from "./manager/instances";

export default function Fleet() {
  const live = useLive({ path: INSTANCES_PATH });
  const [filter, setFilter] = useUrlState("q", "");
  const [creating, setCreating] = useState(false);
  const [removing, setRemoving] = useState<KObject>();
  const [, navigate] = useLocation();
  const rows = useMemo(() => {
    const wanted = filter.toLowerCase();
    const matches = (one: KObject) => `${instanceOf(one)} ${JSON.stringify([one.metadata.annotations, one.metadata.labels])}`.toLowerCase().includes(wanted);
    return (wanted ? live.items.filter(matches) : [...live.items]).sort(byAttention);
  }, [live.items, filter]);
  const columns = useMemo(() => columnsOf(navigate, setRemoving), [navigate]);
  return (
    <>
      <PageHead title={t("Instances")}><Button kind="primary" icon="plus" onClick={() => setCreating(true)}>{t("New instance")}</Button></PageHead>
      <Stale show={live.stale} />
      <Counts instances={live.items} />
      <div className="toolbar"><input className="input" data-filter type="search" aria-label={t("Filter")} placeholder={t("Filter by name or label")} value={filter} onChange={(event) => setFilter(event.target.value)} /></div>
      <DataTable label={t("Instances")} live={live} rows={rows} columns={columns} rowKey={(one) => one.metadata.uid ?? instanceOf(one)} filtered={filter !== ""} empty={<Empty title={t("No instances yet")} icon="cluster"><p>{t("An instance is a control plane of its own: clusters, policies, users.")}</p><Button kind="primary" onClick={() => setCreating(true)}>{t("New instance")}</Button></Empty>} />
      {creating && <CreateDialog onClose={() => setCreating(false)} />}
      {removing && <RemoveInstance instance={removing} onClose={() => setRemoving(undefined)} />}
    </>
  );
}

function columnsOf(navigate: (path: string) => void, remove: (instance: KObject) => void): TableColumn<KObject>[] {
  const [summary, version] = [(one: KObject) => one.status?.summary, (one: KObject) => one.status?.kubernetesVersion ?? ""];
  const message = (one: KObject) => conditionOf(one, "Ready")?.message ?? "–";
  return [
    { id: "name", title: t("Name"), width: "minmax(150px, 1.4fr)", cell: (one) => <a className="name" title={displayNameOf(one) || undefined} href={`/console/i/${instanceOf(one)}/`}>{displayNameOf(one) || instanceOf(one)}</a>, sort: instanceOf },
    { id: "state", title: t("State"), width: "128px", cell: (one) => { const [text, tone] = phaseOf(one); return <Badge tone={tone}>{t(text)}</Badge>; }, sort: (one) => phaseOf(one)[0] },
    { id: "mode", title: t("Mode"), width: "104px", cell: modeOf, sort: modeOf },
    { id: "clusters", title: t("Clusters"), width: "84px", cell: (one) => counted(summary(one)?.clusterSummary), sort: (one) => summary(one)?.clusterSummary?.totalNum ?? -1 },
    { id: "nodes", title: t("Nodes"), width: "84px", cell: (one) => counted(summary(one)?.nodeSummary), sort: (one) => summary(one)?.nodeSummary?.totalNum ?? -1 },
    { id: "workloads", title: t("Workloads"), width: "98px", cell: (one) => workloadsOf(one) ?? "–", sort: (one) => workloadsOf(one) ?? -1 },
    { id: "cpu", title: t("CPU"), width: "112px", cell: (one) => <Usage instance={one} resource="cpu" />, sort: (one) => usageOf(one, "cpu").allocated },
    { id: "memory", title: t("Memory"), width: "148px", cell: (one) => <Usage instance={one} resource="memory" />, sort: (one) => usageOf(one, "memory").allocated },
    { id: "version", title: t("Version"), width: "90px", cell: (one) => version(one) || "–", sort: version },
    { id: "note", title: t("Message"), width: "minmax(120px, 2fr)", cell: (one) => <span title={message(one)}>{message(one)}</span> },
    { id: "age", title: t("Age"), width: "62px", cell: (one) => <Age at={one.metadata.creationTimestamp} />, sort: (one) => -Date.parse(one.metadata.creationTimestamp ?? "") },
    { id: "actions", title: "", width: "58px", cell: (one) => <Menu label={t("Actions for {name}", { name: instanceOf(one) })} items={[...lifeActions(one, navigate), { text: t("Delete…"), icon: "trash", danger: true, onSelect: () => remove(one) }]} /> },
  ];
}

/** How many instances are in each state, what needs attention first. */
function Counts({ instances }: { instances: KObject[] }) {
  if (instances.length < 2) return null;
  const states = new Map<string, number>();
  for (const one of [...instances].sort(byAttention)) states.set(phaseOf(one)[0], (states.get(phaseOf(one)[0]) ?? 0) + 1);
  return <div className="chips">{[...states].map(([state, count]) => <span className="chip" key={state}>{t(state)} <b>{count.toLocaleString()}</b></span>)}</div>;
}

function Usage({ instance, resource }: { instance: KObject; resource: "cpu" | "memory" }) {
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

/** The actions on an instance, its settings, and a kubeconfig with the rights of the caller. */
function lifeActions(instance: KObject, navigate: (path: string) => void): MenuItem[] {
  const name = instanceOf(instance);
  const [suspended, asleep] = [instance.spec?.suspend === true, instance.status?.phase === "Hibernated"];
  const change = (done: string, patch: unknown) => void attempt(done, () => mergePatch(pathOfInstance(instance), patch));
  const command = (done: string, verb: string) => void attempt(done, () => send("POST", `${INSTANCES_API}/${name}:${verb}`, {}));
  const object = `/resources/operator.karmada.io~v1alpha1~karmadas/${instance.metadata.namespace}/${instance.metadata.name}`;
  return [
    { text: t("Kubeconfig"), icon: "apply", onSelect: () => void attempt(t("The kubeconfig of {name} is downloaded", { name }), () => download(name)) },
    { text: t("Settings and events"), icon: "settings", onSelect: () => navigate(object) },
    { text: t("Restart"), icon: "restart", disabled: suspended, onSelect: () => change(t("{name} restarts", { name }), { metadata: { annotations: { "flotilla.dev/restarted-at": new Date().toISOString() } } }) },
    ...(modeOf(instance) === "imported" ? [] : [asleep ? { text: t("Wake"), icon: "play" as const, onSelect: () => command(t("{name} starts", { name }), "wake") } : { text: t("Hibernate"), icon: "pause" as const, disabled: suspended, onSelect: () => command(t("{name} hibernates", { name }), "hibernate") }]),
    { text: suspended ? t("Resume") : t("Suspend"), icon: suspended ? "play" : "pause", onSelect: () => change(suspended ? t("Resumed") : t("{name} is suspended", { name }), { spec: { suspend: !suspended } }) },
  ];
}

async function download(instance: string) {
  const { kubeconfig } = await send<{ kubeconfig: string }>("POST", "/flotilla/manager/kubeconfigs", { instance });
  saveText(`${instance}.config`, kubeconfig, "application/yaml");
}

const counted = (summary?: { readyNum: number; totalNum: number }) => (summary ? `${summary.readyNum}/${summary.totalNum}` : "–");
