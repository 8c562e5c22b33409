// What the console derives from events.

import type { KObject } from "../api/types";

export const timeOfEvent = (event: KObject): string =>
  event.series?.lastObservedTime ?? event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp ?? "";

export const newestFirst = (events: KObject[]) => [...events].sort((a, b) => (timeOfEvent(a) < timeOfEvent(b) ? 1 : -1));

/** How events of works name the object they carry. */
export const mentionOf = ({ kind, metadata: { namespace, name } }: KObject) => `(${kind}/${namespace ? `${namespace}/` : ""}${name})`;

/** Several lists as one, each event once, newest first. */
export function mergeEvents(lists: KObject[][]): KObject[] {
  return newestFirst([...new Map(lists.flat().map((event) => [event.metadata.uid ?? `${event.metadata.namespace}/${event.metadata.name}`, event])).values()]);
}
