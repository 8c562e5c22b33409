// Former revisions of a Deployment, from the ReplicaSets of its clusters, and the way back to one.

import { useQueries } from "@tanstack/react-query";
import { type ApiError, getJson, jsonPatch, query } from "../../api/client";
import { memberPath, pathOf, type Resource } from "../../api/resources";
import type { KObject } from "../../api/types";
import { t } from "../../i18n";
import { perCluster } from "../../model/binding";
import { selectorText } from "../../model/workload";
import { Age, attempt, Badge, Button, Card, Empty, Loading, Problem } from "../../ui/parts";

/** Answers for former versions of an object are forgotten after this time. */
const VERSION_KEPT_MS = 10_000;

interface Revision {
  number: number;
  cluster: string;
  set: KObject;
}

const imagesOf = (set: KObject): string => (set.spec?.template?.spec?.containers ?? []).map((container: any) => container.image).join(", ");

/** The pod template without the label that the ReplicaSet added. */
function templateOf(set: KObject): unknown {
  const { labels = {}, ...metadata } = set.spec.template.metadata ?? {};
  const { "pod-template-hash": _, ...own } = labels;
  return { ...set.spec.template, metadata: { ...metadata, creationTimestamp: undefined, labels: own } };
}

export function History({ resource, workload, binding }: { resource: Resource; workload: KObject; binding?: KObject }) {
  const clusters = perCluster(binding).map((one) => one.name);
  const { name, namespace = "" } = workload.metadata;
  const answers = useQueries({
    queries: clusters.map((cluster) => ({
      queryKey: ["history", cluster, namespace, name, binding?.metadata.resourceVersion],
      gcTime: VERSION_KEPT_MS,
      queryFn: () => getJson<{ items: KObject[] }>(memberPath(cluster, `/apis/apps/v1/namespaces/${namespace}/replicasets`) + query({ labelSelector: selectorText(workload) })),
    })),
  });
  if (clusters.length === 0) return <section className="card"><Empty title={t("It is in no cluster")} icon="cluster" /></section>;
  if (answers.some((answer) => answer.isPending)) return <Loading />;
  const error = answers.find((answer) => answer.error)?.error as ApiError | undefined;
  const revisions: Revision[] = answers.flatMap((answer, index) =>
    (answer.data?.items ?? [])
      .filter((set) => set.metadata.ownerReferences?.some((owner) => owner.kind === "Deployment" && owner.name === name))
      .map((set) => ({ number: Number(set.metadata.annotations?.["deployment.kubernetes.io/revision"] ?? 0), cluster: clusters[index] ?? "", set })),
  );
  if (revisions.length === 0) return <section className="card">{error ? <Problem error={error} /> : <Empty title={t("No revisions yet")} icon="undo" />}</section>;
  revisions.sort((a, b) => b.number - a.number || a.cluster.localeCompare(b.cluster));
  const rollBack = (revision: Revision) =>
    attempt(t("{name} goes back to revision {number} of {cluster}", { name, number: revision.number, cluster: revision.cluster }), () =>
      jsonPatch(pathOf(resource, namespace, name), [{ op: "replace", path: "/spec/template", value: templateOf(revision.set) }]),
    );
  return (
    <Card title={t("Revisions in the clusters")} flush>
      <div className="hscroll" tabIndex={0} role="group">
        <table className="simple">
          <thead><tr><th>{t("Revision")}</th><th>{t("Cluster")}</th><th>{t("Images")}</th><th>{t("Pods")}</th><th>{t("Age")}</th><th><span className="sr">{t("Actions")}</span></th></tr></thead>
          <tbody>
            {revisions.map((revision) => {
              const active = (revision.set.spec?.replicas ?? 0) > 0;
              return (
                <tr key={`${revision.cluster}/${revision.set.metadata.name}`}>
                  <td><b>{revision.number}</b> {active && <Badge tone="ok">{t("current")}</Badge>}</td>
                  <td>{revision.cluster}</td>
                  <td><code>{imagesOf(revision.set)}</code></td>
                  <td>{revision.set.status?.readyReplicas ?? 0}/{revision.set.spec?.replicas ?? 0}</td>
                  <td><Age at={revision.set.metadata.creationTimestamp} /></td>
                  <td className="right">{!active && <Button small icon="undo" onClick={() => void rollBack(revision)}>{t("Roll back")}</Button>}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <p className="muted small" style={{ padding: "12px 18px" }}>{t("Going back sets the pod template of the control plane. It includes what override policies changed in that cluster.")}</p>
    </Card>
  );
}
