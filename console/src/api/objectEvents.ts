// Events of an object, of its binding and of its works: the server selects them, so that none is missed among many.

import { useMemo } from "react";
import { mentionOf, mergeEvents } from "../model/events";
import type { ApiError } from "./client";
import { EVENTS } from "./resources";
import { type Rows, useRows } from "./rows";
import type { KObject } from "./types";

/** The newest events that match the selector; no selector loads nothing. */
const useSelected = (fieldSelector: string | undefined, contains = "") =>
  useRows(fieldSelector ? { resource: EVENTS, fieldSelector, contains, sort: "-lastSeen", whole: true } : undefined);

export interface ObjectEvents {
  /** Newest first. */
  items: KObject[];
  /** Also those that are not loaded. */
  total: number;
  phase: Rows["phase"];
  error?: ApiError;
  stale: boolean;
  reload: () => void;
}

export function useObjectEvents(object: KObject, binding?: KObject): ObjectEvents {
  const { name, namespace } = object.metadata;
  // Components that know no UID name the object only.
  const own = useSelected([`involvedObject.kind=${object.kind}`, `involvedObject.name=${name}`, ...(namespace ? [`involvedObject.namespace=${namespace}`] : [])].join());
  const ofBinding = useSelected(binding && `involvedObject.uid=${binding.metadata.uid}`);
  const ofWorks = useSelected(binding && "involvedObject.kind=Work", mentionOf(object));
  const lists = binding ? [own, ofBinding, ofWorks] : [own];
  const items = useMemo(() => mergeEvents(lists.map((list) => list.rows.flatMap((row) => row?.object ?? []))), [own.rows, ofBinding.rows, ofWorks.rows, binding === undefined]);
  const problem = lists.find((list) => list.phase === "error");
  return {
    items,
    total: lists.reduce((sum, list) => sum + list.rows.length, 0),
    phase: problem ? "error" : lists.some((list) => list.phase === "loading") ? "loading" : "ready",
    error: problem?.error,
    stale: lists.some((list) => list.stale),
    reload: () => lists.forEach((list) => list.reload()),
  };
}
