// Removes a cluster after a preview of what happens to its workloads.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type ApiError, getJson, query, request } from "../../api/client";
import { CLUSTERS, pathOf } from "../../api/resources";
import type { KObject, Simulation } from "../../api/types";
import { t } from "../../i18n";
import { attempt, Button, Command, Dialog, Field, Loading, Problem } from "../../ui/parts";
import { SimulationView } from "../SimulationView";

export function RemoveDialog({ cluster, onClose }: { cluster: KObject; onClose: () => void }) {
  const name = cluster.metadata.name;
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const preview = useQuery<Simulation, ApiError>({
    queryKey: ["failover", name],
    queryFn: () => getJson(`/flotilla/v1alpha1/failover${query({ cluster: name })}`),
  });
  const remove = async () => {
    setBusy(true);
    const done = await attempt(t("{name} is being removed", { name }), () => request(pathOf(CLUSTERS, "", name), { method: "DELETE" }));
    setBusy(false);
    if (done) onClose();
  };
  return (
    <Dialog
      wide
      title={t("Remove {name}", { name })}
      onClose={onClose}
      onSubmit={() => void remove()}
      footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="danger" type="submit" icon="trash" disabled={typed !== name || busy}>{t("Remove the cluster")}</Button></>}
    >
      <p>{t("What the scheduler would do with the workloads that run there:")}</p>
      {preview.isPending ? <Loading /> : preview.error ? <Problem error={preview.error} retry={() => void preview.refetch()} /> : <SimulationView simulation={preview.data} />}
      <p className="muted small">{t("Objects of the cluster that this control plane created are deleted from it. The service account made by joining stays; this command removes it too:")}</p>
      <Command text={`flotilla unjoin ${name} --cluster-kubeconfig FILE`} />
      <Field label={t("Type {name} to confirm", { name })}>{(id) => <input id={id} className="input" autoComplete="off" value={typed} onChange={(event) => setTyped(event.target.value)} />}</Field>
    </Dialog>
  );
}
