// Webhooks of a manager with their deliveries, and the access tokens of the signed-in user.

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { type ApiError, getJson, mergePatch, request, send } from "../../api/client";
import { MANAGER as API } from "../../api/manager";
import { pathOf } from "../../api/resources";
import { t } from "../../i18n";
import { Age, attempt, Badge, Button, Card, Dialog, Empty, Loading, Menu, Problem } from "../../ui/parts";
import { RemoveObject } from "./Form";
import { WEBHOOKS } from "./kinds";
import { type Webhook, WebhookForm } from "./WebhookForm";

const REFRESH_MS = 10_000;

interface Delivery {
  id: string;
  time?: string;
  attempts?: number;
  delivered?: boolean;
  code?: number;
  error?: string;
  full?: boolean;
}

export function Webhooks() {
  const hooks = useQuery<{ webhooks?: Webhook[] }, ApiError>({ queryKey: ["webhooks"], queryFn: () => getJson(`${API}/webhooks`), refetchInterval: REFRESH_MS });
  const [opened, setOpened] = useState<{ what: "new" | "change" | "deliveries" | "remove"; hook?: Webhook }>();
  const close = () => {
    setOpened(undefined);
    void hooks.refetch();
  };
  const setDisabled = ({ name }: Webhook, disabled: boolean) => attempt(disabled ? t("{name} is disabled", { name }) : t("{name} gets registrations again", { name }), () => mergePatch(pathOf(WEBHOOKS, "", name), { spec: { disabled } })).then(() => hooks.refetch());
  if (hooks.isPending) return <Loading />;
  if (hooks.error) return <section className="card"><Problem error={hooks.error} retry={() => void hooks.refetch()} /></section>;
  const all = hooks.data.webhooks ?? [];
  return (
    <Card title={t("Webhooks")} flush actions={<Button small icon="plus" onClick={() => setOpened({ what: "new" })}>{t("New webhook")}</Button>}>
      {all.length === 0 ? <Empty title={t("No webhooks")} icon="network"><p>{t("A webhook receives a notification when an instance is registered, and can push bindings from another system.")}</p></Empty> : (
        <div className="hscroll" tabIndex={0} role="group">
          <table className="simple">
            <thead><tr><th>{t("Name")}</th><th>{t("Address")}</th><th>{t("State")}</th><th>{t("Bindings")}</th><th><span className="sr">{t("Actions")}</span></th></tr></thead>
            <tbody>
              {all.map((hook) => (
                <tr key={hook.name}>
                  <td>{hook.name}</td>
                  <td><code>{hook.url}</code></td>
                  <td><Badge tone={hook.disabled ? "warn" : "ok"}>{hook.disabled ? t("Disabled") : t("Active")}</Badge></td>
                  <td>{hook.acceptsBindings ? (hook.grantsPlatformRoles ? t("accepted, also for the platform") : t("accepted")) : "–"}</td>
                  <td className="right"><Menu label={t("Actions for {name}", { name: hook.name })} items={[
                    { text: t("Deliveries"), icon: "log", onSelect: () => setOpened({ what: "deliveries", hook }) },
                    { text: t("Change…"), icon: "config", onSelect: () => setOpened({ what: "change", hook }) },
                    hook.disabled ? { text: t("Enable"), icon: "play", onSelect: () => void setDisabled(hook, false) } : { text: t("Disable"), icon: "pause", onSelect: () => void setDisabled(hook, true) },
                    { text: t("Delete…"), icon: "trash", danger: true, onSelect: () => setOpened({ what: "remove", hook }) },
                  ]} /></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {opened?.what === "deliveries" && opened.hook && <Deliveries name={opened.hook.name} onClose={close} />}
      {opened?.what === "new" && <WebhookForm onClose={close} />}
      {opened?.what === "change" && <WebhookForm hook={opened.hook} onClose={close} />}
      {opened?.what === "remove" && opened.hook && <RemoveObject kind="Webhook" name={opened.hook.name} path={`${API}/webhooks/${encodeURIComponent(opened.hook.name)}`} onClose={close} />}
    </Card>
  );
}

function Deliveries({ name, onClose }: { name: string; onClose: () => void }) {
  const path = `${API}/webhooks/${encodeURIComponent(name)}/deliveries`;
  const list = useQuery<{ deliveries?: Delivery[] }, ApiError>({ queryKey: ["deliveries", name], queryFn: () => getJson(path), refetchInterval: REFRESH_MS });
  const again = (id: string) => attempt(t("Sent again"), () => send("POST", `${path}/${encodeURIComponent(id)}:redeliver`, {})).then(() => list.refetch());
  return (
    <Dialog wide title={t("Deliveries to {name}", { name })} onClose={onClose} footer={<Button onClick={onClose}>{t("Close")}</Button>}>
      {list.isPending ? <Loading /> : list.error ? <Problem error={list.error} /> : (list.data.deliveries ?? []).length === 0 ? <Empty title={t("Nothing was delivered yet")} icon="events" /> : (
        <table className="simple">
          <thead><tr><th>{t("Time")}</th><th>{t("Answer")}</th><th>{t("Attempts")}</th><th>{t("Contents")}</th><th>{t("Message")}</th><th><span className="sr">{t("Actions")}</span></th></tr></thead>
          <tbody>
            {(list.data.deliveries ?? []).map((one) => (
              <tr key={one.id}>
                <td><Age at={one.time} ago /></td>
                <td><Badge tone={one.delivered ? "ok" : "bad"}>{one.code || t("none")}</Badge></td>
                <td>{one.attempts ?? 0}</td>
                <td>{one.full ? t("everything") : t("changes")}</td>
                <td className="small muted">{one.error}</td>
                <td className="right"><Button small onClick={() => void again(one.id)}>{t("Send again")}</Button></td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Dialog>
  );
}

interface Token {
  id: string;
  instance?: string;
  createTime?: string;
  expireTime?: string;
}

/** Access tokens and kubeconfigs of the signed-in user. */
export function Tokens() {
  const queries = useQueryClient();
  const list = useQuery<{ tokens?: Token[] }, ApiError>({ queryKey: ["tokens"], queryFn: () => getJson(`${API}/access-tokens`) });
  const [made, setMade] = useState("");
  const create = () => attempt(t("The token is created"), async () => setMade((await send<{ token: string }>("POST", `${API}/access-tokens`, {})).token)).then(() => queries.invalidateQueries({ queryKey: ["tokens"] }));
  const revoke = (id: string) => attempt(t("The token is revoked"), () => request(`${API}/access-tokens/${encodeURIComponent(id)}`, { method: "DELETE" })).then(() => list.refetch());
  if (list.isPending) return <Loading />;
  if (list.error) return <section className="card"><Problem error={list.error} retry={() => void list.refetch()} /></section>;
  const tokens = list.data.tokens ?? [];
  return (
    <Card title={t("My tokens and kubeconfigs")} flush actions={<Button small icon="plus" onClick={() => void create()}>{t("New token")}</Button>}>
      {made && <div className="body"><p className="small muted">{t("It is shown once, has your permissions and expires after eight hours:")}</p><pre className="pre" tabIndex={0}>{made}</pre></div>}
      {tokens.length === 0 ? <Empty title={t("No tokens")} icon="secret"><p>{t("Tokens for programs, and the kubeconfigs you downloaded, appear here until they expire.")}</p></Empty> : (
        <div className="hscroll" tabIndex={0} role="group">
          <table className="simple">
            <thead><tr><th>ID</th><th>{t("For")}</th><th>{t("Created")}</th><th>{t("Expires")}</th><th><span className="sr">{t("Actions")}</span></th></tr></thead>
            <tbody>
              {tokens.map((one) => (
                <tr key={one.id}>
                  <td><code>{one.id}</code></td>
                  <td>{one.instance || t("the manager")}</td>
                  <td><Age at={one.createTime} ago /></td>
                  <td className="nowrap">{one.expireTime?.replace("T", " ").slice(0, 16)}</td>
                  <td className="right"><Button small kind="danger" onClick={() => void revoke(one.id)}>{t("Revoke")}</Button></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}
