// What the manager publishes to other systems: its instances, and the namespaces that belong to workspaces.

import { useManager, MANAGER } from "../../api/manager";
import { useUrlState } from "../../app/urlState";
import { t } from "../../i18n";
import { Empty } from "../../ui/parts";
import { DataTable, type TableColumn } from "../../ui/table";

interface Registration {
  product: string;
  type: string;
  name: string;
  uid: string;
  scope: string;
  state: string;
}

const REFRESH_MS = 10_000;

export function Registrations() {
  const list = useManager<{ registrations?: Registration[] }>(`${MANAGER}/registrations`, { refreshMs: REFRESH_MS });
  const [filter, setFilter] = useUrlState("q", "");
  const all = list.data?.registrations ?? [];
  const rows = all.filter((one) => JSON.stringify(one).toLowerCase().includes(filter.toLowerCase()));
  const columns: TableColumn<Registration>[] = [
    { id: "name", title: t("Name"), width: "minmax(180px, 1.4fr)", cell: (one) => <b>{one.name}</b>, sort: (one) => one.name },
    { id: "type", title: t("Type"), width: "120px", cell: (one) => (one.type === "namespace" ? t("Namespace") : t("Instance")), sort: (one) => one.type },
    { id: "scope", title: t("Instance"), width: "minmax(120px, 1fr)", cell: (one) => one.scope || "–", sort: (one) => one.scope },
    { id: "state", title: t("State"), width: "120px", cell: (one) => one.state || "–", sort: (one) => one.state },
    { id: "uid", title: "UID", width: "minmax(300px, 2fr)", cell: (one) => <code>{one.uid}</code> },
  ];
  const live = { phase: list.data ? "ready" as const : list.error ? "error" as const : "loading" as const, error: list.error ?? undefined, total: all.length, reload: () => void list.refetch() };
  return (
    <>
      <div className="toolbar"><input className="input" data-filter type="search" aria-label={t("Filter")} placeholder={t("Filter")} value={filter} onChange={(event) => setFilter(event.target.value)} /></div>
      <DataTable label={t("Registrations")} live={live} rows={rows} columns={columns} rowKey={(one) => `${one.type}/${one.uid}/${one.name}`} filtered={filter !== ""} empty={<Empty title={t("No registrations yet")} icon="network"><p>{t("Instances, and namespaces that belong to a workspace, appear here. Webhooks receive the same list.")}</p></Empty>} />
    </>
  );
}
