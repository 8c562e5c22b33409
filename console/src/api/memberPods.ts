// The pods that a selector finds in a member cluster, read page by page.

import { getJson, query } from "./client";
import type { KObject } from "./types";

const PAGE_SIZE = 500;
/** Pods of one cluster that a page holds. */
export const PODS_MAX = 2_000;
const REFRESH_MS = 4_000;
/** Lists of several pages are read again after this time. */
const REFRESH_LONG_MS = 20_000;

export interface PodList {
  items: KObject[];
  /** The cluster has pods that are not in `items`. */
  hasMore: boolean;
  /** All pods in the cluster, where the server says so. */
  total?: number;
}

interface Page {
  items?: KObject[];
  metadata?: { continue?: string; remainingItemCount?: number };
}

export async function podsOf(path: string, labelSelector: string): Promise<PodList> {
  const items: KObject[] = [];
  for (let token: string | undefined; ; ) {
    const page: Page = await getJson<Page>(path + query({ labelSelector, limit: PAGE_SIZE, continue: token }));
    items.push(...(page.items ?? []));
    token = page.metadata?.continue || undefined;
    if (!token) return { items, hasMore: false, total: items.length };
    if (items.length >= PODS_MAX) {
      const rest = page.metadata?.remainingItemCount;
      return { items, hasMore: true, total: rest === undefined ? undefined : items.length + rest };
    }
  }
}

export const refreshOf = (list?: PodList) => ((list?.items.length ?? 0) > PAGE_SIZE ? REFRESH_LONG_MS : REFRESH_MS);
