// The cluster inventory of a manager: registered clusters, whether their credentials work, and the instances they are joined to.

import { useState } from "react";
import { type ManagedCluster, useInventory, usePermissions } from "../../api/manager";
import { useUrlState } from "../../app/urlState";
import { t } from "../../i18n";
import { instanceHome } from "../../model/instance";
import type { MenuItem } from "../../ui/overlays";
import { Age, Badge, Button, Card, Empty, KeyValues, Labels, Loading, Menu, PageHead, Problem, Stale, type Tone } from "../../ui/parts";
import { DataTable, type TableColumn } from "../../ui/table";
import { ConditionTable } from "../ConditionTable";
import { EditCluster, JoinToInstances, NewCredential, RegistrationCommand, RemoveCluster } from "./clusterDialogs";
import { placeOfManaged, RegisterCluster } from "./RegisterCluster";

const TONES: Record<string, Tone> = { Ready: "ok", Degraded: "warn", Failed: "bad" };

const condition = (cluster: ManagedCluster, type: string) => cluster.conditions?.find((one) => one.type === type);
const problemOf = (cluster: ManagedCluster) => { const ready = condition(cluster, "Ready"); return ready?.status === "True" ? "" : (ready?.message ?? ""); };

type DialogName = "join" | "edit" | "rotate" | "command" | "remove";

const DIALOGS = { join: JoinToInstances, edit: EditCluster, rotate: NewCredential, command: RegistrationCommand, remove: RemoveCluster };

/** The changes of a cluster and the dialog that is open for one. */
function useChanges() {
  const may = usePermissions();
  const [open, setOpen] = useState<{ what: DialogName; cluster: ManagedCluster }>();
  const writes = may("inventory.write");
  const items = (cluster: ManagedCluster): MenuItem[] => {
    const item = (what: DialogName, text: string, icon: MenuItem["icon"], danger = false): MenuItem => ({ text, icon, danger, onSelect: () => setOpen({ what, cluster }) });
    return [
      item("join", t("Join to instances…"), "binding"),
      ...(cluster.mode === "Pull" ? [item("command", t("Command for its agent…"), "terminal")] : writes ? [item("rotate", t("New credential…"), "secret")] : []),
      ...(writes ? [item("edit", t("Change…"), "config"), item("remove", t("Remove…"), "trash", true)] : []),
    ];
  };
  const Dialog = open && DIALOGS[open.what];
  const dialog = Dialog && open && <Dialog cluster={open.cluster} onClose={() => setOpen(undefined)} />;
  return { items, dialog, mayRegister: writes };
}

export default function Inventory() {
  const live = useInventory();
  const { items, dialog, mayRegister } = useChanges();
  const [filter, setFilter] = useUrlState("q", "");
  const [registering, setRegistering] = useState(false);
  const rows = live.items.filter(({ name, displayName, provider, region, zone, labels, instances }) => JSON.stringify([name, displayName, provider, region, zone, labels, instances]).toLowerCase().includes(filter.toLowerCase()));
  const register = mayRegister && <Button kind="primary" icon="plus" onClick={() => setRegistering(true)}>{t("Register a cluster")}</Button>;
  return (
    <>
      <PageHead title={t("Cluster inventory")}>{register}</PageHead>
      <Stale show={live.stale} />
      <div className="toolbar"><input className="input" data-filter type="search" aria-label={t("Filter")} placeholder={t("Filter by name, label or location")} value={filter} onChange={(event) => setFilter(event.target.value)} /></div>
      <DataTable label={t("Cluster inventory")} live={live} rows={rows} columns={columnsOf(items)} rowKey={(one) => one.name} href={(one) => `/inventory/${encodeURIComponent(one.name)}`} filtered={filter !== ""} empty={<Empty title={t("No clusters registered")} icon="cluster"><p>{t("A registered cluster can be joined to instances without providing its kubeconfig again.")}</p>{register}</Empty>} />
      {registering && <RegisterCluster onClose={() => setRegistering(false)} />}
      {dialog}
    </>
  );
}

function columnsOf(items: (cluster: ManagedCluster) => MenuItem[]): TableColumn<ManagedCluster>[] {
  return [
    { id: "name", title: t("Name"), width: "minmax(150px, 1.2fr)", cell: (one) => one.displayName || one.name, sort: (one) => one.name },
    { id: "state", title: t("State"), width: "120px", cell: (one) => <Badge tone={TONES[one.phase] ?? ""}>{t(one.phase || "Pending")}</Badge>, sort: (one) => one.phase },
    { id: "mode", title: t("Mode"), width: "76px", cell: (one) => one.mode, sort: (one) => one.mode },
    { id: "credential", title: t("Credential"), width: "112px", cell: (one) => <Credential cluster={one} /> },
    { id: "joined", title: t("Joined to"), width: "minmax(150px, 1.4fr)", cell: (one) => <JoinedTo cluster={one} />, sort: (one) => (one.joinedTo ?? []).map((entry) => entry.instance).join() },
    { id: "version", title: t("Kubernetes"), width: "96px", cell: (one) => <span title={one.kubernetesVersion}>{one.kubernetesVersion.split("+")[0] || "–"}</span>, sort: (one) => one.kubernetesVersion },
    { id: "place", title: t("Location"), width: "minmax(100px, 1fr)", cell: (one) => placeOfManaged(one) || "–", sort: placeOfManaged },
    { id: "note", title: t("Message"), width: "minmax(160px, 2fr)", cell: (one) => <span title={problemOf(one)}>{problemOf(one) || "–"}</span> },
    { id: "age", title: t("Age"), width: "64px", cell: (one) => <Age at={one.createTime} />, sort: (one) => -Date.parse(one.createTime ?? "") },
    { id: "actions", title: "", width: "58px", cell: (one) => <Menu label={t("Actions for {name}", { name: one.name })} items={items(one)} /> },
  ];
}

function Credential({ cluster }: { cluster: ManagedCluster }) {
  const valid = condition(cluster, "CredentialsValid");
  if (!valid) return <span className="muted">–</span>;
  return <Badge tone={valid.status === "True" ? "ok" : "bad"}>{valid.status === "True" ? t("valid") : t("not valid")}</Badge>;
}

const JoinedTo = ({ cluster }: { cluster: ManagedCluster }) => (
  <span className="chips">
    {(cluster.joinedTo ?? []).map(({ instance, message }) => (
      <a className="chip" key={instance} title={message} href={`${instanceHome(instance)}clusters/${cluster.name}`}><span className={`dot ${message ? "bad" : "ok"}`} />{instance}</a>
    ))}
  </span>
);

export function InventoryCluster({ name }: { name: string }) {
  const live = useInventory();
  const { items, dialog } = useChanges();
  const cluster = live.items.find((one) => one.name === name);
  const crumbs = [{ text: t("Cluster inventory"), to: "/inventory" }, { text: name }];
  if (!cluster) {
    return (
      <>
        <PageHead title={name} crumbs={crumbs} />
        <section className="card">{live.phase === "loading" ? <Loading /> : live.phase === "error" && live.error ? <Problem error={live.error} retry={live.reload} /> : <Empty title={t("There is no cluster {name}", { name })} icon="cluster" />}</section>
      </>
    );
  }
  return (
    <>
      <PageHead title={cluster.displayName || name} crumbs={crumbs} badges={<Badge tone={TONES[cluster.phase] ?? ""}>{t(cluster.phase || "Pending")}</Badge>}><Menu label={t("Actions for {name}", { name })} items={items(cluster)} /></PageHead>
      <Stale show={live.stale} />
      <div className="cols">
        <div>
          <Card title={t("Cluster")}>
            <KeyValues entries={[
              [t("Name"), name],
              [t("Mode"), cluster.mode],
              ["Kubernetes", cluster.kubernetesVersion],
              [t("Location"), placeOfManaged(cluster)],
              [t("Credential"), <Credential key="c" cluster={cluster} />],
              [t("Joined to"), (cluster.joinedTo ?? []).length > 0 ? <JoinedTo key="j" cluster={cluster} /> : t("no instance")],
              [t("Registered"), <Age key="a" at={cluster.createTime} ago />],
              ["UID", cluster.systemId && <code>{cluster.systemId}</code>],
              [t("Labels"), <Labels key="l" labels={cluster.labels} />],
            ]} />
          </Card>
        </div>
        <div><Card title={t("Conditions")} flush><ConditionTable object={{ metadata: { name }, status: { conditions: cluster.conditions } }} /></Card></div>
      </div>
      {dialog}
    </>
  );
}
