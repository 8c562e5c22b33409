// What became of each object that was applied.

import { Link } from "wouter";
import { findByKind, slugOf, useDiscovery, WORKLOADS } from "../../api/resources";
import type { KObject } from "../../api/types";
import { t } from "../../i18n";
import { Badge, Card } from "../../ui/parts";
import type { Outcome } from "./manifests";

export function Outcomes({ outcomes }: { outcomes: Outcome[] }) {
  const discovery = useDiscovery();
  const link = ({ kind, apiVersion, metadata }: KObject) => {
    const workload = WORKLOADS.find((one) => one.kind === kind);
    const resource = findByKind(discovery.data, apiVersion ?? "", kind ?? "");
    if (workload) return `/workloads/${slugOf(workload)}/${metadata.namespace}/${metadata.name}`;
    return resource ? `/resources/${slugOf(resource)}/${metadata.namespace ? `${metadata.namespace}/` : ""}${metadata.name}` : "/";
  };
  return (
    <Card title={t("Applied")} flush>
      <table className="simple" aria-live="polite">
        <tbody>
          {outcomes.map(({ object, error }) => (
            <tr key={`${object.kind}/${object.metadata.namespace}/${object.metadata.name}`}>
              <td><Link href={link(object)}>{object.metadata.name}</Link><div className="muted small">{object.kind}{object.metadata.namespace && ` · ${object.metadata.namespace}`}</div></td>
              <td><Badge tone={error ? "bad" : "ok"}>{error ? t("refused") : t("applied")}</Badge>{error && <div className="small">{error}</div>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}
