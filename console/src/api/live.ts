// Lists that stay current: pages from the server, then one watch stream that resumes after an interruption.

import { ApiError, getJson, query } from "./client";
import { SharedList, type SharedState, useShared } from "./shared";
import type { KObject, Meta } from "./types";
import { keyOf } from "./types";

const PAGE_SIZE = 500;
const FLUSH_MS = 100;

export interface Column {
  name: string;
  type: string;
  format?: string;
  description?: string;
  priority: number;
}

/** A row of a table of the server; `cells` are in the order of the columns. */
export interface Row {
  metadata: Meta;
  cells: unknown[];
  object?: KObject;
}

interface ListMeta {
  resourceVersion?: string;
  continue?: string;
  remainingItemCount?: number;
}

export interface LiveState<T> extends SharedState {
  items: T[];
  /** Items on the server, also those not loaded. */
  total: number;
  hasMore: boolean;
  loadingMore: boolean;
  columns: Column[];
  loadMore: () => void;
  reload: () => void;
}

export interface ListSpec {
  path: string;
  /** A table with the columns of the server instead of whole objects. */
  table?: boolean;
  labelSelector?: string;
  fieldSelector?: string;
  limit?: number;
  /** Without a stream, for data that members answer. */
  once?: boolean;
}

const TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";

const byKey = (a: { metadata: Meta }, b: { metadata: Meta }) => {
  const [left, right] = [keyOf(a), keyOf(b)];
  return left < right ? -1 : left > right ? 1 : 0;
};

const NONE: LiveState<any> = {
  phase: "loading", items: [], total: 0, hasMore: false, loadingMore: false, stale: false, columns: [], loadMore: () => {}, reload: () => {},
};

class LiveList<T extends { metadata: Meta }> extends SharedList<LiveState<T>> {
  private items = new Map<string, T>();
  private next = "";

  constructor(private spec: ListSpec) {
    super({ ...NONE, loadMore: () => void this.more(), reload: () => this.restart() });
    this.start();
  }

  protected clear() {
    this.items.clear();
  }

  protected isOnce() {
    return this.spec.once === true;
  }

  protected keepsItems(problem: ApiError) {
    return !problem.forbidden;
  }

  protected watchOf(parameters: Record<string, string | number | undefined>) {
    return { path: this.spec.path + this.options(parameters), accept: this.accept() };
  }

  private accept() {
    return this.spec.table ? TABLE : "application/json";
  }

  private options(parameters: Record<string, string | number | undefined>): string {
    const { labelSelector, fieldSelector, table } = this.spec;
    return query({ labelSelector, fieldSelector, includeObject: table ? "Metadata" : undefined, ...parameters });
  }

  private read(document: any): T[] {
    if (document.kind !== "Table") return document.items ?? [document];
    if (document.columnDefinitions?.length) this.state = { ...this.state, columns: document.columnDefinitions };
    return (document.rows ?? []).map((row: any) => ({ metadata: row.object?.metadata ?? {}, cells: row.cells, object: row.object }));
  }

  private async page(token: string, signal: AbortSignal): Promise<ListMeta> {
    const path = this.spec.path + this.options({ limit: this.spec.limit ?? PAGE_SIZE, continue: token || undefined });
    const list = await getJson<any>(path, { signal, headers: { Accept: this.accept() } });
    for (const item of this.read(list)) this.items.set(keyOf(item), item);
    return list.metadata ?? {};
  }

  protected async load(signal: AbortSignal) {
    const known = new Map(this.items);
    this.items.clear();
    try {
      const meta = await this.page("", signal);
      this.version = meta.resourceVersion ?? "";
      this.next = meta.continue ?? "";
      this.publish({ phase: "ready", total: this.items.size + (meta.remainingItemCount ?? 0), stale: false, error: undefined });
    } catch (error) {
      this.items = known;
      throw error;
    }
  }

  protected apply(type: string, document: any) {
    if (type === "BOOKMARK") {
      this.version = document.metadata?.resourceVersion ?? this.version;
      return;
    }
    let total = this.state.total;
    for (const item of this.read(document)) {
      const key = keyOf(item);
      this.version = item.metadata.resourceVersion ?? this.version;
      const has = this.items.has(key);
      if (type === "DELETED") {
        this.items.delete(key);
        total -= 1;
      } else {
        if (type === "ADDED" && !has) total += 1;
        if (has || !this.next || !this.isBeyond(key)) this.items.set(key, item);
      }
    }
    this.state = { ...this.state, total: Math.max(total, this.items.size) };
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.publish({});
    }, FLUSH_MS);
  }

  /** The key belongs to a page that is not loaded. */
  private isBeyond(key: string): boolean {
    const last = this.state.items.at(-1);
    return last !== undefined && key > keyOf(last);
  }

  private publish(change: Partial<LiveState<T>>) {
    this.set({ ...change, items: [...this.items.values()].sort(byKey), hasMore: this.next !== "" });
  }

  private async more() {
    if (!this.next || this.state.loadingMore) return;
    this.set({ loadingMore: true });
    try {
      const meta = await this.page(this.next, this.stop.signal);
      this.next = meta.continue ?? "";
      this.publish({ loadingMore: false, total: this.items.size + (meta.remainingItemCount ?? 0) });
    } catch (error) {
      if (this.stop.signal.aborted) return;
      // The page expired: begin again.
      this.set({ loadingMore: false });
      if (error instanceof ApiError && error.code === 410) this.restart();
    }
  }
}

const shared = new Map<string, LiveList<any>>();

/** A list that follows its changes; components with the same spec share one stream. `undefined` loads nothing. */
export function useLive<T extends { metadata: Meta } = KObject>(spec: ListSpec | undefined): LiveState<T> {
  return useShared<LiveState<T>, LiveList<T>>(shared, spec ? JSON.stringify(spec) : "", () => new LiveList<T>(spec!), NONE);
}

/** One object that follows its changes. */
export function useLiveObject<T extends KObject = KObject>(collection: string, name: string | undefined) {
  const live = useLive<T>(name ? { path: collection, fieldSelector: `metadata.name=${name}` } : undefined);
  return { ...live, object: live.items[0] };
}
