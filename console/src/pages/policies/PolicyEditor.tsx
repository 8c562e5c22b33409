// A new or existing policy as a form with its YAML next to it, and a preview of what it would change.

import { useState } from "react";
import { Link, useLocation } from "wouter";
import { useWhole } from "../../api/bindings";
import { FIELD_MANAGER, query, send } from "../../api/client";
import { type Row, useLiveObject } from "../../api/live";
import { CLUSTERS, pathOf, POLICIES, type Resource } from "../../api/resources";
import type { ChangePlan, KObject } from "../../api/types";
import { usePrefs } from "../../app/prefs";
import { useYaml, withoutNoise } from "../../editor/ObjectYaml";
import { YamlEditor } from "../../editor/YamlEditor";
import { msg, t } from "../../i18n";
import { pageOf } from "../../model/links";
import { attempt, Button, Card, Empty, Field, Loading, PageHead, Problem } from "../../ui/parts";
import { planOf } from "../apply/manifests";
import { PlanView } from "../apply/PlanView";
import "../workloads/why.css";
import { changedPolicy, type Draft, draftOf, emptyDraft, hiddenParts, type Overrider, policyFrom, problemsOf } from "./draft";

const KINDS = ["Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Service", "Ingress", "ConfigMap", "Secret", "Namespace", "CustomResourceDefinition"];

const resourceOf = (kind: string) => POLICIES.find((one) => one.kind === kind) ?? POLICIES[0]!;

export default function PolicyEditor({ kind, namespace, name }: { kind: string; namespace?: string; name?: string }) {
  const resource = resourceOf(kind);
  const prefs = usePrefs();
  if (name) return <Existing resource={resource} namespace={namespace} name={name} />;
  return <Form resource={resource} initial={emptyDraft(resource.namespaced ? prefs.namespace || "default" : "")} />;
}

function Existing({ resource, namespace, name }: { resource: Resource; namespace?: string; name: string }) {
  const live = useLiveObject(pathOf(resource, namespace), name);
  // The form begins with what was there when it was opened; the version tells the control plane what was seen.
  const [opened, setOpened] = useState<KObject>();
  if (!opened && live.object) setOpened(live.object);
  if (opened) return <Form resource={resource} initial={draftOf(opened)} existing={opened} />;
  if (live.phase === "loading") return <><PageHead title={name} /><Loading /></>;
  return <><PageHead title={name} /><section className="card">{live.error ? <Problem error={live.error} retry={live.reload} /> : <Empty title={t("{kind} {name} does not exist", { kind: resource.kind, name })} />}</section></>;
}

/** Without fields of the server, as a user writes it. */
function manifestOf(policy: KObject): KObject {
  const { name, namespace, labels, annotations = {} } = policy.metadata;
  const { "kubectl.kubernetes.io/last-applied-configuration": _, ...own } = annotations;
  return { apiVersion: policy.apiVersion, kind: policy.kind, metadata: { name, namespace, ...(labels ? { labels } : {}), ...(Object.keys(own).length > 0 ? { annotations: own } : {}) }, spec: policy.spec };
}

function Form({ resource, initial, existing }: { resource: Resource; initial: Draft; existing?: KObject }) {
  const clusters = useWhole<Row>({ path: pathOf(CLUSTERS), table: true });
  const [, navigate] = useLocation();
  const [draft, setDraft] = useState<Draft>(initial);
  const [plan, setPlan] = useState<ChangePlan>();
  const [problem, setProblem] = useState<Error>();
  const policy = existing ? changedPolicy(resource, withoutNoise(existing), draft) : policyFrom(resource, draft);
  const yaml = useYaml(manifestOf(policy));
  const problems = problemsOf(draft);
  const page = pageOf(resource, draft.namespace, draft.name);
  const set = (change: Partial<Draft>) => {
    setDraft({ ...draft, ...change });
    setPlan(undefined);
  };
  const preview = async () => {
    setProblem(undefined);
    try {
      setPlan(await planOf([manifestOf(policy)]));
    } catch (error) {
      setProblem(error as Error);
    }
  };
  const save = async () => {
    const done = existing ? t("Saved") : t("{name} is created", { name: draft.name });
    const options = query({ fieldManager: FIELD_MANAGER, fieldValidation: "Strict" });
    const write = () => (existing ? send<KObject>("PUT", pathOf(resource, draft.namespace, draft.name) + options, policy) : send<KObject>("POST", pathOf(resource, draft.namespace) + options, policy));
    if (await attempt(done, write)) navigate(page);
  };
  const overrides = resource.kind.endsWith("OverridePolicy");
  const hidden = hiddenParts(existing ?? policy);
  const kinds = KINDS.includes(draft.kind) ? KINDS : [draft.kind, ...KINDS];
  const crumbs = [{ text: t("Policies"), to: `/policies?kind=${resource.kind}` }, ...(existing ? [{ text: draft.name, to: page }, { text: t("Edit") }] : [{ text: t("New policy") }])];
  return (
    <>
      <PageHead title={existing ? draft.name : t("New {kind}", { kind: resource.kind })} crumbs={crumbs}>
        {existing && <Link className="btn" href={`${page}?tab=yaml`}>YAML</Link>}
        <Button disabled={problems.length > 0} onClick={() => void preview()}>{t("Preview")}</Button>
        <Button kind="primary" disabled={problems.length > 0} onClick={() => void save()}>{existing ? t("Save") : t("Create")}</Button>
      </PageHead>
      {hidden.selectors + hidden.rules + hidden.overriders + hidden.affinities > 0 && (
        <div className="banner">{t("The form shows the first selector, rule and change of the policy. It has further parts, which stay as they are: {selectors} selectors, {rules} rules, {overriders} changes, {affinities} groups of clusters.", { ...hidden })}</div>
      )}
      <div className="grid2">
        <Card title={t("Form")}>
          <div className="stack loose">
            <div className="grid-s">
              <Field label={t("Name")} problem={draft.name && problems.includes("name") ? t("Lowercase letters, digits, dots and dashes.") : ""}>{(id) => <input id={id} className="input" value={draft.name} disabled={existing !== undefined} onChange={(event) => set({ name: event.target.value })} />}</Field>
              {resource.namespaced && <Field label={t("Namespace")}>{(id) => <input id={id} className="input" value={draft.namespace} disabled={existing !== undefined} onChange={(event) => set({ namespace: event.target.value })} />}</Field>}
            </div>
            <div className="grid-s">
              <Field label={t("Object kind")}>{(id) => <select id={id} className="select" value={draft.kind} onChange={(event) => set({ kind: event.target.value })}>{kinds.map((one) => <option key={one}>{one}</option>)}</select>}</Field>
              <Field label={t("Object name")} hint={t("Leave empty to select all objects, or those that match the label selector.")}>{(id) => <input id={id} className="input" value={draft.objectName} onChange={(event) => set({ objectName: event.target.value })} />}</Field>
            </div>
            <Field label={t("Label selector")} hint={t("For example app=web, tier=front")}>{(id) => <input id={id} className="input" value={draft.labels} disabled={draft.objectName !== ""} onChange={(event) => set({ labels: event.target.value })} />}</Field>
            <fieldset className="field" style={{ border: 0, margin: 0, padding: 0 }} disabled={hidden.affinities > 0}>
              <legend className="label" style={{ fontWeight: 560, fontSize: 13, padding: 0, marginBottom: 6 }}>{overrides ? t("Target clusters") : t("Clusters")}</legend>
              <div className="chips">
                {clusters.items.map(({ metadata: { name } }) => (
                  <label className="chip check" key={name}>
                    <input type="checkbox" checked={draft.clusters.includes(name)} onChange={(event) => set({ clusters: event.target.checked ? [...draft.clusters, name] : draft.clusters.filter((one) => one !== name) })} />
                    {name}
                  </label>
                ))}
                {clusters.phase === "ready" && clusters.items.length === 0 && <span className="muted">{t("No clusters yet")}</span>}
              </div>
              <span className="hint">{t("If none is selected, all clusters are used.")}</span>
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
        <Field label={t("Replicas")} hint={draft.scheduling === "Divided" ? t("The replicas are divided among the clusters.") : t("Every cluster runs the full number of replicas.")}>
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
      <Field label={t("Priority")} hint={t("If several policies select an object, the one with the highest priority applies.")}>{(id) => <input id={id} className="input" style={{ maxWidth: 140 }} inputMode="numeric" value={draft.priority} onChange={(event) => set({ priority: event.target.value.replace(/[^0-9-]/g, "") })} />}</Field>
    </>
  );
}

const OVERRIDERS: [id: Overrider, text: string][] = [
  ["imageTag", msg("Image tag")],
  ["imageRegistry", msg("Image registry")],
  ["imageRepository", msg("Image repository")],
  ["command", msg("Command of a container")],
  ["args", msg("Arguments of a container")],
  ["label", msg("Label")],
  ["annotation", msg("Annotation")],
  ["field", msg("YAML in a field")],
  ["plaintext", msg("Field by JSON pointer")],
];
const KEYS: Record<string, string> = { command: msg("Container"), args: msg("Container"), field: msg("Path"), plaintext: msg("Path") };
const HINTS: Record<string, string> = { field: "/data/config.yaml", plaintext: "/spec/replicas" };

function OverrideFields({ draft, set }: { draft: Draft; set: (change: Partial<Draft>) => void }) {
  return (
    <>
      <Field label={t("Overrides")}>
        {(id) => (
          <select id={id} className="select" value={draft.overrider} onChange={(event) => set({ overrider: event.target.value as Draft["overrider"] })}>
            {OVERRIDERS.map(([id, text]) => <option key={id} value={id}>{t(text)}</option>)}
          </select>
        )}
      </Field>
      <div className="grid-s">
        {!draft.overrider.startsWith("image") && <Field label={t(KEYS[draft.overrider] ?? "Key")} hint={HINTS[draft.overrider]}>{(id) => <input id={id} className="input" value={draft.overrideKey} onChange={(event) => set({ overrideKey: event.target.value })} />}</Field>}
        {draft.overrider === "field" && <Field label={t("Path inside the text")} hint="/server/port">{(id) => <input id={id} className="input" value={draft.overrideSub} onChange={(event) => set({ overrideSub: event.target.value })} />}</Field>}
        <Field label={t("Value")}>{(id) => <input id={id} className="input" value={draft.overrideValue} onChange={(event) => set({ overrideValue: event.target.value })} />}</Field>
      </div>
    </>
  );
}
