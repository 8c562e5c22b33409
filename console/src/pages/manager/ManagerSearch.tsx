// One query over all instances of a manager and their clusters, with counts of what was found by instance, cluster, namespace and kind.

import { useQueries, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { type ApiError, getJson, query, request } from "../../api/client";
import { instancePath, MANAGER, useInstances } from "../../api/manager";
import { type Resource, slugOf, WORKLOADS } from "../../api/resources";
import { useUrlState } from "../../app/urlState";
import { msg, t } from "../../i18n";
import { Icon } from "../../ui/icons";
import { Age, attempt, Badge, Button, Card, Empty, Loading, Menu, PageHead, Problem } from "../../ui/parts";
import { saveBlob } from "../../ui/save";
import { SearchBox } from "./SearchBox";
import { SearchSources } from "./SearchSources";
import "./search.css";

interface Found {
  instance: string;
  cluster?: string;
  apiVersion: string;
  kind: string;
  namespace?: string;
  name: string;
  uid?: string;
  createTime?: string;
}

interface Answer {
  items?: Found[];
  /** 64-bit numbers are texts in this API. */
  total?: string | number;
  facets?: { field: string; value: string; count: string | number }[];
  unread?: { instance?: string; cluster?: string; reason?: string; message?: string }[];
}

const SHOWN_MAX = 200;
const INSTANCES_MAX = 10;
const SETTLE_MS = 300;
const FIELDS = ["instance", "cluster", "kind", "namespace"];
/** How a term of each field is written. */
const TERMS: Record<string, string> = { instance: "instance", cluster: "cluster", kind: "kind", namespace: "ns" };
const EXAMPLES = ["name~web", "kind:deploy ns:shop", "label:app=web age<2h", "instance:east kind:clusters"];

/** The plurals of kinds by instance, so that links lead to the right resource. */
type Plurals = Map<string, string>;

const kindKey = (instance: string, group: string, kind: string) => `${instance}/${group}/${kind}`;

interface ServedKind {
  group: string;
  resource: string;
  kind: string;
}

/** The kinds of the instances that were found; of many instances only the first are asked. */
function useKinds(instances: string[]): { plurals: Plurals; names: string[] } {
  const answers = useQueries({
    queries: instances.slice(0, INSTANCES_MAX).map((name) => ({ queryKey: ["kinds-of", name], queryFn: () => getJson<{ kinds?: ServedKind[] }>(instancePath(name, "/kinds")), staleTime: 60_000, retry: false })),
  });
  const plurals: Plurals = new Map();
  for (const [index, answer] of answers.entries()) for (const one of answer.data?.kinds ?? []) plurals.set(kindKey(instances[index] ?? "", one.group, one.kind), one.resource);
  return { plurals, names: [...new Set(answers.flatMap((answer) => (answer.data?.kinds ?? []).map((one) => one.kind)))].sort() };
}

/** Where the object is shown: on the page of its instance. */
function hrefOf({ instance, cluster, apiVersion, kind, namespace, name }: Found, plurals: Plurals): string {
  const base = `/console/i/${instance}`;
  if (cluster) return `${base}/clusters/${cluster}`;
  if (kind === "Cluster") return `${base}/clusters/${name}`;
  const [group = "", version = ""] = apiVersion.includes("/") ? apiVersion.split("/") : ["", apiVersion];
  const workload = WORKLOADS.find((one) => one.kind === kind && one.group === group);
  const plural = plurals.get(kindKey(instance, group, kind)) ?? `${kind.toLowerCase()}s`;
  const slug = slugOf(workload ?? ({ group, version, plural } as Resource));
  return `${base}/${workload ? "workloads" : "resources"}/${slug}/${namespace ? `${namespace}/` : ""}${encodeURIComponent(name)}`;
}

export default function ManagerSearch() {
  const [text, setText] = useUrlState("q", "");
  const [clusters, setClusters] = useUrlState("clusters", "");
  const [typed, setTyped] = useState(text);
  useEffect(() => setTyped(text), [text]);
  useEffect(() => {
    const timer = setTimeout(() => typed !== text && setText(typed), SETTLE_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  const wanted = text.trim();
  const options = { query: wanted, clusters: clusters === "yes" || undefined };
  const answer = useQuery<Answer, ApiError>({
    queryKey: ["manager-search", wanted, clusters],
    queryFn: () => getJson(`${MANAGER}/search${query({ ...options, pageSize: SHOWN_MAX })}`),
    enabled: wanted !== "",
    placeholderData: (before) => before,
    retry: false,
  });
  const instances = useInstances();
  const found = [...new Set((answer.data?.items ?? []).map((one) => one.instance))];
  const { plurals, names } = useKinds(found.length > 0 ? found : instances.items.slice(0, 1).map((one) => one.name));
  const facet = (field: string) => (answer.data?.facets ?? []).filter((one) => one.field === field && one.value).map((one) => one.value);
  const known = { kinds: names, namespaces: facet("namespace"), clusters: facet("cluster") };
  const add = (field: string, value: string) => setText(`${wanted} ${TERMS[field]}:${value}`.trim());
  const save = (withObjects: boolean) => attempt(t("The results are downloaded"), async () => {
    const response = await request(`${MANAGER}/search:export${query({ ...options, includeObjects: withObjects || undefined })}`, { headers: { Accept: "*/*" } });
    saveBlob("search.jsonl", await response.blob());
  });
  const total = Number(answer.data?.total ?? 0);
  const [sources, setSources] = useState(false);
  return (
    <>
      <PageHead title={t("Search")}>
        <Button onClick={() => setSources(true)}>{t("Sources")}</Button>
        {wanted !== "" && <Menu label={t("Export")} icon="apply" items={[{ text: t("Names and labels, one object per line"), icon: "log", disabled: total === 0, onSelect: () => void save(false) }, { text: t("Whole objects, one per line"), icon: "resource", disabled: total === 0, onSelect: () => void save(true) }]}><Icon name="apply" />{t("Export")}</Menu>}
      </PageHead>
      {sources && <SearchSources onClose={() => setSources(false)} />}
      <div className="toolbar">
        <SearchBox value={typed} known={known} onChange={setTyped} />
        <label className="check"><input type="checkbox" checked={clusters === "yes"} onChange={(event) => setClusters(event.target.checked ? "yes" : "")} />{t("Include member clusters")}</label>
      </div>
      {wanted === "" ? (
        <section className="card"><Empty title={t("Search all instances")} icon="search"><p>{t("Terms are combined with “and”. For example:")}</p><span className="row wrap">{EXAMPLES.map((one) => <Button small key={one} onClick={() => setText(one)}>{one}</Button>)}</span></Empty></section>
      ) : answer.isPending ? <section className="card"><Loading text={t("Searching…")} /></section> : answer.error ? <section className="card"><Problem error={answer.error} retry={() => void answer.refetch()} /></section> : <Results answer={answer.data} plurals={plurals} onTerm={add} />}
    </>
  );
}

function Results({ answer, plurals, onTerm }: { answer: Answer; plurals: Plurals; onTerm: (field: string, value: string) => void }) {
  const { items = [], facets = [], unread = [] } = answer;
  const total = Number(answer.total ?? items.length);
  return (
    <>
      {unread.map((one) => <div className="banner" key={`${one.instance}/${one.cluster}`}>{[one.instance, one.cluster].filter(Boolean).join(" / ")}: {one.message ?? one.reason}</div>)}
      <div className="stack tight">
        {FIELDS.map((field) => {
          const values = facets.filter((one) => one.field === field && one.value).slice(0, 12);
          return values.length > 1 && <div className="chips" key={field} role="group" aria-label={t(FACETS[field] ?? field)}><span className="small muted" style={{ minWidth: 86, alignSelf: "center" }}>{t(FACETS[field] ?? field)}</span>{values.map(({ value, count }) => <button type="button" className="chip" key={value} onClick={() => onTerm(field, value)}>{value} <b>{count}</b></button>)}</div>;
        })}
      </div>
      <Card title={t("{count} found", { count: total.toLocaleString() })} flush>
        {items.length === 0 ? <Empty title={t("Nothing found")} icon="search" /> : (
          <div className="hscroll" tabIndex={0} role="group">
            <table className="simple">
              <thead><tr><th>{t("Name")}</th><th>{t("Kind")}</th><th>{t("Namespace")}</th><th>{t("Instance")}</th><th>{t("Cluster")}</th><th>{t("Age")}</th></tr></thead>
              <tbody>
                {items.map((one) => (
                  <tr key={`${one.instance}/${one.cluster}/${one.kind}/${one.namespace}/${one.name}`}>
                    <td><a href={hrefOf(one, plurals)}>{one.name}</a></td>
                    <td>{one.kind}</td>
                    <td>{one.namespace || "–"}</td>
                    <td>{one.instance}</td>
                    <td>{one.cluster ? <Badge plain>{one.cluster}</Badge> : "–"}</td>
                    <td className="muted"><Age at={one.createTime} /></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
        {total > items.length && <p className="muted small" style={{ padding: "10px 18px" }}>{t("The first {shown} of {total}; add a term to narrow the search.", { shown: items.length, total: total.toLocaleString() })}</p>}
      </Card>
    </>
  );
}

const FACETS: Record<string, string> = { instance: msg("Instance"), cluster: msg("Cluster"), kind: msg("Kind"), namespace: msg("Namespace") };
