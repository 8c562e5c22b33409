// The nodes of a cluster, read through the control plane with the rights of the user.

import { useLive } from "../../api/live";
import { formatBytes, formatCpu, parseQuantity } from "../../api/quantity";
import { memberPath } from "../../api/resources";
import { conditionOf, type KObject } from "../../api/types";
import { t } from "../../i18n";
import { Age, Badge, Empty } from "../../ui/parts";
import { DataTable, type TableColumn } from "../../ui/table";

export function Nodes({ cluster }: { cluster: KObject }) {
  const live = useLive({ path: memberPath(cluster.metadata.name, "/api/v1/nodes") });
  const columns: TableColumn<KObject>[] = [
    { id: "name", title: t("Name"), width: "minmax(180px, 2fr)", cell: (node) => <b>{node.metadata.name}</b>, sort: (node) => node.metadata.name },
    {
      id: "state", title: t("State"), width: "minmax(150px, 1fr)", cell: (node) => {
        const ready = conditionOf(node, "Ready")?.status === "True";
        return <span className="row"><Badge tone={ready ? "ok" : "bad"}>{ready ? t("Ready") : t("Not ready")}</Badge>{node.spec?.unschedulable && <Badge tone="warn">{t("Cordoned")}</Badge>}</span>;
      },
    },
    { id: "version", title: t("Kubelet"), width: "minmax(120px, 1fr)", cell: (node) => node.status?.nodeInfo?.kubeletVersion ?? "–" },
    { id: "cpu", title: t("CPU"), width: "90px", cell: (node) => formatCpu(parseQuantity(node.status?.allocatable?.cpu)), sort: (node) => parseQuantity(node.status?.allocatable?.cpu) },
    { id: "memory", title: t("Memory"), width: "110px", cell: (node) => formatBytes(parseQuantity(node.status?.allocatable?.memory)), sort: (node) => parseQuantity(node.status?.allocatable?.memory) },
    { id: "pods", title: t("Pods"), width: "80px", cell: (node) => node.status?.allocatable?.pods ?? "–" },
    { id: "zone", title: t("Zone"), width: "minmax(100px, 1fr)", cell: (node) => node.metadata.labels?.["topology.kubernetes.io/zone"] ?? "–" },
    { id: "age", title: t("Age"), width: "70px", cell: (node) => <Age at={node.metadata.creationTimestamp} /> },
  ];
  return <DataTable label={t("Nodes")} live={live} rows={live.items} columns={columns} rowKey={(node) => node.metadata.name} empty={<Empty title={t("The cluster has no nodes")} icon="cluster" />} />;
}
