// Who changed what: the latest requests that wrote something, read a secret, opened a session in a pod or were refused.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type ApiError, getJson, query } from "../api/client";
import type { LiveState } from "../api/live";
import { slugOf, useDiscovery } from "../api/resources";
import type { Meta } from "../api/types";
import { usePrefs } from "../app/prefs";
import { useUrlState } from "../app/urlState";
import { t } from "../i18n";
import { Age, Badge, Button, Dialog, Empty, exactTime, KeyValues, Loading, PageHead, Problem, Segmented, type Tone } from "../ui/parts";
import { saveLines } from "../ui/save";
import { DataTable, type TableColumn } from "../ui/table";

interface Entry {
  time: string;
  lastTime: string;
  count: number;
  auditID: string;
  user: string;
  groups: string[];
  verb: string;
  group: string;
  version: string;
  resource: string;
  subresource: string;
  namespace: string;
  name: string;
  path: string;
  code: number;
  source: string;
  agent: string;
}

interface Answer {
  items: Entry[];
  hasMore: boolean;
  kept: number;
}

const VERBS: Record<string, Tone> = { create: "ok", delete: "bad", deletecollection: "bad", update: "info", patch: "info" };

export default function Audit() {
  const { namespace } = usePrefs();
  const [text, setText] = useUrlState("q", "");
  const [kind, setKind] = useUrlState("show", "all");
  const [opened, setOpened] = useState<Entry>();
  const answer = useQuery<Answer, ApiError>({
    queryKey: ["audit", text, kind, namespace],
    queryFn: () => getJson(`/flotilla/v1alpha1/audit${query({ contains: text, refused: kind === "refused" ? "true" : undefined, namespace, limit: 2000 })}`),
    refetchInterval: 5_000,
    placeholderData: (before) => before,
  });
  const rows = answer.data?.items ?? [];
  const columns: TableColumn<Entry>[] = [
    { id: "when", title: t("Age"), width: "70px", cell: (one) => <Age at={one.lastTime} /> },
    { id: "user", title: t("User"), width: "minmax(220px, 1.9fr)", cell: (one) => <span title={one.user}>{one.user.replace(/^system:serviceaccount:/, "serviceaccount:")}</span>, sort: (one) => one.user },
    { id: "verb", title: t("Verb"), width: "112px", cell: (one) => <Badge tone={VERBS[one.verb] ?? ""} plain>{one.verb}</Badge>, sort: (one) => one.verb },
    { id: "object", title: t("Object"), width: "minmax(250px, 2.6fr)", cell: (one) => <span title={one.path}>{[one.resource, one.subresource].filter(Boolean).join("/")} <b>{one.name}</b></span>, sort: (one) => `${one.resource}/${one.name}` },
    { id: "namespace", title: t("Namespace"), width: "minmax(110px, 1fr)", cell: (one) => one.namespace || "–", sort: (one) => one.namespace },
    { id: "code", title: t("Status"), width: "84px", cell: (one) => <Badge tone={one.code >= 400 ? "bad" : "ok"}>{one.code}</Badge>, sort: (one) => one.code },
    { id: "count", title: t("Count"), width: "80px", numeric: true, cell: (one) => one.count },
    { id: "agent", title: t("Client"), width: "minmax(100px, 0.8fr)", cell: (one) => <span title={one.agent}>{clientOf(one.agent)}</span>, sort: (one) => clientOf(one.agent) },
    { id: "actions", title: "", width: "58px", cell: (one) => <Button icon="eye" kind="ghost" small label={t("Details of {name}", { name: `${one.verb} ${one.resource}` })} onClick={() => setOpened(one)} /> },
  ];
  return (
    <>
      <PageHead title={t("Audit")}><Button icon="apply" disabled={rows.length === 0} onClick={() => saveLines("audit.jsonl", rows)}>{t("Export")}</Button></PageHead>
      <div className="toolbar">
        <Segmented label={t("Show")} value={kind} onChange={setKind} options={[{ id: "all", text: t("All") }, { id: "refused", text: t("Denied") }]} />
        <input className="input" data-filter type="search" aria-label={t("Filter")} placeholder={t("Filter by user, verb, kind or name")} value={text} onChange={(event) => setText(event.target.value)} />
      </div>
      {answer.isPending ? <section className="card"><Loading /></section> : answer.error && rows.length === 0 ? <section className="card"><Problem error={answer.error} retry={() => void answer.refetch()} /></section> : (
        <DataTable label={t("Audit")} live={asList(rows)} rows={rows.map(keyed)} columns={columns as TableColumn<Entry & { metadata: Meta }>[]} rowKey={(one) => one.metadata.name} filtered={text !== "" || kind !== "all"} empty={<Empty title={t("No entries yet")} icon="log"><p>{t("Changes, reads of Secrets, sessions in pods and denied requests appear here.")}</p></Empty>} />
      )}
      <p className="muted small">{t("The latest {count} requests, kept in memory, without those of the control plane's own controllers. For a complete audit log, set --audit-log.", { count: (answer.data?.kept ?? 2000).toLocaleString() })}</p>
      {opened && <Details entry={opened} onClose={() => setOpened(undefined)} />}
    </>
  );
}

const keyed = (entry: Entry) => ({ ...entry, metadata: { name: `${entry.auditID}/${entry.time}` } });

/** The state of a list that one answer contains. */
const asList = (rows: Entry[]): LiveState<any> => ({ phase: "ready", items: rows, total: rows.length, hasMore: false, loadingMore: false, stale: false, columns: [], loadMore: () => {}, reload: () => {} });

const clientOf = (agent: string) => (agent.startsWith("Mozilla/") ? t("Browser") : (agent.split(/[/ ]/)[0] ?? "") || "–");

function Details({ entry, onClose }: { entry: Entry; onClose: () => void }) {
  const discovery = useDiscovery();
  const resource = discovery.data?.find((one) => one.group === entry.group && one.plural === entry.resource);
  const href = resource && entry.name && entry.verb !== "delete" ? `${location.pathname.replace(/\/audit.*/, "")}/resources/${slugOf(resource)}/${entry.namespace ? `${entry.namespace}/` : ""}${encodeURIComponent(entry.name)}` : undefined;
  return (
    <Dialog title={`${entry.verb} ${entry.resource}`} onClose={onClose} wide footer={<>{href && <a className="btn" href={href}>{t("Open the object")}</a>}<Button onClick={onClose}>{t("Close")}</Button></>}>
      <KeyValues
        entries={[
          [t("User"), entry.user],
          [t("Groups"), entry.groups.join(", ")],
          [t("Time"), exactTime(entry.time)],
          [t("Last time"), entry.count > 1 ? exactTime(entry.lastTime) : ""],
          [t("Count"), entry.count],
          [t("Path"), <code key="p">{entry.path}</code>],
          [t("Status"), entry.code],
          [t("Address"), entry.source],
          [t("Client"), <code key="a">{entry.agent}</code>],
          [t("Request"), <code key="i">{entry.auditID}</code>],
        ]}
      />
    </Dialog>
  );
}
