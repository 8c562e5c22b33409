// What became of each object that was applied, and which fields of others stopped one.

import { useState } from "react";
import { useDiscovery } from "../../api/resources";
import { t } from "../../i18n";
import { ObjectLink } from "../../ui/objectLink";
import { Badge, Button, Card } from "../../ui/parts";
import { applyOne, type Outcome } from "./manifests";

/** `onChange` gets the outcomes after an object was applied by force. */
export function Outcomes({ outcomes, onChange }: { outcomes: Outcome[]; onChange: (outcomes: Outcome[]) => void }) {
  const discovery = useDiscovery();
  const [busy, setBusy] = useState(false);
  const force = async (outcome: Outcome) => {
    setBusy(true);
    const forced = await applyOne(outcome.object, discovery.data ?? [], true);
    onChange(outcomes.map((one) => (one === outcome ? forced : one)));
    setBusy(false);
  };
  return (
    <Card title={t("Applied")} flush>
      <table className="simple" aria-live="polite">
        <tbody>
          {outcomes.map((outcome) => {
            const { object: { apiVersion = "", kind = "", metadata: { namespace, name } }, error, conflicts } = outcome;
            return (
              <tr key={`${kind}/${namespace}/${name}`}>
                <td><ObjectLink to={{ apiVersion, kind, namespace, name }} /><div className="muted small">{kind}{namespace && ` · ${namespace}`}</div></td>
                <td>
                  <Badge tone={error ? "bad" : "ok"}>{conflicts ? t("conflict") : error ? t("refused") : t("applied")}</Badge>
                  {conflicts ? <Conflicts outcome={outcome} busy={busy} onForce={() => void force(outcome)} /> : error && <div className="small">{error}</div>}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </Card>
  );
}

function Conflicts({ outcome, busy, onForce }: { outcome: Outcome; busy: boolean; onForce: () => void }) {
  return (
    <div className="stack tight small">
      <p>{t("Other field managers have set these fields to different values. The object was not changed.")}</p>
      <ul className="stack tight">{outcome.conflicts?.map(({ field, message }) => <li key={field + message}><code style={{ overflowWrap: "anywhere" }}>{field}</code> <span className="muted">{message}</span></li>)}</ul>
      <div><Button small kind="danger" disabled={busy || outcome.error === undefined} onClick={onForce}>{t("Take over these fields")}</Button></div>
    </div>
  );
}
