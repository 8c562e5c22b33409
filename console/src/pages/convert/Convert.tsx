// Applications that run in a cluster without this control plane: choose some, see what would happen, take them over.

import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Link } from "wouter";
import { useWhole } from "../../api/bindings";
import { type ApiError, getJson, query } from "../../api/client";
import { CLUSTERS, findByKind, memberPath, pathOf, type Resource, SERVICES, useDiscovery, WORKLOADS } from "../../api/resources";
import type { ChangePlan, KObject } from "../../api/types";
import { usePrefs } from "../../app/prefs";
import { useUrlState } from "../../app/urlState";
import { t } from "../../i18n";
import { imagesOf } from "../../model/workload";
import { Age, Badge, Button, Card, Command, Empty, Field, Loading, PageHead, Problem, Segmented } from "../../ui/parts";
import { Outcomes } from "../apply/Outcomes";
import { applyAll, type Outcome, planOf } from "../apply/manifests";
import { PlanView } from "../apply/PlanView";
import { isOwn, policiesFor, referencesOf, templateOf } from "./model";

const others = (group: string, plural: string, kind: string): Resource => ({ ...SERVICES, group, plural, kind });

const KINDS: Resource[] = [...WORKLOADS, SERVICES, others("networking.k8s.io", "ingresses", "Ingress"), others("", "configmaps", "ConfigMap")];
/** Objects of one answer of a cluster, and of all of them. */
const PAGE = 500;
const OBJECTS_MAX = 10_000;
/** Rows drawn; a filter finds the others. */
const SHOWN_MAX = 300;
/** Objects that the control plane plans at a time. */
const PLANNED_MAX = 1_000;
const COMMANDS_MAX = 5;

interface Listed {
  items: KObject[];
  /** The cluster has more than were read. */
  cut: boolean;
}

/** All objects of a kind in a cluster, page by page. */
async function listMember(cluster: string, resource: Resource, namespace: string): Promise<Listed> {
  const items: KObject[] = [];
  for (let token = ""; ; ) {
    const page = await getJson<{ items: KObject[]; metadata?: { continue?: string } }>(memberPath(cluster, pathOf(resource, namespace)) + query({ limit: PAGE, continue: token || undefined }));
    items.push(...page.items);
    token = page.metadata?.continue ?? "";
    if (!token || items.length >= OBJECTS_MAX) return { items, cut: token !== "" };
  }
}

export default function Convert() {
  const clusters = useWhole({ path: pathOf(CLUSTERS) });
  const names = clusters.items.map((one) => one.metadata.name);
  const [cluster, setCluster] = useUrlState("cluster", "");
  const chosen = cluster || names[0] || "";
  return (
    <>
      <PageHead title={t("Convert applications")} />
      {clusters.phase === "loading" ? <Loading /> : clusters.phase === "error" && clusters.error ? <section className="card"><Problem error={clusters.error} retry={clusters.reload} /></section> : names.length === 0 ? (
        <section className="card"><Empty title={t("No clusters yet")} icon="cluster"><p>{t("Join a cluster to run workloads in it.")}</p><Link className="btn" href="/clusters?join=push">{t("Join a cluster")}</Link></Empty></section>
      ) : (
        <>
          <p className="muted">{t("These applications run in a cluster but are not managed by this control plane. Converting an application creates a template and a policy that keeps it in its cluster; nothing is restarted.")}</p>
          <div className="toolbar">
            <label className="row"><span className="small">{t("Cluster")}</span><select className="select" aria-label={t("Cluster")} value={chosen} onChange={(event) => setCluster(event.target.value)}>{names.map((name) => <option key={name}>{name}</option>)}</select></label>
          </div>
          <Candidates key={chosen} cluster={chosen} />
        </>
      )}
    </>
  );
}

const NO_OBJECTS: KObject[] = [];

function Candidates({ cluster }: { cluster: string }) {
  const { namespace } = usePrefs();
  const [kind, setKind] = useUrlState("kind", "Deployment");
  const resource = KINDS.find((one) => one.kind === kind) ?? KINDS[0]!;
  const [filter, setFilter] = useUrlState("q", "");
  const [selected, setSelected] = useState<string[]>([]);
  const list = useQuery<Listed, ApiError>({ queryKey: ["convert", cluster, kind, namespace], queryFn: () => listMember(cluster, resource, namespace) });
  const own = useMemo(() => (list.data?.items ?? NO_OBJECTS).filter(isOwn), [list.data]);
  const key = (object: KObject) => `${object.metadata.namespace}/${object.metadata.name}`;
  const picked = own.filter((object) => selected.includes(key(object)));
  const matching = own.filter((object) => key(object).includes(filter.trim().toLowerCase()));
  const shown = matching.slice(0, SHOWN_MAX);
  const managed = (list.data?.items.length ?? 0) - own.length;
  const allPicked = shown.length > 0 && shown.every((object) => selected.includes(key(object)));
  return (
    <>
      <Segmented label={t("Kind")} value={resource.kind} onChange={(next) => { setKind(next); setSelected([]); }} options={KINDS.map((one) => ({ id: one.kind, text: one.kind }))} />
      <div className="toolbar"><input className="input" data-filter type="search" aria-label={t("Filter")} placeholder={t("Filter by name")} value={filter} onChange={(event) => setFilter(event.target.value)} /></div>
      <Card title={t("Not managed in {cluster}", { cluster })} flush actions={<Button small icon="refresh" onClick={() => void list.refetch()}>{t("Refresh")}</Button>}>
        {list.isPending ? <Loading /> : list.error ? <Problem error={list.error} retry={() => void list.refetch()} /> : own.length === 0 ? <Empty title={t("All objects of this kind are managed")} icon="check" /> : shown.length === 0 ? <Empty title={t("No row matches the filter")} icon="search" /> : (
          <div className="hscroll" tabIndex={0} role="group">
            <table className="simple">
              <thead><tr><th><input type="checkbox" aria-label={t("Select all rows shown")} checked={allPicked} onChange={() => setSelected(allPicked ? [] : shown.map(key))} /></th><th>{t("Name")}</th><th>{t("Namespace")}</th><th>{t("Image")}</th><th>{t("Dependencies")}</th><th>{t("Age")}</th></tr></thead>
              <tbody>
                {shown.map((object) => {
                  const typed = { ...object, kind: resource.kind };
                  return (
                    <tr key={key(object)}>
                      <td><input type="checkbox" aria-label={t("Select {name}", { name: key(object) })} checked={selected.includes(key(object))} onChange={(event) => setSelected(event.target.checked ? [...selected, key(object)] : selected.filter((one) => one !== key(object)))} /></td>
                      <td><b>{object.metadata.name}</b></td>
                      <td>{object.metadata.namespace}</td>
                      <td><code>{imagesOf(typed).join(", ")}</code></td>
                      <td><span className="chips">{referencesOf(typed).slice(0, 4).map((one) => <span className="chip" key={one.kind + one.name}><span className="muted">{one.kind}</span>{one.name}</span>)}</span></td>
                      <td><Age at={object.metadata.creationTimestamp} /></td>
                    </tr>
                  );
                })}
              </tbody>
            </table>
          </div>
        )}
        {list.data && (
          <p className="small muted" style={{ padding: "12px 18px" }}>
            {t("Not managed: {count}. Managed or owned by a controller: {managed}.", { count: own.length.toLocaleString(), managed: managed.toLocaleString() })}
            {matching.length > shown.length && ` ${t("The first {shown} of {total} are shown; filter by name for others.", { shown: shown.length, total: matching.length.toLocaleString() })}`}
            {list.data.cut && ` ${t("The cluster has more than {count}: choose a namespace.", { count: OBJECTS_MAX.toLocaleString() })}`}
          </p>
        )}
      </Card>
      {picked.length > 0 && <Conversion key={selected.join()} cluster={cluster} resource={resource} objects={picked.map((object) => ({ ...object, kind: resource.kind }))} />}
    </>
  );
}

function Conversion({ cluster, resource, objects }: { cluster: string; resource: Resource; objects: KObject[] }) {
  const discovery = useDiscovery();
  const first = objects[0]!.metadata;
  const [policy, setPolicy] = useState(`${first.name}-${cluster}`.slice(0, 63));
  const [withDependencies, setWithDependencies] = useState(true);
  const [plan, setPlan] = useState<{ plan: ChangePlan; objects: KObject[] }>();
  const [outcomes, setOutcomes] = useState<Outcome[]>();
  const [problem, setProblem] = useState<Error>();
  const [busy, setBusy] = useState(false);
  const references = objects.flatMap((object) => referencesOf(object).map((one) => ({ ...one, namespace: object.metadata.namespace ?? "" })));
  const build = async (): Promise<KObject[]> => {
    const templates = objects.map((object) => templateOf(resource, object));
    const needed: KObject[] = [];
    if (withDependencies) {
      for (const { kind, namespace, name } of references) {
        const found = findByKind(discovery.data, "v1", kind);
        if (!found || needed.some((one) => one.kind === kind && one.metadata.namespace === namespace && one.metadata.name === name)) continue;
        needed.push(templateOf(found, await getJson<KObject>(memberPath(cluster, pathOf(found, namespace, name)))));
      }
    }
    return [...policiesFor([...templates, ...needed], cluster, policy), ...needed, ...templates];
  };
  const run = async (action: () => Promise<void>) => {
    setBusy(true);
    setProblem(undefined);
    try {
      await action();
    } catch (error) {
      setProblem(error as Error);
    }
    setBusy(false);
  };
  const preview = () => run(async () => {
    const built = await build();
    if (built.length > PLANNED_MAX) throw new Error(t("{count} objects are too many for one plan: at most {max}", { count: built.length, max: PLANNED_MAX }));
    setPlan({ plan: await planOf(built), objects: built });
  });
  const convert = () => run(async () => {
    await applyAll(plan!.objects, discovery.data ?? [], setOutcomes);
  });
  return (
    <>
      <Card title={t("Convert selected objects ({count})", { count: objects.length })} actions={<><Button disabled={busy || !discovery.data} onClick={() => void preview()}>{t("Preview")}</Button><Button kind="primary" disabled={busy || !plan || outcomes !== undefined} onClick={() => void convert()}>{t("Convert")}</Button></>}>
        <div className="stack">
          <div className="grid-s">
            <Field label={t("Policy name")}>{(id) => <input id={id} className="input" value={policy} onChange={(event) => { setPolicy(event.target.value); setPlan(undefined); }} />}</Field>
            <label className="check" style={{ alignSelf: "center" }}><input type="checkbox" checked={withDependencies} onChange={(event) => { setWithDependencies(event.target.checked); setPlan(undefined); }} />{t("Include objects that its pods refer to ({count})", { count: references.length })}</label>
          </div>
          <p className="small muted">{t("The policy keeps the objects in the cluster when the template is deleted.")}</p>
          <Command text={objects.slice(0, COMMANDS_MAX).map(({ metadata: { name, namespace } }) => `flotilla promote ${resource.kind.toLowerCase()} ${name} -n ${namespace} -C ${cluster}${withDependencies ? " -d" : ""}`).join("\n") + (objects.length > COMMANDS_MAX ? "\n…" : "")} />
        </div>
      </Card>
      {problem ? <section className="card"><Problem error={problem} /></section> : outcomes ? <Outcomes outcomes={outcomes} onChange={setOutcomes} /> : plan ? <PlanView plan={plan.plan} /> : busy ? <Loading /> : null}
      {outcomes?.every((one) => !one.error) && <div className="row"><Badge tone="ok">{t("Converted")}</Badge></div>}
    </>
  );
}
