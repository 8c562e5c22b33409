// Creates an instance: a form next to the object that results, checked by the manager while it is filled in.

import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { Link, useLocation } from "wouter";
import { type ApiError, send } from "../../api/client";
import { INSTANCES } from "../../api/manager";
import { t } from "../../i18n";
import { attempt, Badge, Button, Card, Field, PageHead, Segmented } from "../../ui/parts";
import { useSettled } from "../../ui/settled";
import { parseLabels } from "./labels";
import { isInstanceName } from "./names";

const NONE = { name: "", displayName: "", description: "", mode: "MODE_IN_PROCESS", hibernateAfter: "", expose: "", labels: "", protected: false };

const MODES: Record<string, () => string> = {
  MODE_IN_PROCESS: () => t("Runs in the process of the manager; ready in less than a second."),
  MODE_PROCESS: () => t("Runs in a separate process, which keeps running when the manager restarts."),
};

/** Asks the manager what it would say. */
function useCheck(instance: { name: string }) {
  const text = useSettled(JSON.stringify(instance));
  const settled = JSON.parse(text) as typeof instance;
  return useQuery<unknown, ApiError>({
    queryKey: ["check-instance", text],
    queryFn: () => send("POST", `${INSTANCES}?validateOnly=true`, settled),
    enabled: isInstanceName(settled.name),
    retry: false,
  });
}

export default function NewInstance() {
  const [form, setForm] = useState(NONE);
  const [, navigate] = useLocation();
  const [busy, setBusy] = useState(false);
  const set = (change: Partial<typeof form>) => setForm({ ...form, ...change });
  const instance = useMemo(() => ({ ...form, labels: parseLabels(form.labels) }), [form]);
  const check = useCheck(instance);
  const isNamed = isInstanceName(form.name);
  const create = async () => {
    setBusy(true);
    const done = await attempt(t("{name} is created", { name: form.name }), () => send("POST", INSTANCES, instance));
    setBusy(false);
    if (done) navigate("/");
  };
  const text = (field: "displayName" | "description" | "hibernateAfter" | "expose" | "labels", label: string, hint?: string, placeholder?: string) => (
    <Field label={label} hint={hint}>{(id) => <input id={id} className="input" maxLength={field === "displayName" ? 60 : 1000} placeholder={placeholder} value={form[field]} onChange={(event) => set({ [field]: event.target.value })} />}</Field>
  );
  return (
    <>
      <PageHead title={t("New instance")} crumbs={[{ text: t("Instances"), to: "/" }, { text: t("New instance") }]}><Link className="btn" href="/import">{t("Import a control plane")}</Link></PageHead>
      <div className="cols">
        <div>
          <Card title={t("Settings")}>
            <form className="stack" onSubmit={(event) => { event.preventDefault(); if (isNamed && !busy) void create(); }}>
              <Segmented label={t("Mode")} value={form.mode} onChange={(mode) => set({ mode })} options={[{ id: "MODE_IN_PROCESS", text: t("In the manager") }, { id: "MODE_PROCESS", text: t("Own process") }]} />
              <p className="muted small">{MODES[form.mode]?.()}</p>
              <Field label={t("Name")} problem={form.name === "" || isNamed ? "" : t("Lowercase letters, digits and dashes.")}>{(id) => <input id={id} className="input" autoFocus autoComplete="off" value={form.name} onChange={(event) => set({ name: event.target.value })} />}</Field>
              <div className="grid-s">
                {text("displayName", t("Display name (optional)"))}
                {text("description", t("Description (optional)"))}
                {text("labels", t("Labels (optional)"), t("Such as team=shop, stage=test"))}
                {text("hibernateAfter", t("Hibernate after (optional)"), t("Time without requests after which an instance without clusters hibernates. If empty, it never hibernates."), "30m")}
                {text("expose", t("Dedicated address (optional)"), t("For agents of pull-mode clusters, which cannot connect through the manager."), "HOST[:PORT]")}
              </div>
              <label className="check"><input type="checkbox" checked={form.protected} onChange={(event) => set({ protected: event.target.checked })} />{t("Protected: it cannot be deleted")}</label>
              {isNamed && check.error && <div className="banner bad" role="alert">{check.error.message}</div>}
              <div className="row"><Button kind="primary" type="submit" disabled={!isNamed || busy || check.error !== null}>{t("Create")}</Button><Link className="btn" href="/">{t("Cancel")}</Link></div>
            </form>
          </Card>
        </div>
        <div>
          <Card title={t("Resulting object")} actions={isNamed && check.isSuccess ? <Badge tone="ok">{t("Accepted by the manager")}</Badge> : undefined}>
            <pre className="pre" tabIndex={0}>{yamlOf(instance)}</pre>
          </Card>
        </div>
      </div>
    </>
  );
}

type Wanted = Omit<typeof NONE, "labels"> & { labels: Record<string, string> };

function yamlOf({ name, displayName, description, mode, hibernateAfter, expose, labels, protected: isProtected }: Wanted): string {
  const noted = [["display-name", displayName], ["description", description], ["mode", mode === "MODE_PROCESS" ? "process" : ""], ["hibernate-after", hibernateAfter], ["expose", expose], ["protected", isProtected ? "true" : ""]];
  const annotations = noted.filter(([, value]) => value).map(([key, value]) => [`flotilla.dev/${key}`, value!] as const);
  const map = (title: string, entries: (readonly [string, string])[]) => (entries.length > 0 ? `\n  ${title}:${entries.map(([key, value]) => `\n    ${key}: ${JSON.stringify(value)}`).join("")}` : "");
  return `apiVersion: operator.karmada.io/v1alpha1\nkind: Karmada\nmetadata:\n  name: ${name || "NAME"}\n  namespace: karmada-system${map("labels", Object.entries(labels))}${map("annotations", annotations)}\nspec: {}`;
}
