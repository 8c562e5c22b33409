// The settings of an instance: how people find it, and how its controllers react to clusters that fail.

import { useState } from "react";
import { mergePatch, query } from "../../api/client";
import { type Instance, instancePath, useManager, usePermissions } from "../../api/manager";
import { t } from "../../i18n";
import { isImported } from "../../model/instance";
import { attempt, Button, Card, Field, Loading, Problem } from "../../ui/parts";

type Values = Record<string, string | boolean>;

interface Setting {
  id: string;
  label: string;
  hint: string;
  /** The value of an empty field. */
  initial: string;
  kind: "duration" | "number" | "switch" | "choice";
}

const settings = (): Setting[] => [
  { id: "failover", label: t("Failover"), hint: t("Workloads leave clusters that fail."), initial: t("on"), kind: "choice" },
  { id: "clusterMonitorPeriod", label: t("Cluster check interval"), hint: t("Time between two checks of all clusters."), initial: "5s", kind: "duration" },
  { id: "clusterMonitorGracePeriod", label: t("Cluster grace period"), hint: t("Time without a heartbeat until its state is unknown."), initial: "40s", kind: "duration" },
  { id: "clusterStartupGracePeriod", label: t("Startup grace period"), hint: t("The same for a cluster that has just joined."), initial: "60s", kind: "duration" },
  { id: "clusterFailureThreshold", label: t("Failure threshold"), hint: t("Time for which checks fail until a cluster is not ready."), initial: "30s", kind: "duration" },
  { id: "clusterSuccessThreshold", label: t("Success threshold"), hint: t("Time for which checks succeed until it is ready again."), initial: "30s", kind: "duration" },
  { id: "gracefulEvictionTimeout", label: t("Graceful eviction timeout"), hint: t("A workload leaves its old cluster after this time, also if its replacement is not healthy."), initial: "10m", kind: "duration" },
  { id: "resourceEvictionRate", label: t("Eviction rate"), hint: t("Workloads that may leave failed clusters in one second."), initial: "10", kind: "number" },
  { id: "descheduler", label: t("Descheduler"), hint: t("Replicas that stay pending move to clusters with free capacity."), initial: "", kind: "switch" },
  { id: "deschedulingInterval", label: t("Descheduling interval"), hint: t("Time between two runs."), initial: "2m", kind: "duration" },
  { id: "unschedulableThreshold", label: t("Unschedulable threshold"), hint: t("Time for which a replica must be pending."), initial: "5m", kind: "duration" },
];

const OF_DESCHEDULER = ["deschedulingInterval", "unschedulableThreshold"];
const DURATION = /^(\d+(\.\d+)?(ms|s|m|h))+$/;

/** The reason why a value is refused, if it is. */
function problemOf({ kind }: Setting, value: string | boolean): string {
  if (typeof value === "boolean" || value === "") return "";
  if (kind === "duration" && !DURATION.test(value)) return t("A duration such as 30s, 5m or 1h30m");
  if (kind === "number" && !/^\d+(\.\d+)?$/.test(value)) return t("A non-negative number");
  return "";
}

const shown = ({ initial }: Setting, value: unknown) => (typeof value === "boolean" ? (value ? t("on") : t("off")) : value === "true" ? t("on") : value === "false" ? t("off") : value ? String(value) : t("default ({value})", { value: initial }));

/** Failover and descheduling. */
export function FailoverSettings({ instance, onlyIfAllowed }: { instance: string; onlyIfAllowed?: boolean }) {
  const current = useManager<Values & { etag?: string }>(instancePath(instance, "/settings"));
  const may = usePermissions(instance)("instances.manage");
  const [draft, setDraft] = useState<Values>({});
  if (current.isPending) return <Loading />;
  if (current.error?.forbidden && onlyIfAllowed) return null;
  if (current.error) return <section className="card"><Problem error={current.error} retry={() => void current.refetch()} /></section>;
  const all = settings();
  const valueOf = (id: string) => draft[id] ?? current.data[id] ?? "";
  const changed = all.filter(({ id }) => draft[id] !== undefined && draft[id] !== (current.data[id] ?? ""));
  const isValid = all.every((one) => problemOf(one, valueOf(one.id)) === "");
  const save = async () => {
    const values = Object.fromEntries(changed.map(({ id }) => [id, valueOf(id)]));
    // The settings of the descheduler are kept where the descheduler is, so that it is written with them.
    const body = { ...values, descheduler: valueOf("descheduler") === true, etag: current.data.etag };
    const updateMask = [...new Set([...Object.keys(values), ...(changed.some(({ id }) => OF_DESCHEDULER.includes(id)) ? ["descheduler"] : [])])].join(",");
    if (await attempt(t("The settings of {name} are saved; it restarts with them", { name: instance }), () => mergePatch(instancePath(instance, `/settings${query({ updateMask })}`), body))) setDraft({});
    void current.refetch();
  };
  return (
    <Card title={t("Failover and descheduling")}>
      <form className="stack loose" onSubmit={(event) => { event.preventDefault(); if (isValid && changed.length > 0) void save(); }}>
        <div className="grid-s">
          {all.map((one) => (
            <Field key={one.id} label={one.label} hint={one.hint} problem={problemOf(one, valueOf(one.id))}>
              {(id) => <Control id={id} setting={one} disabled={!may} value={valueOf(one.id)} onChange={(value) => setDraft({ ...draft, [one.id]: value })} />}
            </Field>
          ))}
        </div>
        {changed.length > 0 && (
          <div className="stack tight">
            <ul className="stack tight">{changed.map((one) => <li className="small" key={one.id}>{one.label}: {shown(one, current.data[one.id])} → <b>{shown(one, valueOf(one.id))}</b></li>)}</ul>
            <p className="muted small">{t("The control plane of the instance restarts with the new settings, in less than a second for one in the manager. Clients reconnect; workloads in clusters are not touched.")}</p>
          </div>
        )}
        {may ? <div className="row"><Button kind="primary" type="submit" disabled={!isValid || changed.length === 0}>{t("Save")}</Button>{changed.length > 0 && <Button kind="ghost" onClick={() => setDraft({})}>{t("Discard")}</Button>}</div> : <p className="muted small">{t("Only administrators of the instance can change this.")}</p>}
      </form>
    </Card>
  );
}

function Control({ id, setting, value, disabled, onChange }: { id: string; setting: Setting; value: string | boolean; disabled: boolean; onChange: (value: string | boolean) => void }) {
  const common = { id, disabled };
  switch (setting.kind) {
    case "switch":
      return <select {...common} className="select" value={value === true ? "on" : ""} onChange={(event) => onChange(event.target.value === "on")}><option value="">{t("off")}</option><option value="on">{t("on")}</option></select>;
    case "choice":
      return <select {...common} className="select" value={String(value)} onChange={(event) => onChange(event.target.value)}><option value="">{t("default ({value})", { value: setting.initial })}</option><option value="true">{t("on")}</option><option value="false">{t("off")}</option></select>;
    default:
      return <input {...common} className="input" placeholder={setting.initial} value={String(value)} onChange={(event) => onChange(event.target.value.trim())} />;
  }
}

const GENERAL = ["displayName", "description", "hibernateAfter", "expose", "protected"] as const;

/** Names for people, protection, and when it sleeps. */
export function GeneralSettings({ instance }: { instance: Instance }) {
  const { name } = instance;
  const may = usePermissions(name)("instances.manage");
  const [draft, setDraft] = useState<Partial<Pick<Instance, (typeof GENERAL)[number]>>>({});
  const value = { ...instance, ...draft };
  const changed = GENERAL.filter((field) => value[field] !== instance[field]);
  const sleepProblem = value.hibernateAfter !== "" && !DURATION.test(value.hibernateAfter) ? t("A duration such as 30s, 5m or 1h30m") : "";
  const save = async () => {
    const body = { ...Object.fromEntries(changed.map((field) => [field, value[field]])), etag: instance.etag };
    if (await attempt(t("Saved"), () => mergePatch(instancePath(name, query({ updateMask: changed.join(",") })), body))) setDraft({});
  };
  const text = (field: "displayName" | "description" | "hibernateAfter" | "expose", label: string, hint?: string, problem?: string, placeholder?: string) => (
    <Field label={label} hint={hint} problem={problem}>{(id) => <input id={id} className="input" disabled={!may} placeholder={placeholder} maxLength={field === "displayName" ? 60 : 1000} value={value[field]} onChange={(event) => setDraft({ ...draft, [field]: event.target.value })} />}</Field>
  );
  return (
    <Card title={t("General")}>
      <form className="stack" onSubmit={(event) => { event.preventDefault(); if (changed.length > 0 && !sleepProblem) void save(); }}>
        <div className="grid-s">
          {text("displayName", t("Display name"))}
          {text("description", t("Description"))}
          {!isImported(instance) && text("hibernateAfter", t("Hibernate after"), t("Time without requests after which an instance without clusters hibernates. If empty, it never hibernates."), sleepProblem, "30m")}
          {!isImported(instance) && text("expose", t("Dedicated address"), t("For agents of pull-mode clusters, which cannot connect through the manager."), "", "HOST[:PORT]")}
        </div>
        <label className="check"><input type="checkbox" disabled={!may} checked={value.protected} onChange={(event) => setDraft({ ...draft, protected: event.target.checked })} />{t("Protected: it cannot be deleted")}</label>
        {may && <div className="row"><Button kind="primary" type="submit" disabled={changed.length === 0 || sleepProblem !== ""}>{t("Save")}</Button></div>}
      </form>
    </Card>
  );
}
