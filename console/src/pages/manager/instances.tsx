// Dialogs of the fleet page: create, import and delete an instance, with the object that results.

import { useState } from "react";
import { request, send } from "../../api/client";
import type { KObject } from "../../api/types";
import { t } from "../../i18n";
import { INSTANCES_API, pathOfInstance } from "../../model/instance";
import { attempt, Button, Dialog, Field, KeyValues, Segmented } from "../../ui/parts";

/** What the manager found out about a control plane before it is imported. */
interface Checked {
  server?: string;
  kubernetesVersion?: string;
  canImpersonate?: boolean;
}

const isName = (name: string) => /^[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?$/.test(name);

export function CreateDialog({ onClose }: { onClose: () => void }) {
  const [form, setForm] = useState({ name: "", text: "", mode: "in-process", kubeconfig: "" });
  const [checked, setChecked] = useState<Checked>();
  const [problem, setProblem] = useState("");
  const set = (change: Partial<typeof form>) => (setForm({ ...form, ...change }), setChecked(undefined), setProblem(""));
  const { name, text, mode, kubeconfig } = form;
  const imports = mode === "imported";
  const valid = isName(name) && (!imports || kubeconfig.trim() !== "");
  const annotations = { ...(text ? { "flotilla.dev/display-name": text } : {}), ...(mode === "in-process" ? {} : { "flotilla.dev/mode": mode }) };
  const instance = { apiVersion: "operator.karmada.io/v1alpha1", kind: "Karmada", metadata: { name, namespace: "karmada-system", ...(Object.keys(annotations).length > 0 ? { annotations } : {}) }, spec: {} };
  const check = async () => {
    setProblem("");
    try {
      setChecked(await send<Checked>("POST", `${INSTANCES_API}:validateImport`, { kubeconfig }));
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  const create = async () => {
    const done = imports
      ? await attempt(t("{name} is imported", { name }), () => send("POST", `${INSTANCES_API}:import`, { name, kubeconfig, displayName: text }))
      : await attempt(t("{name} is created", { name }), () => send("POST", "/apis/operator.karmada.io/v1alpha1/namespaces/karmada-system/karmadas", instance));
    if (done) onClose();
  };
  return (
    <Dialog wide title={t("New instance")} onClose={onClose} onSubmit={() => valid && void create()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="primary" type="submit" disabled={!valid}>{imports ? t("Import") : t("Create")}</Button></>}>
      <Segmented label={t("Mode")} value={mode} onChange={(value) => set({ mode: value })} options={[{ id: "in-process", text: t("In the manager") }, { id: "process", text: t("Own process") }, { id: "imported", text: t("Import a control plane") }]} />
      <p className="muted small">{MODES[mode]?.()}</p>
      <div className="grid2">
        <div className="stack">
          <Field label={t("Name")} problem={name === "" || isName(name) ? "" : t("Lowercase letters, digits and dashes.")}>{(id) => <input id={id} className="input" autoFocus value={name} onChange={(event) => set({ name: event.target.value })} />}</Field>
          <Field label={t("Display name (optional)")}>{(id) => <input id={id} className="input" maxLength={60} value={text} onChange={(event) => set({ text: event.target.value })} />}</Field>
        </div>
        {imports ? (
          <div className="stack">
            <Field label="Kubeconfig" hint={t("Of an administrator, with a server, its CA, and a token or a client certificate.")}>{(id) => <textarea id={id} className="textarea mono" rows={6} spellCheck={false} value={kubeconfig} onChange={(event) => set({ kubeconfig: event.target.value })} />}</Field>
            <div><Button disabled={kubeconfig.trim() === ""} onClick={() => void check()}>{t("Check")}</Button></div>
            {problem && <div className="banner bad" role="alert">{problem}</div>}
            {checked && <KeyValues entries={[[t("API server"), <code key="s">{checked.server}</code>], ["Kubernetes", checked.kubernetesVersion], [t("Users"), checked.canImpersonate ? t("act with their own rights") : t("only administrators can use it: the credential may not impersonate")]]} />}
          </div>
        ) : (
          <div className="field"><span className="label">{t("The object that is created")}</span><pre className="pre" tabIndex={0}>{yamlOf(instance.metadata)}</pre></div>
        )}
      </div>
    </Dialog>
  );
}

const MODES: Record<string, () => string> = {
  "in-process": () => t("In the process of the manager: ready in less than a second."),
  process: () => t("A process of its own, which survives a restart of the manager."),
  imported: () => t("A running Karmada or Flotilla. Deleting the instance never touches its control plane."),
};

function yamlOf({ name, namespace, annotations }: { name: string; namespace: string; annotations?: Record<string, string> }): string {
  const noted = Object.entries(annotations ?? {}).map(([key, value]) => `\n    ${key}: ${JSON.stringify(value)}`);
  return `apiVersion: operator.karmada.io/v1alpha1\nkind: Karmada\nmetadata:\n  name: ${name || "NAME"}\n  namespace: ${namespace}${noted.length > 0 ? `\n  annotations:${noted.join("")}` : ""}\nspec: {}`;
}

export function RemoveInstance({ instance, onClose }: { instance: KObject; onClose: () => void }) {
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
