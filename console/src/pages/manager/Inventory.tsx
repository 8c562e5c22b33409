// The cluster inventory of a manager: registered clusters, whether their credentials work, and the instances they are joined to.

import { useState } from "react";
import { mergePatch, request, send } from "../../api/client";
import { useLive } from "../../api/live";
import { pathOf, type Resource, SECRETS, slugOf } from "../../api/resources";
import { conditionOf, type KObject } from "../../api/types";
import { useUrlState } from "../../app/urlState";
import { t } from "../../i18n";
import { INSTANCES_PATH, instanceOf } from "../../model/instance";
import { Age, attempt, Badge, Button, Dialog, Empty, Field, Menu, PageHead, Stale, type Tone } from "../../ui/parts";
import { DataTable, type TableColumn } from "../../ui/table";

const MANAGED_CLUSTERS: Resource = { group: "manager.flotilla.dev", version: "v1alpha1", plural: "managedclusters", kind: "ManagedCluster", namespaced: false, verbs: [], shortNames: [], subresources: [] };
/** Where the credentials that are registered here are stored. */
const SECRETS_IN = "karmada-system";

const TONES: Record<string, Tone> = { Ready: "ok", Degraded: "warn", Failed: "bad" };

const joinedTo = (cluster: KObject): { instance: string; message?: string }[] => cluster.status?.joinedTo ?? [];
const problemOf = (cluster: KObject) => { const ready = conditionOf(cluster, "Ready"); return ready?.status === "True" ? "" : (ready?.message ?? ""); };

export default function Inventory() {
  const live = useLive({ path: pathOf(MANAGED_CLUSTERS) });
  const [filter, setFilter] = useUrlState("q", "");
  const [dialog, setDialog] = useState<{ what: "register" | "join" | "rotate" | "remove"; cluster?: KObject }>();
  const rows = live.items.filter((one) => JSON.stringify([one.metadata.name, one.spec, one.metadata.labels]).toLowerCase().includes(filter.toLowerCase()));
  const close = () => setDialog(undefined);
  const columns: TableColumn<KObject>[] = [
    { id: "name", title: t("Name"), width: "minmax(150px, 1.2fr)", cell: (one) => one.metadata.name, sort: (one) => one.metadata.name },
    { id: "state", title: t("State"), width: "120px", cell: (one) => <Badge tone={TONES[one.status?.phase] ?? ""}>{t(one.status?.phase ?? "Pending")}</Badge>, sort: (one) => one.status?.phase ?? "" },
    { id: "credential", title: t("Credential"), width: "120px", cell: (one) => { const valid = conditionOf(one, "CredentialsValid"); return valid ? <Badge tone={valid.status === "True" ? "ok" : "bad"}>{valid.status === "True" ? t("valid") : t("not valid")}</Badge> : <span className="muted">–</span>; } },
    { id: "joined", title: t("Joined to"), width: "minmax(150px, 1.4fr)", cell: (one) => <span className="chips">{joinedTo(one).map(({ instance, message }) => <a className="chip" key={instance} title={message} href={`/console/i/${instance}/clusters/${one.metadata.name}`}><span className={`dot ${message ? "bad" : "ok"}`} />{instance}</a>)}</span>, sort: (one) => joinedTo(one).map((entry) => entry.instance).join() },
    { id: "version", title: t("Kubernetes"), width: "100px", cell: (one) => one.status?.kubernetesVersion ?? "–", sort: (one) => one.status?.kubernetesVersion ?? "" },
    { id: "place", title: t("Place"), width: "minmax(100px, 1fr)", cell: (one) => [one.spec?.provider, one.spec?.region, one.spec?.zone].filter(Boolean).join(" / ") || "–" },
    { id: "note", title: t("Message"), width: "minmax(160px, 2fr)", cell: (one) => <span title={problemOf(one)}>{problemOf(one) || "–"}</span> },
    { id: "age", title: t("Age"), width: "64px", cell: (one) => <Age at={one.metadata.creationTimestamp} />, sort: (one) => -Date.parse(one.metadata.creationTimestamp ?? "") },
    {
      id: "actions", title: "", width: "58px", cell: (cluster) => <Menu label={t("Actions for {name}", { name: cluster.metadata.name })} items={[
        { text: t("Join to instances…"), icon: "binding", onSelect: () => setDialog({ what: "join", cluster }) },
        { text: t("New credential…"), icon: "secret", onSelect: () => setDialog({ what: "rotate", cluster }) },
        { text: t("Remove…"), icon: "trash", danger: true, onSelect: () => setDialog({ what: "remove", cluster }) },
      ]} />,
    },
  ];
  return (
    <>
      <PageHead title={t("Cluster inventory")}><Button kind="primary" icon="plus" onClick={() => setDialog({ what: "register" })}>{t("Register a cluster")}</Button></PageHead>
      <Stale show={live.stale} />
      <div className="toolbar"><input className="input" data-filter type="search" aria-label={t("Filter")} placeholder={t("Filter by name, label or place")} value={filter} onChange={(event) => setFilter(event.target.value)} /></div>
      <DataTable label={t("Cluster inventory")} live={live} rows={rows} columns={columns} rowKey={(one) => one.metadata.name} href={(one) => `/resources/${slugOf(MANAGED_CLUSTERS)}/${one.metadata.name}`} filtered={filter !== ""} empty={<Empty title={t("No clusters registered")} icon="cluster"><p>{t("A registered cluster can be joined to instances without its kubeconfig.")}</p><Button kind="primary" onClick={() => setDialog({ what: "register" })}>{t("Register a cluster")}</Button></Empty>} />
      {dialog?.what === "register" && <Register onClose={close} />}
      {dialog?.what === "join" && dialog.cluster && <Join cluster={dialog.cluster} onClose={close} />}
      {dialog?.what === "rotate" && dialog.cluster && <Rotate cluster={dialog.cluster} onClose={close} />}
      {dialog?.what === "remove" && dialog.cluster && <Remove cluster={dialog.cluster} onClose={close} />}
    </>
  );
}

function Kubeconfig({ value, onChange }: { value: string; onChange: (text: string) => void }) {
  return <Field label="Kubeconfig" hint={t("With a server, its CA, and a token or a client certificate. It is stored as a Secret.")}>{(id) => <textarea id={id} className="textarea mono" rows={7} spellCheck={false} value={value} onChange={(event) => onChange(event.target.value)} />}</Field>;
}

function Instances({ chosen, onChange }: { chosen: string[]; onChange: (chosen: string[]) => void }) {
  const live = useLive({ path: INSTANCES_PATH });
  const names = live.items.map(instanceOf);
  return (
    <div className="field">
      <span className="label">{t("Instances")}</span>
      {names.length === 0 ? <span className="muted small">{t("No instances yet")}</span> : <span className="row wrap">{names.map((name) => <label className="check" key={name}><input type="checkbox" checked={chosen.includes(name)} onChange={(event) => onChange(event.target.checked ? [...chosen, name] : chosen.filter((other) => other !== name))} />{name}</label>)}</span>}
      <span className="hint">{t("One instance manages a cluster, unless the manager runs with --shared-members.")}</span>
    </div>
  );
}

function Register({ onClose }: { onClose: () => void }) {
  const [form, setForm] = useState({ name: "", region: "", kubeconfig: "", instances: [] as string[] });
  const set = (change: Partial<typeof form>) => setForm({ ...form, ...change });
  const { name, region, kubeconfig, instances } = form;
  const valid = /^[a-z0-9]([-a-z0-9]{0,46}[a-z0-9])?$/.test(name);
  const save = async () => {
    const secret = { metadata: { name: `cluster-${name}`, namespace: SECRETS_IN }, stringData: { kubeconfig } };
    const spec = { instances, secretRef: { namespace: SECRETS_IN, name: secret.metadata.name }, ...(region ? { region } : {}) };
    const done = await attempt(t("{name} is registered", { name }), async () => {
      await send("POST", pathOf(SECRETS, SECRETS_IN), secret);
      await send("POST", pathOf(MANAGED_CLUSTERS), { apiVersion: "manager.flotilla.dev/v1alpha1", kind: MANAGED_CLUSTERS.kind, metadata: { name }, spec });
    });
    if (done) onClose();
  };
  return (
    <Dialog wide title={t("Register a cluster")} onClose={onClose} onSubmit={() => valid && kubeconfig.trim() !== "" && void save()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="primary" type="submit" disabled={!valid || kubeconfig.trim() === ""}>{t("Register")}</Button></>}>
      <div className="grid-s">
        <Field label={t("Name of the cluster")} problem={name === "" || valid ? "" : t("Lowercase letters, digits and dashes, at most 48 characters.")}>{(id) => <input id={id} className="input" autoFocus value={name} onChange={(event) => set({ name: event.target.value })} />}</Field>
        <Field label={t("Region (optional)")}>{(id) => <input id={id} className="input" value={region} onChange={(event) => set({ region: event.target.value })} />}</Field>
      </div>
      <Kubeconfig value={kubeconfig} onChange={(text) => set({ kubeconfig: text })} />
      <Instances chosen={instances} onChange={(chosen) => set({ instances: chosen })} />
    </Dialog>
  );
}

function Join({ cluster, onClose }: { cluster: KObject; onClose: () => void }) {
  const [instances, setInstances] = useState<string[]>(cluster.spec?.instances ?? []);
  const { name } = cluster.metadata;
  const leaves = (cluster.spec?.instances ?? []).filter((one: string) => !instances.includes(one));
  const save = async () => {
    if (await attempt(t("{name} is joined as chosen", { name }), () => mergePatch(pathOf(MANAGED_CLUSTERS, "", name), { spec: { instances } }))) onClose();
  };
  return (
    <Dialog title={t("Join {name}", { name })} onClose={onClose} onSubmit={() => void save()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="primary" type="submit">{t("Save")}</Button></>}>
      <Instances chosen={instances} onChange={setInstances} />
      {leaves.length > 0 && <div className="banner">{t("It leaves {instances}: what they propagated is removed from the cluster.", { instances: leaves.join(", ") })}</div>}
    </Dialog>
  );
}

function Rotate({ cluster, onClose }: { cluster: KObject; onClose: () => void }) {
  const [kubeconfig, setKubeconfig] = useState("");
  const { namespace = "", name = "", key = "kubeconfig" } = cluster.spec?.secretRef ?? {};
  const save = async () => {
    if (await attempt(t("The new credential is stored; it is used once it reaches the same cluster"), () => mergePatch(pathOf(SECRETS, namespace, name), { stringData: { [key]: kubeconfig } }))) onClose();
  };
  return (
    <Dialog wide title={t("New credential for {name}", { name: cluster.metadata.name })} onClose={onClose} onSubmit={() => kubeconfig.trim() !== "" && void save()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="primary" type="submit" disabled={kubeconfig.trim() === ""}>{t("Save")}</Button></>}>
      <Kubeconfig value={kubeconfig} onChange={setKubeconfig} />
    </Dialog>
  );
}

function Remove({ cluster, onClose }: { cluster: KObject; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const { name } = cluster.metadata;
  const joined: string[] = cluster.spec?.instances ?? [];
  const remove = async () => {
    if (await attempt(t("{name} is being removed", { name }), () => request(pathOf(MANAGED_CLUSTERS, "", name), { method: "DELETE" }))) onClose();
  };
  return (
    <Dialog title={t("Remove {name}", { name })} onClose={onClose} onSubmit={() => typed === name && void remove()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="danger" type="submit" icon="trash" disabled={typed !== name}>{t("Remove the cluster")}</Button></>}>
      {joined.length > 0 && <div className="banner">{t("It is joined to {instances}, which keep it with its present credential. To take it out of them, join it to none first.", { instances: joined.join(", ") })}</div>}
      <p>{t("The cluster is removed from the inventory. Its Secret stays.")}</p>
      <Field label={t("Type {name} to confirm", { name })}>{(id) => <input id={id} className="input" autoComplete="off" autoFocus value={typed} onChange={(event) => setTyped(event.target.value)} />}</Field>
    </Dialog>
  );
}
