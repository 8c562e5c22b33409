// The instances of a manager.

import { useState } from "react";
import { mergePatch, request, send } from "../api/client";
import { useLive } from "../api/live";
import { conditionOf, type KObject } from "../api/types";
import { useUrlState } from "../app/urlState";
import { t } from "../i18n";
import { INSTANCES_PATH, instanceOf, modeOf, phaseOf } from "../model/instance";
import { Age, attempt, Badge, Button, Dialog, Empty, Field, Menu, PageHead, Stale } from "../ui/parts";
import type { MenuItem } from "../ui/overlays";
import { DataTable, type TableColumn } from "../ui/table";

const pathOfInstance = ({ metadata }: KObject) => `/apis/operator.karmada.io/v1alpha1/namespaces/${metadata.namespace}/karmadas/${metadata.name}`;

export default function Fleet() {
  const live = useLive({ path: INSTANCES_PATH });
  const [filter, setFilter] = useUrlState("q", "");
  const [creating, setCreating] = useState(false);
  const [removing, setRemoving] = useState<KObject>();
  const rows = live.items.filter((one) => `${instanceOf(one)} ${JSON.stringify(one.metadata.annotations ?? {})}`.toLowerCase().includes(filter.toLowerCase()));
  const columns: TableColumn<KObject>[] = [
    { id: "name", title: t("Name"), width: "minmax(170px, 1.6fr)", cell: (one) => <a className="name" href={`/console/i/${instanceOf(one)}/`}>{instanceOf(one)}</a>, sort: instanceOf },
    { id: "state", title: t("State"), width: "minmax(130px, 1fr)", cell: (one) => { const [text, tone] = phaseOf(one); return <Badge tone={tone}>{text}</Badge>; }, sort: (one) => phaseOf(one)[0] },
    { id: "mode", title: t("Mode"), width: "minmax(100px, 0.8fr)", cell: modeOf, sort: modeOf },
    { id: "clusters", title: t("Clusters ready"), width: "130px", cell: (one) => counted(one.status?.summary?.clusterSummary) },
    { id: "nodes", title: t("Nodes ready"), width: "120px", cell: (one) => counted(one.status?.summary?.nodeSummary) },
    { id: "note", title: t("Message"), width: "minmax(160px, 2fr)", cell: (one) => <span title={conditionOf(one, "Ready")?.message}>{conditionOf(one, "Ready")?.message ?? "–"}</span> },
    { id: "age", title: t("Age"), width: "66px", cell: (one) => <Age at={one.metadata.creationTimestamp} />, sort: (one) => -Date.parse(one.metadata.creationTimestamp ?? "") },
    { id: "actions", title: "", width: "58px", cell: (one) => <Menu label={t("Actions for {name}", { name: instanceOf(one) })} items={[...lifeActions(one), { text: t("Delete…"), icon: "trash", danger: true, onSelect: () => setRemoving(one) }]} /> },
  ];
  return (
    <>
      <PageHead title={t("Instances")}><Button kind="primary" icon="plus" onClick={() => setCreating(true)}>{t("New instance")}</Button></PageHead>
      <Stale show={live.stale} />
      <div className="toolbar"><input className="input" data-filter type="search" aria-label={t("Filter")} placeholder={t("Filter by name")} value={filter} onChange={(event) => setFilter(event.target.value)} /></div>
      <DataTable label={t("Instances")} live={live} rows={rows} columns={columns} rowKey={(one) => one.metadata.uid ?? instanceOf(one)} filtered={filter !== ""} empty={<Empty title={t("No instances yet")} icon="cluster"><p>{t("An instance is a control plane of its own: clusters, policies, users.")}</p><Button kind="primary" onClick={() => setCreating(true)}>{t("New instance")}</Button></Empty>} />
      {creating && <CreateDialog onClose={() => setCreating(false)} />}
      {removing && <RemoveInstance instance={removing} onClose={() => setRemoving(undefined)} />}
    </>
  );
}

/** Suspend, restart, and a kubeconfig with the rights of the caller. */
function lifeActions(instance: KObject): MenuItem[] {
  const name = instanceOf(instance);
  const suspended = instance.spec?.suspend === true;
  const change = (done: string, patch: unknown) => void attempt(done, () => mergePatch(pathOfInstance(instance), patch));
  return [
    { text: t("Kubeconfig"), icon: "apply", onSelect: () => void attempt(t("The kubeconfig of {name} is downloaded", { name }), () => download(name)) },
    { text: t("Restart"), icon: "restart", disabled: suspended, onSelect: () => change(t("{name} restarts", { name }), { metadata: { annotations: { "flotilla.dev/restarted-at": new Date().toISOString() } } }) },
    { text: suspended ? t("Resume") : t("Suspend"), icon: suspended ? "play" : "pause", onSelect: () => change(suspended ? t("Resumed") : t("{name} is suspended", { name }), { spec: { suspend: !suspended } }) },
  ];
}

async function download(instance: string) {
  const { kubeconfig } = await send<{ kubeconfig: string }>("POST", "/flotilla/manager/kubeconfigs", { instance });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([kubeconfig], { type: "application/yaml" }));
  link.download = `${instance}.config`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1_000);
}

const counted = (summary?: { readyNum: number; totalNum: number }) => (summary ? `${summary.readyNum}/${summary.totalNum}` : "–");

function CreateDialog({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [mode, setMode] = useState("in-process");
  const valid = /^[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?$/.test(name);
  const create = async () => {
    const annotations = mode === "in-process" ? undefined : { "flotilla.dev/mode": mode };
    const instance = { apiVersion: "operator.karmada.io/v1alpha1", kind: "Karmada", metadata: { name, namespace: "karmada-system", annotations }, spec: {} };
    if (await attempt(t("{name} is created", { name }), () => send("POST", "/apis/operator.karmada.io/v1alpha1/namespaces/karmada-system/karmadas", instance))) onClose();
  };
  return (
    <Dialog title={t("New instance")} onClose={onClose} onSubmit={() => valid && void create()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="primary" type="submit" disabled={!valid}>{t("Create")}</Button></>}>
      <Field label={t("Name")} problem={name === "" || valid ? "" : t("Lowercase letters, digits and dashes.")}>{(id) => <input id={id} className="input" autoFocus value={name} onChange={(event) => setName(event.target.value)} />}</Field>
      <Field label={t("Mode")} hint={mode === "process" ? t("A process of its own, which survives a restart of the manager.") : t("In the process of the manager: ready in less than a second.")}>
        {(id) => <select id={id} className="select" value={mode} onChange={(event) => setMode(event.target.value)}><option>in-process</option><option>process</option></select>}
      </Field>
    </Dialog>
  );
}

function RemoveInstance({ instance, onClose }: { instance: KObject; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const { name } = instance.metadata;
  const remove = async () => {
    if (await attempt(t("{name} is being removed", { name }), () => request(pathOfInstance(instance), { method: "DELETE" }))) onClose();
  };
  return (
    <Dialog title={t("Delete {kind} {name}", { kind: t("instance"), name })} onClose={onClose} onSubmit={() => typed === name && void remove()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="danger" type="submit" icon="trash" disabled={typed !== name}>{t("Delete")}</Button></>}>
      <p>{t("The manager refuses this while clusters are joined or the instance is protected.")}</p>
      <Field label={t("Type {name} to confirm", { name })}>{(id) => <input id={id} className="input" autoComplete="off" autoFocus value={typed} onChange={(event) => setTyped(event.target.value)} />}</Field>
    </Dialog>
  );
}
