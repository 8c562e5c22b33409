// Lists that the server sorts, filters and pages: only the visible windows are loaded, and one stream says when they change.

import { useEffect, useMemo, useRef, useState } from "react";
import { type ApiError, getJson, query } from "./client";
import { type Column, type LiveState, type Row, useLive } from "./live";
import { isSecrets, pathOf, type Resource } from "./resources";
import { SharedList, type SharedState, useShared } from "./shared";
import { type BindingFilter, matchesFilter } from "../model/bindingSummary";
import type { KObject } from "./types";

const WINDOW = 100;
/** Changes are gathered for this long before the visible rows are read again. */
const GATHER_MS = 250;
/** Time between two reads of the same rows, as a multiple of what one took. */
const REST_FACTOR = 4;
/** Time between two reads of rows that are not watched. */
const POLL_MS = 5_000;
const METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

export interface RowsSpec {
  resource: Resource;
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  /** Part of the namespace, the name or a cell. */
  contains?: string;
  /** A column of the table, `name`, `namespace`, `created` or `lastSeen`; with `-` in front for the reverse. */
  sort?: string;
  /** Rows have whole objects instead of metadata. */
  whole?: boolean;
  /** Only bindings of both kinds that match; `resource` is that of bindings, and there are no cells. */
  bindings?: BindingFilter;
}

export interface RowsState extends SharedState {
  /** As long as the list on the server; rows that are not loaded are missing. */
  rows: (Row | undefined)[];
  total: number;
  columns: Column[];
  /** Loads the rows of this range and keeps them current. */
  show: (first: number, last: number) => void;
  reload: () => void;
}

interface Answer {
  metadata: { resourceVersion?: string };
  columnDefinitions?: Column[];
  rows?: { cells: unknown[]; object: KObject }[];
  total: number;
  matching: number;
}

const NONE: RowsState = { phase: "loading", rows: [], total: 0, columns: [], stale: false, show: () => {}, reload: () => {} };

class ServerRows extends SharedList<RowsState> {
  private windows = new Map<number, Row[]>();
  private loading = new Set<number>();
  private wanted: [number, number] = [0, 0];
  private matching = 0;
  private tookMs = 0;

  constructor(private spec: RowsSpec) {
    super({ ...NONE, show: (first, last) => this.show(first, last), reload: () => this.restart() });
    this.start();
  }

  protected clear() {
    this.windows.clear();
    this.loading.clear();
  }

  /** A server that does not know the request will not learn it. */
  protected isFinal(problem: ApiError) {
    return super.isFinal(problem) || problem.code === 400;
  }

  protected async load(signal: AbortSignal) {
    this.version = await this.refresh(signal);
    if (this.isOnce()) this.poll(signal);
  }

  /** A watch of Secrets sends annotations, in which `kubectl apply` keeps the values: these rows are polled. */
  protected isOnce() {
    return isSecrets(this.spec.resource);
  }

  private poll(signal: AbortSignal) {
    this.timer = setTimeout(() => {
      void this.refresh(signal)
        .catch(() => !signal.aborted && this.set({ stale: true }))
        .finally(() => !signal.aborted && this.poll(signal));
    }, POLL_MS);
  }

  protected watchOf(parameters: Record<string, string | number | undefined>) {
    const { resource, namespace, labelSelector, fieldSelector } = this.spec;
    return { path: pathOf(resource, namespace) + query({ ...parameters, labelSelector, fieldSelector }), accept: METADATA };
  }

  protected apply(type: string, object: any, signal: AbortSignal) {
    this.version = object?.metadata?.resourceVersion ?? this.version;
    if (type !== "BOOKMARK") this.changed(signal);
  }

  private async read(index: number, signal: AbortSignal): Promise<Answer> {
    const { resource, namespace, labelSelector, fieldSelector, contains, sort, whole, bindings } = this.spec;
    const { group, version, plural } = resource;
    if (bindings) return this.readBindings(bindings, index, signal);
    const options = { group, version, resource: plural, namespace, labelSelector, fieldSelector, contains, sort, offset: index * WINDOW, limit: WINDOW, includeObject: whole ? "Object" : undefined };
    const started = performance.now();
    const answer = await getJson<Answer>(`/flotilla/v1alpha1/rows${query(options)}`, { signal });
    this.tookMs = performance.now() - started;
    return answer;
  }

  private async readBindings(filter: BindingFilter, index: number, signal: AbortSignal): Promise<Answer> {
    const options = { ...filter, namespace: this.spec.namespace, offset: index * WINDOW, limit: WINDOW };
    const { items, ...answer } = await getJson<Answer & { items: KObject[] }>(`/flotilla/v1alpha1/bindings${query(options)}`, { signal });
    return { ...answer, rows: items.map((object) => ({ cells: [], object })) };
  }

  private keep(index: number, answer: Answer) {
    this.windows.set(index, (answer.rows ?? []).map(({ cells, object }) => ({ metadata: object.metadata, cells, object })));
    this.matching = answer.matching;
  }

  private publish(answer: Answer) {
    const rows = new Array<Row | undefined>(this.matching);
    for (const [index, window] of this.windows) {
      for (const [at, row] of window.entries()) if (index * WINDOW + at < rows.length) rows[index * WINDOW + at] = row;
    }
    this.set({ phase: "ready", rows, total: answer.total, columns: answer.columnDefinitions ?? this.state.columns, stale: false, error: undefined });
  }

  private show(first: number, last: number) {
    this.wanted = [Math.floor(first / WINDOW), Math.floor(last / WINDOW)];
    if (this.state.phase === "ready") void this.fill(this.stop.signal).catch(() => undefined);
  }

  private async fill(signal: AbortSignal) {
    const [from, to] = this.wanted;
    for (let index = from; index <= to; index++) {
      if (this.windows.has(index) || this.loading.has(index) || index * WINDOW >= this.matching) continue;
      this.loading.add(index);
      try {
        const answer = await this.read(index, signal);
        this.keep(index, answer);
        this.publish(answer);
      } finally {
        this.loading.delete(index);
      }
    }
  }

  /** Reads the visible windows again and forgets the others. */
  private async refresh(signal: AbortSignal): Promise<string> {
    const [from, to] = this.wanted;
    const fresh: [number, Answer][] = [];
    for (let index = from; index <= to; index++) fresh.push([index, await this.read(index, signal)]);
    this.windows.clear();
    for (const [index, answer] of fresh) this.keep(index, answer);
    const last = fresh.at(-1)![1];
    // The list may have become shorter than where the reader is.
    const end = Math.max(0, Math.ceil(last.matching / WINDOW) - 1);
    if (from > end) {
      this.wanted = [end, end];
      return this.refresh(signal);
    }
    this.publish(last);
    return fresh[0]![1].metadata.resourceVersion ?? "";
  }

  private changed(signal: AbortSignal) {
    this.timer ??= setTimeout(() => {
      void this.refresh(signal)
        // The stream notices a lost connection and reads everything again.
        .catch(() => undefined)
        .finally(() => (this.timer = undefined));
    }, Math.max(GATHER_MS, this.tookMs * REST_FACTOR));
  }
}

const shared = new Map<string, ServerRows>();

/** The text after it has not changed for a moment. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), 200);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

/** Rows of the server; `undefined` loads nothing. With another order or filter the old rows stay until the new ones are there. */
function useServerRows(spec: RowsSpec | undefined): RowsState {
  const contains = useSettled(spec?.contains ?? "");
  const wanted = spec && { ...spec, contains };
  const state = useShared<RowsState, ServerRows>(shared, wanted ? JSON.stringify(wanted) : "", () => new ServerRows(wanted!), NONE);
  const before = useRef<{ resource: string; state: RowsState }>(undefined);
  const resource = spec ? `${spec.resource.group}/${spec.resource.plural}/${spec.namespace ?? ""}` : "";
  if (state.phase === "ready") before.current = { resource, state };
  if (state.phase === "loading" && before.current?.resource === resource) return { ...before.current.state, show: state.show, reload: state.reload };
  return state;
}

export type Rows = Pick<RowsState, "phase" | "rows" | "total" | "columns" | "stale" | "error" | "reload"> & Partial<Pick<RowsState, "show"> & Pick<LiveState<unknown>, "hasMore" | "loadingMore" | "loadMore">>;

const textOf = (row: Row) => `${row.metadata.namespace ?? ""}/${row.metadata.name} ${row.cells.length > 0 ? row.cells.join(" ") : JSON.stringify([row.object?.spec, row.object?.message, row.object?.reason, row.object?.involvedObject])}`.toLowerCase();

/** The rows of a list. Kinds that the server cannot sort, and servers that cannot sort at all, are listed and filtered here. */
export function useRows(spec: RowsSpec | undefined): Rows {
  const sorted = useServerRows(spec);
  const isPlain = sorted.phase === "error" && sorted.error?.notFound === true;
  const live = useLive<any>(isPlain && spec ? { path: pathOf(spec.resource, spec.namespace), table: !spec.whole, labelSelector: spec.labelSelector, fieldSelector: spec.fieldSelector } : undefined);
  const contains = (spec?.contains ?? "").toLowerCase();
  const filter = spec?.bindings;
  const rows = useMemo(() => {
    const all: Row[] = live.items.map((item: any) => (item.cells ? item : { metadata: item.metadata, cells: [], object: item }));
    const matching = filter ? all.filter((row) => row.object && matchesFilter(row.object, filter)) : all;
    return contains ? matching.filter((row) => textOf(row).includes(contains)) : matching;
  }, [live.items, contains, filter?.cluster, filter?.policy, filter?.leaving]);
  return isPlain ? { ...live, rows } : sorted;
}
