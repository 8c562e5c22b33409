// Settings of this browser and of the instance, and facts about the control plane.

import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { type ApiError, getJson, instanceName, request } from "../api/client";
import { setPrefs, usePrefs } from "../app/prefs";
import { t } from "../i18n";
import { checksOf, type HealthCheck, hooksOf } from "../model/components";
import { Badge, Card, Command, Field, KeyValues, Loading, PageHead, Problem, Segmented } from "../ui/parts";

const AccountCard = lazy(() => import("./manager/Account").then((module) => ({ default: module.AccountCard })));
const FailoverSettings = lazy(() => import("./manager/InstanceSettings").then((module) => ({ default: module.FailoverSettings })));

export default function Settings({ ofManager }: { ofManager: boolean }) {
  const prefs = usePrefs();
  return (
    <>
      <PageHead title={t("Settings")}>{instanceName && <a className="btn" href={`/console/instances/${instanceName}`}>{t("Instance in the manager")}</a>}</PageHead>
      {instanceName && <Suspense fallback={<Loading />}><FailoverSettings onlyIfAllowed instance={instanceName} /></Suspense>}
      <div className="cols">
        <div>
        <Card title={t("This browser")}>
          <div className="stack loose">
            <div className="field"><span className="label">{t("Theme")}</span><span><Segmented label={t("Theme")} value={prefs.theme} onChange={(theme) => void setPrefs({ theme })} options={[{ id: "system", text: t("System") }, { id: "light", text: t("Light") }, { id: "dark", text: t("Dark") }]} /></span></div>
            <div className="field"><span className="label">{t("Language")}</span><span><Segmented label={t("Language")} value={prefs.language} onChange={(language) => void setPrefs({ language })} options={[{ id: "en", text: "English" }, { id: "zh", text: "中文" }]} /></span></div>
            <div className="field"><span className="label">{t("Time zone")}</span><span><Segmented label={t("Time zone")} value={prefs.utc ? "utc" : "local"} onChange={(zone) => void setPrefs({ utc: zone === "utc" })} options={[{ id: "local", text: t("Local time") }, { id: "utc", text: "UTC" }]} /></span></div>
            <div className="field"><span className="label">{t("Row height")}</span><span><Segmented label={t("Row height")} value={prefs.compact ? "compact" : "normal"} onChange={(size) => void setPrefs({ compact: size === "compact" })} options={[{ id: "normal", text: t("Comfortable") }, { id: "compact", text: t("Compact") }]} /></span></div>
          </div>
        </Card>
        <Card title={t("Command line")}>
          <div className="stack">
            <Field label={t("Sign-in link for another browser")}>{() => <Command text="flotilla console" />}</Field>
            <Field label={t("Token for a program")}>{() => <Command text="kubectl create token SERVICEACCOUNT -n NAMESPACE --duration 8h" />}</Field>
          </div>
        </Card>
        </div>
        <div>
          {ofManager && <Suspense fallback={<Loading />}><AccountCard /></Suspense>}
          <PlaneCard />
          <HealthCard />
          {(!ofManager || instanceName) && <SafeModeCard />}
        </div>
      </div>
    </>
  );
}

function PlaneCard() {
  const version = useQuery<Record<string, string>, ApiError>({ queryKey: ["version"], queryFn: () => getJson("/version") });
  return (
    <Card title={t("Control plane")}>
      {version.isPending ? <Loading /> : version.error ? <Problem error={version.error} retry={() => void version.refetch()} /> : (
        <KeyValues entries={[[t("Version"), version.data.gitVersion], [t("Platform"), version.data.platform], [t("Address"), <code key="a">{location.origin}</code>]]} />
      )}
    </Card>
  );
}

function HealthCard() {
  const health = useQuery<string, ApiError>({ queryKey: ["readyz"], queryFn: async () => (await request("/readyz?verbose", { headers: { Accept: "*/*" } })).text(), refetchInterval: 10_000 });
  return (
    <Card title={t("Health checks")}>
      {health.isPending ? <Loading /> : health.error ? <Problem error={health.error} retry={() => void health.refetch()} /> : (
        <div className="stack">
          <Checks checks={checksOf(health.data)} />
          <details>
            <summary className="small">{t("Start hooks ({count})", { count: hooksOf(health.data).length })}</summary>
            <Checks checks={hooksOf(health.data)} />
          </details>
        </div>
      )}
    </Card>
  );
}

function Checks({ checks }: { checks: HealthCheck[] }) {
  return (
    <ul className="stack tight">
      {checks.map(({ name, ok }) => <li className="row" key={name}><Badge tone={ok ? "ok" : "bad"}>{ok ? t("ok") : t("failed")}</Badge><span className="small">{name.replace(/^poststarthook\//, "")}</span></li>)}
    </ul>
  );
}

function SafeModeCard() {
  const mode = useQuery<{ on: boolean; held?: { action: string; object: string; cluster: string }[] }, ApiError>({ queryKey: ["safe-mode"], queryFn: () => getJson("/flotilla/v1alpha1/safe-mode") });
  if (mode.error?.notFound) return null;
  return (
    <Card title={t("Safe mode")}>
      {mode.isPending ? <Loading /> : mode.error ? <Problem error={mode.error} retry={() => void mode.refetch()} /> : mode.data.on ? (
        <div className="stack">
          <div className="banner">{t("The control plane was restored from a backup. It removes nothing from members until that is confirmed.")}</div>
          <ul className="stack tight">{(mode.data.held ?? []).map((held, index) => <li key={index} className="small">{held.action} {held.object} · {held.cluster}</li>)}</ul>
          <Command text="flotilla restore confirm" />
        </div>
      ) : <span className="row"><Badge tone="ok">{t("Off")}</Badge><span className="muted small">{t("It is on only after a restore from a backup.")}</span></span>}
    </Card>
  );
}
