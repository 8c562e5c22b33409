// Users, groups and service accounts with the roles they are bound to.

import { useMemo, useState } from "react";
import { useWhole } from "../../api/bindings";
import { request } from "../../api/client";
import { pathOf } from "../../api/resources";
import { useUrlState } from "../../app/urlState";
import { t } from "../../i18n";
import { attempt, Badge, Button, Card, Dialog, Empty, Loading, Problem, Stale } from "../../ui/parts";
import { BindDialog } from "./dialogs";
import { CLUSTER_ROLE_BINDINGS, type Grant, type Grantee, granteesOf, ROLE_BINDINGS } from "./rbac";

const SHOWN_MAX = 300;

/** Bound by the server itself when it started. */
const isOfSystem = ({ subject, grants }: Grantee) => subject.name.startsWith("system:") || (subject.kind === "ServiceAccount" && subject.namespace?.startsWith("kube-") === true && grants.every((grant) => grant.role.startsWith("system:")));

export function Subjects() {
  const everywhere = useWhole({ path: pathOf(CLUSTER_ROLE_BINDINGS) });
  const inNamespaces = useWhole({ path: pathOf(ROLE_BINDINGS) });
  const [filter, setFilter] = useUrlState("q", "");
  const [system, setSystem] = useUrlState("system", "");
  const [binding, setBinding] = useState<{ kind: string; name: string }>();
  const [removing, setRemoving] = useState<{ grantee: Grantee; grant: Grant }>();
  const all = useMemo(() => granteesOf([...everywhere.items, ...inNamespaces.items]), [everywhere.items, inNamespaces.items]);
  const problem = [everywhere, inNamespaces].find((one) => one.phase === "error");
  if (problem?.error) return <section className="card"><Problem error={problem.error} retry={problem.reload} /></section>;
  if (everywhere.phase === "loading" || inNamespaces.phase === "loading") return <Loading />;
  const shown = all.filter(({ subject, grants }) => (system || !isOfSystem({ subject, grants })) && `${subject.name} ${grants.map((grant) => grant.role).join(" ")}`.toLowerCase().includes(filter.toLowerCase()));
  return (
    <>
      <Stale show={everywhere.stale || inNamespaces.stale} />
      <div className="toolbar">
        <input className="input" data-filter type="search" aria-label={t("Filter")} placeholder={t("Filter by role or subject")} value={filter} onChange={(event) => setFilter(event.target.value)} />
        <label className="check"><input type="checkbox" checked={system !== ""} onChange={(event) => setSystem(event.target.checked ? "yes" : "")} />{t("Include system subjects")}</label>
        <span className="grow" />
        <Button icon="plus" kind="primary" onClick={() => setBinding({ kind: "User", name: "" })}>{t("Bind a role")}</Button>
      </div>
      <Card flush>
        {shown.length === 0 ? <Empty title={t("No role bindings")} icon="access"><p>{t("Users come from certificates, tokens or an identity provider; they get permissions when a role is bound to their name or group.")}</p></Empty> : (
          <div className="hscroll" tabIndex={0} role="group">
            <table className="simple">
              <thead><tr><th>{t("Subject")}</th><th>{t("Roles")}</th><th><span className="sr">{t("Actions")}</span></th></tr></thead>
              <tbody>
                {shown.slice(0, SHOWN_MAX).map((grantee) => (
                  <tr key={`${grantee.subject.kind}/${grantee.subject.namespace}/${grantee.subject.name}`}>
                    <td><b style={{ overflowWrap: "anywhere" }}>{grantee.subject.name}</b><div className="small muted">{grantee.subject.kind}{grantee.subject.namespace && ` · ${grantee.subject.namespace}`}</div></td>
                    <td>
                      <span className="chips">
                        {grantee.grants.map((grant) => (
                          <span className="chip" key={grant.binding.metadata.uid}>
                            <b>{grant.role}</b>
                            <span className="muted">{grant.namespace || t("all namespaces")}</span>
                            <button type="button" className="chip-x" aria-label={t("Unbind {role} from {name}", { role: grant.role, name: grantee.subject.name })} onClick={() => setRemoving({ grantee, grant })}>×</button>
                          </span>
                        ))}
                      </span>
                    </td>
                    <td className="right"><Button small icon="plus" label={t("Bind a role to {name}", { name: grantee.subject.name })} onClick={() => setBinding(grantee.subject)} /></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Card>
      {shown.length > SHOWN_MAX && <p className="small muted">{t("{count} more", { count: shown.length - SHOWN_MAX })}</p>}
      {binding && <BindDialog subject={binding} onClose={() => setBinding(undefined)} />}
      {removing && <Unbind {...removing} onClose={() => setRemoving(undefined)} />}
    </>
  );
}

function Unbind({ grantee, grant, onClose }: { grantee: Grantee; grant: Grant; onClose: () => void }) {
  const { binding } = grant;
  const others = (binding.subjects ?? []).length - 1;
  const path = pathOf(grant.namespace ? ROLE_BINDINGS : CLUSTER_ROLE_BINDINGS, grant.namespace, binding.metadata.name);
  const remove = async () => {
    const { name, kind, namespace } = grantee.subject;
    const rest = (binding.subjects ?? []).filter((one: any) => one.kind !== kind || one.name !== name || (one.namespace ?? "") !== (namespace ?? ""));
    const change = () =>
      others > 0
        ? request(path, { method: "PATCH", headers: { "Content-Type": "application/merge-patch+json" }, body: JSON.stringify({ metadata: { resourceVersion: binding.metadata.resourceVersion }, subjects: rest }) })
        : request(path, { method: "DELETE" });
    if (await attempt(t("{role} is no longer bound to {name}", { role: grant.role, name }), change)) onClose();
  };
  return (
    <Dialog title={t("Unbind {role} from {name}", { role: grant.role, name: grantee.subject.name })} onClose={onClose} onSubmit={() => void remove()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="danger" type="submit">{t("Unbind")}</Button></>}>
      <p>{others > 0 ? t("The binding {name} has {count} other subjects, which stay.", { name: binding.metadata.name, count: others }) : t("The binding {name} is deleted.", { name: binding.metadata.name })}</p>
      <Badge plain>{grant.namespace || t("all namespaces")}</Badge>
    </Dialog>
  );
}
