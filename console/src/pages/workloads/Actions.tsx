// Scale, restart, pause, rebalance and delete.

import { useState } from "react";
import { useLocation } from "wouter";
import { mergePatch, request, send } from "../../api/client";
import { apiVersionOf, pathOf, REBALANCERS, type Resource } from "../../api/resources";
import type { KObject } from "../../api/types";
import { t } from "../../i18n";
import { canRestart, canScale, isPaused, pauseField } from "../../model/workload";
import { attempt, Button, Command, Dialog, Field, Menu } from "../../ui/parts";

export function Actions({ resource, workload }: { resource: Resource; workload: KObject }) {
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
    attempt(t("The scheduler places {name} again", { name }), () =>
      send("POST", pathOf(REBALANCERS), {
        apiVersion: apiVersionOf(REBALANCERS),
        kind: REBALANCERS.kind,
        metadata: { generateName: `${name}-` },
        spec: { workloads: [{ apiVersion: apiVersionOf(resource), kind: resource.kind, namespace, name }], ttlSecondsAfterFinished: 600 },
      }),
    );
  return (
    <>
      {canScale(resource.kind) && <Button icon="scale" onClick={() => setDialog("scale")}>{t("Scale")}</Button>}
      {canRestart(resource.kind) && <Button icon="restart" onClick={() => void restart()}>{t("Restart")}</Button>}
      {field && <Button icon={isPaused(workload) ? "play" : "pause"} onClick={() => void pause()}>{isPaused(workload) ? t("Resume") : t("Pause")}</Button>}
      <Menu
        label={t("More actions")}
        items={[
          { text: t("Place it again"), icon: "failover", onSelect: () => void rebalance() },
          { text: t("Delete…"), icon: "trash", danger: true, onSelect: () => setDialog("delete") },
        ]}
      />
      {dialog === "scale" && <ScaleDialog path={path} workload={workload} onClose={() => setDialog("")} />}
      {dialog === "delete" && <DeleteDialog resource={resource} object={workload} back={`/workloads?kind=${resource.kind}`} onClose={() => setDialog("")} />}
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
      <Field label={t("Replicas over all clusters")} hint={t("The policy divides them among the clusters, or gives each cluster this number if it duplicates.")} problem={valid ? "" : t("A whole number")}>
        {(id) => <input id={id} className="input" inputMode="numeric" autoFocus value={replicas} onChange={(event) => setReplicas(event.target.value)} />}
      </Field>
      <Command text={`kubectl scale ${workload.kind?.toLowerCase()} ${name} -n ${namespace} --replicas ${valid ? count : current}`} />
    </Dialog>
  );
}

export function DeleteDialog({ resource, object, back, onClose }: { resource: Resource; object: KObject; back: string; onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [, navigate] = useLocation();
  const { name, namespace } = object.metadata;
  const remove = async () => {
    const done = await attempt(t("{name} is deleted", { name }), () => request(pathOf(resource, namespace, name), { method: "DELETE" }));
    if (!done) return;
    onClose();
    navigate(back);
  };
  return (
    <Dialog title={t("Delete {kind} {name}", { kind: resource.kind, name })} onClose={onClose} onSubmit={() => typed === name && void remove()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="danger" type="submit" icon="trash" disabled={typed !== name}>{t("Delete")}</Button></>}>
      <p>{t("It is deleted from the control plane and from every cluster it was propagated to.")}</p>
      <Field label={t("Type {name} to confirm", { name })}>{(id) => <input id={id} className="input" autoComplete="off" autoFocus value={typed} onChange={(event) => setTyped(event.target.value)} />}</Field>
      <Command text={`kubectl delete ${resource.plural}${resource.group ? `.${resource.group}` : ""} ${name}${namespace ? ` -n ${namespace}` : ""}`} />
    </Dialog>
  );
}
