// Changes of a cluster of the inventory: the instances it is joined to, its place, its credential, its removal.

import { useState } from "react";
import { mergePatch, query, request, send } from "../../api/client";
import { instancePath, inventoryPath, type ManagedCluster, useManager } from "../../api/manager";
import { t } from "../../i18n";
import { attempt, Button, Dialog, Field, Loading, Problem } from "../../ui/parts";
import { KubeconfigField } from "./KubeconfigField";
import { labelsText, parseLabels } from "./labels";
import { PullCommand } from "./PullCommand";
import { InstanceChoice } from "./RegisterCluster";

interface Props {
  cluster: ManagedCluster;
  onClose: () => void;
}

const joinedPath = (instance: string, cluster: string, rest = "") => instancePath(instance, `/clusters/${encodeURIComponent(cluster)}${rest}`);

export function JoinToInstances({ cluster, onClose }: Props) {
  const { name, mode } = cluster;
  const [chosen, setChosen] = useState<string[]>(cluster.instances ?? []);
  const [busy, setBusy] = useState(false);
  const before = cluster.instances ?? [];
  const [added, removed] = [chosen.filter((one) => !before.includes(one)), before.filter((one) => !chosen.includes(one))];
  const save = async () => {
    setBusy(true);
    // A cluster that moves must have left its former instance before the next one takes it.
    const done = await attempt(t("{name} is joined as chosen", { name }), async () => {
      for (const instance of removed) await request(joinedPath(instance, name) + query({ confirmName: name }), { method: "DELETE" });
      for (const instance of added) await send("POST", joinedPath(instance, name, ":join"), {});
    });
    setBusy(false);
    if (done) onClose();
  };
  return (
    <Dialog title={t("Join {name}", { name })} onClose={onClose} onSubmit={() => void save()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind={removed.length > 0 ? "danger" : "primary"} type="submit" disabled={busy || added.length + removed.length === 0}>{t("Save")}</Button></>}>
      <InstanceChoice single={mode === "Pull"} chosen={chosen} onChange={setChosen} />
      {removed.map((instance) => <Leaving key={instance} instance={instance} cluster={name} />)}
    </Dialog>
  );
}

/** What happens to the objects of an instance in a cluster that leaves it. */
function Leaving({ instance, cluster }: { instance: string; cluster: string }) {
  const preview = useManager<{ moved?: string[]; onlyHere?: string[]; total?: string | number }>(joinedPath(instance, cluster, ":previewRemoval"));
  const { moved = [], onlyHere = [], total = 0 } = preview.data ?? {};
  return (
    <div className="stack tight">
      <div className="banner">{t("It leaves {instances}: what they propagated is removed from the cluster.", { instances: instance })}</div>
      {preview.isPending ? <Loading /> : preview.error ? <Problem error={preview.error} /> : Number(total) === 0 ? <p className="muted small">{t("Nothing of {name} runs there.", { name: instance })}</p> : (
        <>
          <p className="small">{t("{total} objects: {moved} are in other clusters too, {only} are in this one only.", { total: Number(total), moved: moved.length, only: onlyHere.length })}</p>
          {onlyHere.length > 0 && <ul className="pre stack tight" style={{ maxHeight: 160 }} tabIndex={0}>{onlyHere.map((one) => <li className="small" key={one}>{one}</li>)}</ul>}
        </>
      )}
    </div>
  );
}

export function EditCluster({ cluster, onClose }: Props) {
  const { name } = cluster;
  const [form, setForm] = useState({ displayName: cluster.displayName, provider: cluster.provider, region: cluster.region, zone: cluster.zone, labels: labelsText(cluster.labels) });
  const save = async () => {
    const body = { ...form, labels: parseLabels(form.labels), etag: cluster.etag };
    if (await attempt(t("Saved"), () => mergePatch(inventoryPath(name, query({ updateMask: "displayName,provider,region,zone,labels" })), body))) onClose();
  };
  const fields = [["displayName", t("Display name")], ["provider", t("Provider")], ["region", t("Region")], ["zone", t("Zone")], ["labels", t("Labels")]] as const;
  return (
    <Dialog title={t("Change {name}", { name })} onClose={onClose} onSubmit={() => void save()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="primary" type="submit">{t("Save")}</Button></>}>
      <div className="grid-s">{fields.map(([field, label]) => <Field key={field} label={label}>{(id) => <input id={id} className="input" value={form[field]} onChange={(event) => setForm({ ...form, [field]: event.target.value })} />}</Field>)}</div>
      <p className="muted small">{t("Policies select clusters by these values; a change can move workloads.")}</p>
    </Dialog>
  );
}

export function NewCredential({ cluster, onClose }: Props) {
  const { name } = cluster;
  const [kubeconfig, setKubeconfig] = useState("");
  const [problem, setProblem] = useState("");
  const save = async () => {
    setProblem("");
    const done = await attempt(t("The new credential is stored; the instances get it"), async () => {
      try {
        await send("PUT", inventoryPath(name, "/credentials"), { kubeconfig });
      } catch (error) {
        setProblem((error as Error).message);
        throw error;
      }
    });
    if (done) onClose();
  };
  const rotate = async () => {
    if (await attempt(t("The instances of {name} get new credentials", { name }), () => send("POST", inventoryPath(name, ":rotateCredentials"), {}))) onClose();
  };
  return (
    <Dialog wide title={t("New credential for {name}", { name })} onClose={onClose} onSubmit={() => kubeconfig.trim() !== "" && void save()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="primary" type="submit" disabled={kubeconfig.trim() === ""}>{t("Save")}</Button></>}>
      <p>{t("The kubeconfig must lead to the same cluster. It is tried before it replaces the old one.")}</p>
      <KubeconfigField value={kubeconfig} hint={t("Must contain the server address, its CA, and a token or a client certificate. Stored as a Secret.")} onChange={(text) => { setKubeconfig(text); setProblem(""); }} />
      {problem && <div className="banner bad" role="alert">{problem}</div>}
      {(cluster.instances ?? []).length > 0 && <div className="row wrap"><Button icon="refresh" onClick={() => void rotate()}>{t("Only renew those of its instances")}</Button><span className="small muted">{t("Each instance gets a new token in the cluster; the kubeconfig stays.")}</span></div>}
    </Dialog>
  );
}

export function RegistrationCommand({ cluster, onClose }: Props) {
  const instance = cluster.instances?.[0];
  return (
    <Dialog wide title={t("Command for {name}", { name: cluster.name })} onClose={onClose} footer={<Button onClick={onClose}>{t("Close")}</Button>}>
      {instance ? <PullCommand instance={instance} cluster={cluster.name} /> : <p>{t("Join it to an instance first: its agent registers there.")}</p>}
    </Dialog>
  );
}

export function RemoveCluster({ cluster, onClose }: Props) {
  const [typed, setTyped] = useState("");
  const { name, instances = [] } = cluster;
  const valid = typed === name && instances.length === 0;
  const remove = async () => {
    if (await attempt(t("{name} is being removed", { name }), () => request(inventoryPath(name) + query({ confirmName: name }), { method: "DELETE" }))) onClose();
  };
  return (
    <Dialog title={t("Remove {name}", { name })} onClose={onClose} onSubmit={() => valid && void remove()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="danger" type="submit" icon="trash" disabled={!valid}>{t("Remove the cluster")}</Button></>}>
      {instances.length > 0 && <div className="banner bad" role="alert">{t("The cluster is joined to {instances}. Remove it from all instances first.", { instances: instances.join(", ") })}</div>}
      <p>{t("The cluster is removed from the inventory, with the kubeconfig that was stored for it.")}</p>
      <Field label={t("Type {name} to confirm", { name })}>{(id) => <input id={id} className="input" autoComplete="off" autoFocus value={typed} onChange={(event) => setTyped(event.target.value)} />}</Field>
    </Dialog>
  );
}
