// Scale, restart, pause, rebalance and delete.

import { useState } from "react";
import { mergePatch, send } from "../../api/client";
import { apiVersionOf, pathOf, REBALANCERS, type Resource } from "../../api/resources";
import type { KObject } from "../../api/types";
import { t } from "../../i18n";
import { isProtected, PROTECTED } from "../../model/deletion";
import { canRestart, canScale, isPaused, pauseField } from "../../model/workload";
import { attempt, Button, Command, Dialog, Field, Menu } from "../../ui/parts";
import { DeleteDialog } from "./DeleteDialog";

export function Actions({ resource, workload, binding }: { resource: Resource; workload: KObject; binding?: KObject }) {
  const [dialog, setDialog] = useState<"" | "scale" | "delete">("");
  const { name, namespace = "" } = workload.metadata;
  const path = pathOf(resource, namespace, name);
  const restart = () =>
    attempt(t("{name} restarts", { name }), () =>
      mergePatch(path, { spec: { template: { metadata: { annotations: { "kubectl.kubernetes.io/restartedAt": new Date().toISOString() } } } } }),
    );
  const field = pauseField(resource.kind);
  const pause = () => attempt(isPaused(workload) ? t("Resumed") : t("Paused"), () => mergePatch(path, { spec: { [field ?? ""]: !isPaused(workload) } }));
  const rebalance = () =>
    attempt(t("{name} is being rescheduled", { name }), () =>
      send("POST", pathOf(REBALANCERS), {
        apiVersion: apiVersionOf(REBALANCERS),
        kind: REBALANCERS.kind,
        metadata: { generateName: `${name}-` },
        spec: { workloads: [{ apiVersion: apiVersionOf(resource), kind: resource.kind, namespace, name }], ttlSecondsAfterFinished: 600 },
      }),
    );
  const protect = () =>
    attempt(isProtected(workload) ? t("{name} may be deleted", { name }) : t("{name} is protected from deletion", { name }), () =>
      mergePatch(path, { metadata: { labels: { [PROTECTED]: isProtected(workload) ? null : "Always" } } }),
    );
  return (
    <>
      {canScale(resource.kind) && <Button icon="scale" onClick={() => setDialog("scale")}>{t("Scale")}</Button>}
      {canRestart(resource.kind) && <Button icon="restart" onClick={() => void restart()}>{t("Restart")}</Button>}
      {field && <Button icon={isPaused(workload) ? "play" : "pause"} onClick={() => void pause()}>{isPaused(workload) ? t("Resume") : t("Pause")}</Button>}
      <Menu
        label={t("More actions")}
        items={[
          { text: t("Reschedule"), icon: "failover", onSelect: () => void rebalance() },
          { text: isProtected(workload) ? t("Allow deletion") : t("Protect from deletion"), icon: "lock", onSelect: () => void protect() },
          { text: t("Delete…"), icon: "trash", danger: true, onSelect: () => setDialog("delete") },
        ]}
      />
      {dialog === "scale" && <ScaleDialog path={path} workload={workload} onClose={() => setDialog("")} />}
      {dialog === "delete" && <DeleteDialog resource={resource} object={workload} binding={binding} back={`/workloads?kind=${resource.kind}`} onClose={() => setDialog("")} />}
    </>
  );
}

function ScaleDialog({ path, workload, onClose }: { path: string; workload: KObject; onClose: () => void }) {
  const current: number = workload.spec?.replicas ?? 1;
  const [replicas, setReplicas] = useState(String(current));
  const count = Number(replicas);
  const valid = /^\d+$/.test(replicas) && count <= 100_000;
  const { name, namespace } = workload.metadata;
  const scale = async () => {
    if (await attempt(t("{name} is scaled to {count}", { name, count }), () => mergePatch(`${path}/scale`, { spec: { replicas: count } }))) onClose();
  };
  return (
    <Dialog title={t("Scale {name}", { name })} onClose={onClose} onSubmit={() => valid && void scale()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="primary" type="submit" disabled={!valid || count === current}>{t("Scale")}</Button></>}>
      <Field label={t("Total replicas in all clusters")} hint={t("The policy divides them among the clusters, or gives each cluster this number if it duplicates.")} problem={valid ? "" : t("Must be an integer")}>
        {(id) => <input id={id} className="input" inputMode="numeric" autoFocus value={replicas} onChange={(event) => setReplicas(event.target.value)} />}
      </Field>
      <Command text={`kubectl scale ${workload.kind?.toLowerCase()} ${name} -n ${namespace} --replicas ${valid ? count : current}`} />
    </Dialog>
  );
}
