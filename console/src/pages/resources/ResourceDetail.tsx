// One object of any kind: facts, data, placement, events, YAML.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import type { ApiError } from "../../api/client";
import { type Row, useLiveObject } from "../../api/live";
import { BINDINGS, CLUSTER_BINDINGS, isSecrets, pathOf, POLICIES, type Resource, slugOf, useResource } from "../../api/resources";
import { useRows } from "../../api/rows";
import { readSecret, useMaskedSecret } from "../../api/secrets";
import type { KObject } from "../../api/types";
import { useUrlState } from "../../app/urlState";
import { ObjectYaml } from "../../editor/ObjectYaml";
import { t } from "../../i18n";
import { bindingNameOf, perCluster, policyOf, reasonOf, stateOfBinding, toneOfBinding } from "../../model/binding";
import { policyKey } from "../../model/bindingSummary";
import { subjectOf } from "../../model/links";
import { hasPlacement } from "../../model/placement";
import { ClusterChips } from "../../ui/clusterChips";
import { ObjectLink } from "../../ui/objectLink";
import { Age, Badge, Button, Card, Empty, KeyValues, Labels, Loading, PageHead, Problem, Stale, Tabs } from "../../ui/parts";
import { DataTable, type TableColumn } from "../../ui/table";
import { ConditionTable } from "../ConditionTable";
import { placementText, selectorsText } from "../policies/describe";
import { DeleteDialog } from "../workloads/DeleteDialog";
import { policyHref } from "../workloads/Summary";
import { WhyView } from "../workloads/WhyView";
import { DataCard, SecretCard } from "./DataCard";
import { ObjectEvents } from "./ObjectEvents";

export default function ResourceDetail({ slug, namespace, name }: { slug: string; namespace?: string; name: string }) {
  const { resource, error, pending } = useResource(slug);
  if (pending) return <><PageHead title={name} /><Loading /></>;
  if (!resource) return <><PageHead title={name} /><section className="card">{error ? <Problem error={error} /> : <Empty title={t("The control plane does not serve this kind")} />}</section></>;
  return <Detail resource={resource} namespace={namespace} name={decodeURIComponent(name)} />;
}

function Detail({ resource, namespace, name }: { resource: Resource; namespace?: string; name: string }) {
  const secret = isSecrets(resource);
  const whole = useLiveObject(pathOf(resource, namespace), secret ? undefined : name);
  const masked = useMaskedSecret(namespace ?? "", secret ? name : undefined);
  const live = secret ? masked : whole;
  const placed = hasPlacement(resource);
  const bindingsPath = pathOf(resource.namespaced ? BINDINGS : CLUSTER_BINDINGS, namespace);
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
        {POLICIES.some((one) => one.kind === resource.kind && one.group === resource.group) && <Link className="btn" href={`/policies/edit/${resource.kind}/${namespace ? `${namespace}/` : ""}${encodeURIComponent(name)}`}>{t("Edit")}</Link>}
        {resource.verbs.includes("delete") && <Button kind="danger" icon="trash" onClick={() => setDeleting(true)}>{t("Delete…")}</Button>}
      </PageHead>
      <Stale show={live.stale} />
      <Tabs tabs={tabs} current={tab} onChange={setTab} label={t("Sections")} />
      {tab === "summary" && <Summary resource={resource} object={object} binding={binding} />}
      {tab === "why" && <WhyView resource={resource} object={object} binding={binding} />}
      {tab === "events" && <ObjectEvents object={object} binding={binding} />}
      {tab === "yaml" && (secret ? <SecretYaml resource={resource} object={live.object} /> : <ObjectYaml resource={resource} object={live.object} />)}
      {deleting && <DeleteDialog resource={resource} object={object} binding={binding} back={list} onClose={() => setDeleting(false)} />}
    </>
  );
}

function Summary({ resource, object, binding }: { resource: Resource; object: KObject; binding?: KObject }) {
  const policy = policyOf(binding);
  const isPolicy = resource.group === "policy.karmada.io" && object.spec?.resourceSelectors;
  const owner = object.metadata.ownerReferences?.[0];
  return (
    <>
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
            ["UID", object.metadata.uid && <code>{object.metadata.uid}</code>],
          ]}
        />
      </Card>
      {resource.group === "" && resource.kind === "ConfigMap" && <DataCard object={object} />}
      {isSecrets(resource) && <SecretCard secret={object} />}
      {object.status?.conditions && <Card title={t("Conditions")} flush><ConditionTable object={object} /></Card>}
    </div>
    {isPolicy && resource.kind.endsWith("PropagationPolicy") && <Held policy={object} />}
    </>
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
    case "Secret":
      return [[t("Type"), object.type]];
    case "ResourceBinding":
    case "ClusterResourceBinding":
      return [[t("Object"), <ObjectLink to={subjectOf(object)} tab="why">{spec.resource?.kind} {spec.resource?.name}</ObjectLink>], [t("Policy"), policyOf(object)?.name], [t("State"), <>{t(stateOfBinding(object))} <span className="muted">{reasonOf(object)}</span></>], [t("Clusters"), <ClusterChips clusters={perCluster(object)} max={20} />], [t("Replicas"), spec.replicas]];
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

/** The objects that the policy places: a cluster-wide policy holds objects in namespaces too. */
function Held({ policy }: { policy: KObject }) {
  const { name, namespace } = policy.metadata;
  const live = useRows({ resource: BINDINGS, namespace, bindings: { policy: policyKey({ kind: policy.kind ?? "", namespace, name }) }, whole: true });
  const columns: TableColumn<Row>[] = [
    { id: "object", title: t("Object"), width: "minmax(180px, 1.5fr)", cell: (row) => <><ObjectLink to={subjectOf(row.object!)} /> <span className="muted small">{row.object?.spec?.resource?.kind}</span></> },
    ...(namespace ? [] : [{ id: "namespace", title: t("Namespace"), width: "minmax(110px, 1fr)", cell: (row: Row) => row.metadata.namespace ?? "–" }]),
    { id: "clusters", title: t("Clusters"), width: "minmax(260px, 2.4fr)", cell: (row) => <ClusterChips clusters={perCluster(row.object)} /> },
    { id: "state", title: t("State"), width: "140px", cell: (row) => { const state = stateOfBinding(row.object!); return <Badge tone={toneOfBinding(state)}>{t(state)}</Badge>; } },
  ];
  return (
    <>
      <h2 className="section-title">{t("Propagated objects")}</h2>
      <DataTable label={t("Propagated objects")} live={live} rows={live.rows} columns={columns} rowKey={(row) => `${row.metadata.namespace}/${row.metadata.name}`} height={480} empty={<Empty title={t("No propagated objects")} icon="policy"><p>{t("No object matches its resource selectors, or another policy has a higher priority.")}</p></Empty>} />
    </>
  );
}

/** The YAML of a Secret has its values, so that it is read on request only. */
function SecretYaml({ resource, object }: { resource: Resource; object: KObject }) {
  const { name, namespace = "", resourceVersion } = object.metadata;
  const [shown, setShown] = useState(false);
  const secret = useQuery<KObject, ApiError>({ queryKey: ["secret", namespace, name, resourceVersion], queryFn: () => readSecret(namespace, name), enabled: shown, gcTime: 0, placeholderData: (before) => before });
  if (!shown) return <section className="card"><Empty title={t("The values are hidden")} icon="lock"><p>{t("The YAML contains the values of the secret.")}</p><Button icon="eye" onClick={() => setShown(true)}>{t("Show the YAML")}</Button></Empty></section>;
  if (secret.data) return <ObjectYaml resource={resource} object={secret.data} />;
  return <section className="card">{secret.error ? <Problem error={secret.error} retry={() => void secret.refetch()} /> : <Loading />}</section>;
}
