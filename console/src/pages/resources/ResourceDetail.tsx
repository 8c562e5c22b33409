// One object of any kind: facts, data, placement, events, YAML.

import { useState } from "react";
import { Link } from "wouter";
import { useLive, useLiveObject } from "../../api/live";
import { BINDINGS, CLUSTER_BINDINGS, pathOf, type Resource, slugOf, useResource } from "../../api/resources";
import type { KObject } from "../../api/types";
import { useUrlState } from "../../app/urlState";
import { ObjectYaml } from "../../editor/ObjectYaml";
import { t } from "../../i18n";
import { bindingNameOf, perCluster, policyOf, reasonOf, stateOfBinding, toneOfBinding } from "../../model/binding";
import { ClusterChips } from "../../ui/clusterChips";
import { Age, Badge, Button, Card, Empty, KeyValues, Labels, Loading, PageHead, Problem, Stale, Tabs } from "../../ui/parts";
import { ConditionTable } from "../ConditionTable";
import { subjectLink } from "../Overview";
import { placementText, selectorsText } from "../policies/describe";
import { DeleteDialog } from "../workloads/Actions";
import { policyHref } from "../workloads/Summary";
import { WhyView } from "../workloads/WhyView";
import { DataCard } from "./DataCard";
import { ObjectEvents } from "./ObjectEvents";

export default function ResourceDetail({ slug, namespace, name }: { slug: string; namespace?: string; name: string }) {
  const { resource, error, pending } = useResource(slug);
  if (pending) return <><PageHead title={name} /><Loading /></>;
  if (!resource) return <><PageHead title={name} /><section className="card">{error ? <Problem error={error} /> : <Empty title={t("The control plane does not serve this kind")} />}</section></>;
  return <Detail resource={resource} namespace={namespace} name={decodeURIComponent(name)} />;
}

const HAS_NO_PLACEMENT = /^(work|policy|cluster|search|config|apps)\.karmada\.io$|^events\.k8s\.io$|authorization|coordination/;

function Detail({ resource, namespace, name }: { resource: Resource; namespace?: string; name: string }) {
  const live = useLiveObject(pathOf(resource, namespace), name);
  const placed = !HAS_NO_PLACEMENT.test(resource.group) && resource.kind !== "Event";
  const bindingsPath = pathOf(resource.namespaced ? BINDINGS : CLUSTER_BINDINGS, namespace);
  const bindings = useLive(resource.kind.endsWith("PropagationPolicy") ? { path: bindingsPath, limit: 1000 } : undefined);
  const { object: binding } = useLiveObject(bindingsPath, placed ? bindingNameOf(resource.kind, name) : undefined);
  const [tab, setTab] = useUrlState("tab", "summary");
  const [deleting, setDeleting] = useState(false);
  const list = `/resources/${slugOf(resource)}`;
  const crumbs = [{ text: resource.kind, to: list }, ...(namespace ? [{ text: namespace }] : []), { text: name }];
  if (live.phase === "loading") return <><PageHead title={name} crumbs={crumbs} /><Loading /></>;
  if (live.phase === "error" && live.error) return <><PageHead title={name} crumbs={crumbs} /><section className="card"><Problem error={live.error} retry={live.reload} /></section></>;
  if (!live.object) return <><PageHead title={name} crumbs={crumbs} /><section className="card"><Empty title={t("{kind} {name} does not exist", { kind: resource.kind, name })} /></section></>;
  const object: KObject = { ...live.object, kind: resource.kind };
  const tabs = [
    { id: "summary", text: t("Summary") },
    ...(placed ? [{ id: "why", text: t("Why") }] : []),
    { id: "events", text: t("Events") },
    { id: "yaml", text: "YAML" },
  ];
  const state = binding && stateOfBinding(binding);
  return (
    <>
      <PageHead title={name} crumbs={crumbs} badges={<>{state && <Badge tone={toneOfBinding(state)}>{t(state)}</Badge>}{object.metadata.deletionTimestamp && <Badge tone="warn">{t("Deleting")}</Badge>}</>}>
        {resource.verbs.includes("delete") && <Button kind="danger" icon="trash" onClick={() => setDeleting(true)}>{t("Delete…")}</Button>}
      </PageHead>
      <Stale show={live.stale} />
      <Tabs tabs={tabs} current={tab} onChange={setTab} label={t("Sections")} />
      {tab === "summary" && <Summary resource={resource} object={object} binding={binding} bindings={bindings.items} />}
      {tab === "why" && <WhyView resource={resource} object={object} binding={binding} />}
      {tab === "events" && <ObjectEvents object={object} binding={binding} />}
      {tab === "yaml" && (resource.kind === "Secret" ? <SecretYaml resource={resource} object={live.object} /> : <ObjectYaml resource={resource} object={live.object} />)}
      {deleting && <DeleteDialog resource={resource} object={object} back={list} onClose={() => setDeleting(false)} />}
    </>
  );
}

function Summary({ resource, object, binding, bindings }: { resource: Resource; object: KObject; binding?: KObject; bindings: KObject[] }) {
  const policy = policyOf(binding);
  const isPolicy = resource.group === "policy.karmada.io" && object.spec?.resourceSelectors;
  const owner = object.metadata.ownerReferences?.[0];
  return (
    <div className="grid2">
      <Card title={t("Details")}>
        <KeyValues
          entries={[
            [t("Kind"), resource.kind],
            [t("Namespace"), object.metadata.namespace],
            [t("Owner"), owner && `${owner.kind} ${owner.name}`],
            [t("Selects"), isPolicy && selectorsText(object)],
            [t("Placement"), isPolicy && placementText(object)],
            [t("Policy"), policy && <Link href={policyHref(policy)}>{policy.name}</Link>],
            [t("Clusters"), binding && <ClusterChips clusters={perCluster(binding)} max={20} />],
            ...facts(resource, object),
            [t("Labels"), <Labels labels={object.metadata.labels} />],
            [t("Annotations"), <Labels labels={short(object.metadata.annotations)} />],
            [t("Created"), <Age at={object.metadata.creationTimestamp} ago />],
            ["UID", <code>{object.metadata.uid}</code>],
          ]}
        />
      </Card>
      {isPolicy && resource.kind.endsWith("PropagationPolicy") && <Held policy={object} bindings={bindings} />}
      {(resource.kind === "ConfigMap" || resource.kind === "Secret") && <DataCard object={object} secret={resource.kind === "Secret"} />}
      {object.status?.conditions && <Card title={t("Conditions")} flush><ConditionTable object={object} /></Card>}
    </div>
  );
}

/** Facts of well-known kinds. */
function facts(resource: Resource, object: KObject): [string, React.ReactNode][] {
  const { spec = {}, status = {} } = object;
  switch (resource.kind) {
    case "Service":
      return [[t("Type"), spec.type], ["IP", spec.clusterIP && <code>{spec.clusterIP}</code>], [t("Ports"), (spec.ports ?? []).map((port: any) => `${port.name ? `${port.name}: ` : ""}${port.port}/${port.protocol ?? "TCP"}`).join(", ")], [t("Selector"), <Labels labels={spec.selector} />]];
    case "Ingress":
      return [[t("Class"), spec.ingressClassName], [t("Hosts"), (spec.rules ?? []).map((rule: any) => rule.host ?? "*").join(", ")]];
    case "Namespace":
      return [[t("State"), status.phase]];
    case "ResourceBinding":
    case "ClusterResourceBinding":
      return [[t("Object"), <Link href={subjectLink(object)}>{spec.resource?.kind} {spec.resource?.name}</Link>], [t("Policy"), policyOf(object)?.name], [t("State"), <>{t(stateOfBinding(object))} <span className="muted">{reasonOf(object)}</span></>], [t("Clusters"), <ClusterChips clusters={perCluster(object)} max={20} />], [t("Replicas"), spec.replicas]];
    case "Work":
      return [[t("Cluster"), <Link href={`/clusters/${(object.metadata.namespace ?? "").replace("karmada-es-", "")}`}>{(object.metadata.namespace ?? "").replace("karmada-es-", "")}</Link>], [t("Contents"), (spec.workload?.manifests ?? []).map((one: KObject) => `${one.kind} ${one.metadata?.namespace ? `${one.metadata.namespace}/` : ""}${one.metadata?.name}`).join(", ")], [t("Health"), (status.manifestStatuses ?? []).map((one: any) => t(one.health ?? "Unknown")).join(", ")]];
    case "ClusterRole":
    case "Role":
      return [[t("Rules"), <ul className="stack tight">{(object.rules ?? []).map((rule: any, index: number) => <li key={index}><b>{(rule.verbs ?? []).join(", ")}</b> {(rule.resources ?? rule.nonResourceURLs ?? []).join(", ")} <span className="muted">{(rule.apiGroups ?? []).map((group: string) => group || "core").join(", ")}</span></li>)}</ul>]];
    case "ClusterRoleBinding":
    case "RoleBinding":
      return [[t("Role"), `${object.roleRef?.kind} ${object.roleRef?.name}`], [t("Subjects"), (object.subjects ?? []).map((subject: any) => `${subject.kind} ${subject.namespace ? `${subject.namespace}/` : ""}${subject.name}`).join(", ")]];
    default:
      return [];
  }
}

const short = (annotations?: Record<string, string>) =>
  annotations && Object.fromEntries(Object.entries(annotations).filter(([key]) => key !== "kubectl.kubernetes.io/last-applied-configuration").map(([key, value]) => [key, value.length > 60 ? `${value.slice(0, 59)}…` : value]));

function Held({ policy, bindings }: { policy: KObject; bindings: KObject[] }) {
  const held = bindings.filter((binding) => {
    const by = policyOf(binding);
    return by?.name === policy.metadata.name && (by.namespace ?? "") === (policy.metadata.namespace ?? "");
  });
  return (
    <Card title={t("Objects it holds")} flush>
      {held.length === 0 ? <Empty title={t("It holds no object")} icon="policy"><p>{t("No object matches its selectors, or another policy has a higher priority.")}</p></Empty> : (
        <div className="hscroll" tabIndex={0} role="group">
          <table className="simple">
            <tbody>
              {held.slice(0, 200).map((binding) => {
                const state = stateOfBinding(binding);
                return (
                  <tr key={binding.metadata.uid}>
                    <td><Link href={subjectLink(binding).replace("?tab=why", "")}>{binding.spec.resource.name}</Link><div className="muted small nowrap">{binding.spec.resource.kind}</div></td>
                    <td><ClusterChips clusters={perCluster(binding)} /></td>
                    <td><Badge tone={toneOfBinding(state)}>{t(state)}</Badge></td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}

/** The YAML of a Secret has its values, so that it is shown on request only. */
function SecretYaml({ resource, object }: { resource: Resource; object: KObject }) {
  const [shown, setShown] = useState(false);
  if (shown) return <ObjectYaml resource={resource} object={object} />;
  return <section className="card"><Empty title={t("The values are hidden")} icon="lock"><p>{t("The YAML contains the values of the secret.")}</p><Button icon="eye" onClick={() => setShown(true)}>{t("Show the YAML")}</Button></Empty></section>;
}
