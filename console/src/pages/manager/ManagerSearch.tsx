// One query over all instances of a manager and their clusters, with counts of what was found by instance, cluster, namespace and kind.

import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { type ApiError, getJson, query } from "../../api/client";
import { type Resource, slugOf, WORKLOADS } from "../../api/resources";
import { useUrlState } from "../../app/urlState";
import { t } from "../../i18n";
import { Age, Badge, Button, Card, Empty, Loading, PageHead, Problem } from "../../ui/parts";

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
const SETTLE_MS = 300;
const FIELDS = ["instance", "cluster", "kind", "namespace"];
/** How a term of each field is written. */
const TERMS: Record<string, string> = { instance: "instance", cluster: "cluster", kind: "kind", namespace: "ns" };
const EXAMPLES = ["name~web", "kind:deploy ns:shop", "label:app=web age<2h", "instance:east kind:clusters"];

/** A word without a field is part of a name. */
const queryOf = (text: string) => text.trim().split(/\s+/).filter(Boolean).map((word) => (/[:~=<>]/.test(word) ? word : `name~${word}`)).join(" ");

/** Where the object is shown: on the page of its instance. */
function hrefOf({ instance, cluster, apiVersion, kind, namespace, name }: Found): string {
  const base = `/console/i/${instance}`;
  if (cluster) return `${base}/clusters/${cluster}`;
  if (kind === "Cluster") return `${base}/clusters/${name}`;
  const [group, version] = apiVersion.includes("/") ? apiVersion.split("/") : ["", apiVersion];
  const workload = WORKLOADS.find((one) => one.kind === kind);
  const lower = kind.toLowerCase();
  const plural = lower.endsWith("y") ? `${lower.slice(0, -1)}ies` : /(s|x|ch)$/.test(lower) ? `${lower}es` : `${lower}s`;
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
  const wanted = queryOf(text);
  const answer = useQuery<Answer, ApiError>({
    queryKey: ["manager-search", wanted, clusters],
    queryFn: () => getJson(`/flotilla/manager/v1alpha1/search${query({ query: wanted, pageSize: SHOWN_MAX, clusters: clusters === "yes" || undefined })}`),
    enabled: wanted !== "",
    placeholderData: (before) => before,
    retry: false,
  });
  const add = (field: string, value: string) => setText(`${text.trim()} ${TERMS[field]}:${value}`.trim());
  return (
    <>
      <PageHead title={t("Search")} />
      <div className="toolbar">
        <input className="input" style={{ width: "min(560px, 100%)" }} data-filter type="search" autoFocus aria-label={t("Search")} placeholder={t("Name, or terms such as kind:deploy label:app=web")} value={typed} onChange={(event) => setTyped(event.target.value)} />
        <label className="check"><input type="checkbox" checked={clusters === "yes"} onChange={(event) => setClusters(event.target.checked ? "yes" : "")} />{t("Also in the clusters")}</label>
      </div>
      {wanted === "" ? (
        <section className="card"><Empty title={t("Search all instances")} icon="search"><p>{t("Terms are combined with “and”. For example:")}</p><span className="row wrap">{EXAMPLES.map((one) => <Button small key={one} onClick={() => setText(one)}>{one}</Button>)}</span></Empty></section>
      ) : answer.isPending ? <section className="card"><Loading text={t("Searching…")} /></section> : answer.error ? <section className="card"><Problem error={answer.error} retry={() => void answer.refetch()} /></section> : <Results answer={answer.data} onTerm={add} />}
    </>
  );
}

function Results({ answer, onTerm }: { answer: Answer; onTerm: (field: string, value: string) => void }) {
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
                    <td><a href={hrefOf(one)}>{one.name}</a></td>
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

const FACETS: Record<string, string> = { instance: "Instance", cluster: "Cluster", kind: "Kind", namespace: "Namespace" };
