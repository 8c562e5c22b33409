// Former revisions of a workload in its clusters, and the way back to one.

import { useQueries } from "@tanstack/react-query";
import { useState } from "react";
import { type ApiError, getJson, jsonPatch, query } from "../../api/client";
import { memberPath, pathOf, type Resource } from "../../api/resources";
import type { KObject } from "../../api/types";
import { useYaml } from "../../editor/ObjectYaml";
import { YamlDifference } from "../../editor/YamlEditor";
import { t } from "../../i18n";
import { perCluster } from "../../model/binding";
import { type Revision, revisionsIn, revisionsOf } from "../../model/revisions";
import { podTemplateOf, selectorText } from "../../model/workload";
import { Age, attempt, Badge, Button, Card, Dialog, Empty, Loading, Problem } from "../../ui/parts";

/** Answers for former versions of an object are forgotten after this time. */
const VERSION_KEPT_MS = 10_000;

export function History({ resource, workload, binding }: { resource: Resource; workload: KObject; binding?: KObject }) {
  const clusters = perCluster(binding).map((one) => one.name);
  const { name, namespace = "" } = workload.metadata;
  const [chosen, setChosen] = useState<Revision>();
  const answers = useQueries({
    queries: clusters.map((cluster) => ({
      queryKey: ["history", resource.kind, cluster, namespace, name, binding?.metadata.resourceVersion],
      gcTime: VERSION_KEPT_MS,
      queryFn: () => getJson<{ items: KObject[] }>(memberPath(cluster, `/apis/apps/v1/namespaces/${namespace}/${revisionsIn(resource.kind)}`) + query({ labelSelector: selectorText(workload) })),
    })),
  });
  if (clusters.length === 0) return <section className="card"><Empty title={t("Not in any cluster")} icon="cluster" /></section>;
  if (answers.some((answer) => answer.isPending)) return <Loading />;
  const failed = answers.flatMap((answer, index) => (answer.error ? [[clusters[index] ?? "", answer.error as ApiError] as const] : []));
  const revisions = answers.flatMap((answer, index) => revisionsOf(workload, clusters[index] ?? "", answer.data?.items ?? []));
  if (revisions.length === 0) return <section className="card">{failed[0] ? <Problem error={failed[0][1]} /> : <Empty title={t("No revisions yet")} icon="undo" />}</section>;
  revisions.sort((a, b) => b.number - a.number || a.cluster.localeCompare(b.cluster));
  const withPods = revisions.some((revision) => revision.pods);
  return (
    <div className="stack">
      {failed.map(([cluster, error]) => <div className="banner" key={cluster}>{cluster}: {error.message}</div>)}
      <Card title={t("Revisions in the clusters")} flush>
        <div className="hscroll" tabIndex={0} role="group">
          <table className="simple">
            <thead><tr><th>{t("Revision")}</th><th>{t("Cluster")}</th><th>{t("Images")}</th>{withPods && <th>{t("Pods")}</th>}<th>{t("Age")}</th><th><span className="sr">{t("Actions")}</span></th></tr></thead>
            <tbody>
              {revisions.map((revision) => (
                <tr key={`${revision.cluster}/${revision.source}`}>
                  <td><b>{revision.number}</b> {revision.current && <Badge tone="ok">{t("current")}</Badge>}</td>
                  <td>{revision.cluster}</td>
                  <td><code>{revision.images.join(", ")}</code></td>
                  {withPods && <td>{revision.pods && `${revision.pods.ready}/${revision.pods.desired}`}</td>}
                  <td><Age at={revision.created} /></td>
                  <td className="right">{!revision.current && <Button small icon="undo" onClick={() => setChosen(revision)}>{t("Roll back")}</Button>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        <p className="muted small" style={{ padding: "12px 18px" }}>{t("A rollback replaces the pod template in the control plane with the chosen revision, including the changes that override policies made in that cluster.")}</p>
      </Card>
      {chosen && <RollBackDialog resource={resource} workload={workload} revision={chosen} onClose={() => setChosen(undefined)} />}
    </div>
  );
}

/** The pod templates of now and then, before the change. */
function RollBackDialog({ resource, workload, revision, onClose }: { resource: Resource; workload: KObject; revision: Revision; onClose: () => void }) {
  const { name, namespace = "" } = workload.metadata;
  const before = useYaml(podTemplateOf(workload));
  const after = useYaml(revision.template);
  const { number, cluster } = revision;
  const rollBack = async () => {
    const done = await attempt(t("{name} is rolled back to revision {number} of {cluster}", { name, number, cluster }), () =>
      jsonPatch(pathOf(resource, namespace, name), [{ op: "replace", path: "/spec/template", value: revision.template }]),
    );
    if (done) onClose();
  };
  return (
    <Dialog wide title={t("Roll back to revision {number} of {cluster}", { number, cluster })} onClose={onClose} onSubmit={() => void rollBack()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="primary" type="submit" icon="undo">{t("Roll back")}</Button></>}>
      {before === undefined || after === undefined ? <Loading /> : <YamlDifference before={before} after={after} labels={[t("Template"), t("Revision {number}", { number })]} />}
    </Dialog>
  );
}
