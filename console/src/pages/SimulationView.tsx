// The outcome of a simulated loss of a cluster.

import type { Simulation } from "../api/types";
import { msg, t } from "../i18n";
import { ObjectLink } from "../ui/objectLink";
import { Badge, Empty, Meter, type Tone } from "../ui/parts";

const VERDICTS: Record<string, [string, Tone]> = {
  Moves: [msg("moves"), "info"],
  Covered: [msg("also runs elsewhere"), "ok"],
  Stays: [msg("stays"), ""],
  DoesNotFit: [msg("unschedulable"), "bad"],
};

export function SimulationView({ simulation }: { simulation: Simulation }) {
  const { totals, bindings, gains, notes = [] } = simulation;
  if (bindings.length === 0) return <Empty title={t("No workloads in {cluster}", { cluster: simulation.cluster })} icon="check" />;
  const most = Math.max(1, ...Object.values(gains));
  return (
    <div className="stack">
      <div className="row wrap">
        <Badge tone="info" plain>{t("{count} move", { count: totals.moves })}</Badge>
        <Badge tone="ok" plain>{t("{count} also run elsewhere", { count: totals.covered })}</Badge>
        <Badge plain>{t("{count} stay", { count: totals.stays })}</Badge>
        <Badge tone={totals.doesNotFit > 0 ? "bad" : ""} plain>{t("{count} unschedulable", { count: totals.doesNotFit })}</Badge>
        <span className="muted small">{t("Replicas that move: {count}", { count: totals.replicasMoved })}{totals.replicasWithoutRoom > 0 && ` · ${t("Replicas that cannot be scheduled: {count}", { count: totals.replicasWithoutRoom })}`}</span>
      </div>
      {notes.map((note) => <div className="banner" key={note}>{note}</div>)}
      {Object.keys(gains).length > 0 && (
        <div className="stack tight">
          {Object.entries(gains).map(([cluster, gained]) => (
            <div className="row" key={cluster}>
              <span style={{ width: 140 }} className="ellipsis">{cluster}</span>
              <div className="grow"><Meter tall parts={[{ value: gained }]} total={most} label={cluster} /></div>
              <b style={{ width: 56 }} className="right">+{gained}</b>
            </div>
          ))}
        </div>
      )}
      <div className="hscroll" tabIndex={0} role="group">
        <table className="simple">
          <thead><tr><th>{t("Workload")}</th><th className="num">{t("Replicas")}</th><th>{t("Outcome")}</th><th>{t("Destination")}</th></tr></thead>
          <tbody>
            {bindings.map(({ subject, verdict, replicas, to = [], reason }) => {
              const [text, tone] = VERDICTS[verdict] ?? [verdict, ""];
              return (
                <tr key={`${subject.kind}/${subject.namespace}/${subject.name}`}>
                  <td><ObjectLink to={subject} /><div className="muted small">{subject.kind} · {subject.namespace}</div></td>
                  <td className="num">{replicas || <span className="muted">–</span>}</td>
                  <td><Badge tone={tone}>{t(text)}</Badge>{reason && <div className="small muted">{reason}</div>}</td>
                  <td>{to.map((target) => `${target.name} +${target.replicas ?? 0}`).join(", ") || <span className="muted">–</span>}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </div>
  );
}
