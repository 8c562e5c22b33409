// Events as a short list, newest first.

import { useMemo } from "react";
import { EVENTS } from "../api/resources";
import { type Rows, useRows } from "../api/rows";
import type { KObject } from "../api/types";
import { t } from "../i18n";
import { newestFirst, timeOfEvent } from "../model/events";
import { Age, Badge, Empty, Loading, Problem } from "../ui/parts";

export interface NewestEvents extends Pick<Rows, "phase" | "error" | "stale" | "reload"> {
  items: KObject[];
}

/** As many of the newest events as the server sends at a time: a page costs the same with ten events and with ten thousand. */
export function useNewestEvents(namespace: string | undefined, contains = ""): NewestEvents {
  const { rows, phase, error, stale, reload } = useRows({ resource: EVENTS, namespace, contains, sort: "-lastSeen", whole: true });
  const items = useMemo(() => rows.slice(0, NEWEST_MAX).flatMap((row) => (row?.object ? [row.object] : [])), [rows]);
  return { items, phase, error, stale, reload };
}

const NEWEST_MAX = 100;

export function EventList({ live, max, filter }: { live: NewestEvents; max?: number; filter?: (event: KObject) => boolean }) {
  if (live.phase === "loading") return <Loading />;
  if (live.phase === "error" && live.error) return <Problem error={live.error} retry={live.reload} />;
  const shown = newestFirst(filter ? live.items.filter(filter) : live.items).slice(0, max ?? NEWEST_MAX);
  if (shown.length === 0) return <Empty title={t("No events")} icon="events"><p>{t("Events are kept for one hour.")}</p></Empty>;
  return (
    <div className="hscroll" tabIndex={0} role="group">
      <table className="simple">
        <thead className="sr"><tr><th>{t("Object")}</th><th>{t("Message")}</th><th>{t("Age")}</th></tr></thead>
        <tbody>
          {shown.map((event) => (
            <tr key={event.metadata.uid}>
              <td className="event-object">
                <div className="ellipsis" title={event.involvedObject?.name}>{event.involvedObject?.name}</div>
                <div className="muted small ellipsis">{[event.involvedObject?.kind, event.involvedObject?.namespace].filter(Boolean).join(" · ")}</div>
              </td>
              <td><Badge tone={event.type === "Warning" ? "warn" : ""} plain={event.type !== "Warning"}>{event.reason}</Badge><div className="small event-text" title={event.message}>{event.message}</div></td>
              <td className="right muted"><Age at={timeOfEvent(event)} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
