// Who changed what through the manager: all entries for auditors, those of their instances for administrators of instances.

import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type ApiError, getJson, query, request } from "../../api/client";
import { MANAGER } from "../../api/manager";
import { useUrlState } from "../../app/urlState";
import { t } from "../../i18n";
import { Age, attempt, Badge, Button, Dialog, Empty, exactTime, KeyValues, Loading, PageHead, Problem, Segmented, Stale } from "../../ui/parts";
import { saveBlob } from "../../ui/save";
import { useSettled } from "../../ui/settled";
import { DataTable, type TableColumn } from "../../ui/table";

interface Entry {
  id: string;
  time?: string;
  user: string;
  groups?: string[];
  source: string;
  action: string;
  instance: string;
  code: number;
  message: string;
  milliseconds?: string | number;
}

interface Page {
  entries?: Entry[];
  nextPageToken?: string;
  total?: string | number;
  kept?: string | number;
}

const REFRESH_MS = 5_000;
const PAGE_SIZE = 500;

export default function ManagerAudit() {
  const [contains, setContains] = useUrlState("q", "");
  const [user, setUser] = useUrlState("user", "");
  const [instance, setInstance] = useUrlState("instance", "");
  const [show, setShow] = useUrlState("show", "all");
  const [opened, setOpened] = useState<Entry>();
  const settled = useSettled(JSON.stringify({ contains, user, instance, refused: show === "refused" || undefined }));
  const wanted = JSON.parse(settled);
  const list = useInfiniteQuery<Page, ApiError, Page[], string[], string>({
    queryKey: ["manager-audit", settled],
    queryFn: ({ pageParam }) => getJson(`${MANAGER}/audit${query({ ...wanted, pageSize: PAGE_SIZE, pageToken: pageParam })}`),
    initialPageParam: "",
    getNextPageParam: (page) => page.nextPageToken || undefined,
    select: ({ pages }) => pages,
    refetchInterval: REFRESH_MS,
    placeholderData: (before) => before,
  });
  const rows = (list.data ?? []).flatMap((page) => page.entries ?? []);
  const { total = 0, kept = 0 } = list.data?.[0] ?? {};
  const save = () => attempt(t("The entries are downloaded"), async () => saveBlob("audit.jsonl", await (await request(`${MANAGER}/audit:export${query(wanted)}`, { headers: { Accept: "*/*" } })).blob()));
  const live = { phase: "ready" as const, total: Number(total), hasMore: list.hasNextPage, loadingMore: list.isFetchingNextPage, loadMore: () => void list.fetchNextPage(), reload: () => void list.refetch() };
  const isFiltered = contains + user + instance !== "" || show !== "all";
  return (
    <>
      <PageHead title={t("Audit")}><Button icon="apply" disabled={rows.length === 0} onClick={() => void save()}>{t("Export")}</Button></PageHead>
      <Stale show={list.isRefetchError} />
      <div className="toolbar">
        <Segmented label={t("Show")} value={show} onChange={setShow} options={[{ id: "all", text: t("All") }, { id: "refused", text: t("Denied") }]} />
        <input className="input" data-filter type="search" aria-label={t("Filter")} placeholder={t("Filter by action")} value={contains} onChange={(event) => setContains(event.target.value)} />
        <input className="input" style={{ width: 180 }} type="search" aria-label={t("User")} placeholder={t("User")} value={user} onChange={(event) => setUser(event.target.value)} />
        <input className="input" style={{ width: 180 }} type="search" aria-label={t("Instance")} placeholder={t("Instance")} value={instance} onChange={(event) => setInstance(event.target.value)} />
      </div>
      {list.isPending ? <section className="card"><Loading /></section> : list.error && rows.length === 0 ? <section className="card"><Problem error={list.error} retry={() => void list.refetch()} /></section> : (
        <DataTable label={t("Audit")} live={live} rows={rows} columns={columnsOf(setOpened)} rowKey={(one) => one.id} filtered={isFiltered} empty={<Empty title={t("No entries yet")} icon="log"><p>{t("Changes through the manager, sessions in pods and denied requests appear here.")}</p></Empty>} />
      )}
      {Number(kept) > 0 && <p className="muted small">{t("The latest {count} requests, kept in memory, without those of the control plane's own controllers. For a complete audit log, set --audit-log.", { count: Number(kept).toLocaleString() })}</p>}
      {opened && <Details entry={opened} onClose={() => setOpened(undefined)} />}
    </>
  );
}

const columnsOf = (open: (entry: Entry) => void): TableColumn<Entry>[] => [
  { id: "when", title: t("Age"), width: "70px", cell: (one) => <Age at={one.time} /> },
  { id: "user", title: t("User"), width: "minmax(150px, 1.3fr)", cell: (one) => <span title={one.user}>{one.user}</span> },
  { id: "action", title: t("Action"), width: "minmax(260px, 2.6fr)", cell: (one) => <span title={one.action}>{one.action}</span> },
  { id: "instance", title: t("Instance"), width: "minmax(100px, 1fr)", cell: (one) => one.instance || "–" },
  { id: "code", title: t("Answer"), width: "84px", cell: (one) => <Badge tone={one.code >= 400 ? "bad" : "ok"}>{one.code}</Badge> },
  { id: "message", title: t("Message"), width: "minmax(140px, 1.6fr)", cell: (one) => <span title={one.message}>{one.message || "–"}</span> },
  { id: "actions", title: "", width: "58px", cell: (one) => <Button icon="eye" kind="ghost" small label={t("Details of {name}", { name: one.action })} onClick={() => open(one)} /> },
];

function Details({ entry, onClose }: { entry: Entry; onClose: () => void }) {
  return (
    <Dialog wide title={entry.action} onClose={onClose} footer={<Button onClick={onClose}>{t("Close")}</Button>}>
      <KeyValues entries={[
        [t("User"), entry.user],
        [t("Groups"), (entry.groups ?? []).join(", ")],
        [t("Time"), entry.time && exactTime(entry.time)],
        [t("Instance"), entry.instance],
        [t("Answer"), entry.code],
        [t("Message"), entry.message],
        [t("Address"), entry.source],
        [t("Took"), `${Number(entry.milliseconds ?? 0)} ms`],
        [t("Request"), <code key="i">{entry.id}</code>],
      ]} />
    </Dialog>
  );
}
