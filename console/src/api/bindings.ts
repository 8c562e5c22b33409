// Totals and failovers of all bindings, counted by the server.

import { useQueries } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useState } from "react";
import { subjectKey } from "../model/binding";
import { type BindingSummary, summarize } from "../model/bindingSummary";
import type { Moves } from "../model/failover";
import { type FlowMap, flowMap, type Grouping } from "../model/flows";
import { getJson, query } from "./client";
import { type Followed, useFollowed } from "./followed";
import { type LiveState, type ListSpec, useLive } from "./live";
import { BINDINGS, CLUSTER_BINDINGS, pathOf, type Resource } from "./resources";
import type { KObject, Meta } from "./types";

const PATH = "/flotilla/v1alpha1/bindings";

/** The objects behind an answer; bindings of cluster-wide objects are in no namespace. */
const followedIn = (namespace: string): { resource: Resource; further?: Resource; namespace: string } =>
  namespace ? { resource: BINDINGS, namespace } : { resource: BINDINGS, further: CLUSTER_BINDINGS, namespace };

/** A list that is loaded to its end; it stays `loading` until then. */
export function useWhole<T extends { metadata: Meta } = KObject>(spec: ListSpec | undefined): LiveState<T> {
  const live = useLive<T>(spec);
  const { phase, hasMore, loadingMore, loadMore, items } = live;
  useEffect(() => {
    if (phase === "ready" && hasMore && !loadingMore) loadMore();
  }, [phase, hasMore, loadingMore, loadMore, items.length]);
  return phase === "ready" && hasMore ? { ...live, phase: "loading" } : live;
}

/** Totals over the bindings of a namespace, or of all. */
export function useBindingSummary(namespace = ""): Followed<BindingSummary> {
  const counted = useFollowed<BindingSummary>({ path: `${PATH}/summary${query({ namespace })}`, ...followedIn(namespace) });
  // A control plane of another kind, or an older one: its bindings are counted here.
  const isForeign = counted.phase === "error" && counted.error?.notFound === true;
  const whole = useWhole(isForeign ? { path: pathOf(BINDINGS, namespace) } : undefined);
  const data = useMemo(() => (isForeign && whole.phase === "ready" ? summarize(whole.items) : undefined), [isForeign, whole.phase, whole.items]);
  return isForeign ? { phase: whole.phase, stale: whole.stale, error: whole.error, data, reload: whole.reload } : counted;
}

const movesPath = (cluster: string) => `${PATH}/failovers${query({ cluster, limit: 200 })}`;

/** The same as `useMoves` at this moment: what a page follows may be some seconds old. */
export const readMoves = (cluster: string) => getJson<Moves>(movesPath(cluster));

/** The newest failovers, and the workloads that left the cluster and did not return. */
export function useMoves(cluster = ""): Followed<Moves> {
  return useFollowed<Moves>({ path: movesPath(cluster), ...followedIn("") });
}

/** How replicas flow from namespaces, policies or workloads into clusters. */
export function useFlows(by: Grouping, namespace = ""): Followed<FlowMap> {
  const counted = useFollowed<FlowMap>({ path: `${PATH}/flows${query({ by, namespace })}`, ...followedIn(namespace) });
  const isForeign = counted.phase === "error" && counted.error?.notFound === true;
  const whole = useWhole(isForeign ? { path: pathOf(BINDINGS, namespace) } : undefined);
  const data = useMemo(() => (isForeign && whole.phase === "ready" ? flowMap(whole.items, by) : undefined), [isForeign, whole.phase, whole.items, by]);
  return isForeign ? { phase: whole.phase, stale: whole.stale, error: whole.error, data, reload: whole.reload } : counted;
}

const SUBJECTS_REFRESH_MS = 4_000;
/** Rows whose bindings are asked for at a time. */
const BLOCK = 25;

interface Named {
  metadata: Meta;
}

/** The loaded rows of the blocks in view. */
function blocksOf<T>(rows: (T | undefined)[], [from, to]: [number, number]): T[][] {
  return Array.from({ length: to - from + 1 }, (_, index) => rows.slice((from + index) * BLOCK, (from + index + 1) * BLOCK).filter((row) => row !== undefined)).filter((some) => some.length > 0);
}

/** The bindings of the rows that a table shows, for lists that are too long to follow all; no kind asks for none. `show` is for the table. */
export function useBindingsInView<T extends Named>(kind: string, namespace: string, rows: (T | undefined)[], load?: (first: number, last: number) => void) {
  const [blocks, setBlocks] = useState<[number, number]>([0, 1]);
  const show = useCallback((first: number, last: number) => {
    load?.(first, last);
    const next: [number, number] = [Math.floor(first / BLOCK), Math.floor(last / BLOCK)];
    setBlocks((before) => (before.join() === next.join() ? before : next));
  }, [load]);
  const subjects = kind ? blocksOf(rows, blocks).map((some) => some.map(({ metadata }) => subjectKey(kind, metadata.namespace, metadata.name))) : [];
  const answers = useQueries({
    queries: subjects.map((some) => ({
      queryKey: ["bindings-of", namespace, some],
      queryFn: () => getJson<{ items: KObject[] }>(`${PATH}${query({ limit: 500, namespace })}${some.map((one) => `&subject=${encodeURIComponent(one)}`).join("")}`),
      // Not where the user may not read bindings, or the control plane does not know the request.
      refetchInterval: ({ state }: { state: { error: Error | null } }) => (state.error ? (false as const) : SUBJECTS_REFRESH_MS),
      gcTime: SUBJECTS_REFRESH_MS,
      retry: false,
    })),
  });
  const further = useMemo(() => answers.flatMap((answer) => answer.data?.items ?? []), [answers.map((answer) => answer.dataUpdatedAt).join()]);
  return { show, further };
}
