// A table with virtual rows: it draws only what is visible. The rows are in the browser, or the server sorts and pages them.

import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, type ReactNode, useCallback, useEffect, useMemo, useRef } from "react";
import { Link, useLocation } from "wouter";
import type { LiveState } from "../api/live";
import { useUrlState } from "../app/urlState";
import { t } from "../i18n";
import { Empty, Loading, Problem } from "./parts";

export interface TableColumn<T> {
  id: string;
  title: string;
  /** A grid track, such as `minmax(160px, 2fr)` or `90px`. */
  width: string;
  cell: (row: T) => ReactNode;
  sort?: (row: T) => string | number;
  /** Numbers are aligned at their last digit. */
  numeric?: boolean;
}

/** A list in the browser, or rows of the server with `show`. */
type Source = Pick<LiveState<unknown>, "phase" | "error" | "total" | "reload"> & Partial<Pick<LiveState<unknown>, "hasMore" | "loadingMore" | "loadMore">> & { show?: (first: number, last: number) => void };

interface TableProps<T> {
  label: string;
  live: Source;
  /** Rows of the server that are not loaded are missing. */
  rows: (T | undefined)[];
  columns: TableColumn<T>[];
  rowKey: (row: T) => string;
  href?: (row: T) => string;
  empty: ReactNode;
  /** Rows are filtered, so that the number on the server is not theirs. */
  filtered?: boolean;
  /** In place of the number of rows, where the rows are not all there are. */
  counted?: string;
  height?: number | string;
}

const ROW = () => (document.documentElement.dataset.density === "compact" ? 34 : 44);

export function DataTable<T>({ label, live, rows, columns, rowKey, href, empty, filtered, counted, height }: TableProps<T>) {
  const scroll = useRef<HTMLDivElement>(null);
  const [, navigate] = useLocation();
  const [order, setOrder] = useUrlState("sort", "");
  const { show } = live;
  const sorted = useMemo(() => (show ? rows : sortRows(rows as T[], columns, order)), [rows, columns, order, show]);
  const virtual = useVirtualizer({ count: sorted.length, getScrollElement: () => scroll.current, estimateSize: ROW, overscan: 12 });
  const visible = virtual.getVirtualItems();
  const last = visible.at(-1)?.index ?? 0;
  const handle = useRef<(event: React.KeyboardEvent, index: number) => void>(() => {});
  const onKey = useCallback((event: React.KeyboardEvent, index: number) => handle.current(event, index), []);

  // A filter or an order counts for all rows, so that the rest is loaded too.
  useEffect(() => {
    if (live.hasMore && !live.loadingMore && (last >= sorted.length - 40 || filtered || order)) live.loadMore?.();
  }, [live.hasMore, live.loadingMore, last, sorted.length, filtered, order]);
  const first = visible[0]?.index ?? 0;
  useEffect(() => show?.(first, last), [show, first, last]);

  if (live.phase === "loading") return <section className="card"><Loading /></section>;
  if (live.phase === "error" && live.error) return <section className="card"><Problem error={live.error} retry={live.reload} /></section>;
  if (rows.length === 0 && !live.hasMore) {
    return <section className="card">{filtered ? <Empty title={t("No row matches the filter")} icon="search" /> : empty}</section>;
  }
  const tracks = columns.map((column) => column.width).join(" ");
  // The function is the same on every scroll, so that rows in view are not drawn again.
  handle.current = (event, index) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    const row = sorted[index];
    if (step !== undefined) {
      event.preventDefault();
      const next = Math.min(Math.max(index + step, 0), sorted.length - 1);
      virtual.scrollToIndex(next);
      requestAnimationFrame(() => scroll.current?.querySelector<HTMLElement>(`[data-index="${next}"]`)?.focus());
    }
    if (event.key === "Enter" && href && row !== undefined && event.target === event.currentTarget) navigate(href(row));
  };
  return (
    <section className="card table" style={{ maxHeight: height ?? "max(320px, calc(100vh - 250px))" }}>
      <div className="scroll" ref={scroll} tabIndex={0} role="table" aria-label={label} aria-rowcount={sorted.length + 1}>
        <div className="tr head" role="row" style={{ gridTemplateColumns: tracks }}>
          {columns.map((column) => (
            <div className={column.numeric ? "th num" : "th"} role="columnheader" key={column.id} aria-sort={order === column.id ? "ascending" : order === `-${column.id}` ? "descending" : undefined}>
              {column.sort ? (
                <button type="button" onClick={() => setOrder(order === column.id ? `-${column.id}` : order === `-${column.id}` ? "" : column.id)}>
                  {column.title}
                  <span aria-hidden="true">{order === column.id ? "↑" : order === `-${column.id}` ? "↓" : ""}</span>
                </button>
              ) : (
                column.title || <span className="sr">{t("Actions")}</span>
              )}
            </div>
          ))}
        </div>
        <div role="rowgroup" style={{ height: virtual.getTotalSize(), position: "relative", minWidth: "min-content" }}>
          {visible.map((item) => {
            const row = sorted[item.index];
            if (row === undefined) return <Missing key={`missing-${item.index}`} index={item.index} start={item.start} />;
            return <Line key={rowKey(row)} row={row} index={item.index} start={item.start} first={item.index === first} columns={columns} tracks={tracks} href={href} onKey={onKey} />;
          })}
        </div>
      </div>
      <div className="foot">
        <span role="status">
          {counted ??
            (live.hasMore
              ? t("{shown} of {total} loaded", { shown: rows.length.toLocaleString(), total: live.total.toLocaleString() })
              : filtered
                ? t("{shown} of {total} match", { shown: rows.length.toLocaleString(), total: live.total.toLocaleString() })
                : t("{total} in total", { total: rows.length.toLocaleString() }))}
        </span>
        {live.loadingMore && <span>{t("Loading…")}</span>}
      </div>
    </section>
  );
}

/** A row that is being loaded. */
const Missing = ({ index, start }: { index: number; start: number }) => (
  <div className="tr line missing" role="row" aria-rowindex={index + 2} aria-busy="true" style={{ height: ROW(), transform: `translateY(${start}px)` }}>
    <div className="td" role="cell"><span className="sr">{t("Loading…")}</span></div>
  </div>
);

interface LineProps<T> {
  row: T;
  index: number;
  start: number;
  first: boolean;
  columns: TableColumn<T>[];
  tracks: string;
  href?: (row: T) => string;
  onKey: (event: React.KeyboardEvent, index: number) => void;
}

/** A cell that is too narrow for its text shows all of it when it is pointed at. */
function showCut({ currentTarget: cell }: React.PointerEvent<HTMLElement>) {
  cell.title = cell.scrollWidth > cell.clientWidth ? cell.innerText.replace(/\s+/g, " ") : "";
}

const Line = memo(function Line<T>({ row, index, start, first, columns, tracks, href, onKey }: LineProps<T>) {
  const [, navigate] = useLocation();
  return (
    <div
      className="tr line"
      role="row"
      data-index={index}
      data-link={href ? "" : undefined}
      aria-rowindex={index + 2}
      tabIndex={first ? 0 : -1}
      style={{ gridTemplateColumns: tracks, height: ROW(), transform: `translateY(${start}px)` }}
      onKeyDown={(event) => onKey(event, index)}
      onClick={(event) => {
        const target = event.target as HTMLElement;
        if (href && !target.closest("a, button, input, [role=menu]") && !getSelection()?.toString()) navigate(href(row));
      }}
    >
      {columns.map((column, at) => (
        <div className={column.numeric ? "td num" : "td"} role="cell" key={column.id} onPointerEnter={showCut} style={column.id === "actions" ? { overflow: "visible" } : undefined}>
          {at === 0 && href ? <Link className="name" href={href(row)}>{column.cell(row)}</Link> : column.cell(row)}
        </div>
      ))}
    </div>
  );
}) as <T>(props: LineProps<T>) => React.ReactNode;

function sortRows<T>(rows: T[], columns: TableColumn<T>[], order: string): T[] {
  const column = columns.find((one) => one.id === order.replace(/^-/, ""));
  const read = column?.sort;
  if (!read) return rows;
  const sign = order.startsWith("-") ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [left, right] = [read(a), read(b)];
    return sign * (typeof left === "number" && typeof right === "number" ? left - right : String(left).localeCompare(String(right)));
  });
}
