// The overview of an instance: clusters, capacity, the way of workloads from template to member, problems, events.

import { Link } from "wouter";
import { useLive } from "../api/live";
import { formatBytes, formatCpu } from "../api/quantity";
import { BINDINGS, CLUSTERS, pathOf, slugOf, WORKLOADS } from "../api/resources";
import type { KObject } from "../api/types";
import { usePrefs } from "../app/prefs";
import { t } from "../i18n";
import { reasonOf, stateOfBinding, statusesOf, targetsOf, toneOfBinding } from "../model/binding";
import { capacityOf, isCordoned, nodesOf, stateOf, sum, toneOf } from "../model/cluster";
import { Badge, Card, Empty, Loading, Meter, PageHead, Problem, Stale, usageTone } from "../ui/parts";
import { Activity } from "./Activity";
import { EventList, useNewestEvents } from "./EventList";
import { FleetMap } from "./FleetMap";

const SHOWN_PROBLEMS = 8;

export function Overview() {
  const { namespace } = usePrefs();
  const clusters = useLive({ path: pathOf(CLUSTERS) });
  const bindings = useLive({ path: pathOf(BINDINGS, namespace) });
  const events = useNewestEvents(namespace);
  return (
    <>
      <PageHead title={t("Overview")}>
        <Link className="btn primary" href="/apply">{t("Deploy something")}</Link>
      </PageHead>
      <Stale show={clusters.stale || bindings.stale} />
      {clusters.phase !== "error" && <Tiles clusters={clusters.items} bindings={bindings.items} loading={clusters.phase === "loading"} />}
      <div className="cols">
        <div>
          <Card title={t("Propagation")}>
            {bindings.phase === "loading" ? <Loading /> : bindings.phase === "error" && bindings.error ? <Problem error={bindings.error} retry={bindings.reload} /> : <Funnel bindings={bindings.items} more={bindings.hasMore ? bindings.total : 0} />}
          </Card>
          <Activity />
          {bindings.phase !== "error" && clusters.phase !== "error" && <Problems bindings={bindings.items} clusters={clusters.items} ready={bindings.phase === "ready" && clusters.phase === "ready"} />}
        </div>
        <div>
          <Card title={t("Clusters")} actions={<Link href="/clusters">{t("All clusters")}</Link>}>
            {clusters.phase === "loading" ? <Loading /> : clusters.phase === "error" && clusters.error ? <Problem error={clusters.error} retry={clusters.reload} /> : <FleetMap clusters={clusters.items} bindings={bindings.items} />}
          </Card>
          <Card title={t("Recent events")} actions={<Link href="/events">{t("All events")}</Link>} flush>
            <EventList live={events} max={6} />
          </Card>
        </div>
      </div>
    </>
  );
}

function Tiles({ clusters, bindings, loading }: { clusters: KObject[]; bindings: KObject[]; loading: boolean }) {
  const ready = clusters.filter((cluster) => stateOf(cluster) === "Ready").length;
  const cordoned = clusters.filter(isCordoned).length;
  const nodes = clusters.map(nodesOf);
  const nodesReady = nodes.reduce((all, one) => all + one.ready, 0);
  const nodesTotal = nodes.reduce((all, one) => all + one.total, 0);
  const cpu = sum(clusters.map((cluster) => capacityOf(cluster, "cpu")));
  const memory = sum(clusters.map((cluster) => capacityOf(cluster, "memory")));
  const healthy = bindings.filter((binding) => stateOfBinding(binding) === "Healthy").length;
  const dash = loading ? "–" : undefined;
  return (
    <div className="grid4">
      <Tile to="/clusters" label={t("Clusters ready")} value={dash ?? ready} of={dash ? undefined : clusters.length} note={cordoned > 0 ? <Badge tone="warn">{t("{count} cordoned", { count: cordoned })}</Badge> : undefined} part={ready} total={clusters.length} tone={ready < clusters.length ? "warn" : "ok"} />
      <Tile to="/clusters" label={t("Nodes ready")} value={dash ?? nodesReady} of={dash ? undefined : nodesTotal} part={nodesReady} total={nodesTotal} tone={nodesReady < nodesTotal ? "warn" : "ok"} />
      <Tile to="/workloads" label={t("Objects healthy")} value={dash ?? healthy} of={dash ? undefined : bindings.length} part={healthy} total={bindings.length} tone={healthy < bindings.length ? "warn" : "ok"} />
      <Tile to="/clusters" label={t("CPU requested")} value={dash ?? formatCpu(cpu.allocated)} of={dash ? undefined : formatCpu(cpu.allocatable)} part={cpu.allocated} total={cpu.allocatable} tone={usageTone(cpu.allocated / cpu.allocatable)} />
      <Tile to="/clusters" label={t("Memory requested")} value={dash ?? formatBytes(memory.allocated)} of={dash ? undefined : formatBytes(memory.allocatable)} part={memory.allocated} total={memory.allocatable} tone={usageTone(memory.allocated / memory.allocatable)} />
    </div>
  );
}

interface TileProps {
  to: string;
  label: string;
  value: string | number;
  of?: string | number;
  part: number;
  total: number;
  tone: "ok" | "warn" | "bad" | "" | "info";
  note?: React.ReactNode;
}

function Tile({ to, label, value, of, part, total, tone, note }: TileProps) {
  return (
    <Link className="card tile" href={to}>
      <span className="label"><span>{label}</span>{note}</span>
      <span className="value">{value}{of !== undefined && <small> / {of}</small>}</span>
      <Meter parts={[{ value: part, tone }]} total={total} label={label} />
    </Link>
  );
}

/** How many templates got how far. */
function Funnel({ bindings, more }: { bindings: KObject[]; more: number }) {
  if (bindings.length === 0) {
    return <Empty title={t("Nothing is propagated yet")}><p>{t("Apply a workload and a policy that selects it.")}</p><Link className="btn" href="/apply">{t("Plan and apply")}</Link></Empty>;
  }
  const scheduled = bindings.filter((binding) => targetsOf(binding).length > 0);
  const applied = scheduled.filter((binding) => targetsOf(binding).every((target) => statusesOf(binding).find((status) => status.clusterName === target.name)?.applied));
  const healthy = applied.filter((binding) => stateOfBinding(binding) === "Healthy");
  const replicas = scheduled.reduce((all, binding) => all + targetsOf(binding).reduce((sum, target) => sum + (target.replicas ?? 0), 0), 0);
  const steps = [
    [t("Selected by a policy"), bindings.length],
    [t("Scheduled to clusters"), scheduled.length],
    [t("Applied in all of them"), applied.length],
    [t("Healthy in all of them"), healthy.length],
  ] as const;
  return (
    <div className="stack">
      {steps.map(([text, count], index) => (
        <div className="stack tight" key={text}>
          <div className="row between"><span>{text}</span><b>{count}</b></div>
          <Meter tall parts={[{ value: count, tone: index === 3 && count < bindings.length ? "warn" : index === 3 ? "ok" : "" }]} total={bindings.length} label={text} />
        </div>
      ))}
      <p className="muted small">
        {t("{count} replicas are assigned to clusters.", { count: replicas })}
        {more > 0 && ` ${t("Counted over the first {shown} of {total}.", { shown: bindings.length, total: more })}`}
      </p>
    </div>
  );
}

function Problems({ bindings, clusters, ready }: { bindings: KObject[]; clusters: KObject[]; ready: boolean }) {
  const bad = bindings.filter((binding) => stateOfBinding(binding) !== "Healthy").slice(0, SHOWN_PROBLEMS);
  const down = clusters.filter((cluster) => stateOf(cluster) !== "Ready").slice(0, SHOWN_PROBLEMS);
  return (
    <Card title={t("Needs attention")} flush>
      {!ready ? <Loading /> : bad.length + down.length === 0 ? (
        <Empty title={t("Everything runs as it should")} icon="check" />
      ) : (
        <div className="hscroll" tabIndex={0} role="group">
          <table className="simple">
            <tbody>
              {down.map((cluster) => (
                <tr key={cluster.metadata.name}>
                  <td><Link href={`/clusters/${cluster.metadata.name}`}>{cluster.metadata.name}</Link><div className="muted small">Cluster</div></td>
                  <td><Badge tone={toneOf(stateOf(cluster))}>{t(stateOf(cluster))}</Badge></td>
                </tr>
              ))}
              {bad.map((binding) => (
                <tr key={binding.metadata.uid}>
                  <td><Link href={subjectLink(binding)}>{binding.spec?.resource?.name}</Link><div className="muted small">{binding.spec?.resource?.kind} · {binding.metadata.namespace}</div></td>
                  <td><Badge tone={toneOfBinding(stateOfBinding(binding))}>{t(stateOfBinding(binding))}</Badge><div className="small muted">{reasonOf(binding)}</div></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}

/** The page of the template of a binding. */
export function subjectLink(binding: KObject): string {
  const { kind, namespace = "", name = "", apiVersion = "" } = binding.spec?.resource ?? {};
  const workload = WORKLOADS.find((one) => one.kind === kind);
  if (workload) return `/workloads/${slugOf(workload)}/${namespace}/${name}?tab=why`;
  const [group, version] = apiVersion.includes("/") ? apiVersion.split("/") : ["core", apiVersion];
  const plural = `${String(kind).toLowerCase()}s`;
  return `/resources/${group}~${version}~${plural}/${namespace ? `${namespace}/` : ""}${name}?tab=why`;
}
