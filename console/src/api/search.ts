// The search in one control plane: one answer for each kind, with the number of matches that the server counted.

import { useQueries } from "@tanstack/react-query";
import { kindsFor, type SearchQuery, splitWords, textOfMeta } from "../model/search";
import { ApiError, getJson, query } from "./client";
import { pathOf, PODS, type Resource, SERVICES, slugOf, WORKLOADS } from "./resources";
import type { KObject, Meta } from "./types";

export interface Hit {
  resource: Resource;
  metadata: Meta;
  /** The member that has it; absent for objects of the control plane. */
  cluster?: string;
}

export interface KindHits {
  resource: Resource;
  hits: Hit[];
  /** All matches, also those that are not loaded. */
  matching: number;
  /** Only the first objects were looked at. */
  partial: boolean;
}

const METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const FALLBACK_MAX = 500;
const CACHE = "/apis/search.karmada.io/v1alpha1/search/cache";
const CACHED_FROM = "resource.karmada.io/cached-from-cluster";
/** Kinds that are looked for in what ResourceRegistries cache. */
const CACHED: Resource[] = [...WORKLOADS, PODS, SERVICES];

interface RowsAnswer {
  rows?: { object: KObject }[];
  matching: number;
}

async function searchKind(resource: Resource, { words, namespace, labelSelector }: SearchQuery, limit: number): Promise<KindHits> {
  const { sent, others } = splitWords(words);
  const isOwn = (metadata: Meta) => others.every((word) => textOfMeta(metadata).includes(word));
  const { group, version, plural } = resource;
  try {
    const answer = await getJson<RowsAnswer>(`/flotilla/v1alpha1/rows${query({ group, version, resource: plural, namespace, labelSelector, contains: sent, sort: "name", limit: others.length > 0 ? 1_000 : limit })}`);
    const found = (answer.rows ?? []).map(({ object }) => object.metadata).filter(isOwn);
    const whole = others.length > 0 && answer.matching <= 1_000;
    return { resource, hits: found.slice(0, limit).map((metadata) => ({ resource, metadata })), matching: whole ? found.length : others.length > 0 ? found.length : answer.matching, partial: others.length > 0 && !whole };
  } catch (error) {
    if (!(error instanceof ApiError && error.notFound)) throw error;
  }
  // Kinds that are not stored here, and other control planes: the first objects are looked through.
  return lookThrough(resource, pathOf(resource, namespace), words, labelSelector, limit);
}

async function lookThrough(resource: Resource, path: string, words: string[], labelSelector: string, limit: number): Promise<KindHits> {
  const list = await getJson<{ items?: KObject[]; metadata?: { continue?: string } }>(path + query({ labelSelector, limit: FALLBACK_MAX }), { headers: { Accept: METADATA } });
  const found = (list.items ?? []).map(({ metadata }) => metadata).filter((metadata) => words.every((word) => textOfMeta(metadata).includes(word)));
  return { resource, hits: found.slice(0, limit).map((metadata) => ({ resource, metadata, cluster: metadata.annotations?.[CACHED_FROM] })), matching: found.length, partial: Boolean(list.metadata?.continue) };
}

export interface SearchState {
  kinds: KindHits[];
  pending: boolean;
  /** Kinds that the user may not list. */
  denied: number;
  problem?: ApiError;
}

/** What a query finds; `undefined` asks nothing. */
export function useSearch(resources: Resource[] | undefined, wanted: SearchQuery | undefined, limit: number, members: boolean): SearchState {
  const kinds = wanted && resources ? kindsFor(resources, wanted) : [];
  const cached = wanted && members ? kindsFor(CACHED, wanted) : [];
  const options = { staleTime: 15_000, retry: false };
  const answers = useQueries({
    queries: [
      ...kinds.map((resource) => ({ ...options, queryKey: ["search", slugOf(resource), wanted, limit], queryFn: () => searchKind(resource, wanted!, limit) })),
      ...cached.map((resource) => ({ ...options, queryKey: ["search-members", slugOf(resource), wanted, limit], queryFn: () => lookThrough(resource, CACHE + pathOf(resource, wanted!.namespace), wanted!.words, wanted!.labelSelector, limit) })),
    ],
  });
  const errors = answers.flatMap((answer) => (answer.error instanceof ApiError ? [answer.error] : []));
  return {
    kinds: answers.flatMap((answer) => (answer.data && answer.data.matching > 0 ? [answer.data] : [])),
    pending: answers.some((answer) => answer.isPending),
    denied: errors.filter((error) => error.forbidden).length,
    problem: errors.find((error) => !error.forbidden && !error.notFound && error.code !== 405),
  };
}
