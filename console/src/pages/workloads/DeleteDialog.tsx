// Deletes an object after showing what that means in the clusters.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";
import { type ApiError, getJson, query, request } from "../../api/client";
import { BINDINGS, pathOf, type Resource } from "../../api/resources";
import { useRows } from "../../api/rows";
import type { KObject } from "../../api/types";
import { t } from "../../i18n";
import { policyKey } from "../../model/bindingSummary";
import { deletionOf, isProtected, PROTECTED, servicesOf } from "../../model/deletion";
import { podTemplateOf } from "../../model/workload";
import { ObjectLink } from "../../ui/objectLink";
import { attempt, Badge, Button, Command, Dialog, Field, Loading, Problem } from "../../ui/parts";

interface DeleteProps {
  resource: Resource;
  object: KObject;
  binding?: KObject;
  /** The page to open afterwards. */
  back: string;
  onClose: () => void;
}

export function DeleteDialog({ resource, object, binding, back, onClose }: DeleteProps) {
  const [typed, setTyped] = useState("");
  const [, navigate] = useLocation();
  const { name, namespace } = object.metadata;
  const path = pathOf(resource, namespace, name);
  // Admission refuses some deletions; better known before than after.
  const trial = useQuery<unknown, ApiError>({ queryKey: ["deletion", path], queryFn: () => request(path + query({ dryRun: "All" }), { method: "DELETE" }).then(() => true), retry: false, gcTime: 0 });
  const remove = async () => {
    const done = await attempt(t("{name} is deleted", { name }), () => request(path, { method: "DELETE" }));
    if (!done) return;
    onClose();
    navigate(back);
  };
  const ready = typed === name && trial.isSuccess;
  return (
    <Dialog title={t("Delete {kind} {name}", { kind: resource.kind, name })} onClose={onClose} onSubmit={() => ready && void remove()} footer={<><Button onClick={onClose}>{t("Cancel")}</Button><Button kind="danger" type="submit" icon="trash" disabled={!ready}>{t("Delete")}</Button></>}>
      {resource.kind.endsWith("PropagationPolicy") ? <OfPolicy policy={object} kind={resource.kind} /> : <OfObject object={{ ...object, kind: resource.kind }} binding={binding} />}
      {isProtected(object) && <div className="banner bad" role="alert">{t("It is protected from deletion by the label {label}.", { label: PROTECTED })}</div>}
      {trial.isPending ? <Loading text={t("Asking the control plane…")} /> : trial.error && <Problem error={trial.error} retry={() => void trial.refetch()} />}
      <Field label={t("Type {name} to confirm", { name })}>{(id) => <input id={id} className="input" autoComplete="off" autoFocus value={typed} onChange={(event) => setTyped(event.target.value)} />}</Field>
      <Command text={`kubectl delete ${resource.plural}${resource.group ? `.${resource.group}` : ""} ${name}${namespace ? ` -n ${namespace}` : ""}`} />
    </Dialog>
  );
}

function OfPolicy({ policy, kind }: { policy: KObject; kind: string }) {
  const { name, namespace } = policy.metadata;
  const held = useRows({ resource: BINDINGS, namespace, bindings: { policy: policyKey({ kind, namespace, name }) }, whole: true });
  if (held.phase === "loading") return <Loading />;
  if (held.error && held.phase === "error") return <Problem error={held.error} />;
  return <p>{held.rows.length === 0 ? t("No propagated objects") : t("It holds {count} objects. Another policy that selects them takes them over; without one they stay where they are.", { count: held.rows.length.toLocaleString() })}</p>;
}

function OfObject({ object, binding }: { object: KObject; binding?: KObject }) {
  const { clusters, keeps, followers } = deletionOf(binding);
  const { namespace = "" } = object.metadata;
  const hasPods = podTemplateOf(object) !== undefined;
  const services = useQuery<{ items: KObject[] }, ApiError>({ queryKey: ["services-of", namespace], queryFn: () => getJson(`/api/v1/namespaces/${encodeURIComponent(namespace)}/services`), enabled: hasPods, retry: false });
  const affected = hasPods ? servicesOf(object, services.data?.items ?? []) : [];
  if (clusters.length === 0) return <p>{t("Not in any cluster")}</p>;
  return (
    <div className="stack">
      <p>{keeps ? t("It is deleted from the control plane. Its policy keeps what runs in these clusters:") : t("It is deleted from the control plane and from these clusters:")}</p>
      <ul className="chips">
        {clusters.map((one) => <li className="chip" key={one.name}><span className={`dot ${one.tone}`} />{one.name}{one.desired !== undefined && <b>{t("{count} replicas", { count: one.desired })}</b>}</li>)}
      </ul>
      {affected.length > 0 && !keeps && <p><Badge tone="warn">{t("Services that lose these pods")}</Badge> {affected.join(", ")}</p>}
      {followers.length > 0 && !keeps && (
        <div>
          <p>{t("These objects are there because of it, and leave too unless something else needs them:")}</p>
          <ul className="chips">{followers.map((one) => <li className="chip" key={`${one.kind}/${one.namespace}/${one.name}`}><span className="muted">{one.kind}</span> <ObjectLink to={one} /></li>)}</ul>
        </div>
      )}
    </div>
  );
}
