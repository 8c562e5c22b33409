// The graph from the template through policy, binding and decision to every member. Columns are stages, so that the layout is
// computed without a library: the stages before the members are one line, the members fan out.

import { useLocation } from "wouter";
import type { KObject, Why } from "../../api/types";
import { t } from "../../i18n";
import { perCluster, policyOf } from "../../model/binding";
import type { Tone } from "../../ui/parts";
import { policyHref } from "./Summary";
import { titleOfStage, toneOfStage } from "./WhyView";

const WIDTH = 158;
const HEIGHT = 54;
const GAP_X = 34;
const GAP_Y = 12;
const MEMBERS_MAX = 12;

interface Node {
  id: string;
  stage: string;
  x: number;
  y: number;
  title: string;
  sub: string;
  tone: Tone;
  href?: string;
}

const LINE = ["template", "policy", "binding", "scheduling"];

export function layout(why: Why, binding: KObject | undefined): { nodes: Node[]; edges: [Node, Node, Tone | "none"][]; width: number; height: number } {
  const stage = (name: string) => why.stages.find((one) => one.name === name);
  const members = perCluster(binding);
  const shown = members.slice(0, MEMBERS_MAX);
  const rows = Math.max(1, shown.length + (members.length > MEMBERS_MAX ? 1 : 0));
  const height = rows * HEIGHT + (rows - 1) * GAP_Y + 8;
  const middle = (height - HEIGHT) / 2;
  const policy = policyOf(binding);
  const line: Node[] = LINE.map((name, index) => {
    const found = stage(name);
    const subs: Record<string, string> = { template: `${why.subject.kind} ${why.subject.name}`, policy: policy?.name ?? found?.summary ?? "", binding: binding?.metadata.name ?? found?.summary ?? "" };
    return {
      id: name, stage: name, x: index * (WIDTH + GAP_X) + 2, y: middle, title: titleOfStage(name),
      sub: subs[name] ?? (found?.state === "Done" ? t("Clusters: {count}", { count: members.length }) : (found?.summary ?? t("not reached"))),
      tone: found ? toneOfStage(found.state) : "", href: name === "policy" && policy ? policyHref(policy) : undefined,
    };
  });
  const nodes = [...line];
  const edges: [Node, Node, Tone | "none"][] = line.slice(1).map((node, index) => [line[index]!, node, node.tone === "" ? "none" : node.tone]);
  const last = line.at(-1)!;
  const x = LINE.length * (WIDTH + GAP_X) + 2;
  shown.forEach((member, index) => {
    const y = index * (HEIGHT + GAP_Y) + 4;
    const work: Node = { id: `work-${member.name}`, stage: "work", x, y, title: t("Work"), sub: member.state === "Applying" ? t("Applying") : t("applied"), tone: member.state === "Applying" ? "warn" : "ok" };
    const target: Node = {
      id: `member-${member.name}`, stage: "members", x: x + WIDTH + GAP_X, y, title: member.name,
      sub: `${t(member.state)}${member.desired !== undefined ? ` · ${member.ready ?? 0}/${member.desired}` : ""}`, tone: member.tone, href: `/clusters/${member.name}`,
    };
    nodes.push(work, target);
    edges.push([last, work, work.tone], [work, target, target.tone || "none"]);
  });
  if (members.length > MEMBERS_MAX) {
    const rest: Node = { id: "rest", stage: "members", x: x + WIDTH + GAP_X, y: MEMBERS_MAX * (HEIGHT + GAP_Y) + 4, title: t("{count} more", { count: members.length - MEMBERS_MAX }), sub: "", tone: "" };
    nodes.push(rest);
    edges.push([last, rest, "none"]);
  }
  return { nodes, edges, width: (LINE.length + (shown.length > 0 ? 2 : 0)) * (WIDTH + GAP_X) - GAP_X + 4, height };
}

const cut = (text: string, max: number) => (text.length > max ? `${text.slice(0, max - 1)}…` : text);

export function WhyGraph({ why, binding, chosen, onChoose }: { why: Why; binding?: KObject; chosen: string; onChoose: (stage: string) => void }) {
  const [, navigate] = useLocation();
  const { nodes, edges, width, height } = layout(why, binding);
  return (
    <div className="graph">
      <svg width="100%" style={{ maxWidth: width, minWidth: Math.min(width, 780) }} viewBox={`0 0 ${width} ${height}`} role="group" aria-label={t("Graph from template to members; the stages below have the same content as text")}>
        {edges.map(([from, to, tone]) => {
          const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
          return <path key={`${from.id}-${to.id}`} className={`edge ${tone}`} d={`M${x1} ${y1} C ${x1 + GAP_X / 2} ${y1}, ${x2 - GAP_X / 2} ${y2}, ${x2} ${y2}`} />;
        })}
        {nodes.map((node) => (
          <g
            key={node.id}
            className={`node ${node.tone}`}
            role="button"
            tabIndex={0}
            aria-label={`${node.title}: ${node.sub}`}
            data-chosen={node.stage === chosen}
            transform={`translate(${node.x} ${node.y})`}
            onClick={() => onChoose(node.stage)}
            onDoubleClick={() => node.href && navigate(node.href)}
            onKeyDown={(event) => {
              if (event.key === "Enter" || event.key === " ") {
                event.preventDefault();
                onChoose(node.stage);
              }
            }}
          >
            <title>{node.sub}</title>
            <rect width={WIDTH} height={HEIGHT} rx={9} />
            <text x={13} y={23}>{cut(node.title, 18)}</text>
            <text className="sub" x={13} y={41}>{cut(node.sub, 20)}</text>
          </g>
        ))}
      </svg>
    </div>
  );
}
