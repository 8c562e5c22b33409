// The steps of a propagation in time: what objects and events record, and what this page observes live in milliseconds.

import { useEffect, useRef, useState } from "react";
import { useLive } from "../../api/live";
import { EVENTS, pathOf } from "../../api/resources";
import type { Condition, KObject } from "../../api/types";
import { t } from "../../i18n";
import { perCluster } from "../../model/binding";
import { Card, Empty, exactTime, type Tone } from "../../ui/parts";
import { timeOfEvent } from "../EventList";
import "./why.css";

interface Step {
  at: number;
  text: string;
  detail?: string;
  tone: Tone;
}

function recorded(workload: KObject, binding: KObject | undefined, events: KObject[]): Step[] {
  const steps: Step[] = [];
  const add = (at: string | undefined, text: string, tone: Tone, detail?: string) => at && steps.push({ at: Date.parse(at), text, tone, detail });
  add(workload.metadata.creationTimestamp, t("Template created"), "info");
  add(binding?.metadata.creationTimestamp, t("A policy selected it; binding created"), "info", binding?.metadata.name);
  for (const condition of (binding?.status?.conditions ?? []) as Condition[]) {
    add(condition.lastTransitionTime, `${condition.type}: ${condition.status}`, condition.status === "True" ? "ok" : "bad", condition.message);
  }
  for (const condition of (workload.status?.conditions ?? []) as Condition[]) {
    add(condition.lastTransitionTime, `${condition.type}: ${condition.status}`, condition.status === "True" ? "ok" : "warn", condition.message);
  }
  const mention = `(${workload.kind}/${workload.metadata.namespace}/${workload.metadata.name})`;
  const uids = new Set([workload.metadata.uid, binding?.metadata.uid]);
  for (const event of events) {
    const own = uids.has(event.involvedObject?.uid) || (event.involvedObject?.kind === "Work" && String(event.message).includes(mention));
    // Events of an earlier object of the same name do not belong to this one.
    const current = timeOfEvent(event) >= (workload.metadata.creationTimestamp ?? "");
    const cluster = event.involvedObject?.kind === "Work" ? `${String(event.involvedObject.namespace).replace("karmada-es-", "")}: ` : "";
    if (own && current) add(timeOfEvent(event), cluster + event.reason, event.type === "Warning" ? "warn" : "", event.message);
  }
  return steps;
}

/** What changed between two versions of template and binding. */
function changes(before: [KObject, KObject?], after: [KObject, KObject?]): Omit<Step, "at">[] {
  const found: Omit<Step, "at">[] = [];
  const [oldTemplate, oldBinding] = before;
  const [template, binding] = after;
  if (template.metadata.generation !== oldTemplate.metadata.generation) found.push({ text: t("Template changed to generation {count}", { count: template.metadata.generation ?? 0 }), tone: "info" });
  if (binding && !oldBinding) found.push({ text: t("Binding created"), tone: "info", detail: binding.metadata.name });
  const targets = (one?: KObject) => (one?.spec?.clusters ?? []).map((target: any) => `${target.name} (${target.replicas ?? "–"})`).join(", ");
  if (targets(binding) !== targets(oldBinding)) found.push({ text: t("Scheduled"), tone: "ok", detail: targets(binding) || t("no cluster") });
  const earlier = new Map(perCluster(oldBinding).map((one) => [one.name, one]));
  for (const one of perCluster(binding)) {
    const was = earlier.get(one.name);
    if (was?.state !== one.state || was?.ready !== one.ready) found.push({ text: `${one.name}: ${t(one.state)}`, tone: one.tone, detail: one.desired !== undefined ? t("{ready} of {desired} ready", { ready: one.ready ?? 0, desired: one.desired }) : undefined });
  }
  return found;
}

export function Timeline({ workload, binding }: { workload: KObject; binding?: KObject }) {
  const events = useLive({ path: pathOf(EVENTS) });
  const [observed, setObserved] = useState<Step[]>([]);
  const last = useRef<[KObject, KObject?]>([workload, binding]);
  useEffect(() => {
    const at = Date.now();
    const found = changes(last.current, [workload, binding]);
    last.current = [workload, binding];
    if (found.length > 0) setObserved((before) => [...before, ...found.map((step) => ({ ...step, at }))]);
  }, [workload.metadata.resourceVersion, binding?.metadata.resourceVersion]);
  return (
    <div className="grid2">
      <Card title={t("Recorded")}><Steps steps={recorded(workload, binding, events.items)} empty={t("Nothing is recorded")} /></Card>
      <Card title={t("Live")}>
        <Steps steps={observed} precise empty={t("Changes appear here while this page is open")} />
      </Card>
    </div>
  );
}

function Steps({ steps, precise, empty }: { steps: Step[]; precise?: boolean; empty: string }) {
  if (steps.length === 0) return <Empty title={empty} icon="events" />;
  const ordered = [...steps].sort((a, b) => a.at - b.at);
  const start = ordered[0]!.at;
  return (
    <ol className="timeline">
      {ordered.slice(-200).map((step, index) => (
        <li key={index}>
          <span className="when" title={exactTime(step.at)}>{offset(step.at - start, precise)}</span>
          <span className="rail"><span className={`dot ${step.tone}`} /></span>
          <span className="what"><b>{step.text}</b>{step.detail && <div className="small muted">{step.detail}</div>}</span>
        </li>
      ))}
    </ol>
  );
}

function offset(ms: number, precise = false): string {
  if (ms === 0) return precise ? "0 ms" : "0 s";
  if (precise && ms < 10_000) return `+${ms} ms`;
  const s = Math.round(ms / 1000);
  return s < 120 ? `+${s} s` : s < 7200 ? `+${Math.round(s / 60)} min` : `+${Math.round(s / 3600)} h`;
}
