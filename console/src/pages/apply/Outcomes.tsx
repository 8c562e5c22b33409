// What became of each object that was applied.

import { t } from "../../i18n";
import { ObjectLink } from "../../ui/objectLink";
import { Badge, Card } from "../../ui/parts";
import type { Outcome } from "./manifests";

export function Outcomes({ outcomes }: { outcomes: Outcome[] }) {
  return (
    <Card title={t("Applied")} flush>
      <table className="simple" aria-live="polite">
        <tbody>
          {outcomes.map(({ object: { apiVersion = "", kind = "", metadata: { namespace, name } }, error }) => (
            <tr key={`${kind}/${namespace}/${name}`}>
              <td><ObjectLink to={{ apiVersion, kind, namespace, name }} /><div className="muted small">{kind}{namespace && ` · ${namespace}`}</div></td>
              <td><Badge tone={error ? "bad" : "ok"}>{error ? t("refused") : t("applied")}</Badge>{error && <div className="small">{error}</div>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}
