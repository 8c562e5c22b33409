// Small building blocks of all pages.

import { type ReactNode, useId, useRef, useSyncExternalStore } from "react";
import { Link } from "wouter";
import { ApiError, instanceName, query } from "../api/client";
import { currentPrefs } from "../app/prefs";
import { language, t } from "../i18n";
import { Button } from "./button";
import { Icon, type IconName } from "./icons";

export { Button } from "./button";
export { attempt, Command, Dialog, Menu, toast, Toasts } from "./overlays";

export type Tone = "ok" | "warn" | "bad" | "info" | "";

export function Badge({ tone = "", children, plain }: { tone?: Tone; children: ReactNode; plain?: boolean }) {
  return (
    <span className={`badge ${tone} ${plain ? "plain" : ""}`}>
      <span>{children}</span>
    </span>
  );
}

export function Card({ title, actions, children, flush }: { title?: ReactNode; actions?: ReactNode; children: ReactNode; flush?: boolean }) {
  return (
    <section className="card">
      {title !== undefined && (
        <header>
          <h2>{title}</h2>
          {actions && <div className="row">{actions}</div>}
        </header>
      )}
      {flush ? children : <div className="body">{children}</div>}
    </section>
  );
}

export function PageHead({ title, crumbs, children, badges }: { title: ReactNode; crumbs?: { text: string; to?: string }[]; children?: ReactNode; badges?: ReactNode }) {
  return (
    <div className="page-head">
      <div className="grow">
        {crumbs && (
          <nav className="crumbs" aria-label={t("Breadcrumbs")}>
            {crumbs.map((crumb, index) => (
              <span className="row" key={crumb.text + index}>
                {crumb.to ? <Link href={crumb.to}>{crumb.text}</Link> : crumb.text}
                {index < crumbs.length - 1 && <span aria-hidden="true">/</span>}
              </span>
            ))}
          </nav>
        )}
        <div className="row wrap">
          <h1>{title}</h1>
          {badges}
        </div>
      </div>
      {children && <div className="row wrap">{children}</div>}
    </div>
  );
}

export function Tabs({ tabs, current, onChange, label }: { tabs: { id: string; text: string; count?: number }[]; current: string; onChange: (id: string) => void; label: string }) {
  const list = useRef<HTMLDivElement>(null);
  const move = (step: number) => {
    const index = tabs.findIndex((tab) => tab.id === current);
    const next = tabs[(index + step + tabs.length) % tabs.length];
    if (!next) return;
    onChange(next.id);
    list.current?.querySelector<HTMLElement>(`[data-tab="${next.id}"]`)?.focus();
  };
  return (
    <div className="tabs" role="tablist" aria-label={label} ref={list}>
      {tabs.map((tab) => (
        <button
          key={tab.id}
          role="tab"
          type="button"
          data-tab={tab.id}
          aria-selected={tab.id === current}
          tabIndex={tab.id === current ? 0 : -1}
          onClick={() => onChange(tab.id)}
          onKeyDown={(event) => {
            if (event.key === "ArrowRight") move(1);
            if (event.key === "ArrowLeft") move(-1);
          }}
        >
          {tab.text}
          {tab.count !== undefined && <span className="count">{tab.count}</span>}
        </button>
      ))}
    </div>
  );
}

export function Segmented<T extends string>({ options, value, onChange, label }: { options: { id: T; text: string }[]; value: T; onChange: (id: T) => void; label: string }) {
  return (
    <div className="segmented" role="group" aria-label={label}>
      {options.map((option) => (
        <button key={option.id} type="button" aria-pressed={option.id === value} onClick={() => onChange(option.id)}>
          {option.text}
        </button>
      ))}
    </div>
  );
}

export function Meter({ parts, total, label, tall }: { parts: { value: number; tone?: Tone; color?: string }[]; total: number; label: string; tall?: boolean }) {
  const sum = parts.reduce((all, part) => all + part.value, 0);
  return (
    <div className={`meter ${tall ? "tall" : ""}`} role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={total || 1} aria-valuenow={Math.min(sum, total || 1)}>
      {parts.filter((part) => part.value > 0).map((part, index) => (
        <i key={index} className={part.tone} style={{ width: `${(100 * part.value) / (total || 1)}%`, background: part.color }} />
      ))}
    </div>
  );
}

export const usageTone = (share: number): Tone => (share > 0.9 ? "bad" : share > 0.75 ? "warn" : "");

export function Field({ label, hint, problem, children }: { label: string; hint?: ReactNode; problem?: string; children: (id: string) => ReactNode }) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children(id)}
      {hint && <span className="hint">{hint}</span>}
      {problem && <span className="problem" role="alert">{problem}</span>}
    </div>
  );
}

export function KeyValues({ entries }: { entries: [string, ReactNode][] }) {
  return (
    <dl className="kv">
      {entries.filter(([, value]) => value !== undefined && value !== "" && value !== null && value !== false).map(([key, value]) => (
        <div key={key} style={{ display: "contents" }}>
          <dt>{key}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Labels({ labels, empty = "–" }: { labels?: Record<string, string>; empty?: string }) {
  const entries = Object.entries(labels ?? {});
  if (entries.length === 0) return <span className="muted">{empty}</span>;
  return (
    <span className="chips">
      {entries.map(([key, value]) => (
        <span className="chip" key={key} title={`${key}=${value}`}>
          <span className="ellipsis">{key}{value && <>=<b>{value}</b></>}</span>
        </span>
      ))}
    </span>
  );
}

/* states */

export function Loading({ text }: { text?: string }) {
  return (
    <div className="state" role="status">
      <div className="spinner" />
      <span>{text ?? t("Loading…")}</span>
    </div>
  );
}

export function Empty({ title, children, icon = "empty" }: { title: string; children?: ReactNode; icon?: IconName }) {
  return (
    <div className="state">
      <Icon name={icon} />
      <p className="state-title">{title}</p>
      {children}
    </div>
  );
}

/** Explains an error; a missing right is shown as such. */
export function Problem({ error, retry }: { error: ApiError | Error; retry?: () => void }) {
  const api = error instanceof ApiError ? error : undefined;
  const title = api?.forbidden ? t("Access denied") : api?.notFound ? t("Not found") : api?.unreachable ? t("The control plane is not reachable") : t("Something went wrong");
  return (
    <div className="state" role="alert">
      <Icon name={api?.forbidden ? "lock" : "warning"} />
      <p className="state-title">{title}</p>
      <p className="small">{api?.unreachable ? t("Check that it is running and that this browser can reach its address.") : error.message}</p>
      {api?.forbidden && <p className="small muted">{t("Ask an administrator for a role with this permission.")}</p>}
      {api?.forbidden && <Explanation message={api.message} />}
      {api?.auditId && <p className="small muted">{t("Request")} <code>{api.auditId}</code></p>}
      {retry && <Button icon="refresh" onClick={retry}>{t("Try again")}</Button>}
    </div>
  );
}

const REFUSED_RESOURCE = /cannot (\w+) resource "([^"]+)" in API group "([^"]*)"(?: in the namespace "([^"]*)")?/;
const REFUSED_PERMISSION = /needs the permission ([\w.]+)/;

/** A link to the page that explains a refusal, for messages that say what was refused. */
function Explanation({ message }: { message: string }) {
  const permission = REFUSED_PERMISSION.exec(message)?.[1];
  if (permission) return <a className="small" href={`/console/access${query({ tab: "permissions", permission, instance: instanceName })}`}>{t("Why was this denied?")}</a>;
  const [, verb, resource, group, namespace] = REFUSED_RESOURCE.exec(message) ?? [];
  if (!verb) return null;
  return <Link className="small" href={`/access${query({ tab: "check", verb, resource, group, namespace, name: /^\S+ "([^"]+)" is forbidden/.exec(message)?.[1] })}`}>{t("Why was this denied?")}</Link>;
}

export function Stale({ show }: { show: boolean }) {
  if (!show) return null;
  return (
    <div className="banner" role="status">
      <Icon name="warning" />
      {t("The connection is interrupted. The data shown may be old; it will be updated when the control plane answers again.")}
    </div>
  );
}

/* time */

const ticker = {
  now: Date.now(),
  listeners: new Set<() => void>(),
  timer: undefined as ReturnType<typeof setInterval> | undefined,
};

function useNow(): number {
  return useSyncExternalStore(
    (listener) => {
      ticker.listeners.add(listener);
      ticker.timer ??= setInterval(() => {
        ticker.now = Date.now();
        for (const each of ticker.listeners) each();
      }, 5_000);
      return () => ticker.listeners.delete(listener);
    },
    () => ticker.now,
  );
}

export function duration(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m`;
  if (s < 172_800) return `${Math.floor(s / 3600)}h`;
  return `${Math.floor(s / 86_400)}d`;
}

export function exactTime(at: string | number): string {
  const options: Intl.DateTimeFormatOptions = { dateStyle: "medium", timeStyle: "medium", timeZone: currentPrefs().utc ? "UTC" : undefined };
  return new Intl.DateTimeFormat(language() === "zh" ? "zh-CN" : "en-GB", options).format(new Date(at)) + (currentPrefs().utc ? " UTC" : "");
}

/** The time since `at`, with the exact time as its title. */
export function Age({ at, ago }: { at?: string; ago?: boolean }) {
  const now = useNow();
  if (!at || Number.isNaN(Date.parse(at))) return <span className="muted">–</span>;
  const text = duration((Math.max(now, Date.now()) - Date.parse(at)) / 1000);
  return (
    <time dateTime={at} title={exactTime(at)} className="nowrap">
      {ago ? t("{time} ago", { time: text }) : text}
    </time>
  );
}
