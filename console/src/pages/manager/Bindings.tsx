// The bindings of a manager that the user may see: all for user managers, those on their instances for administrators of instances.

import { useState } from "react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import type { ApiError } from "../../api/client";
import { listAll, usePermissions } from "../../api/manager";
import { useUrlState } from "../../app/urlState";
import { t } from "../../i18n";
import { Age, Button, Empty, exactTime, Menu, Stale } from "../../ui/parts";
import { DataTable, type TableColumn } from "../../ui/table";
import { type Binding, BindingEnd, BINDINGS_PATH, bindingPath, NewBinding, reduced } from "./BindingForm";
import { RemoveObject } from "./Form";
import { targetText } from "./kinds";

const REFRESH_MS = 5_000;
const KEY = ["bindings"];

const isOver = ({ expiresAt }: Binding) => Boolean(expiresAt) && Date.parse(expiresAt!) < Date.now();

function columnsOf(open: (what: "end" | "remove", name: string) => void, mayWrite: boolean): TableColumn<Binding>[] {
  const target = (one: Binding) => targetText(reduced(one.target));
  return [
    { id: "name", title: t("Name"), width: "minmax(180px, 1.4fr)", cell: (one) => one.name, sort: (one) => one.name },
    { id: "subject", title: t("Subject"), width: "minmax(160px, 1.4fr)", cell: (one) => <span className="chip"><span className="muted">{one.subject?.kind}</span>{one.subject?.name}</span>, sort: (one) => one.subject?.name ?? "" },
    { id: "role", title: t("Role"), width: "minmax(120px, 1fr)", cell: (one) => <b>{one.role}</b>, sort: (one) => one.role },
    { id: "target", title: t("Scope"), width: "minmax(150px, 1.4fr)", cell: target, sort: target },
    { id: "until", title: t("Expires"), width: "150px", cell: (one) => (one.expiresAt ? <span className={isOver(one) ? "muted" : undefined} title={exactTime(one.expiresAt)}>{isOver(one) ? t("expired") : one.expiresAt.replace("T", " ").slice(0, 16)}</span> : "–"), sort: (one) => one.expiresAt ?? "" },
    { id: "age", title: t("Age"), width: "70px", cell: (one) => <Age at={one.createTime} />, sort: (one) => -Date.parse(one.createTime ?? "") },
    ...(mayWrite ? [{ id: "actions", title: "", width: "58px", cell: (one: Binding) => <Menu label={t("Actions for {name}", { name: one.name })} items={[{ text: t("Change expiration…"), icon: "events", onSelect: () => open("end", one.name) }, { text: t("Delete…"), icon: "trash", danger: true, onSelect: () => open("remove", one.name) }]} /> }] : []),
  ];
}

export function Bindings() {
  const queries = useQueryClient();
  const list = useQuery<Binding[], ApiError>({ queryKey: KEY, queryFn: () => listAll(BINDINGS_PATH, "bindings"), refetchInterval: REFRESH_MS });
  const mayWrite = usePermissions()("bindings.manage");
  const [filter, setFilter] = useUrlState("q", "");
  const [opened, setOpened] = useState<{ what: "new" | "end" | "remove"; name: string }>();
  const all = list.data ?? [];
  const rows = all.filter((one) => JSON.stringify([one.name, one.subject, one.role, one.target]).toLowerCase().includes(filter.toLowerCase()));
  const close = () => {
    setOpened(undefined);
    void queries.invalidateQueries({ queryKey: KEY });
  };
  const live = { phase: list.data ? "ready" as const : list.error ? "error" as const : "loading" as const, error: list.error ?? undefined, total: all.length, reload: () => void list.refetch() };
  return (
    <>
      <Stale show={list.isRefetchError} />
      <div className="toolbar">
        <input className="input" data-filter type="search" aria-label={t("Filter")} placeholder={t("Filter by role or subject")} value={filter} onChange={(event) => setFilter(event.target.value)} />
        <span className="grow" />
        {mayWrite && <Button icon="plus" kind="primary" onClick={() => setOpened({ what: "new", name: "" })}>{t("New")}</Button>}
      </div>
      <DataTable label={t("Bindings")} live={live} rows={rows} columns={columnsOf((what, name) => setOpened({ what, name }), mayWrite)} rowKey={(one) => one.name} filtered={filter !== ""} empty={<Empty title={t("Nothing here yet")} icon="access" />} />
      {opened?.what === "new" && <NewBinding onClose={close} />}
      {opened?.what === "end" && <BindingEnd name={opened.name} onClose={close} />}
      {opened?.what === "remove" && <RemoveObject kind="Binding" name={opened.name} path={bindingPath(opened.name)} onClose={close} />}
    </>
  );
}
