// Imports a running control plane: its kubeconfig is checked step by step, and nothing is stored before it was reached.

import { useState } from "react";
import { useLocation } from "wouter";
import { send } from "../../api/client";
import { INSTANCES } from "../../api/manager";
import { t } from "../../i18n";
import { attempt, Button, Card, Field, PageHead } from "../../ui/parts";
import { type CheckStep, CheckSteps, firstSteps, KubeconfigField, shapeProblem } from "./KubeconfigField";
import { isInstanceName } from "./names";

/** What the manager found out about a control plane before it is imported. */
interface Checked {
  server?: string;
  kubernetesVersion?: string;
  identity?: string;
  canImpersonate?: boolean;
}

type Outcome = { checked?: Checked; problem?: string };

function stepsOf(outcome: Outcome, shape: string): CheckStep[] {
  const { checked } = outcome;
  const state = (isDone: boolean): CheckStep["state"] => (isDone ? "done" : checked ? "failed" : "waiting");
  return [
    ...firstSteps({ ...outcome, shape }, t("The control plane answers")),
    { text: t("The UID of its kube-system namespace identifies it"), state: state(Boolean(checked?.identity)), detail: checked?.identity },
    { text: t("Users can act with their own permissions"), state: state(checked?.canImpersonate === true), detail: checked?.canImpersonate === false ? t("only administrators can use it: the credential may not impersonate") : undefined },
  ];
}

export default function ImportInstance() {
  const [form, setForm] = useState({ name: "", displayName: "", kubeconfig: "" });
  const [outcome, setOutcome] = useState<Outcome>({});
  const [busy, setBusy] = useState(false);
  const [, navigate] = useLocation();
  const { name, displayName, kubeconfig } = form;
  const set = (change: Partial<typeof form>) => setForm({ ...form, ...change });
  const [shape, setShape] = useState("");
  const isNamed = isInstanceName(name);
  const check = async () => {
    setShape(shapeProblem(kubeconfig));
    setOutcome({});
    if (shapeProblem(kubeconfig)) return;
    setBusy(true);
    try {
      setOutcome({ checked: await send<Checked>("POST", `${INSTANCES}:validateImport`, { kubeconfig }) });
    } catch (error) {
      setOutcome({ problem: (error as Error).message });
    }
    setBusy(false);
  };
  const run = async () => {
    setBusy(true);
    const done = await attempt(t("{name} is imported", { name }), () => send("POST", `${INSTANCES}:import`, form));
    setBusy(false);
    if (done) navigate("/");
  };
  return (
    <>
      <PageHead title={t("Import a control plane")} crumbs={[{ text: t("Instances"), to: "/" }, { text: t("Import") }]} />
      <div className="cols">
        <div>
          <Card title={t("Control plane")}>
            <form className="stack" onSubmit={(event) => { event.preventDefault(); if (isNamed && outcome.checked && !busy) void run(); }}>
              <p className="muted small">{t("A running Karmada or Flotilla control plane. Deleting the instance does not affect its control plane.")}</p>
              <div className="grid-s">
                <Field label={t("Name")} problem={name === "" || isNamed ? "" : t("Lowercase letters, digits and dashes.")}>{(id) => <input id={id} className="input" autoFocus autoComplete="off" value={name} onChange={(event) => set({ name: event.target.value })} />}</Field>
                <Field label={t("Display name (optional)")}>{(id) => <input id={id} className="input" maxLength={60} value={displayName} onChange={(event) => set({ displayName: event.target.value })} />}</Field>
              </div>
              <KubeconfigField value={kubeconfig} hint={t("The kubeconfig of an administrator, with the server address, its CA, and a token or a client certificate.")} onChange={(text) => { set({ kubeconfig: text }); setOutcome({}); setShape(""); }}><Button disabled={kubeconfig.trim() === "" || busy} onClick={() => void check()}>{t("Check")}</Button></KubeconfigField>
              <div className="row wrap">
                <Button kind="primary" type="submit" disabled={!isNamed || !outcome.checked || busy}>{t("Import")}</Button>
              </div>
            </form>
          </Card>
        </div>
        <div>
          <Card title={t("Checks")}>
            <div className="stack">
              <CheckSteps steps={stepsOf(outcome, shape)} />
              <p className="muted small">{t("The kubeconfig is sent to the manager only. It is stored as a Secret when you import, not before.")}</p>
            </div>
          </Card>
        </div>
      </div>
    </>
  );
}
