// One workload: replicas by cluster, why it is where it is, its timeline, pods, differences, history, YAML, events.

import { useRef } from "react";
import { useLiveObject } from "../../api/live";
import { BINDINGS, pathOf, useResource, type Resource, WORKLOADS } from "../../api/resources";
import type { KObject } from "../../api/types";
import { useUrlState } from "../../app/urlState";
import { ObjectYaml } from "../../editor/ObjectYaml";
import { t } from "../../i18n";
import { bindingNameOf, stateOfBinding } from "../../model/binding";
import { canRollBack } from "../../model/workload";
import { Empty, Loading, PageHead, Problem, Stale, Tabs } from "../../ui/parts";
import { ObjectEvents } from "../resources/ObjectEvents";
import { Actions } from "./Actions";
import { History } from "./History";
import { PerClusterView } from "./PerCluster";
import { Pods } from "./Pods";
import { Summary } from "./Summary";
import { Timeline } from "./Timeline";
import { WhyView } from "./WhyView";
import { WorkloadState } from "./Workloads";

export default function WorkloadDetail({ slug, namespace, name }: { slug: string; namespace: string; name: string }) {
  const found = useResource(slug);
  const resource = found.resource ?? WORKLOADS.find((one) => slug.endsWith(`~${one.plural}`));
  const crumbs = [{ text: t("Workloads"), to: `/workloads?kind=${resource?.kind ?? ""}` }, { text: namespace }, { text: name }];
  if (!resource) return <><PageHead title={name} crumbs={crumbs} />{found.error ? <Problem error={found.error} /> : <Loading />}</>;
  return <Detail key={`${slug}/${namespace}/${name}`} resource={resource} namespace={namespace} name={name} crumbs={crumbs} />;
}

function Detail({ resource, namespace, name, crumbs }: { resource: Resource; namespace: string; name: string; crumbs: { text: string; to?: string }[] }) {
  const live = useLiveObject(pathOf(resource, namespace), name);
  const bindings = useLiveObject(pathOf(BINDINGS, namespace), bindingNameOf(resource.kind, name));
  const [chosen, setTab] = useUrlState("tab", "");
  const showsSummary = useRef(false);
  if (live.phase === "loading") return <><PageHead title={name} crumbs={crumbs} /><Loading /></>;
  if (live.phase === "error" && live.error) return <><PageHead title={name} crumbs={crumbs} /><section className="card"><Problem error={live.error} retry={live.reload} /></section></>;
  if (!live.object) return <><PageHead title={name} crumbs={crumbs} /><section className="card"><Empty title={t("{kind} {name} does not exist", { kind: resource.kind, name })} icon="workload" /></section></>;
  const workload: KObject = { ...live.object, kind: resource.kind };
  const binding = bindings.object;
  // Where something is wrong, the reasons come first; a summary that is being read stays when replicas become unhealthy.
  if (bindings.phase === "ready") showsSummary.current ||= binding !== undefined && stateOfBinding(binding) === "Healthy";
  const tab = chosen || (showsSummary.current || bindings.phase !== "ready" ? "summary" : "why");
  const tabs = [
    { id: "summary", text: t("Summary") },
    { id: "why", text: t("Why") },
    { id: "timeline", text: t("Timeline") },
    { id: "pods", text: t("Pods") },
    { id: "clusters", text: t("Per cluster") },
    ...(canRollBack(resource.kind) ? [{ id: "history", text: t("History") }] : []),
    { id: "events", text: t("Events") },
    { id: "yaml", text: "YAML" },
  ];
  return (
    <>
      <PageHead title={name} crumbs={crumbs} badges={<WorkloadState workload={workload} binding={binding} known={bindings.phase === "ready"} />}>
        <Actions resource={resource} workload={workload} binding={binding} />
      </PageHead>
      <Stale show={live.stale || bindings.stale} />
      <Tabs tabs={tabs} current={tab} onChange={setTab} label={t("Sections")} />
      {tab === "summary" && <Summary workload={workload} binding={binding} />}
      {tab === "why" && <WhyView resource={resource} object={workload} binding={binding} />}
      {tab === "timeline" && <Timeline resource={resource} workload={workload} binding={binding} />}
      {tab === "pods" && <Pods workload={workload} binding={binding} />}
      {tab === "clusters" && <PerClusterView resource={resource} workload={workload} binding={binding} />}
      {tab === "history" && <History resource={resource} workload={workload} binding={binding} />}
      {tab === "events" && <ObjectEvents object={workload} binding={binding} />}
      {tab === "yaml" && <ObjectYaml resource={resource} object={live.object} />}
    </>
  );
}
