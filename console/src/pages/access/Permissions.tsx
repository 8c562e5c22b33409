// The permissions of a manager: which the user has, why, and which roles have the others.

import { useState } from "react";
import { useQuery } from "@tanstack/react-query";
import { type ApiError, instanceName, send } from "../../api/client";
import { MANAGER, useInstances, useManager, usePermissions } from "../../api/manager";
import { useUrlState } from "../../app/urlState";
import { t } from "../../i18n";
import { Badge, Button, Card, Empty, Loading, Problem } from "../../ui/parts";

interface Entry {
  name: string;
  roles?: string[];
}

export function Permissions() {
  const [instance, setInstance] = useUrlState("instance", instanceName);
  const [asked, setAsked] = useUrlState("permission", "");
  const [filter, setFilter] = useState("");
  const { items } = useInstances();
  const has = usePermissions(instance);
  const list = useManager<{ permissions?: Entry[] }>(`${MANAGER}/permissions`);
  const names = items.map((one) => one.name);
  const all = (list.data?.permissions ?? []).filter((one) => `${one.name} ${one.roles?.join(" ")}`.includes(filter));
  return (
    <>
      <div className="toolbar">
        <input className="input" data-filter type="search" aria-label={t("Filter")} placeholder={t("Filter")} value={filter} onChange={(event) => setFilter(event.target.value)} />
        <select className="select" aria-label={t("Instance")} value={instance} onChange={(event) => setInstance(event.target.value)}>
          <option value="">{t("the whole platform")}</option>
          {[...new Set([...names, instance])].filter(Boolean).map((name) => <option key={name} value={name}>{name}</option>)}
        </select>
      </div>
      {asked && <Explained permission={asked} instance={instance} entry={list.data?.permissions?.find((one) => one.name === asked)} onClose={() => setAsked("")} />}
      <Card flush>
        {list.isPending ? <Loading /> : list.error ? <Problem error={list.error} retry={() => void list.refetch()} /> : all.length === 0 ? <Empty title={t("No row matches the filter")} icon="search" /> : (
          <div className="hscroll" tabIndex={0} role="group">
            <table className="simple">
              <thead><tr><th>{t("Permission")}</th><th>{t("You")}</th><th>{t("Roles that have it")}</th><th><span className="sr">{t("Actions")}</span></th></tr></thead>
              <tbody>
                {all.map((one) => (
                  <tr key={one.name}>
                    <td><code>{one.name}</code></td>
                    <td><Badge tone={has(one.name) ? "ok" : ""}>{has(one.name) ? t("allowed") : t("not allowed")}</Badge></td>
                    <td><Roles roles={one.roles} /></td>
                    <td className="right"><Button small onClick={() => setAsked(one.name)}>{t("Why?")}</Button></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Card>
    </>
  );
}

const Roles = ({ roles = [] }: { roles?: string[] }) => <span className="chips">{roles.map((role) => <span className="chip" key={role}>{role}</span>)}</span>;

function Explained({ permission, instance, entry, onClose }: { permission: string; instance: string; entry?: Entry; onClose: () => void }) {
  const answer = useQuery<{ allowed?: boolean; reason?: string }, ApiError>({
    queryKey: ["permission-check", permission, instance],
    queryFn: () => send("POST", `${MANAGER}/permissions:check`, { permission, instance }),
    retry: false,
  });
  return (
    <Card title={<code>{permission}</code>} actions={<Button small icon="close" label={t("Close")} onClick={onClose} />}>
      {answer.isPending ? <Loading /> : answer.error ? <Problem error={answer.error} /> : (
        <div className="stack">
          <span className="row wrap"><Badge tone={answer.data.allowed ? "ok" : "bad"}>{answer.data.allowed ? t("allowed") : t("not allowed")}</Badge><span>{instance ? t("on {name}", { name: instance }) : t("on the whole platform")}</span></span>
          <p>{answer.data.reason}</p>
          {!answer.data.allowed && entry && <div className="stack tight"><p className="small">{t("A binding of one of these roles allows it. Administrators of the instance bind admin, edit and view on it; user managers bind all of them.")}</p><Roles roles={entry.roles} /></div>}
        </div>
      )}
    </Card>
  );
}
