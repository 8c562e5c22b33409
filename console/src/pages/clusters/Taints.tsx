// Taints and labels of a cluster, editable.

import { useState } from "react";
import { mergePatch } from "../../api/client";
import { CLUSTERS, pathOf } from "../../api/resources";
import type { KObject, Taint } from "../../api/types";
import { t } from "../../i18n";
import { taintsOf } from "../../model/cluster";
import { attempt, Button, Card, Empty, Field } from "../../ui/parts";
import { changeTaints } from "./actions";

export function Taints({ cluster }: { cluster: KObject }) {
  return (
    <div className="grid2">
      <TaintCard cluster={cluster} />
      <LabelCard cluster={cluster} />
    </div>
  );
}

function TaintCard({ cluster }: { cluster: KObject }) {
  const taints = taintsOf(cluster);
  const [draft, setDraft] = useState<Taint>({ key: "", value: "", effect: "NoSchedule" });
  const without = (all: Taint[], taint: Taint) => all.filter((one) => one.key !== taint.key || one.effect !== taint.effect);
  const remove = (taint: Taint) => void changeTaints(cluster.metadata.name, (all) => without(all, taint), t("Taint removed"));
  const add = async () => {
    const { key, value, effect } = draft;
    const taint = value ? { key, value, effect } : { key, effect };
    if (await changeTaints(cluster.metadata.name, (all) => [...without(all, taint), taint], t("Taint added"))) setDraft({ ...draft, key: "", value: "" });
  };
  return (
    <Card title={t("Taints")}>
      <div className="stack">
        {taints.length === 0 ? <p className="muted">{t("No taints: every workload may be scheduled here.")}</p> : (
          <ul className="stack tight">
            {taints.map((taint) => (
              <li className="row between" key={`${taint.key}${taint.effect}`}>
                <code className="grow" style={{ overflowWrap: "anywhere" }}>{taint.key}{taint.value && `=${taint.value}`}:{taint.effect}</code>
                <Button small kind="ghost" icon="close" label={t("Remove {name}", { name: taint.key })} onClick={() => remove(taint)} />
              </li>
            ))}
          </ul>
        )}
        <form className="stack" onSubmit={(event) => { event.preventDefault(); void add(); }}>
          <div className="grid-s">
            <Field label={t("Key")}>{(id) => <input id={id} className="input" value={draft.key} onChange={(event) => setDraft({ ...draft, key: event.target.value })} />}</Field>
            <Field label={t("Value")}>{(id) => <input id={id} className="input" value={draft.value} onChange={(event) => setDraft({ ...draft, value: event.target.value })} />}</Field>
            <Field label={t("Effect")}>
              {(id) => <select id={id} className="select" value={draft.effect} onChange={(event) => setDraft({ ...draft, effect: event.target.value })}>{["NoSchedule", "NoExecute", "PreferNoSchedule"].map((effect) => <option key={effect}>{effect}</option>)}</select>}
            </Field>
          </div>
          {draft.effect === "NoExecute" && <div className="banner"><span>{t("NoExecute evicts workloads that do not tolerate it.")}</span></div>}
          <div><Button type="submit" icon="plus" disabled={!draft.key}>{t("Add taint")}</Button></div>
        </form>
      </div>
    </Card>
  );
}

function LabelCard({ cluster }: { cluster: KObject }) {
  const [key, setKey] = useState("");
  const [value, setValue] = useState("");
  const labels = Object.entries(cluster.metadata.labels ?? {});
  const set = (change: Record<string, string | null>, done: string) =>
    attempt(done, () => mergePatch(pathOf(CLUSTERS, "", cluster.metadata.name), { metadata: { labels: change } }));
  return (
    <Card title={t("Labels")}>
      <div className="stack">
        {labels.length === 0 ? <Empty title={t("No labels")}><p>{t("Policies can select clusters by label.")}</p></Empty> : (
          <ul className="stack tight">
            {labels.map(([name, content]) => (
              <li className="row between" key={name}>
                <code className="grow" style={{ overflowWrap: "anywhere" }}>{name}={content}</code>
                <Button small kind="ghost" icon="close" label={t("Remove {name}", { name })} onClick={() => void set({ [name]: null }, t("Label removed"))} />
              </li>
            ))}
          </ul>
        )}
        <form className="stack" onSubmit={(event) => { event.preventDefault(); void set({ [key]: value }, t("Label set")).then((done) => done && (setKey(""), setValue(""))); }}>
          <div className="grid-s">
            <Field label={t("Key")}>{(id) => <input id={id} className="input" value={key} onChange={(event) => setKey(event.target.value)} />}</Field>
            <Field label={t("Value")}>{(id) => <input id={id} className="input" value={value} onChange={(event) => setValue(event.target.value)} />}</Field>
          </div>
          <div><Button type="submit" icon="plus" disabled={!key}>{t("Set label")}</Button></div>
        </form>
      </div>
    </Card>
  );
}
