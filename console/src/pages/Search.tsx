// Search by name over the kinds of the control plane, and over what registries cache from members.

import { useQueries } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { Link } from "wouter";
import { getJson, query } from "../api/client";
import { pathOf, type Resource, slugOf, useDiscovery, WORKLOADS } from "../api/resources";
import type { KObject, Meta } from "../api/types";
import { useUrlState } from "../app/urlState";
import { t } from "../i18n";
import { Badge, Card, Empty, Loading, PageHead, Problem } from "../ui/parts";

interface Hit {
  resource: Resource;
  metadata: Meta;
  cluster?: string;
}

const METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const SKIPPED = /^(events|leases|endpointslices|endpoints|controllerrevisions|componentstatuses|apiservices)$/;
const SHOWN_MAX = 200;
/** Kinds offered as a filter. */
const KINDS_MAX = 12;

const searchable = (resources: Resource[]) =>
  resources.filter((one) => one.verbs.includes("list") && !SKIPPED.test(one.plural) && one.group !== "search.karmada.io" && one.group !== "metrics.k8s.io" && one.group !== "flowcontrol.apiserver.k8s.io");

function hrefOf({ resource, metadata, cluster }: Hit): string {
  if (cluster) return `/clusters/${cluster}?tab=workloads`;
  if (resource.plural === "clusters") return `/clusters/${metadata.name}`;
  const place = `${metadata.namespace ? `${metadata.namespace}/` : ""}${encodeURIComponent(metadata.name)}`;
  return WORKLOADS.some((one) => one.kind === resource.kind) ? `/workloads/${slugOf(resource)}/${place}` : `/resources/${slugOf(resource)}/${place}`;
}

export default function Search() {
  const discovery = useDiscovery();
  const [text, setText] = useUrlState("q", "");
  const [kind, setKind] = useUrlState("kind", "");
  const [typed, setTyped] = useState(text);
  useEffect(() => setTyped(text), [text]);
  useEffect(() => {
    const timer = setTimeout(() => typed !== text && setText(typed), 250);
    return () => clearTimeout(timer);
  }, [typed]);
  const resources = text.length >= 2 ? searchable(discovery.data ?? []) : [];
  const answers = useQueries({
    queries: resources.map((resource) => ({
      queryKey: ["search", slugOf(resource)],
      queryFn: () => getJson<{ items: KObject[] }>(pathOf(resource) + query({ limit: 2000 }), { headers: { Accept: METADATA } }),
      staleTime: 20_000,
      retry: false,
    })),
  });
  const needle = text.toLowerCase();
  const hits: Hit[] = answers.flatMap((answer, index) =>
    (answer.data?.items ?? [])
      .filter(({ metadata }) => `${metadata.namespace ?? ""}/${metadata.name} ${Object.entries(metadata.labels ?? {}).map(([key, value]) => `${key}=${value}`).join(" ")}`.toLowerCase().includes(needle))
      .map(({ metadata }) => ({ resource: resources[index]!, metadata, cluster: metadata.annotations?.["resource.karmada.io/cached-from-cluster"] })),
  );
  hits.sort((a, b) => Number(!a.metadata.name.startsWith(text)) - Number(!b.metadata.name.startsWith(text)) || a.metadata.name.localeCompare(b.metadata.name));
  const kinds = [...Map.groupBy(hits, (hit) => hit.resource.kind)].map(([name, found]) => [name, found.length] as const).sort((a, b) => b[1] - a[1]).slice(0, KINDS_MAX);
  const shown = kind ? hits.filter((hit) => hit.resource.kind === kind) : hits;
  const pending = discovery.isPending || answers.some((answer) => answer.isPending);
  return (
    <>
      <PageHead title={t("Search")} />
      <div className="toolbar"><input className="input" style={{ width: "min(560px, 100%)" }} data-filter type="search" autoFocus aria-label={t("Search")} placeholder={t("Name, namespace or label of any object")} value={typed} onChange={(event) => setTyped(event.target.value)} /></div>
      {kinds.length > 1 && <div className="chips" role="group" aria-label={t("Kind")}>{kinds.map(([name, count]) => <button type="button" className="chip" key={name} aria-pressed={kind === name} onClick={() => setKind(kind === name ? "" : name)}>{name} <b>{count}</b></button>)}</div>}
      {discovery.error ? <section className="card"><Problem error={discovery.error} retry={() => void discovery.refetch()} /></section> : text.length < 2 ? (
        <section className="card"><Empty title={t("Type at least two characters")} icon="search"><p>{t("All kinds of the control plane that you may list are searched.")}</p></Empty></section>
      ) : (
        <Card title={pending ? t("Searching…") : t("{count} found", { count: shown.length })} flush>
          {shown.length === 0 ? (pending ? <Loading /> : <Empty title={t("Nothing found")} icon="search" />) : (
            <div className="hscroll" tabIndex={0} role="group">
              <table className="simple">
                <thead><tr><th>{t("Name")}</th><th>{t("Kind")}</th><th>{t("Namespace")}</th><th>{t("Group")}</th></tr></thead>
                <tbody>
                  {shown.slice(0, SHOWN_MAX).map((hit) => (
                    <tr key={`${slugOf(hit.resource)}/${hit.metadata.namespace}/${hit.metadata.name}/${hit.cluster}`}>
                      <td><Link href={hrefOf(hit)}>{hit.metadata.name}</Link></td>
                      <td>{hit.resource.kind} {hit.cluster && <Badge plain>{hit.cluster}</Badge>}</td>
                      <td>{hit.metadata.namespace ?? "–"}</td>
                      <td className="muted">{hit.resource.group || "core"}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </Card>
      )}
    </>
  );
}
