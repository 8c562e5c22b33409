// The list of any kind, with the columns the server prints.

import { useMemo } from "react";
import { Link } from "wouter";
import { useBindingsInView } from "../../api/bindings";
import type { Column, Row } from "../../api/live";
import { apiVersionOf, BINDINGS, findByKind, type Resource, slugOf, useDiscovery, useResource } from "../../api/resources";
import { useRows } from "../../api/rows";
import { places } from "../../app/nav";
import { usePrefs } from "../../app/prefs";
import { useUrlState } from "../../app/urlState";
import { t } from "../../i18n";
import { indexBySubject, perCluster, subjectKey } from "../../model/binding";
import { hasPlacement } from "../../model/placement";
import { ClusterChips } from "../../ui/clusterChips";
import { Age, Empty, Loading, PageHead, Problem, Stale } from "../../ui/parts";
import { DataTable, type TableColumn } from "../../ui/table";

const isAge = (column: Column) => column.name.toLowerCase() === "age";

/** Kinds of Karmada have titles in capitals. */
const titleOf = (column: Column) => (column.name === "FULLYAPPLIED" ? "Fully applied" : column.name === column.name.toUpperCase() && column.name.length > 3 || isAge(column) ? column.name.charAt(0) + column.name.slice(1).toLowerCase() : column.name);

/** Rows that are looked at for the widths of columns. */
const MEASURED = 50;

/** A column gets space for its longest text, in steps, so that it keeps its width while rows change. */
const trackOf = (texts: string[], least: number, parts = 1) => `minmax(${least}px, ${Math.min(5, Math.max(parts, ...texts.map((text) => Math.ceil(text.length / 8))))}fr)`;

const widthOf = (column: Column, index: number, rows: Row[]) =>
  column.type === "integer" || column.type === "boolean" ? "100px" : isAge(column) ? "80px" : trackOf(rows.map((row) => String(row.cells[index] ?? "")), 110);

function cellOf(row: Row, column: Column, index: number) {
  if (isAge(column)) return <Age at={row.metadata.creationTimestamp} />;
  const value = row.cells[index];
  const text = value == null || value === "" || value === "<none>" || value === "<unset>" ? "–" : column.format === "date" || column.type === "date" ? "" : String(value);
  return text ? <span title={text}>{text}</span> : <Age at={String(value)} />;
}

const columnOf = (rows: Row[]) => ({ column, index }: { column: Column; index: number }): TableColumn<Row> => ({
  id: column.name,
  title: t(titleOf(column)),
  width: widthOf(column, index, rows),
  numeric: column.type === "integer",
  cell: (row) => cellOf(row, column, index),
  sort: (row) => (isAge(column) ? -Date.parse(row.metadata.creationTimestamp ?? "") : typeof row.cells[index] === "number" ? (row.cells[index] as number) : String(row.cells[index] ?? "")),
});

/** The menu has the plural of the kinds in it. */
function titleOfKind(resource: Resource): string {
  const place = places.current.find((one) => one.path === `/resources/${slugOf(resource)}`);
  return place ? t(place.text) : resource.kind;
}

export default function ResourceList({ slug }: { slug: string }) {
  const { resource, error, pending } = useResource(slug);
  const { namespace } = usePrefs();
  const [filter, setFilter] = useUrlState("q", "");
  const [labelSelector, setLabelSelector] = useUrlState("labels", "");
  const [sort] = useUrlState("sort", "");
  const live = useRows(resource ? { resource, namespace, labelSelector: labelSelector || undefined, contains: filter, sort } : undefined);
  const discovery = useDiscovery();
  // A manager has no bindings.
  const placed = resource !== undefined && hasPlacement(resource) && findByKind(discovery.data, apiVersionOf(BINDINGS), BINDINGS.kind) !== undefined;
  const { show, further } = useBindingsInView(placed ? resource.kind : "", resource?.namespaced ? namespace : "", live.rows, live.show);
  const bySubject = useMemo(() => indexBySubject(further), [further]);
  if (pending) return <><PageHead title={slug.split("~")[2] ?? slug} /><Loading /></>;
  if (!resource) return <><PageHead title={slug.split("~")[2] ?? slug} /><section className="card">{error ? <Problem error={error} /> : <Empty title={t("The control plane does not serve this kind")} />}</section></>;
  const shown = live.columns.map((column, index) => ({ column, index })).filter(({ column }) => column.priority === 0 && column.name !== "Name");
  const measured = live.rows.slice(0, MEASURED).filter((row) => row !== undefined);
  const columns: TableColumn<Row>[] = [
    { id: "name", title: t("Name"), width: trackOf(measured.map((row) => row.metadata.name), 200, 2), cell: (row) => row.metadata.name, sort: (row) => row.metadata.name },
    ...(resource.namespaced ? [{ id: "namespace", title: t("Namespace"), width: trackOf(measured.map((row) => row.metadata.namespace ?? ""), 110), cell: (row: Row) => row.metadata.namespace, sort: (row: Row) => row.metadata.namespace ?? "" }] : []),
    ...shown.filter(({ column }) => !isAge(column)).map(columnOf(measured)),
    ...(further.length > 0 ? [{ id: "clusters", title: t("Clusters"), width: "minmax(220px, 2fr)", cell: (row: Row) => <ClusterChips clusters={perCluster(bySubject.get(subjectKey(resource.kind, row.metadata.namespace, row.metadata.name)))} max={3} /> }] : []),
    ...shown.filter(({ column }) => isAge(column)).map(columnOf(measured)),
  ];
  return (
    <>
      <PageHead title={titleOfKind(resource)} crumbs={[{ text: t("All kinds"), to: "/resources" }, { text: resource.group || "core" }, { text: resource.plural }]}>
        <Link className="btn" href="/apply">{t("Create")}</Link>
      </PageHead>
      <Stale show={live.stale} />
      <div className="toolbar">
        <input className="input" data-filter type="search" aria-label={t("Filter")} placeholder={t("Filter by any column")} value={filter} onChange={(event) => setFilter(event.target.value)} />
        <LabelInput key={labelSelector} value={labelSelector} onChange={setLabelSelector} />
      </div>
      <DataTable
        label={resource.kind}
        live={live.show ? { ...live, show } : live}
        rows={live.rows}
        columns={columns}
        rowKey={(row) => `${row.metadata.namespace}/${row.metadata.name}`}
        href={(row) => `/resources/${slugOf(resource)}/${row.metadata.namespace ? `${row.metadata.namespace}/` : ""}${encodeURIComponent(row.metadata.name)}`}
        filtered={filter !== "" || labelSelector !== ""}
        empty={<Empty title={t("No {kind} here", { kind: resource.plural })} icon="resource"><Link className="btn" href="/apply">{t("Plan and apply")}</Link></Empty>}
      />
    </>
  );
}

/** The label selector is sent to the server when the field is left or Enter is pressed. */
function LabelInput({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  return (
    <input
      className="input"
      type="search"
      aria-label={t("Label selector")}
      placeholder={t("Label selector, such as app=web")}
      style={{ width: 270 }}
      defaultValue={value}
      onBlur={(event) => onChange(event.target.value.trim())}
      onKeyDown={(event) => event.key === "Enter" && onChange(event.currentTarget.value.trim())}
    />
  );
}
