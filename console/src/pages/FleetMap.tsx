// Clusters by region, sized by capacity and coloured by health, with the replicas that run in each.

import { Link } from "wouter";
import type { KObject } from "../api/types";
import { t } from "../i18n";
import type { BindingSummary } from "../model/bindingSummary";
import { capacityOf, isCordoned, nodesOf, stateOf, toneOf } from "../model/cluster";
import { Empty, Meter, usageTone } from "../ui/parts";
import "./fleetMap.css";

/** Tiles drawn at most; the rest is counted. */
const TILES_MAX = 60;
const REGIONS_MAX = 20;

/** What needs attention comes first. */
const byState = (a: KObject, b: KObject) => Number(stateOf(a) === "Ready") - Number(stateOf(b) === "Ready");

export function FleetMap({ clusters, shares }: { clusters: KObject[]; shares?: BindingSummary["clusters"] }) {
  if (clusters.length === 0) {
    return <Empty title={t("No clusters yet")}><p>{t("Join a cluster to run workloads in it.")}</p><Link className="btn" href="/clusters?join=push">{t("Join a cluster")}</Link></Empty>;
  }
  const regions = Map.groupBy(clusters, (cluster: KObject) => String(cluster.spec?.region ?? ""));
  const shown = Math.max(3, Math.floor(TILES_MAX / Math.min(regions.size, REGIONS_MAX)));
  return (
    <div className="stack">
      {[...regions].sort(([a], [b]) => a.localeCompare(b)).slice(0, REGIONS_MAX).map(([region, members]) => (
        <div className="stack tight" key={region}>
          {(regions.size > 1 || region) && <h3 className="region">{region || t("No region")}</h3>}
          <div className="fleet">
            {[...members].sort(byState).slice(0, shown).map((cluster) => <ClusterTile key={cluster.metadata.name} cluster={cluster} replicas={shares ? (shares[cluster.metadata.name]?.replicas ?? 0) : undefined} />)}
          </div>
          {members.length > shown && <Link className="small" href={`/clusters${region ? `?q=${encodeURIComponent(region)}` : ""}`}>{t("and {count} more", { count: (members.length - shown).toLocaleString() })}</Link>}
        </div>
      ))}
      {regions.size > REGIONS_MAX && <Link className="small" href="/clusters">{t("All clusters")}</Link>}
    </div>
  );
}

function ClusterTile({ cluster, replicas }: { cluster: KObject; replicas?: number }) {
  const state = stateOf(cluster);
  const cpu = capacityOf(cluster, "cpu");
  const nodes = nodesOf(cluster);
  const share = cpu.allocatable > 0 ? cpu.allocated / cpu.allocatable : 0;
  return (
    <Link className={`ship ${toneOf(state)}`} href={`/clusters/${cluster.metadata.name}`}>
      <span className="row between">
        <b className="ellipsis" title={cluster.metadata.name}>{cluster.metadata.name}</b>
        <span className="small muted nowrap">{cluster.spec?.syncMode}</span>
      </span>
      <span className="small">{t(state)}{isCordoned(cluster) && ` · ${t("cordoned")}`}</span>
      <Meter parts={[{ value: cpu.allocated, tone: usageTone(share) }]} total={cpu.allocatable} label={t("CPU requested")} />
      <span className="small muted">{t("Replicas: {replicas} · Nodes: {nodes}", { replicas: replicas?.toLocaleString() ?? "–", nodes: nodes.ready })}</span>
    </Link>
  );
}
