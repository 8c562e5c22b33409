// The overview of an instance: clusters, capacity, the way of workloads from template to member, problems, events.

import { Link } from "wouter";
import { useBindingSummary, useWhole } from "../api/bindings";
import type { Followed } from "../api/followed";
import { formatBytes, formatCpu } from "../api/quantity";
import { CLUSTERS, pathOf } from "../api/resources";
import type { KObject } from "../api/types";
import { usePrefs } from "../app/prefs";
import { t } from "../i18n";
import { reasonOf, stateOfBinding, toneOfBinding } from "../model/binding";
import type { BindingSummary } from "../model/bindingSummary";
import { capacityOf, isCordoned, nodesOf, stateOf, sum, toneOf } from "../model/cluster";
import { subjectOf } from "../model/links";
import { Icon } from "../ui/icons";
import { ObjectLink } from "../ui/objectLink";
import { Badge, Card, Empty, Loading, Meter, PageHead, Problem, Stale, usageTone } from "../ui/parts";
import { Activity } from "./Activity";
import { Components } from "./Components";
import { EventList, useNewestEvents } from "./EventList";
import { FleetMap } from "./FleetMap";

const SHOWN_PROBLEMS = 8;

export function Overview() {
  const { namespace } = usePrefs();
  const clusters = useWhole({ path: pathOf(CLUSTERS) });
  const bindings = useBindingSummary(namespace);
  const events = useNewestEvents(namespace);
  return (
    <>
      <PageHead title={t("Overview")}>
        <Link className="btn primary" href="/apply">{t("Deploy a workload")}</Link>
      </PageHead>
      <Stale show={clusters.stale || bindings.stale} />
      {clusters.phase !== "error" && <Tiles clusters={clusters.items} loading={clusters.phase === "loading"} bindings={bindings.data} />}
      <div className="cols">
        <div>
          {bindings.phase !== "error" && clusters.phase !== "error" && <Problems bindings={bindings.data?.attention ?? []} clusters={clusters.items} ready={bindings.data !== undefined && clusters.phase === "ready"} />}
          <Card title={t("Propagation")}><Counted bindings={bindings}>{(summary) => <Funnel summary={summary} />}</Counted></Card>
          <Activity />
        </div>
        <div>
          <Card title={t("Clusters")} actions={<Link href="/clusters">{t("All clusters")}</Link>}>
            {clusters.phase === "loading" ? <Loading /> : clusters.phase === "error" && clusters.error ? <Problem error={clusters.error} retry={clusters.reload} /> : <FleetMap clusters={clusters.items} shares={bindings.data?.clusters} />}
          </Card>
          <Components />
          <Card title={t("Recent events")} actions={<Link href="/events">{t("All events")}</Link>} flush>
            <EventList live={events} max={6} />
          </Card>
        </div>
      </div>
    </>
  );
}

function Counted({ bindings, children }: { bindings: Followed<BindingSummary>; children: (summary: BindingSummary) => React.ReactNode }) {
  if (bindings.data) return children(bindings.data);
  return bindings.error ? <Problem error={bindings.error} retry={bindings.reload} /> : <Loading />;
}

function Tiles({ clusters, bindings, loading }: { clusters: KObject[]; bindings?: BindingSummary; loading: boolean }) {
  const ready = clusters.filter((cluster) => stateOf(cluster) === "Ready").length;
  const cordoned = clusters.filter(isCordoned).length;
  const nodes = clusters.map(nodesOf);
  const nodesReady = nodes.reduce((all, one) => all + one.ready, 0);
  const nodesTotal = nodes.reduce((all, one) => all + one.total, 0);
  const cpu = sum(clusters.map((cluster) => capacityOf(cluster, "cpu")));
  const memory = sum(clusters.map((cluster) => capacityOf(cluster, "memory")));
  const { healthy = 0, total = 0 } = bindings ?? {};
  const dash = loading ? "–" : undefined;
  return (
    <div className="grid4">
      <Tile to="/clusters" label={t("Clusters ready")} value={dash ?? ready} of={dash ? undefined : clusters.length} note={cordoned > 0 ? <Badge tone="warn">{t("{count} cordoned", { count: cordoned.toLocaleString() })}</Badge> : undefined} part={ready} total={clusters.length} tone={ready < clusters.length ? "warn" : "ok"} />
      <Tile to="/clusters" label={t("Nodes ready")} value={dash ?? nodesReady} of={dash ? undefined : nodesTotal} part={nodesReady} total={nodesTotal} tone={nodesReady < nodesTotal ? "warn" : "ok"} />
      <Tile to="/workloads" label={t("Objects healthy")} value={bindings ? healthy : "–"} of={bindings ? total : undefined} part={healthy} total={total} tone={healthy < total ? "warn" : "ok"} />
      <Tile to="/clusters" label={t("CPU requested")} value={dash ?? formatCpu(cpu.allocated)} of={dash ? undefined : `${formatCpu(cpu.allocatable)} ${t("cores")}`} part={cpu.allocated} total={cpu.allocatable} tone={usageTone(cpu.allocated / cpu.allocatable)} />
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
      <span className="value"><span className="nowrap">{value.toLocaleString()}</span>{of !== undefined && <small> / {of.toLocaleString()}</small>}</span>
      <Meter parts={[{ value: part, tone }]} total={total} label={label} />
    </Link>
  );
}

/** How many templates got how far. */
function Funnel({ summary }: { summary: BindingSummary }) {
  const { total, scheduled, applied, healthy, replicas } = summary;
  if (total === 0) {
    return <Empty title={t("Nothing is propagated yet")}><p>{t("Apply a workload and a policy that selects it.")}</p><Link className="btn" href="/apply">{t("Plan and apply")}</Link></Empty>;
  }
  const steps = [
    [t("Selected by a policy"), total],
    [t("Scheduled to clusters"), scheduled],
    [t("Applied in all clusters"), applied],
    [t("Healthy in all clusters"), healthy],
  ] as const;
  return (
    <div className="stack">
      {steps.map(([text, count], index) => (
        <div className="stack tight" key={text}>
          <div className="row between"><span>{text}</span><b>{count.toLocaleString()}</b></div>
          <Meter tall parts={[{ value: count, tone: index === 3 && count < total ? "warn" : index === 3 ? "ok" : "" }]} total={total} label={text} />
        </div>
      ))}
      <p className="muted small">{t("{count} replicas are assigned to clusters.", { count: replicas.toLocaleString() })}</p>
    </div>
  );
}

function Problems({ bindings, clusters, ready }: { bindings: KObject[]; clusters: KObject[]; ready: boolean }) {
  const bad = bindings.slice(0, SHOWN_PROBLEMS);
  const down = clusters.filter((cluster) => stateOf(cluster) !== "Ready").slice(0, SHOWN_PROBLEMS);
  return (
    <Card title={t("Needs attention")} flush>
      {!ready ? <Loading /> : bad.length + down.length === 0 ? (
        <p className="body row"><Icon name="check" />{t("No problems found")}</p>
      ) : (
        <div className="hscroll" tabIndex={0} role="group">
          <table className="simple">
            <tbody>
              {down.map((cluster) => (
                <tr key={cluster.metadata.name}>
                  <td><Link href={`/clusters/${cluster.metadata.name}`}>{cluster.metadata.name}</Link><div className="muted small">{t("Cluster")}</div></td>
                  <td><Badge tone={toneOf(stateOf(cluster))}>{t(stateOf(cluster))}</Badge><div className="small muted">{cluster.status?.conditions?.find((one: any) => one.type === "Ready")?.message}</div></td>
                </tr>
              ))}
              {bad.map((binding) => (
                <tr key={binding.metadata.uid}>
                  <td><ObjectLink to={subjectOf(binding)} tab="why" /><div className="muted small">{binding.spec?.resource?.kind} · {binding.metadata.namespace}</div></td>
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
