// What applying would do in every cluster.

import { useState } from "react";
import type { ChangePlan, KObject, PlanAction, Planned } from "../../api/types";
import { useYaml } from "../../editor/ObjectYaml";
import { YamlDifference } from "../../editor/YamlEditor";
import { msg, t } from "../../i18n";
import { ObjectLink } from "../../ui/objectLink";
import { Badge, Button, Empty, Loading, Segmented, type Tone } from "../../ui/parts";

const ACTIONS: Record<string, [string, Tone]> = {
  Place: [msg("create"), "ok"], Create: [msg("create"), "ok"], Change: [msg("change"), "info"], Remove: [msg("remove"), "bad"], Unchanged: [msg("no change"), ""], Keep: [msg("no change"), ""],
};

export function PlanView({ plan }: { plan: ChangePlan }) {
  const { templates, problems = [], notes = [] } = plan;
  if (templates.length === 0 && problems.length === 0) return <section className="card"><Empty title={t("No propagated object would change")} icon="check" /></section>;
  return (
    <div className="stack">
      {problems.map((problem) => <div className="banner bad" role="alert" key={problem}>{problem}</div>)}
      {notes.map((note) => <div className="banner" key={note}>{note}</div>)}
      {templates.map((planned) => <PlannedCard key={`${planned.subject.kind}/${planned.subject.namespace}/${planned.subject.name}`} planned={planned} />)}
    </div>
  );
}

function PlannedCard({ planned }: { planned: Planned }) {
  const { subject, policy, actions, problem, reasons = [], notes = [] } = planned;
  const [shown, setShown] = useState("");
  return (
    <section className="card">
      <header>
        <h2><ObjectLink to={subject} /> <span className="muted small">{subject.kind}{subject.namespace && ` · ${subject.namespace}`}</span></h2>
        {policy && <span className="muted small">{t("by policy {name}", { name: policy })}</span>}
      </header>
      {(problem || notes.length > 0) && <div className="body stack tight">{problem && <div className="banner bad">{problem}</div>}{notes.map((note) => <div className="small muted" key={note}>{note}</div>)}</div>}
      {actions.length > 0 && (
        <div className="hscroll" tabIndex={0} role="group">
          <table className="simple">
            <thead><tr><th>{t("Cluster")}</th><th>{t("Action")}</th><th>{t("Replicas")}</th><th>{t("Changed fields")}</th><th><span className="sr">{t("Difference")}</span></th></tr></thead>
            <tbody>{actions.map((action) => <ActionRow key={action.cluster} action={action} open={shown === action.cluster} onOpen={() => setShown(shown === action.cluster ? "" : action.cluster)} />)}</tbody>
          </table>
        </div>
      )}
      {shown !== "" && <DifferenceOf actions={actions} shown={shown} onShow={setShown} />}
      {reasons.length > 0 && (
        <details className="body"><summary className="small">{t("Scheduling details")}</summary><ul className="reasons" style={{ marginTop: 8 }}>{reasons.map((reason, index) => <li key={index}>{reason}</li>)}</ul></details>
      )}
    </section>
  );
}

/** The object of one cluster before and after, as text. */
function DifferenceOf({ actions, shown, onShow }: { actions: PlanAction[]; shown: string; onShow: (cluster: string) => void }) {
  const known = actions.filter((action) => action.manifest);
  const manifest = known.find((action) => action.cluster === shown)?.manifest;
  const before = useYaml(readable(manifest?.before));
  const after = useYaml(readable(manifest?.after));
  return (
    <div className="body stack">
      {known.length > 1 && <Segmented label={t("Cluster")} value={shown} onChange={onShow} options={known.map((action) => ({ id: action.cluster, text: action.cluster }))} />}
      {before === undefined || after === undefined ? <Loading /> : <YamlDifference key={shown} before={manifest?.before ? before : ""} after={manifest?.after ? after : ""} labels={[t("Now in {cluster}", { cluster: shown }), t("After applying")]} />}
    </div>
  );
}

/** Without the bookkeeping of the control plane. */
function readable(object: KObject | null | undefined): unknown {
  if (!object) return {};
  const own = (entries?: Record<string, string>) => {
    const kept = Object.entries(entries ?? {}).filter(([key]) => !/karmada\.io\//.test(key));
    return kept.length > 0 ? Object.fromEntries(kept) : undefined;
  };
  const { apiVersion, kind, metadata, status: _, ...rest } = object;
  const shown = { name: metadata.name, namespace: metadata.namespace, labels: own(metadata.labels), annotations: own(metadata.annotations) };
  return { apiVersion, kind, metadata: Object.fromEntries(Object.entries(shown).filter(([, value]) => value !== undefined)), ...rest };
}

function ActionRow({ action, open, onOpen }: { action: PlanAction; open: boolean; onOpen: () => void }) {
  const [text, tone] = ACTIONS[action.what] ?? [action.what, ""];
  const { replicasBefore: before, replicasAfter: after } = action;
  return (
    <tr>
      <td>{action.cluster}</td>
      <td><Badge tone={tone}>{t(text)}</Badge></td>
      <td className="nowrap">{before !== undefined && after !== undefined && before !== after ? <>{before} → <b>{after}</b></> : (after ?? before ?? "–")}</td>
      <td>{action.problem ? <span style={{ color: "var(--bad)" }}>{action.problem}</span> : action.fields?.length ? action.fields.map((field) => <code key={field} style={{ display: "block", overflowWrap: "anywhere" }}>{field}</code>) : "–"}</td>
      <td className="right">{action.manifest && <Button small pressed={open} onClick={onOpen} label={t("Difference in {cluster}", { cluster: action.cluster })}>{t("Difference")}</Button>}</td>
    </tr>
  );
}
