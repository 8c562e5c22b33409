// The command palette: places, kinds, clusters and workloads by name, and a few actions.

import { useEffect, useMemo, useRef, useState } from "react";
import { useLocation } from "wouter";
import { apiVersionOf, CLUSTERS, findByKind, type Resource, slugOf, useDiscovery, WORKLOADS } from "../api/resources";
import { useRows } from "../api/rows";
import { pageOf } from "../model/links";
import { t } from "../i18n";
import { Icon, type IconName } from "../ui/icons";
import { places } from "./nav";
import { currentPrefs, setPrefs } from "./prefs";

interface Entry {
  text: string;
  hint: string;
  icon: IconName;
  run: () => void;
}

const SHOWN_MAX = 12;

/** Every word must occur; matches at the beginning come first. */
function matching(entries: Entry[], typed: string): Entry[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const rank = (entry: Entry) => (entry.text.toLowerCase().startsWith(words[0] ?? "") ? 0 : 1);
  const fits = (entry: Entry) => words.every((word) => `${entry.text} ${entry.hint}`.toLowerCase().includes(word));
  return entries.filter(fits).sort((a, b) => rank(a) - rank(b)).slice(0, SHOWN_MAX);
}

/** Objects whose name contains the text, found by the server among all of them. */
function useObjects(resource: Resource, typed: string) {
  const { rows } = useRows(typed ? { resource, contains: typed, sort: "name" } : undefined);
  return rows;
}

function useEntries(typed: string): Entry[] {
  const [, navigate] = useLocation();
  const discovery = useDiscovery();
  // The server looks for one word; the others narrow what it finds.
  const word = typed.trim().split(/\s+/)[0] ?? "";
  // A manager serves neither.
  const serves = (resource: Resource) => findByKind(discovery.data, apiVersionOf(resource), resource.kind) !== undefined;
  const clusters = useObjects(CLUSTERS, serves(CLUSTERS) ? word : "");
  const deployments = useObjects(WORKLOADS[0]!, serves(WORKLOADS[0]!) ? word : "");
  return useMemo(() => {
    const go = (path: string) => () => navigate(path);
    return [
      ...places.current.map((one) => ({ text: t(one.text), hint: one.key ? `g ${one.key}` : t("Page"), icon: one.icon, run: go(one.path) })),
      ...clusters.flatMap((row) => (row ? [{ text: row.metadata.name, hint: t("Cluster"), icon: "cluster" as const, run: go(pageOf(CLUSTERS, "", row.metadata.name)) }] : [])),
      ...deployments.flatMap((row) => (row ? [{ text: row.metadata.name, hint: `Deployment · ${row.metadata.namespace}`, icon: "workload" as const, run: go(pageOf(WORKLOADS[0]!, row.metadata.namespace, row.metadata.name)) }] : [])),
      ...(discovery.data ?? []).filter((one) => one.verbs.includes("list")).map((one) => ({
        text: one.plural,
        hint: one.group || "core",
        icon: "resource" as const,
        run: go(`/resources/${slugOf(one)}`),
      })),
      { text: t("Switch the theme"), hint: t("Action"), icon: "sun" as const, run: () => void setPrefs({ theme: currentPrefs().theme === "dark" ? "light" : "dark" }) },
      { text: t("Switch to Chinese or English"), hint: t("Action"), icon: "network" as const, run: () => void setPrefs({ language: currentPrefs().language === "zh" ? "en" : "zh" }) },
    ];
  }, [clusters, deployments, discovery.data, navigate]);
}

export function Palette({ onClose }: { onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const entries = useEntries(typed);
  const [, navigate] = useLocation();
  const found = matching(entries, typed);
  if (typed.trim()) found.push({ text: t("Search everything for “{text}”", { text: typed.trim() }), hint: t("Search"), icon: "search", run: () => navigate(`/search?q=${encodeURIComponent(typed.trim())}`) });
  useEffect(() => dialog.current?.showModal(), []);
  const choose = (index: number) => {
    onClose();
    found[index]?.run();
  };
  return (
    <dialog ref={dialog} className="palette" aria-label={t("Search and commands")} onClose={onClose} onClick={(event) => event.target === dialog.current && onClose()}>
      <div className="inner">
        <input
          autoFocus
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={found[at] ? `palette-${at}` : undefined}
          aria-label={t("Search and commands")}
          placeholder={t("Type a page, cluster, workload or kind")}
          value={typed}
          onChange={(event) => { setTyped(event.target.value); setAt(0); }}
          onKeyDown={(event) => {
            if (event.key === "ArrowDown" || event.key === "ArrowUp") {
              event.preventDefault();
              setAt((at + (event.key === "ArrowDown" ? 1 : found.length - 1)) % Math.max(found.length, 1));
            }
            if (event.key === "Enter") choose(at);
          }}
        />
        <ul id="palette-list" role="listbox" aria-label={t("Results")}>
          {found.map((entry, index) => (
            <li key={`${entry.icon}/${entry.text}/${entry.hint}`} id={`palette-${index}`} role="option" aria-selected={index === at} onPointerMove={() => setAt(index)} onClick={() => choose(index)}>
              <Icon name={entry.icon} />
              <span className="ellipsis">{entry.text}</span>
              <span className="hint">{entry.hint}</span>
            </li>
          ))}
        </ul>
      </div>
    </dialog>
  );
}
