// All events of the control plane, live.

import { useMemo } from "react";
import type { Row } from "../api/live";
import { EVENTS } from "../api/resources";
import { useRows } from "../api/rows";
import type { KObject } from "../api/types";
import { usePrefs } from "../app/prefs";
import { useUrlState } from "../app/urlState";
import { t } from "../i18n";
import { timeOfEvent } from "../model/events";
import { Age, Badge, Button, Empty, PageHead, Segmented, Stale } from "../ui/parts";
import { saveLines } from "../ui/save";
import { DataTable, type TableColumn } from "../ui/table";

/** The youngest event comes first when ages rise. */
const ORDERS: Record<string, string> = { when: "-lastSeen", "-when": "lastSeen" };

export default function Events() {
  const { namespace } = usePrefs();
  const [filter, setFilter] = useUrlState("q", "");
  const [type, setType] = useUrlState("type", "all");
  const [order] = useUrlState("sort", "");
  const live = useRows({ resource: EVENTS, namespace, contains: filter, fieldSelector: type === "all" ? undefined : `type=${type}`, sort: ORDERS[order] ?? (order || "-lastSeen"), whole: true });
  const rows = useMemo(() => live.rows.map((row: Row | undefined) => row?.object), [live.rows]);
  const columns: TableColumn<KObject>[] = [
    { id: "when", title: t("Age"), width: "70px", cell: (event) => <Age at={timeOfEvent(event)} />, sort: (event) => -Date.parse(timeOfEvent(event)) },
    { id: "reason", title: t("Reason"), width: "minmax(190px, 1.2fr)", cell: (event) => <span title={event.reason}><Badge tone={event.type === "Warning" ? "warn" : ""} plain={event.type !== "Warning"}>{event.reason}</Badge></span>, sort: (event) => event.reason },
    { id: "object", title: t("Object"), width: "minmax(220px, 2.2fr)", cell: (event) => <span title={`${event.involvedObject?.namespace ?? ""}/${event.involvedObject?.name}`}>{event.involvedObject?.kind} <b>{event.involvedObject?.name}</b></span>, sort: (event) => `${event.involvedObject?.kind}/${event.involvedObject?.name}` },
    { id: "message", title: t("Message"), width: "minmax(320px, 4fr)", cell: (event) => <span title={event.message}>{event.message}</span> },
    { id: "source", title: t("Source"), width: "minmax(190px, 1.2fr)", cell: (event) => <span title={event.source?.component ?? event.reportingComponent}>{event.source?.component ?? event.reportingComponent ?? "–"}</span> },
    { id: "count", title: t("Count"), width: "80px", numeric: true, cell: (event) => event.series?.count ?? event.count ?? 1 },
  ];
  return (
    <>
      <PageHead title={t("Events")}><Button icon="apply" disabled={rows.length === 0} onClick={() => saveLines("events.jsonl", rows.filter((row) => row !== undefined))}>{t("Export")}</Button></PageHead>
      <Stale show={live.stale} />
      <div className="toolbar">
        <Segmented label={t("Type")} value={type} onChange={setType} options={[{ id: "all", text: t("All") }, { id: "Warning", text: t("Warnings") }, { id: "Normal", text: t("Normal") }]} />
        <input className="input" data-filter type="search" aria-label={t("Filter")} placeholder={t("Filter by object, reason or text")} value={filter} onChange={(event) => setFilter(event.target.value)} />
      </div>
      <DataTable label={t("Events")} live={live} rows={rows} columns={columns} rowKey={(event) => event.metadata.uid ?? `${event.metadata.namespace}/${event.metadata.name}`} filtered={filter !== "" || type !== "all"} empty={<Empty title={t("No events")} icon="events"><p>{t("Events are kept for one hour.")}</p></Empty>} />
    </>
  );
}
