// The kubeconfigs of an instance: the caller's own, and all for its administrators.

import { useState } from "react";
import { request, send } from "../../api/client";
import { instancePath, useManager } from "../../api/manager";
import { t } from "../../i18n";
import { Age, attempt, Button, Card, Empty, Loading, Problem } from "../../ui/parts";
import { saveText } from "../../ui/save";
import { Form, Select } from "./Form";

interface Issued {
  id: string;
  user: string;
  createTime?: string;
  expireTime?: string;
}

const REFRESH_MS = 10_000;
/** Lifetimes in hours; the manager allows 30 days at most. */
const HOURS = [1, 8, 24, 168, 720];

const pathOf = (instance: string, id = "") => instancePath(instance, `/kubeconfigs${id ? `/${encodeURIComponent(id)}` : ""}`);

/** Issues a kubeconfig with the rights of the caller and saves it as a file. */
export async function downloadKubeconfig(instance: string, hours?: number) {
  const { kubeconfig } = await send<{ kubeconfig: string }>("POST", pathOf(instance), hours ? { expirationSeconds: hours * 3600 } : {});
  saveText(`${instance}.config`, kubeconfig, "application/yaml");
}

export function Kubeconfigs({ instance }: { instance: string }) {
  const list = useManager<{ kubeconfigs?: Issued[] }>(pathOf(instance), { refreshMs: REFRESH_MS });
  const [creating, setCreating] = useState(false);
  const revoke = (id: string) => attempt(t("The kubeconfig is revoked"), () => request(pathOf(instance, id), { method: "DELETE" })).then(() => list.refetch());
  const close = () => {
    setCreating(false);
    void list.refetch();
  };
  const issued = list.data?.kubeconfigs ?? [];
  return (
    <Card title={t("Kubeconfigs")} flush actions={<Button small icon="plus" onClick={() => setCreating(true)}>{t("New kubeconfig")}</Button>}>
      {list.isPending ? <Loading /> : list.error ? <Problem error={list.error} retry={() => void list.refetch()} /> : issued.length === 0 ? <Empty title={t("No kubeconfigs")} icon="secret"><p>{t("A kubeconfig has the permissions that its user has at the time of each request. It can be revoked at any time.")}</p></Empty> : (
        <div className="hscroll" tabIndex={0} role="group">
          <table className="simple">
            <thead><tr><th>{t("User")}</th><th>ID</th><th>{t("Created")}</th><th>{t("Expires")}</th><th><span className="sr">{t("Actions")}</span></th></tr></thead>
            <tbody>
              {issued.map((one) => (
                <tr key={one.id}>
                  <td>{one.user}</td>
                  <td><code>{one.id}</code></td>
                  <td><Age at={one.createTime} ago /></td>
                  <td className="nowrap">{one.expireTime?.replace("T", " ").slice(0, 16)}</td>
                  <td className="right"><Button small kind="danger" onClick={() => void revoke(one.id)}>{t("Revoke")}</Button></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {creating && <NewKubeconfig instance={instance} onClose={close} />}
    </Card>
  );
}

function NewKubeconfig({ instance, onClose }: { instance: string; onClose: () => void }) {
  const [hours, setHours] = useState("8");
  return (
    <Form title={t("New kubeconfig")} valid onSubmit={() => downloadKubeconfig(instance, Number(hours))} onClose={onClose} done={t("The kubeconfig of {name} is downloaded", { name: instance })}>
      <p>{t("It has your permissions on {name} and can be downloaded once.", { name: instance })}</p>
      <Select label={t("Valid for")} value={hours} onChange={setHours} options={HOURS.map((one) => ({ id: String(one), text: one < 48 ? t("{count} h", { count: one }) : t("{count} days", { count: one / 24 }) }))} />
    </Form>
  );
}
