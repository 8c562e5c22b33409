// Search in one control plane: by name, namespace, column, kind and label, over all kinds that the user may list.

import { useEffect, useId, useState } from "react";
import { Link } from "wouter";
import { useWhole } from "../api/bindings";
import type { Row } from "../api/live";
import { NAMESPACES, pathOf, useDiscovery } from "../api/resources";
import { type Hit, useSearch } from "../api/search";
import { useUrlState } from "../app/urlState";
import { t } from "../i18n";
import { pageOf } from "../model/links";
import { completionsOf, isSearchable, parseSearch } from "../model/search";
import { Age, Badge, Button, Card, Empty, Labels, Loading, PageHead, Problem } from "../ui/parts";
import { saveLines } from "../ui/save";
import { useSettled } from "../ui/settled";

/** Rows of each kind, and of one kind alone. */
const EACH_MAX = 20;
const ALONE_MAX = 500;
/** Kinds offered as a filter. */
const KINDS_MAX = 14;

const hrefOf = ({ resource, metadata, cluster }: Hit) => (cluster ? `/clusters/${cluster}?tab=workloads` : pageOf(resource, metadata.namespace, metadata.name));

const keyOfHit = ({ resource, metadata, cluster }: Hit) => `${resource.group}/${resource.plural}/${metadata.namespace}/${metadata.name}/${cluster}`;

export default function Search() {
  const discovery = useDiscovery();
  // The same list as that of the menu.
  const namespaces = useWhole<Row>({ path: pathOf(NAMESPACES), table: true, limit: 500 });
  const [text, setText] = useUrlState("q", "");
  const [kind, setKind] = useUrlState("kind", "");
  const [members, setMembers] = useUrlState("members", "");
  const [typed, setTyped] = useState(text);
  const settled = useSettled(typed, 250);
  const list = useId();
  useEffect(() => setTyped(text), [text]);
  useEffect(() => {
    if (settled !== text) setText(settled);
  }, [settled]);
  const wanted = parseSearch(text);
  const ready = isSearchable(wanted);
  const found = useSearch(discovery.data, ready ? wanted : undefined, kind ? ALONE_MAX : EACH_MAX, members !== "");
  const facets = [...Map.groupBy(found.kinds, (one) => one.resource.kind)].map(([name, parts]) => [name, parts.reduce((sum, one) => sum + one.matching, 0)] as const).sort((a, b) => b[1] - a[1]);
  const shown = kind ? found.kinds.filter((one) => one.resource.kind === kind) : found.kinds;
  const total = shown.reduce((sum, one) => sum + one.matching, 0);
  const first = wanted.words[0] ?? "";
  const hits = shown.flatMap((one) => one.hits).sort((a, b) => Number(!a.metadata.name.startsWith(first)) - Number(!b.metadata.name.startsWith(first)) || a.metadata.name.localeCompare(b.metadata.name));
  const exported = () => saveLines("search.jsonl", hits.map(({ resource, metadata, cluster }) => ({ apiVersion: resource.group ? `${resource.group}/${resource.version}` : resource.version, kind: resource.kind, cluster, namespace: metadata.namespace, name: metadata.name, labels: metadata.labels, created: metadata.creationTimestamp })));
  const pending = discovery.isPending || found.pending;
  return (
    <>
      <PageHead title={t("Search")}><Button icon="apply" disabled={hits.length === 0} onClick={exported}>{t("Export")}</Button></PageHead>
      <div className="toolbar">
        <input className="input" style={{ width: "min(560px, 100%)" }} data-filter type="search" autoFocus autoComplete="off" spellCheck={false} list={list} aria-label={t("Search")} placeholder={t("Name, or terms such as kind:deploy label:app=web")} value={typed} onChange={(event) => setTyped(event.target.value)} />
        <datalist id={list}>{completionsOf(typed, discovery.data ?? [], namespaces.items.map((one) => one.metadata.name)).map((one) => <option key={one} value={one} />)}</datalist>
        <label className="check"><input type="checkbox" checked={members !== ""} onChange={(event) => setMembers(event.target.checked ? "yes" : "")} />{t("Include member clusters")}</label>
      </div>
      {facets.length > 1 && <div className="chips" role="group" aria-label={t("Kind")}>{facets.slice(0, KINDS_MAX).map(([name, count]) => <button type="button" className="chip" key={name} aria-pressed={kind === name} onClick={() => setKind(kind === name ? "" : name)}>{name} <b>{count.toLocaleString()}</b></button>)}</div>}
      {discovery.error ? <section className="card"><Problem error={discovery.error} retry={() => void discovery.refetch()} /></section> : !ready ? (
        <section className="card"><Empty title={t("Type at least two characters")} icon="search"><p>{t("Searches all kinds of the control plane that you are allowed to list.")}</p><p className="small muted"><code>kind:deployment ns:default label:app=web</code></p></Empty></section>
      ) : (
        <Card title={pending ? t("Searching…") : t("{count} found", { count: total.toLocaleString() })} flush>
          {hits.length === 0 ? (pending ? <Loading /> : found.problem ? <Problem error={found.problem} /> : <Empty title={t("Nothing found")} icon="search" />) : <Hits hits={hits} />}
          <Notes shown={hits.length} total={total} partial={shown.some((one) => one.partial)} denied={found.denied} members={members !== ""} />
        </Card>
      )}
    </>
  );
}

/** Some labels that users set. */
const ownLabels = (labels: Record<string, string> = {}) => Object.fromEntries(Object.entries(labels).filter(([key]) => !key.includes("karmada.io/")).slice(0, 3));

function Hits({ hits }: { hits: Hit[] }) {
  return (
    <div className="hscroll" tabIndex={0} role="group">
      <table className="simple">
        <thead><tr><th>{t("Name")}</th><th>{t("Kind")}</th><th>{t("Namespace")}</th><th>{t("Labels")}</th><th>{t("Age")}</th></tr></thead>
        <tbody>
          {hits.map((hit) => (
            <tr key={keyOfHit(hit)}>
              <td style={{ minWidth: 220 }}><Link href={hrefOf(hit)}>{hit.metadata.name}</Link></td>
              <td className="nowrap" title={hit.resource.group || "core"}>{hit.resource.kind} {hit.cluster && <Badge plain>{hit.cluster}</Badge>}</td>
              <td className="nowrap">{hit.metadata.namespace ?? "–"}</td>
              <td><Labels labels={ownLabels(hit.metadata.labels)} /></td>
              <td><Age at={hit.metadata.creationTimestamp} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What is not shown, and why. */
function Notes({ shown, total, partial, denied, members }: { shown: number; total: number; partial: boolean; denied: number; members: boolean }) {
  const notes = [
    total > shown && t("The first {shown} of {total}; choose a kind or add a term to narrow the search.", { shown: shown.toLocaleString(), total: total.toLocaleString() }),
    partial && t("For some kinds, only the first objects were searched."),
    denied > 0 && t("Kinds that are not included because you are not allowed to list them: {count}.", { count: denied }),
    members && t("In member clusters, only resources cached by a ResourceRegistry are searched."),
  ].filter(Boolean);
  return notes.length > 0 ? <div className="small muted" style={{ padding: "12px 18px" }}>{notes.map((note) => <p key={String(note)}>{note}</p>)}</div> : null;
}
