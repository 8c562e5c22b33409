// One instance as the manager sees it: state, parts, problems, settings, backups and its object.

import { useState } from "react";
import { request } from "../../api/client";
import { type Instance, instancePath, useInstances, useManager, usePermissions } from "../../api/manager";
import { useUrlState } from "../../app/urlState";
import { YamlEditor } from "../../editor/YamlEditor";
import { useQuery } from "@tanstack/react-query";
import { t } from "../../i18n";
import { instanceHome, isImported, modeOf, phaseOf } from "../../model/instance";
import { Age, attempt, Badge, Button, Card, Empty, KeyValues, Labels, Loading, PageHead, Problem, Stale, Tabs } from "../../ui/parts";
import { ConditionTable } from "../ConditionTable";
import { Backups } from "./Backups";
import { FailoverSettings, GeneralSettings } from "./InstanceSettings";
import { Kubeconfigs } from "./Kubeconfigs";
import { RemoveInstance } from "./RemoveInstance";

const REFRESH_MS = 10_000;

export default function InstancePage({ name }: { name: string }) {
  const live = useInstances();
  const may = usePermissions(name);
  const [tab, setTab] = useUrlState("tab", "overview");
  const [removing, setRemoving] = useState(false);
  const instance = live.items.find((one) => one.name === name);
  const crumbs = [{ text: t("Instances"), to: "/" }, { text: name }];
  if (!instance) {
    return (
      <>
        <PageHead title={name} crumbs={crumbs} />
        <section className="card">{live.phase === "loading" ? <Loading /> : live.phase === "error" && live.error ? <Problem error={live.error} retry={live.reload} /> : <Empty title={t("There is no instance {name}", { name })} icon="cluster" />}</section>
      </>
    );
  }
  const [phase, tone] = phaseOf(instance);
  const tabs = [
    { id: "overview", text: t("Overview") },
    { id: "settings", text: t("Settings") },
    ...(may("instances.manage") && !isImported(instance) ? [{ id: "backups", text: t("Backups") }] : []),
    { id: "kubeconfigs", text: t("Kubeconfigs") },
    { id: "yaml", text: "YAML" },
  ];
  return (
    <>
      <PageHead title={instance.displayName || name} crumbs={crumbs} badges={<Badge tone={tone}>{t(phase)}</Badge>}>
        <a className="btn primary" href={instanceHome(name)}>{t("Open the instance")}</a>
        {may("instances.delete") && <Button kind="danger" icon="trash" onClick={() => setRemoving(true)}>{t("Delete…")}</Button>}
      </PageHead>
      <Stale show={live.stale} />
      <Tabs label={t("Sections")} current={tab} onChange={setTab} tabs={tabs} />
      {tab === "overview" && <Facts instance={instance} />}
      {tab === "settings" && <><GeneralSettings key={instance.etag} instance={instance} />{isImported(instance) ? <p className="muted">{t("The control plane is imported: its settings are changed where it runs.")}</p> : <FailoverSettings instance={name} />}</>}
      {tab === "backups" && <Backups instance={name} />}
      {tab === "kubeconfigs" && <Kubeconfigs instance={name} />}
      {tab === "yaml" && <Manifest key={name} name={name} readOnly={!may("instances.manage")} />}
      {removing && <RemoveInstance instance={instance} onClose={() => setRemoving(false)} />}
    </>
  );
}

function Facts({ instance }: { instance: Instance }) {
  const { name, message, description, endpoint, kubernetesVersion, karmadaVersion, labels, conditions = [] } = instance;
  return (
    <>
      {message && <div className="banner" role="status">{message}</div>}
      <div className="cols">
        <div>
          <Card title={t("Instance")}>
            <KeyValues entries={[
              [t("Name"), name],
              [t("Description"), description],
              [t("Mode"), modeOf(instance)],
              [t("API server"), endpoint && <code>{endpoint}</code>],
              ["Kubernetes", kubernetesVersion],
              ["Karmada", karmadaVersion],
              [t("Created"), <Age key="c" at={instance.createTime} ago />],
              [t("Started"), instance.startTime && <Age at={instance.startTime} ago />],
              [t("Your role"), instance.role],
              [t("Labels"), <Labels key="l" labels={labels} />],
            ]} />
          </Card>
          <Card title={t("Conditions")} flush><ConditionTable object={{ metadata: { name }, status: { conditions } }} /></Card>
        </div>
        <div>
          <Diagnosis name={name} />
          <Components name={name} />
        </div>
      </div>
    </>
  );
}

interface Finding {
  severity: string;
  subject: string;
  problem: string;
  advice: string;
}

function Diagnosis({ name }: { name: string }) {
  const found = useManager<{ findings?: Finding[]; unknown?: string[] }>(instancePath(name, "/diagnosis"), { refreshMs: REFRESH_MS * 3 });
  const { findings = [], unknown = [] } = found.data ?? {};
  return (
    <Card title={t("Diagnosis")} flush actions={<Button small icon="refresh" label={t("Check again")} onClick={() => void found.refetch()} />}>
      {found.isPending ? <Loading /> : found.error ? <Problem error={found.error} retry={() => void found.refetch()} /> : findings.length + unknown.length === 0 ? <Empty title={t("No problems found")} icon="check" /> : (
        <div className="hscroll" tabIndex={0} role="group">
          <table className="simple">
            <tbody>
              {findings.map((one, index) => <tr key={index}><td><Badge tone={one.severity === "error" ? "bad" : "warn"}>{one.severity === "error" ? t("error") : t("warning")}</Badge></td><td><b>{one.subject}</b>: {one.problem}<div className="small muted">{one.advice}</div></td></tr>)}
              {unknown.map((text) => <tr key={text}><td><Badge>{t("not checked")}</Badge></td><td className="muted">{text}</td></tr>)}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}

interface Component {
  name: string;
  type: string;
  ready: boolean;
  queueDepth?: string | number;
  retries?: string | number;
  active?: string | number;
}

function Components({ name }: { name: string }) {
  const found = useManager<{ components?: Component[] }>(instancePath(name, "/components"), { refreshMs: REFRESH_MS });
  const components = found.data?.components ?? [];
  return (
    <Card title={t("Components")} flush>
      {found.isPending ? <Loading /> : found.error ? <Problem error={found.error} retry={() => void found.refetch()} /> : components.length === 0 ? <Empty title={t("Nothing is running")} /> : (
        <div className="hscroll" tabIndex={0} role="group" style={{ maxHeight: 420, overflowY: "auto" }}>
          <table className="simple">
            <thead><tr><th>{t("Name")}</th><th>{t("State")}</th><th>{t("In the queue")}</th><th>{t("Repeated")}</th></tr></thead>
            <tbody>
              {components.map((one) => (
                <tr key={`${one.type}/${one.name}`}>
                  <td>{one.name}<div className="small muted">{one.type === "check" ? t("check") : t("controller")}</div></td>
                  <td><Badge tone={one.ready ? "ok" : "bad"}>{one.ready ? t("ok") : t("failed")}</Badge></td>
                  <td>{one.type === "check" ? "–" : Number(one.queueDepth ?? 0)}</td>
                  <td>{one.type === "check" ? "–" : Number(one.retries ?? 0)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}

/** The object of the instance; a failed save keeps the text. */
function Manifest({ name, readOnly }: { name: string; readOnly: boolean }) {
  const path = instancePath(name, "/manifest");
  const current = useQuery<string, Error>({ queryKey: ["manifest", name], queryFn: async () => (await request(path, { headers: { Accept: "*/*" } })).text() });
  const [draft, setDraft] = useState<string>();
  const [problem, setProblem] = useState("");
  const write = async (validateOnly: boolean) => {
    setProblem("");
    const done = validateOnly ? t("The control plane would accept this") : t("Saved");
    await attempt(done, async () => {
      try {
        await request(`${path}${validateOnly ? "?validateOnly=true" : ""}`, { method: "PUT", headers: { "Content-Type": "application/yaml" }, body: draft });
      } catch (error) {
        setProblem((error as Error).message);
        throw error;
      }
      if (validateOnly) return;
      setDraft(undefined);
      await current.refetch();
    });
  };
  if (current.isPending) return <Loading />;
  if (current.error) return <section className="card"><Problem error={current.error} retry={() => void current.refetch()} /></section>;
  return (
    <div className="stack">
      {!readOnly && (
        <div className="toolbar">
          {draft === undefined ? <Button icon="policy" onClick={() => setDraft(current.data)}>{t("Edit")}</Button> : (
            <>
              <Button kind="primary" disabled={draft === current.data} onClick={() => void write(false)}>{t("Save")}</Button>
              <Button onClick={() => void write(true)}>{t("Check")}</Button>
              <Button kind="ghost" onClick={() => { setDraft(undefined); setProblem(""); }}>{t("Discard")}</Button>
            </>
          )}
        </div>
      )}
      {problem && <div className="banner bad" role="alert">{problem}</div>}
      {draft === undefined ? <YamlEditor key="read" text={current.data} readOnly /> : <YamlEditor key="edit" text={draft} onChange={setDraft} />}
    </div>
  );
}
