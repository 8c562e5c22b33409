// A policy as a form with its YAML next to it, and a preview of what it would change.

import { useState } from "react";
import { useLocation } from "wouter";
import { FIELD_MANAGER, query, send } from "../../api/client";
import { type Row, useLive } from "../../api/live";
import { CLUSTERS, pathOf, POLICIES, slugOf } from "../../api/resources";
import type { ChangePlan, KObject } from "../../api/types";
import { usePrefs } from "../../app/prefs";
import { useYaml } from "../../editor/ObjectYaml";
import { YamlEditor } from "../../editor/YamlEditor";
import { t } from "../../i18n";
import { attempt, Button, Card, Field, PageHead, Problem } from "../../ui/parts";
import { planOf } from "../apply/manifests";
import { PlanView } from "../apply/PlanView";
import "../workloads/why.css";
import { type Draft, emptyDraft, policyFrom, problemsOf } from "./draft";

const KINDS = ["Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Service", "Ingress", "ConfigMap", "Secret", "Namespace", "CustomResourceDefinition"];

export default function PolicyEditor({ kind }: { kind: string }) {
  const resource = POLICIES.find((one) => one.kind === kind) ?? POLICIES[0]!;
  const { namespace } = usePrefs();
  const clusters = useLive<Row>({ path: pathOf(CLUSTERS), table: true });
  const [, navigate] = useLocation();
  const [draft, setDraft] = useState<Draft>(() => emptyDraft(resource.namespaced ? namespace || "default" : ""));
  const [plan, setPlan] = useState<ChangePlan>();
  const [problem, setProblem] = useState<Error>();
  const policy = policyFrom(resource, draft);
  const yaml = useYaml(policy);
  const problems = problemsOf(draft);
  const set = (change: Partial<Draft>) => {
    setDraft({ ...draft, ...change });
    setPlan(undefined);
  };
  const preview = async () => {
    setProblem(undefined);
    try {
      setPlan(await planOf([policy]));
    } catch (error) {
      setProblem(error as Error);
    }
  };
  const create = async () => {
    const created = await attempt(t("{name} is created", { name: draft.name }), () => send<KObject>("POST", pathOf(resource, draft.namespace) + query({ fieldManager: FIELD_MANAGER }), policy));
    if (created) navigate(`/resources/${slugOf(resource)}/${draft.namespace ? `${draft.namespace}/` : ""}${draft.name}`);
  };
  const overrides = resource.kind.endsWith("OverridePolicy");
  return (
    <>
      <PageHead title={t("New {kind}", { kind: resource.kind })} crumbs={[{ text: t("Policies"), to: `/policies?kind=${resource.kind}` }, { text: t("New policy") }]}>
        {!overrides && <Button disabled={problems.length > 0} onClick={() => void preview()}>{t("Preview")}</Button>}
        <Button kind="primary" disabled={problems.length > 0} onClick={() => void create()}>{t("Create")}</Button>
      </PageHead>
      <div className="grid2">
        <Card title={t("Form")}>
          <div className="stack loose">
            <div className="grid-s">
              <Field label={t("Name")} problem={draft.name && problems.includes("name") ? t("Lowercase letters, digits, dots and dashes.") : ""}>{(id) => <input id={id} className="input" value={draft.name} onChange={(event) => set({ name: event.target.value })} />}</Field>
              {resource.namespaced && <Field label={t("Namespace")}>{(id) => <input id={id} className="input" value={draft.namespace} onChange={(event) => set({ namespace: event.target.value })} />}</Field>}
            </div>
            <div className="grid-s">
              <Field label={t("Selects objects of kind")}>{(id) => <select id={id} className="select" value={draft.kind} onChange={(event) => set({ kind: event.target.value })}>{KINDS.map((one) => <option key={one}>{one}</option>)}</select>}</Field>
              <Field label={t("Name of the object")} hint={t("Empty selects all, or those with the labels below.")}>{(id) => <input id={id} className="input" value={draft.objectName} onChange={(event) => set({ objectName: event.target.value })} />}</Field>
            </div>
            <Field label={t("Labels of the objects")} hint={t("For example app=web, tier=front")}>{(id) => <input id={id} className="input" value={draft.labels} disabled={draft.objectName !== ""} onChange={(event) => set({ labels: event.target.value })} />}</Field>
            <fieldset className="field" style={{ border: 0, margin: 0, padding: 0 }}>
              <legend className="label" style={{ fontWeight: 560, fontSize: 13, padding: 0, marginBottom: 6 }}>{overrides ? t("Clusters it changes") : t("Clusters")}</legend>
              <div className="chips">
                {clusters.items.map(({ metadata: { name } }) => (
                  <label className="chip check" key={name}>
                    <input type="checkbox" checked={draft.clusters.includes(name)} onChange={(event) => set({ clusters: event.target.checked ? [...draft.clusters, name] : draft.clusters.filter((one) => one !== name) })} />
                    {name}
                  </label>
                ))}
                {clusters.phase === "ready" && clusters.items.length === 0 && <span className="muted">{t("No clusters yet")}</span>}
              </div>
              <span className="hint">{t("None selected means every cluster.")}</span>
            </fieldset>
            {overrides ? <OverrideFields draft={draft} set={set} /> : <PlacementFields draft={draft} set={set} />}
          </div>
        </Card>
        <div className="stack">
          {problem && <section className="card"><Problem error={problem} /></section>}
          {plan && <PlanView plan={plan} />}
          <Card title="YAML" flush><YamlEditor text={yaml ?? ""} readOnly height="420px" /></Card>
        </div>
      </div>
    </>
  );
}

function PlacementFields({ draft, set }: { draft: Draft; set: (change: Partial<Draft>) => void }) {
  return (
    <>
      <div className="grid-s">
        <Field label={t("Replicas")} hint={draft.scheduling === "Divided" ? t("The replicas are divided among the clusters.") : t("Every cluster gets all replicas.")}>
          {(id) => (
            <select id={id} className="select" value={draft.scheduling} onChange={(event) => set({ scheduling: event.target.value as Draft["scheduling"] })}>
              <option value="Duplicated">{t("Duplicated")}</option>
              <option value="Divided">{t("Divided")}</option>
            </select>
          )}
        </Field>
        {draft.scheduling === "Divided" && (
          <Field label={t("Division")}>
            {(id) => (
              <select id={id} className="select" value={draft.division} onChange={(event) => set({ division: event.target.value as Draft["division"] })}>
                <option value="Even">{t("Evenly")}</option>
                <option value="Available">{t("By free capacity")}</option>
                <option value="Aggregated">{t("In as few clusters as possible")}</option>
              </select>
            )}
          </Field>
        )}
      </div>
      <Field label={t("Priority")} hint={t("If several policies select an object, the highest priority decides.")}>{(id) => <input id={id} className="input" style={{ maxWidth: 140 }} inputMode="numeric" value={draft.priority} onChange={(event) => set({ priority: event.target.value.replace(/[^0-9-]/g, "") })} />}</Field>
    </>
  );
}

function OverrideFields({ draft, set }: { draft: Draft; set: (change: Partial<Draft>) => void }) {
  return (
    <>
      <Field label={t("What it changes")}>
        {(id) => (
          <select id={id} className="select" value={draft.overrider} onChange={(event) => set({ overrider: event.target.value as Draft["overrider"] })}>
            <option value="imageTag">{t("Image tag")}</option>
            <option value="imageRegistry">{t("Image registry")}</option>
            <option value="label">{t("Label")}</option>
            <option value="annotation">{t("Annotation")}</option>
            <option value="plaintext">{t("Field by JSON pointer")}</option>
          </select>
        )}
      </Field>
      <div className="grid-s">
        {!draft.overrider.startsWith("image") && <Field label={draft.overrider === "plaintext" ? t("Path") : t("Key")} hint={draft.overrider === "plaintext" ? "/spec/replicas" : undefined}>{(id) => <input id={id} className="input" value={draft.overrideKey} onChange={(event) => set({ overrideKey: event.target.value })} />}</Field>}
        <Field label={t("Value")}>{(id) => <input id={id} className="input" value={draft.overrideValue} onChange={(event) => set({ overrideValue: event.target.value })} />}</Field>
      </div>
    </>
  );
}
