// Registers a cluster in the inventory: in push mode with its kubeconfig, in pull mode with a command for its agent.

import { useState } from "react";
import { send } from "../../api/client";
import { INVENTORY, type ManagedCluster, useInstances, usePermissions } from "../../api/manager";
import { t } from "../../i18n";
import { attempt, Button, Dialog, Field, Segmented } from "../../ui/parts";
import { CheckSteps, firstSteps, KubeconfigField, shapeProblem } from "./KubeconfigField";
import { parseLabels } from "./labels";
import { isClusterName } from "./names";
import { PullCommand } from "./PullCommand";

/** What the manager found out about a cluster before it is registered. */
interface Checked {
  server?: string;
  kubernetesVersion?: string;
  systemId?: string;
}

const NONE = { name: "", mode: "Push", provider: "", region: "", zone: "", labels: "", kubeconfig: "", instances: [] as string[] };

/** `instance` joins the cluster to one instance, without a choice. */
export function RegisterCluster({ instance, mode = "Push", onClose }: { instance?: string; mode?: string; onClose: () => void }) {
  const [form, setForm] = useState({ ...NONE, mode, instances: instance ? [instance] : [] });
  const [outcome, setOutcome] = useState<{ checked?: Checked; problem?: string; shape: string }>();
  const [busy, setBusy] = useState(false);
  const [registered, setRegistered] = useState(false);
  const set = (change: Partial<typeof form>) => setForm({ ...form, ...change });
  const { name, kubeconfig, instances } = form;
  const isPull = form.mode === "Pull";
  const isNamed = isClusterName(name);
  const valid = isNamed && !busy && (isPull ? instances.length === 1 : kubeconfig.trim() !== "");
  const cluster = { name, mode: form.mode, provider: form.provider, region: form.region, zone: form.zone, labels: parseLabels(form.labels), instances };
  const check = async () => {
    const shape = shapeProblem(kubeconfig);
    setOutcome({ shape });
    if (shape) return;
    setBusy(true);
    try {
      setOutcome({ shape, checked: await send<Checked>("POST", `${INVENTORY}:validate`, { kubeconfig }) });
    } catch (error) {
      setOutcome({ shape, problem: (error as Error).message });
    }
    setBusy(false);
  };
  const save = async () => {
    setBusy(true);
    const done = await attempt(t("{name} is registered", { name }), () => send("POST", INVENTORY, isPull ? { cluster } : { cluster, kubeconfig }));
    setBusy(false);
    if (done && isPull) setRegistered(true);
    else if (done) onClose();
  };
  if (registered) {
    return (
      <Dialog wide title={t("{name} is registered", { name })} onClose={onClose} footer={<Button onClick={onClose}>{t("Close")}</Button>}>
        <PullCommand instance={instances[0]!} cluster={name} />
      </Dialog>
    );
  }
  const text = (field: "provider" | "region" | "zone" | "labels", label: string, hint?: string) => <Field label={label} hint={hint}>{(id) => <input id={id} className="input" value={form[field]} onChange={(event) => set({ [field]: event.target.value })} />}</Field>;
  return (
    <Dialog wide title={instance ? t("Join a cluster") : t("Register a cluster")} onClose={onClose} onSubmit={() => valid && void save()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="primary" type="submit" disabled={!valid}>{t("Register")}</Button></>}>
      <Segmented label={t("Mode")} value={form.mode} onChange={(value) => set({ mode: value })} options={[{ id: "Push", text: t("Push: the control plane connects to the cluster") }, { id: "Pull", text: t("Pull: an agent connects from the cluster") }]} />
      <div className="grid-s">
        <Field label={t("Cluster name")} problem={name === "" || isNamed ? "" : t("Lowercase letters, digits and dashes, at most 48 characters.")}>{(id) => <input id={id} className="input" autoFocus autoComplete="off" value={name} onChange={(event) => set({ name: event.target.value })} />}</Field>
        {text("provider", t("Provider (optional)"))}
        {text("region", t("Region (optional)"))}
        {text("zone", t("Zone (optional)"))}
        {text("labels", t("Labels (optional)"), t("Such as team=shop, stage=test"))}
      </div>
      {isPull ? <p className="muted small">{t("The agent connects to the control plane, so the control plane does not need to reach the API server of the cluster.")}</p> : (
        <>
          <KubeconfigField rows={7} value={kubeconfig} hint={t("Must contain the server address, its CA, and a token or a client certificate. Stored as a Secret.")} onChange={(value) => { set({ kubeconfig: value }); setOutcome(undefined); }}><Button disabled={kubeconfig.trim() === "" || busy} onClick={() => void check()}>{t("Check")}</Button></KubeconfigField>
          {outcome && <CheckSteps steps={[...firstSteps(outcome, t("The cluster answers")), { text: t("The UID of its kube-system namespace identifies it"), state: outcome.checked ? "done" : "waiting", detail: outcome.checked?.systemId }]} />}
        </>
      )}
      {!instance && <InstanceChoice single={isPull} chosen={instances} onChange={(chosen) => set({ instances: chosen })} />}
    </Dialog>
  );
}

/** The instances that the user may join clusters to. */
export function InstanceChoice({ chosen, onChange, single }: { chosen: string[]; onChange: (chosen: string[]) => void; single?: boolean }) {
  const { items } = useInstances();
  const may = usePermissions();
  const names = items.filter((one) => may("clusters.manage") || one.role === "admin").map((one) => one.name);
  const toggle = (name: string, isOn: boolean) => onChange(!isOn ? chosen.filter((other) => other !== name) : single ? [name] : [...chosen, name]);
  return (
    <div className="field">
      <span className="label">{t("Instances")}</span>
      {names.length === 0 ? <span className="muted small">{t("No instances yet")}</span> : <span className="row wrap">{names.map((name) => <label className="check" key={name}><input type="checkbox" checked={chosen.includes(name)} onChange={(event) => toggle(name, event.target.checked)} />{name}</label>)}</span>}
      <span className="hint">{single ? t("An agent registers its cluster in one instance.") : t("One instance manages a cluster, unless the manager runs with --shared-members.")}</span>
    </div>
  );
}

export const placeOfManaged = ({ provider, region, zone }: ManagedCluster) => [provider, region, zone].filter(Boolean).join(" / ");
