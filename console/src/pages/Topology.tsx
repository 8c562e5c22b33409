// The map: clusters by region, and how replicas flow from namespaces, policies or workloads into them.

import { useState } from "react";
import { useLocation } from "wouter";
import { useBindingSummary, useFlows, useWhole } from "../api/bindings";
import { CLUSTERS, pathOf } from "../api/resources";
import type { KObject } from "../api/types";
import { usePrefs } from "../app/prefs";
import { useUrlState } from "../app/urlState";
import { t } from "../i18n";
import { stateOf, toneOf } from "../model/cluster";
import { type Flow, type FlowMap, type FlowNode, type Grouping, REST } from "../model/flows";
import { colourOf } from "../ui/chart";
import { Card, Empty, Loading, PageHead, Problem, Segmented, Stale } from "../ui/parts";
import { FleetMap } from "./FleetMap";
import "./fleetMap.css";

const GROUPINGS: Grouping[] = ["namespace", "policy", "workload"];

export default function Topology() {
  const { namespace } = usePrefs();
  const clusters = useWhole({ path: pathOf(CLUSTERS) });
  const summary = useBindingSummary(namespace);
  const [by, setBy] = useUrlState("by", "namespace");
  const flows = useFlows(GROUPINGS.find((one) => one === by) ?? "namespace", namespace);
  const problem = clusters.phase === "error" ? clusters : flows.phase === "error" && !flows.data ? flows : undefined;
  if (problem?.error) return <><PageHead title={t("Topology")} /><section className="card"><Problem error={problem.error} retry={problem.reload} /></section></>;
  const map = flows.data;
  if (clusters.phase === "loading") return <><PageHead title={t("Topology")} /><Loading /></>;
  return (
    <>
      <PageHead title={t("Topology")} />
      <Stale show={clusters.stale || flows.stale} />
      <Card title={t("Clusters by region")}><FleetMap clusters={clusters.items} shares={summary.data?.clusters} /></Card>
      <Card title={t("Replicas")} flush actions={<Segmented label={t("Group by")} value={by} onChange={setBy} options={[{ id: "namespace", text: t("Namespaces") }, { id: "policy", text: t("Policies") }, { id: "workload", text: t("Workloads") }]} />}>
        {!map ? <Loading /> : map.flows.length === 0 ? <Empty title={t("No replicas are assigned to clusters")} icon="cluster" /> : <Flows map={map} clusters={clusters.items} />}
      </Card>
      {map && map.flows.length > 0 && <FlowTable map={map} first={{ policy: t("Policy"), workload: t("Workload") }[by] ?? t("Namespace")} />}
    </>
  );
}

const WIDTH = 1000;
const BAR = 14;
const GAP = 12;
const LEFT = 240;
const RIGHT = WIDTH - 220;

interface Placed extends FlowNode {
  y: number;
  height: number;
}

function place(nodes: FlowNode[], scale: number, total: number): Placed[] {
  const height = nodes.reduce((sum, node) => sum + Math.max(node.weight * scale, 4) + GAP, -GAP);
  let y = (total - height) / 2;
  return nodes.map((node) => {
    const placed = { ...node, y, height: Math.max(node.weight * scale, 4) };
    y += placed.height + GAP;
    return placed;
  });
}

function Flows({ map, clusters }: { map: FlowMap; clusters: KObject[] }) {
  const [, navigate] = useLocation();
  const [chosen, setChosen] = useState("");
  const rows = Math.max(map.sources.length, map.clusters.length);
  const height = Math.max(220, rows * 46);
  const weight = map.flows.reduce((sum, flow) => sum + flow.replicas, 0);
  const scale = (height - rows * (GAP + 4)) / weight;
  const [sources, targets] = [place(map.sources, scale, height), place(map.clusters, scale, height)];
  const toneFor = (name: string) => {
    const cluster = clusters.find((one) => one.metadata.name === name);
    return cluster ? toneOf(stateOf(cluster)) : "";
  };
  const offsets = new Map<string, number>();
  const take = (side: string, node: Placed, size: number) => {
    const at = offsets.get(side + node.id) ?? node.y;
    offsets.set(side + node.id, at + size);
    return at + size / 2;
  };
  const isDrawn = (flow: Flow) => sources.some((one) => one.id === flow.from) && targets.some((one) => one.id === flow.to);
  const order = map.flows.filter(isDrawn).sort((a, b) => sources.findIndex((one) => one.id === a.from) - sources.findIndex((one) => one.id === b.from) || targets.findIndex((one) => one.id === a.to) - targets.findIndex((one) => one.id === b.to));
  const choose = (id: string) => ({ onPointerEnter: () => setChosen(id), onPointerLeave: () => setChosen(""), onFocus: () => setChosen(id), onBlur: () => setChosen("") });
  return (
    <div className="flows" tabIndex={0} role="group" aria-label={t("Replicas")}>
      <svg viewBox={`0 0 ${WIDTH} ${height + 8}`} width="100%" style={{ minWidth: 720 }} role="group" aria-label={t("Flows of replicas; the table below has the same content")}>
        {order.map((flow) => {
          const [source, target] = [sources.find((one) => one.id === flow.from)!, targets.find((one) => one.id === flow.to)!];
          const size = flow.replicas * scale;
          const [from, to] = [take("s", source, size), take("t", target, size)];
          const middle = (LEFT + BAR + RIGHT) / 2;
          const dim = chosen !== "" && chosen !== `s${flow.from}` && chosen !== `t${flow.to}`;
          return <path key={`${flow.from}→${flow.to}`} data-dim={dim ? "" : undefined} d={`M${LEFT + BAR} ${from}C${middle} ${from} ${middle} ${to} ${RIGHT} ${to}`} stroke={colourOf(sources.indexOf(source))} strokeWidth={Math.max(size, 1.5)}><title>{`${flow.from} → ${flow.to}: ${flow.replicas}`}</title></path>;
        })}
        {sources.map((node, index) => (
          <g key={node.id} {...choose(`s${node.id}`)}>
            <rect x={LEFT} y={node.y} width={BAR} height={node.height} rx={3} style={{ fill: colourOf(index) }} />
            <text x={LEFT - 10} y={node.y + node.height / 2 + 4} textAnchor="end">{short(node.text, 28)} <tspan className="sub">{node.weight}</tspan></text>
          </g>
        ))}
        {targets.map((node) => (
          <g key={node.id} className="flow-node" role="link" tabIndex={node.id === REST ? undefined : 0} aria-label={`${node.text}: ${node.weight}`} {...choose(`t${node.id}`)} onClick={() => node.id !== REST && navigate(`/clusters/${node.id}`)} onKeyDown={(event) => event.key === "Enter" && node.id !== REST && navigate(`/clusters/${node.id}`)}>
            <rect className={toneFor(node.id)} x={RIGHT} y={node.y} width={BAR} height={node.height} rx={3} />
            <text x={RIGHT + BAR + 10} y={node.y + node.height / 2 + 4}>{short(node.text, 22)} <tspan className="sub">{node.weight}</tspan></text>
          </g>
        ))}
      </svg>
    </div>
  );
}

const short = (text: string, max: number) => (text.length > max ? `${text.slice(0, max - 1)}…` : text);

function FlowTable({ map, first }: { map: FlowMap; first: string }) {
  return (
    <Card title={t("Replicas by cluster")} flush>
      <div className="hscroll" tabIndex={0} role="group">
        <table className="simple">
          <thead><tr><th>{first}</th>{map.clusters.map((one) => <th className="num" key={one.id}>{one.text}</th>)}<th className="num">{t("Total")}</th></tr></thead>
          <tbody>
            {map.sources.map((source) => (
              <tr key={source.id}>
                <td>{source.text}</td>
                {map.clusters.map((cluster) => <td className="num" key={cluster.id}>{map.flows.find((flow) => flow.from === source.id && flow.to === cluster.id)?.replicas ?? <span className="muted">–</span>}</td>)}
                <td className="num"><b>{source.weight}</b></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}
