// What applying would do in every cluster.

import { Link } from "wouter";
import type { ChangePlan, PlanAction } from "../../api/types";
import { t } from "../../i18n";
import { Badge, Empty, type Tone } from "../../ui/parts";
import { subjectHref } from "../SimulationView";

const ACTIONS: Record<string, [string, Tone]> = {
  Place: ["create", "ok"], Create: ["create", "ok"], Change: ["change", "info"], Remove: ["remove", "bad"], Unchanged: ["no change", ""], Keep: ["no change", ""],
};

export function PlanView({ plan }: { plan: ChangePlan }) {
  const { templates, problems = [] } = plan;
  if (templates.length === 0 && problems.length === 0) return <Empty title={t("Nothing that is propagated would change")} icon="check" />;
  return (
    <div className="stack">
      {problems.map((problem) => <div className="banner bad" role="alert" key={problem}>{problem}</div>)}
      {templates.map(({ subject, policy, actions, problem, reasons = [] }) => {
        const href = subjectHref(subject);
        return (
          <section className="card" key={`${subject.kind}/${subject.namespace}/${subject.name}`}>
            <header>
              <h2>{href ? <Link href={href}>{subject.name}</Link> : subject.name} <span className="muted small">{subject.kind}{subject.namespace && ` · ${subject.namespace}`}</span></h2>
              {policy && <span className="muted small">{t("by policy {name}", { name: policy })}</span>}
            </header>
            {problem && <div className="body"><div className="banner">{problem}</div></div>}
            {actions.length > 0 && (
              <div className="hscroll" tabIndex={0} role="group">
                <table className="simple">
                  <thead><tr><th>{t("Cluster")}</th><th>{t("Action")}</th><th>{t("Replicas")}</th><th>{t("Changed fields")}</th></tr></thead>
                  <tbody>{actions.map((action) => <ActionRow key={action.cluster} action={action} />)}</tbody>
                </table>
              </div>
            )}
            {reasons.length > 0 && (
              <details className="body"><summary className="small">{t("Reasons of the scheduler")}</summary><ul className="reasons" style={{ marginTop: 8 }}>{reasons.map((reason, index) => <li key={index}>{reason}</li>)}</ul></details>
            )}
          </section>
        );
      })}
    </div>
  );
}

function ActionRow({ action }: { action: PlanAction }) {
  const [text, tone] = ACTIONS[action.what] ?? [action.what, ""];
  const { replicasBefore: before, replicasAfter: after } = action;
  return (
    <tr>
      <td>{action.cluster}</td>
      <td><Badge tone={tone}>{t(text)}</Badge></td>
      <td className="nowrap">{before !== undefined && after !== undefined && before !== after ? <>{before} → <b>{after}</b></> : (after ?? before ?? "–")}</td>
      <td>{action.problem ? <span style={{ color: "var(--bad)" }}>{action.problem}</span> : action.fields?.length ? action.fields.map((field) => <code key={field} style={{ display: "block" }}>{field}</code>) : "–"}</td>
    </tr>
  );
}
