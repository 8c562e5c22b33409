// How to join a cluster, in push and in pull mode.

import { useState } from "react";
import { t } from "../../i18n";
import { Button, Command, Dialog, Field, Segmented } from "../../ui/parts";

export function JoinDialog({ mode, onMode, onClose }: { mode: string; onMode: (mode: string) => void; onClose: () => void }) {
  const [name, setName] = useState("");
  const [region, setRegion] = useState("");
  const shown = name || "NAME";
  const place = region ? ` --cluster-region ${region}` : "";
  const valid = name === "" || /^[a-z0-9]([-a-z0-9]{0,46}[a-z0-9])?$/.test(name);
  return (
    <Dialog title={t("Join a cluster")} wide onClose={onClose} footer={<Button onClick={onClose}>{t("Close")}</Button>}>
      <Segmented label={t("Mode")} value={mode === "pull" ? "pull" : "push"} onChange={onMode} options={[{ id: "push", text: t("Push: the control plane reaches the cluster") }, { id: "pull", text: t("Pull: an agent in the cluster") }]} />
      <div className="grid-s">
        <Field label={t("Name of the cluster")} problem={valid ? "" : t("Lowercase letters, digits and dashes, at most 48 characters.")}>
          {(id) => <input id={id} className="input" value={name} onChange={(event) => setName(event.target.value)} />}
        </Field>
        <Field label={t("Region (optional)")}>{(id) => <input id={id} className="input" value={region} onChange={(event) => setRegion(event.target.value)} />}</Field>
      </div>
      {mode === "pull" ? (
        <>
          <p>{t("1. Where you have the kubeconfig of this control plane, create a token. It prints the command for the next step.")}</p>
          <Command text={`flotilla token create --cluster ${shown} --print-register-command`} />
          <p>{t("2. Where you have the kubeconfig of the cluster, register it. This installs the agent there.")}</p>
          <Command text={`flotilla register ${location.host} --token TOKEN \\\n  --discovery-token-ca-cert-hash sha256:HASH --cluster-name ${shown}${place}`} />
          <p className="muted small">{t("The agent opens the connection. The cluster needs no address that the control plane can reach.")}</p>
        </>
      ) : (
        <>
          <p>{t("Run this where you have the kubeconfig of the cluster. The control plane must be able to reach its API server.")}</p>
          <Command text={`flotilla join ${shown} --cluster-kubeconfig FILE${place}`} />
          <p className="muted small">{t("It creates a service account in the cluster and stores its token in this control plane.")}</p>
        </>
      )}
    </Dialog>
  );
}
