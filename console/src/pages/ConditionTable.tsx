// The conditions of an object.

import type { Condition, KObject } from "../api/types";
import { t } from "../i18n";
import { Age, Badge, Empty, type Tone } from "../ui/parts";

/** Conditions whose truth is bad news. */
const NEGATIVE = /Pressure|Unavailable|Failed|Failure|Terminating|Stalled|Denied/;

const toneOf = ({ type, status }: Condition): Tone => (status === "Unknown" ? "warn" : (status === "True") === !NEGATIVE.test(type) ? "ok" : status === "True" ? "bad" : NEGATIVE.test(type) ? "ok" : "warn");

export function ConditionTable({ object }: { object: KObject }) {
  const conditions: Condition[] = object.status?.conditions ?? [];
  if (conditions.length === 0) return <Empty title={t("No conditions reported")} />;
  return (
    <div className="hscroll" tabIndex={0} role="group">
      <table className="simple">
        <thead><tr><th>{t("Condition")}</th><th>{t("Status")}</th><th>{t("Reason")}</th><th>{t("Since")}</th></tr></thead>
        <tbody>
          {conditions.map((condition) => (
            <tr key={condition.type}>
              <td>{condition.type}</td>
              <td><Badge tone={toneOf(condition)}>{condition.status}</Badge></td>
              <td>{condition.reason}{condition.message && <div className="small muted">{condition.message}</div>}</td>
              <td className="nowrap"><Age at={condition.lastTransitionTime} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
