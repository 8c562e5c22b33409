// Replicas by cluster and the main facts of a workload.

import { Link } from "wouter";
import { formatBytes, formatCpu, parseQuantity } from "../../api/quantity";
import type { KObject } from "../../api/types";
import { t } from "../../i18n";
import { perCluster, policyOf, stateOfBinding, reasonOf } from "../../model/binding";
import { imagesOf, podTemplateOf } from "../../model/workload";
import { Age, Badge, Card, Empty, KeyValues, Labels, Meter } from "../../ui/parts";
import { ConditionTable } from "../ConditionTable";

export function Summary({ workload, binding }: { workload: KObject; binding?: KObject }) {
  const policy = policyOf(binding);
  const containers = podTemplateOf(workload)?.spec?.containers ?? [];
  return (
    <div className="cols">
      <div>
      <Card title={t("Replicas by cluster")}><ReplicaBars binding={binding} /></Card>
      {binding && <Card title={t("Binding conditions")} flush><ConditionTable object={binding} /></Card>}
      </div>
      <div>
      <Card title={t("Details")}>
        <KeyValues
          entries={[
            [t("Kind"), workload.kind],
            [t("Namespace"), workload.metadata.namespace],
            [t("Policy"), policy ? <Link href={policyHref(policy)}>{policy.name}</Link> : <span className="muted">{t("none")}</span>],
            [t("State"), binding && reasonOf(binding) ? <>{t(stateOfBinding(binding))} <span className="muted">· {reasonOf(binding)}</span></> : binding && t(stateOfBinding(binding))],
            [t("Images"), <span className="stack tight">{imagesOf(workload).map((image) => <code key={image}>{image}</code>)}</span>],
            [t("Requests"), requestsText(containers)],
            [t("Labels"), <Labels labels={workload.metadata.labels} />],
            [t("Created"), <Age at={workload.metadata.creationTimestamp} ago />],
          ]}
        />
      </Card>
      {workload.status?.conditions && <Card title={t("Conditions")} flush><ConditionTable object={workload} /></Card>}
      </div>
    </div>
  );
}

export function policyHref(policy: { kind: string; namespace?: string; name: string }): string {
  return policy.namespace
    ? `/resources/policy.karmada.io~v1alpha1~propagationpolicies/${policy.namespace}/${policy.name}`
    : `/resources/policy.karmada.io~v1alpha1~clusterpropagationpolicies/${policy.name}`;
}

function requestsText(containers: any[]): string {
  const texts = containers.map((container) => {
    const requests = container.resources?.requests ?? {};
    return [requests.cpu && `${t("CPU")} ${formatCpu(parseQuantity(requests.cpu))}`, requests.memory && `${t("Memory")} ${formatBytes(parseQuantity(requests.memory))}`].filter(Boolean).join(", ");
  });
  return texts.filter(Boolean).join(" + ");
}

function ReplicaBars({ binding }: { binding?: KObject }) {
  const clusters = perCluster(binding);
  if (clusters.length === 0) {
    return (
      <Empty title={t("Not in any cluster")} icon="cluster">
        <p>{t("The Why tab shows the step that failed.")}</p>
      </Empty>
    );
  }
  const most = Math.max(1, ...clusters.map((one) => one.desired ?? 1));
  return (
    <div className="stack">
      {clusters.map((one) => (
        <div className="stack tight" key={one.name}>
          <div className="row between">
            <span className="row"><Link href={`/clusters/${one.name}`}>{one.name}</Link><Badge tone={one.tone}>{t(one.state)}</Badge></span>
            {one.desired !== undefined && <span><b>{one.ready ?? 0}</b><span className="muted"> / {one.desired}</span></span>}
          </div>
          {one.desired !== undefined && <Meter tall parts={[{ value: Math.min(one.ready ?? 0, one.desired), tone: "ok" }, { value: Math.max(0, one.desired - (one.ready ?? 0)), tone: "warn" }]} total={most} label={one.name} />}
          {one.message && <span className="small muted">{one.message}</span>}
        </div>
      ))}
    </div>
  );
}
