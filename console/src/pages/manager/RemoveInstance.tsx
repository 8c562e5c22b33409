// Deletes an instance after a preview of the consequences, with a backup before it.

import { useState } from "react";
import { query, request } from "../../api/client";
import { type Instance, instancePath, useManager } from "../../api/manager";
import { t } from "../../i18n";
import { instanceHome, isImported } from "../../model/instance";
import { attempt, Button, Dialog, Field, Loading, Problem } from "../../ui/parts";
import { downloadBackup, takeBackup } from "./backups";

interface Preview {
  clusters?: string[];
  unknown?: boolean;
  keepsPlane?: boolean;
  protected?: boolean;
}

/** Clusters named in the preview. */
const SHOWN_MAX = 20;

export function RemoveInstance({ instance, onClose }: { instance: Instance; onClose: () => void }) {
  const { name } = instance;
  const preview = useManager<Preview>(instancePath(name, ":previewDeletion"));
  const [typed, setTyped] = useState("");
  const [keep, setKeep] = useState(false);
  const [busy, setBusy] = useState(false);
  const found = preview.data;
  const isBlocked = found !== undefined && (found.protected || ((found.clusters?.length ?? 0) > 0 && !keep && !found.keepsPlane));
  const valid = typed === name && found !== undefined && !isBlocked && !busy;
  const run = async (done: string, action: () => Promise<unknown>) => {
    setBusy(true);
    const isDone = await attempt(done, action);
    setBusy(false);
    return isDone;
  };
  const backUp = () => run(t("The backup of {name} is downloaded", { name }), async () => downloadBackup(name, (await takeBackup(name)).id));
  const remove = async () => {
    if (await run(t("{name} is being removed", { name }), () => request(instancePath(name) + query({ confirmName: name, keep: keep || undefined }), { method: "DELETE" }))) onClose();
  };
  return (
    <Dialog wide title={t("Delete {kind} {name}", { kind: t("instance"), name })} onClose={onClose} onSubmit={() => valid && void remove()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="danger" type="submit" icon="trash" disabled={!valid}>{t("Delete")}</Button></>}>
      {preview.isPending ? <Loading /> : preview.error ? <Problem error={preview.error} retry={() => void preview.refetch()} /> : <Consequences instance={instance} preview={preview.data} keep={keep} />}
      {!isImported(instance) && (
        <>
          <label className="check"><input type="checkbox" checked={keep} onChange={(event) => setKeep(event.target.checked)} />{t("Keep its data and its clusters; remove it from the manager only")}</label>
          <div className="row wrap"><Button icon="apply" disabled={busy} onClick={() => void backUp()}>{t("Take a backup and download it")}</Button><span className="muted small">{t("It contains all Secrets of the instance.")}</span></div>
        </>
      )}
      <Field label={t("Type {name} to confirm", { name })}>{(id) => <input id={id} className="input" autoComplete="off" autoFocus value={typed} onChange={(event) => setTyped(event.target.value)} />}</Field>
    </Dialog>
  );
}

function Consequences({ instance, preview, keep }: { instance: Instance; preview: Preview; keep: boolean }) {
  const { clusters = [], unknown, keepsPlane, protected: isProtected } = preview;
  return (
    <>
      {isProtected && <div className="banner bad" role="alert">{t("The instance is protected. Turn off protection in its settings first.")}</div>}
      {clusters.length > 0 && !keep && !keepsPlane && (
        <div className="banner bad" role="alert">
          <span>{t("Clusters are still joined ({count}). Remove them first, or keep the data:", { count: clusters.length })} {clusters.slice(0, SHOWN_MAX).join(", ")}{clusters.length > SHOWN_MAX && " …"} <a style={{ textDecoration: "underline" }} href={`${instanceHome(instance.name)}clusters`}>{t("Clusters of {name}", { name: instance.name })}</a></span>
        </div>
      )}
      {unknown && <div className="banner">{t("The instance is not running, so its clusters are not known.")}</div>}
      <p>
        {isImported(instance) || keepsPlane
          ? t("Its control plane keeps running. The manager removes only its entry and the kubeconfig.")
          : keep
            ? t("Its control plane is stopped. Its data is kept in the data directory of the manager.")
            : t("Its control plane is stopped. Its data and backups are moved to the trash of the manager and removed after seven days.")}
      </p>
      <p className="muted small">{t("Role bindings on this instance are kept, but have no effect until an instance with this name exists again.")}</p>
    </>
  );
}
