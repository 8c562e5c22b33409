// The backups of an instance: taken, downloaded, restored and deleted.

import { useState } from "react";
import { ofServer, request, send } from "../../api/client";
import { instancePath, useManager, usePermissions } from "../../api/manager";
import { formatBytes } from "../../api/quantity";
import { t } from "../../i18n";
import { Age, attempt, Button, Card, Dialog, Empty, Field, Loading, Menu, Problem, Segmented } from "../../ui/parts";
import { type Backup, backupPath, downloadBackup, takeBackup } from "./backups";
import { isInstanceName } from "./names";

const REFRESH_MS = 15_000;

export function Backups({ instance }: { instance: string }) {
  const list = useManager<{ backups?: Backup[] }>(backupPath(instance), { refreshMs: REFRESH_MS });
  const [busy, setBusy] = useState(false);
  const [restoring, setRestoring] = useState<Backup>();
  const change = async (done: string, action: () => Promise<unknown>) => {
    setBusy(true);
    await attempt(done, action);
    setBusy(false);
    void list.refetch();
  };
  if (list.isPending) return <Loading />;
  if (list.error) return <section className="card"><Problem error={list.error} retry={() => void list.refetch()} /></section>;
  const backups = list.data.backups ?? [];
  return (
    <>
      <SafeMode instance={instance} />
      <Card title={t("Backups")} flush actions={<Button small icon="plus" disabled={busy} onClick={() => void change(t("A backup of {name} is taken", { name: instance }), () => takeBackup(instance))}>{t("Take a backup")}</Button>}>
        {backups.length === 0 ? <Empty title={t("No backups")} icon="copy"><p>{t("A backup contains all objects of the instance, including its Secrets. It stays in the data directory of the manager until you delete it; download it to keep it elsewhere.")}</p></Empty> : (
          <div className="hscroll" tabIndex={0} role="group">
            <table className="simple">
              <thead><tr><th>ID</th><th>{t("Taken")}</th><th>{t("Size")}</th><th><span className="sr">{t("Actions")}</span></th></tr></thead>
              <tbody>
                {backups.map((one) => (
                  <tr key={one.id}>
                    <td><code>{one.id}</code></td>
                    <td><Age at={one.createTime} ago /></td>
                    <td>{formatBytes(Number(one.bytes ?? 0))}</td>
                    <td className="right"><Menu label={t("Actions for {name}", { name: one.id })} items={[
                      { text: t("Download"), icon: "apply", onSelect: () => void change(t("The backup of {name} is downloaded", { name: instance }), () => downloadBackup(instance, one.id)) },
                      { text: t("Restore…"), icon: "undo", onSelect: () => setRestoring(one) },
                      { text: t("Delete"), icon: "trash", danger: true, onSelect: () => void change(t("{name} is deleted", { name: one.id }), () => request(backupPath(instance, one.id), { method: "DELETE" })) },
                    ]} /></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Card>
      {restoring && <Restore instance={instance} backup={restoring} onClose={() => setRestoring(undefined)} />}
    </>
  );
}

function Restore({ instance, backup, onClose }: { instance: string; backup: Backup; onClose: () => void }) {
  const mayCreate = usePermissions()("instances.create");
  const [into, setInto] = useState("same");
  const [typed, setTyped] = useState("");
  const isNew = into === "new";
  const valid = isNew ? isInstanceName(typed) : typed === instance;
  const restore = async () => {
    const body = isNew ? { newName: typed } : { confirmName: typed };
    const done = isNew ? t("{name} starts with the data of the backup", { name: typed }) : t("{name} is being restored", { name: instance });
    if (await attempt(done, () => send("POST", backupPath(instance, backup.id, ":restore"), body))) onClose();
  };
  return (
    <Dialog title={t("Restore {name}", { name: backup.id })} onClose={onClose} onSubmit={() => valid && void restore()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind={isNew ? "primary" : "danger"} type="submit" disabled={!valid}>{t("Restore")}</Button></>}>
      {mayCreate && <Segmented label={t("Restore into")} value={into} onChange={(value) => { setInto(value); setTyped(""); }} options={[{ id: "same", text: t("This instance") }, { id: "new", text: t("A new instance") }]} />}
      <p>{isNew ? t("A new instance starts with this data. The current instance is not changed.") : t("All objects of the instance are replaced by those of the backup. Changes since the backup are lost.")}</p>
      <p className="muted small">{t("It then runs in safe mode: it removes nothing from clusters until you confirm that the data is correct.")}</p>
      <Field label={isNew ? t("Name of the new instance") : t("Type {name} to confirm", { name: instance })} problem={isNew && typed !== "" && !valid ? t("Lowercase letters, digits and dashes.") : ""}>{(id) => <input id={id} className="input" autoFocus autoComplete="off" value={typed} onChange={(event) => setTyped(event.target.value)} />}</Field>
    </Dialog>
  );
}

/** Shown while the instance removes nothing from its clusters because it was restored. */
function SafeMode({ instance }: { instance: string }) {
  const mode = useManager<{ on: boolean; held?: { action: string; object: string; cluster: string }[] }>(ofServer(`/instances/${encodeURIComponent(instance)}/flotilla/v1alpha1/safe-mode`), { refreshMs: REFRESH_MS });
  const { on, held = [] } = mode.data ?? {};
  if (!on) return null;
  const confirm = () => attempt(t("The safe mode of {name} has ended", { name: instance }), () => send("POST", instancePath(instance, ":confirmRestore"), {})).then(() => mode.refetch());
  return (
    <Card title={t("Safe mode")} actions={<Button small kind="primary" onClick={() => void confirm()}>{t("Confirm the restore")}</Button>}>
      <div className="stack">
        <div className="banner">{t("The control plane was restored from a backup. It removes nothing from members until that is confirmed.")}</div>
        {held.length === 0 ? <p className="muted small">{t("No removals are pending.")}</p> : <><p className="small">{t("After the confirmation these are removed:")}</p><ul className="stack tight">{held.map((one, index) => <li className="small" key={index}>{one.action} {one.object} · {one.cluster}</li>)}</ul></>}
      </div>
    </Card>
  );
}
