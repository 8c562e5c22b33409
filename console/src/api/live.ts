// Lists that stay current: pages from the server, then one watch stream that resumes after an interruption.

import { useEffect, useMemo, useSyncExternalStore } from "react";
import { ApiError, getJson, query, request } from "./client";
import type { KObject, Meta } from "./types";
import { keyOf } from "./types";

const PAGE_SIZE = 500;
const FLUSH_MS = 100;
const LINGER_MS = 4_000;
const BACKOFF_MS = [500, 1_000, 2_000, 5_000, 10_000];

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

export interface LiveState<T> {
  phase: "loading" | "ready" | "error";
  items: T[];
  /** Items on the server, also those not loaded. */
  total: number;
  hasMore: boolean;
  loadingMore: boolean;
  /** The stream is interrupted; what is shown may be old. */
  stale: boolean;
  error?: ApiError;
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

class LiveList<T extends { metadata: Meta }> {
  users = 0;
  private listeners = new Set<() => void>();
  private items = new Map<string, T>();
  private state: LiveState<T>;
  private stop = new AbortController();
  private next = "";
  private version = "";
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private spec: ListSpec) {
    const base = { items: [], total: 0, hasMore: false, loadingMore: false, stale: false, columns: [] };
    this.state = { ...base, phase: "loading", loadMore: () => void this.more(), reload: () => this.restart() };
    void this.run(this.stop.signal);
  }

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  snapshot = () => this.state;

  end() {
    this.stop.abort();
    clearTimeout(this.timer);
  }

  private restart() {
    this.end();
    this.stop = new AbortController();
    this.items.clear();
    this.timer = undefined;
    this.set({ phase: "loading", error: undefined, stale: false });
    void this.run(this.stop.signal);
  }

  private set(change: Partial<LiveState<T>>) {
    this.state = { ...this.state, ...change };
    for (const listener of this.listeners) listener();
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
    const list = await getJson<any>(path, { signal, headers: { Accept: this.spec.table ? TABLE : "application/json" } });
    for (const item of this.read(list)) this.items.set(keyOf(item), item);
    return list.metadata ?? {};
  }

  private async run(signal: AbortSignal) {
    for (let attempt = 0; !signal.aborted; attempt++) {
      try {
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
        attempt = 0;
        if (this.spec.once) return;
        await this.follow(signal);
      } catch (error) {
        if (signal.aborted) return;
        const problem = error instanceof ApiError ? error : new ApiError(0, "Unreachable", String(error));
        // Rights and missing kinds do not change by asking again at once.
        if (this.state.phase === "ready" && !problem.forbidden) this.set({ stale: true, error: problem });
        else this.set({ phase: "error", error: problem });
        if (problem.forbidden || problem.notFound || problem.code === 401) return;
        await pause(BACKOFF_MS[Math.min(attempt, BACKOFF_MS.length - 1)] ?? 10_000, signal);
      }
    }
  }

  /** Watches until the server no longer knows our version; a list follows then. */
  private async follow(signal: AbortSignal) {
    let failures = 0;
    while (!signal.aborted) {
      try {
        const path = this.spec.path + this.options({ watch: 1, resourceVersion: this.version, allowWatchBookmarks: "true", timeoutSeconds: 280 });
        const response = await request(path, { signal, headers: { Accept: this.spec.table ? TABLE : "application/json" } });
        if (this.state.stale) this.set({ stale: false, error: undefined });
        failures = 0;
        for await (const event of lines(response)) {
          if (event.type === "ERROR") {
            if (event.object?.code === 410) return;
            throw new ApiError(event.object?.code ?? 500, event.object?.reason ?? "", event.object?.message ?? "the stream ended");
          }
          this.apply(event.type, event.object);
        }
      } catch (error) {
        if (signal.aborted) return;
        const problem = error instanceof ApiError ? error : new ApiError(0, "Unreachable", "the stream was interrupted");
        if (problem.code === 410) return;
        if (problem.forbidden || problem.code === 401) throw problem;
        this.set({ stale: true, error: problem });
        await pause(BACKOFF_MS[Math.min(failures++, BACKOFF_MS.length - 1)] ?? 10_000, signal);
      }
    }
  }

  private apply(type: string, document: any) {
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

const pause = (ms: number, signal: AbortSignal) =>
  new Promise<void>((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });

async function* lines(response: Response): AsyncGenerator<any> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop() ?? "";
    for (const part of parts) if (part) yield JSON.parse(part);
  }
}

const shared = new Map<string, LiveList<any>>();

const NONE: LiveState<any> = {
  phase: "loading", items: [], total: 0, hasMore: false, loadingMore: false, stale: false, columns: [], loadMore: () => {}, reload: () => {},
};

/** A list that follows its changes; components with the same spec share one stream. `undefined` loads nothing. */
export function useLive<T extends { metadata: Meta } = KObject>(spec: ListSpec | undefined): LiveState<T> {
  const key = spec ? JSON.stringify(spec) : "";
  const list = useMemo(() => {
    if (!spec) return undefined;
    let found = shared.get(key) as LiveList<T> | undefined;
    if (!found) {
      found = new LiveList<T>(spec);
      shared.set(key, found);
    }
    return found;
  }, [key]);
  useEffect(() => {
    if (!list) return;
    list.users += 1;
    return () => {
      list.users -= 1;
      setTimeout(() => {
        if (list.users > 0 || shared.get(key) !== list) return;
        shared.delete(key);
        list.end();
      }, LINGER_MS);
    };
  }, [list, key]);
  return useSyncExternalStore(list ? list.subscribe : emptySubscribe, list ? list.snapshot : () => NONE);
}

const emptySubscribe = () => () => {};

/** One object that follows its changes. */
export function useLiveObject<T extends KObject = KObject>(collection: string, name: string | undefined) {
  const live = useLive<T>(name ? { path: collection, fieldSelector: `metadata.name=${name}` } : undefined);
  return { ...live, object: live.items[0] };
}
