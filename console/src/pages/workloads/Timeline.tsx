// The steps of a propagation in time: those the control plane recorded, in milliseconds, and what objects and events say.

import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useMemo } from "react";
import { type ApiError, getJson, query } from "../../api/client";
import { useObjectEvents } from "../../api/objectEvents";
import { apiVersionOf, type Resource } from "../../api/resources";
import type { Condition, KObject } from "../../api/types";
import { msg, t } from "../../i18n";
import { timeOfEvent } from "../../model/events";
import { Card, Empty, exactTime, Loading, Problem, type Tone } from "../../ui/parts";
import "./why.css";

interface Step {
  at: number;
  text: string;
  detail?: string;
  tone: Tone;
}

interface RecordedStep {
  time: string;
  step: string;
  cluster?: string;
  targets?: { name: string; replicas: number }[];
  health?: string;
  ready?: number;
  replicas?: number;
  message?: string;
}

/** Longer pauses separate one propagation from the next. */
const RUN_PAUSE_MS = 60_000;
const STEPS_MAX = 200;
/** Answers for former versions of an object are forgotten after this time. */
const VERSION_KEPT_MS = 10_000;

const TEXTS: Record<string, [text: string, tone: Tone]> = {
  TemplateWritten: [msg("Template written"), "info"],
  BindingCreated: [msg("A policy selected it; binding created"), "info"],
  TemplateObserved: [msg("New version of the template in the binding"), "info"],
  Scheduled: [msg("Scheduled"), "ok"],
  SchedulingFailed: [msg("Scheduling failed"), "bad"],
  EvictionStarted: [msg("Eviction started"), "warn"],
  EvictionEnded: [msg("Eviction ended"), "ok"],
  WorkCreated: [msg("Work created"), "info"],
  WorkUpdated: [msg("Work updated"), "info"],
  WorkRemoved: [msg("Work removed"), "warn"],
  Applied: [msg("Applied"), "ok"],
  ApplyFailed: [msg("Could not be applied"), "bad"],
  Reported: [msg("Status reported"), ""],
  FullyApplied: [msg("Applied in all clusters"), "ok"],
};

function read(step: RecordedStep): Step {
  const [text, tone] = TEXTS[step.step] ?? [step.step, "" as Tone];
  const health = step.health === "Healthy" ? "ok" : step.health === "Unhealthy" ? "warn" : tone;
  const name = step.step === "Reported" && step.health ? t(step.health) : t(text);
  const targets = step.targets?.map((target) => `${target.name} (${target.replicas || "–"})`).join(", ");
  const ready = step.replicas !== undefined || step.ready !== undefined ? t("{ready} of {desired} ready", { ready: step.ready ?? 0, desired: step.replicas ?? 0 }) : undefined;
  return {
    at: Date.parse(step.time),
    text: step.cluster ? `${step.cluster}: ${name}` : name,
    tone: step.step === "Reported" ? health : tone,
    detail: targets ?? ready ?? (step.step === "Scheduled" ? t("no cluster") : step.message),
  };
}

/** Steps that follow each other soon; the latest propagation first. */
function runsOf(steps: Step[]): Step[][] {
  const runs: Step[][] = [];
  for (const step of steps) {
    const run = runs.at(-1);
    if (run && step.at - run.at(-1)!.at <= RUN_PAUSE_MS) run.push(step);
    else runs.push([step]);
  }
  return runs.reverse();
}

function fromObjects(workload: KObject, binding: KObject | undefined, events: KObject[]): Step[] {
  const steps: Step[] = [];
  const add = (at: string | undefined, text: string, tone: Tone, detail?: string) => at && steps.push({ at: Date.parse(at), text, tone, detail });
  add(workload.metadata.creationTimestamp, t("Template created"), "info");
  for (const condition of (binding?.status?.conditions ?? []) as Condition[]) {
    add(condition.lastTransitionTime, `${condition.type}: ${condition.status}`, condition.status === "True" ? "ok" : "bad", condition.message);
  }
  for (const condition of (workload.status?.conditions ?? []) as Condition[]) {
    add(condition.lastTransitionTime, `${condition.type}: ${condition.status}`, condition.status === "True" ? "ok" : "warn", condition.message);
  }
  for (const event of events) {
    // Events of an earlier object of the same name do not belong to this one.
    const current = timeOfEvent(event) >= (workload.metadata.creationTimestamp ?? "");
    const cluster = event.involvedObject?.kind === "Work" ? `${String(event.involvedObject.namespace).replace("karmada-es-", "")}: ` : "";
    if (current) add(timeOfEvent(event), cluster + event.reason, event.type === "Warning" ? "warn" : "", event.message);
  }
  return steps.sort((a, b) => a.at - b.at);
}

export function Timeline({ resource, workload, binding }: { resource: Resource; workload: KObject; binding?: KObject }) {
  const { namespace, name } = workload.metadata;
  const events = useObjectEvents(workload, binding);
  const recorded = useQuery<{ steps: RecordedStep[] }, ApiError>({
    // A new version of either object is a new step.
    queryKey: ["timeline", resource.kind, namespace, name, workload.metadata.resourceVersion, binding?.metadata.resourceVersion],
    queryFn: () => getJson(`/flotilla/v1alpha1/timeline${query({ apiVersion: apiVersionOf(resource), kind: resource.kind, namespace, name })}`),
    placeholderData: (before) => before,
    refetchInterval: 5_000,
    gcTime: VERSION_KEPT_MS,
    retry: false,
  });
  const runs = useMemo(() => runsOf((recorded.data?.steps ?? []).map(read)), [recorded.data]);
  return (
    <div className="grid2 timelines">
      <Card title={t("Recorded by the control plane")}>
        {recorded.isPending ? <Loading /> : recorded.error && !recorded.data ? <Problem error={recorded.error} retry={() => void recorded.refetch()} /> : runs.length === 0 ? (
          <Empty title={t("Nothing is recorded")} icon="events"><p>{t("Steps are kept in memory since the control plane started.")}</p></Empty>
        ) : (
          <div className="stack">{runs.map((run) => <Run key={run[0]!.at} steps={run} />)}</div>
        )}
      </Card>
      <Card title={t("Conditions and events")}>
        <Steps steps={fromObjects(workload, binding, events.items)} />
      </Card>
    </div>
  );
}

/** One propagation from its first to its last step. */
function Run({ steps }: { steps: Step[] }) {
  const took = steps.at(-1)!.at - steps[0]!.at;
  return (
    <section aria-label={exactTime(steps[0]!.at)}>
      <h3 className="run"><span>{exactTime(steps[0]!.at)}</span><span className="muted">{t("{count} steps in {time}", { count: steps.length, time: milliseconds(took) })}</span></h3>
      <Steps steps={steps} precise />
    </section>
  );
}

function Steps({ steps, precise }: { steps: Step[]; precise?: boolean }): ReactNode {
  if (steps.length === 0) return <Empty title={t("Nothing is recorded")} icon="events" />;
  const start = steps[0]!.at;
  return (
    <ol className="timeline">
      {steps.slice(-STEPS_MAX).map((step, index) => (
        <li key={index}>
          <span className="when" title={new Date(step.at).toISOString()}>{precise ? `+${milliseconds(step.at - start)}` : `+${seconds(step.at - start)}`}</span>
          <span className="rail"><span className={`dot ${step.tone}`} /></span>
          <span className="what"><b>{step.text}</b>{step.detail && <div className="small muted">{step.detail}</div>}</span>
        </li>
      ))}
    </ol>
  );
}

const milliseconds = (ms: number) => (ms < 10_000 ? `${ms} ms` : ms < 120_000 ? `${(ms / 1000).toFixed(1)} s` : seconds(ms));

function seconds(ms: number): string {
  const s = Math.round(ms / 1000);
  return s < 120 ? `${s} s` : s < 7200 ? `${Math.round(s / 60)} min` : `${Math.round(s / 3600)} h`;
}
