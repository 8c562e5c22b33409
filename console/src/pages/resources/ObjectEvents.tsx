// Events of an object, of its binding and of its works.

import { useLive } from "../../api/live";
import { EVENTS, pathOf } from "../../api/resources";
import type { KObject } from "../../api/types";
import { Card } from "../../ui/parts";
import { EventList } from "../EventList";

export function ObjectEvents({ object, binding }: { object: KObject; binding?: KObject }) {
  const live = useLive({ path: pathOf(EVENTS) });
  const uids = new Set([object.metadata.uid, binding?.metadata.uid]);
  const mention = `(${object.kind}/${object.metadata.namespace ? `${object.metadata.namespace}/` : ""}${object.metadata.name})`;
  const concerns = (event: KObject) =>
    uids.has(event.involvedObject?.uid) ||
    (event.involvedObject?.kind === object.kind && event.involvedObject?.name === object.metadata.name && event.involvedObject?.namespace === object.metadata.namespace) ||
    (event.involvedObject?.kind === "Work" && String(event.message).includes(mention));
  return <Card flush><EventList live={live} filter={concerns} /></Card>;
}
