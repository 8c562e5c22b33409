// Version and parts of the control plane: its health checks, and its controllers with their queues.

import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { ApiError, getJson, request } from "../api/client";
import { t } from "../i18n";
import { checksOf } from "../model/components";
import { Badge, Card, KeyValues, Loading } from "../ui/parts";

interface Controller {
  name: string;
  queued: number;
  active: number;
  reconciles: number;
  errors: number;
}

const REFRESH_MS = 10_000;

/** The report of the health checks; a failed check is an answer too. */
async function readiness(): Promise<string> {
  try {
    return await (await request("/readyz?verbose", { headers: { Accept: "*/*" } })).text();
  } catch (error) {
    if (error instanceof ApiError && error.code === 500) return error.message;
    throw error;
  }
}

export function Components() {
  const version = useQuery<Record<string, string>, ApiError>({ queryKey: ["version"], queryFn: () => getJson("/version") });
  const ready = useQuery<string, ApiError>({ queryKey: ["readyz"], queryFn: readiness, refetchInterval: REFRESH_MS, retry: false });
  const running = useQuery<{ controllers: Controller[] }, ApiError>({ queryKey: ["components"], queryFn: () => getJson("/flotilla/v1alpha1/components"), refetchInterval: (query) => (query.state.error ? false : REFRESH_MS), retry: false });
  if (version.isPending) return <Card title={t("Control plane")}><Loading /></Card>;
  const checks = ready.data ? checksOf(ready.data) : [];
  const failed = checks.filter((check) => !check.ok);
  const controllers = running.data?.controllers ?? [];
  const sum = (field: "queued" | "errors") => controllers.reduce((all, one) => all + one[field], 0);
  return (
    <Card title={t("Control plane")} actions={<Link href="/settings">{t("Settings")}</Link>}>
      <KeyValues
        entries={[
          [t("Version"), version.data?.gitVersion],
          [t("Health checks"), checks.length > 0 && <span className="row wrap"><Badge tone={failed.length > 0 ? "bad" : "ok"}>{failed.length > 0 ? t("{count} failed", { count: failed.length }) : t("{count} passed", { count: checks.length })}</Badge>{failed.map((check) => <code key={check.name}>{check.name}</code>)}</span>],
          [t("Controllers"), controllers.length > 0 && t("{count} running, {queued} queued items, {errors} errors since start", { count: controllers.length, queued: sum("queued").toLocaleString(), errors: sum("errors").toLocaleString() })],
        ]}
      />
      {controllers.length > 0 && (
        <details>
          <summary className="small">{t("All components")}</summary>
          <div className="hscroll" tabIndex={0} role="group">
            <table className="simple">
              <thead><tr><th>{t("Controller")}</th><th className="num">{t("Queued")}</th><th className="num">{t("Reconciliations")}</th><th className="num">{t("Errors")}</th></tr></thead>
              <tbody>{controllers.map((one) => <tr key={one.name}><td>{one.name}</td><td className="num">{one.queued}</td><td className="num">{one.reconciles.toLocaleString()}</td><td className="num">{one.errors > 0 ? <Badge tone="warn">{one.errors.toLocaleString()}</Badge> : 0}</td></tr>)}</tbody>
            </table>
          </div>
        </details>
      )}
    </Card>
  );
}
