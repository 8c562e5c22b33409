// Settings of this browser. Nothing secret is stored.

import { useSyncExternalStore } from "react";
import { type Language, setLanguage } from "../i18n";

export interface Prefs {
  theme: "system" | "light" | "dark";
  language: Language;
  utc: boolean;
  namespace: string;
  compact: boolean;
}

const KEY = "flotilla-console";
const browserLanguage: Language = navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
const DEFAULTS: Prefs = { theme: "system", language: browserLanguage, utc: false, namespace: "", compact: false };

function load(): Prefs {
  try {
    return { ...DEFAULTS, ...JSON.parse(localStorage.getItem(KEY) ?? "{}") };
  } catch {
    return DEFAULTS;
  }
}

let prefs = load();
const listeners = new Set<() => void>();

function show() {
  const root = document.documentElement;
  if (prefs.theme === "system") delete root.dataset.theme;
  else root.dataset.theme = prefs.theme;
  root.dataset.density = prefs.compact ? "compact" : "normal";
}

export async function startPrefs() {
  show();
  await setLanguage(prefs.language);
  // A change in one tab holds in all of them.
  addEventListener("storage", ({ key }) => key === KEY && void use(load()));
}

export const currentPrefs = () => prefs;

async function use(next: Prefs) {
  if (next.language !== prefs.language) await setLanguage(next.language);
  prefs = next;
  show();
  for (const listener of listeners) listener();
}

export async function setPrefs(change: Partial<Prefs>) {
  const next = { ...prefs, ...change };
  try {
    localStorage.setItem(KEY, JSON.stringify(next));
  } catch {
    // Storage may be off; the settings then last as long as the page.
  }
  await use(next);
}

const darkSystem = matchMedia("(prefers-color-scheme: dark)");

/** The theme that is shown, for drawings that do not follow the style sheet. */
export function useDark(): boolean {
  const { theme } = usePrefs();
  const system = useSyncExternalStore(
    (listener) => (darkSystem.addEventListener("change", listener), () => darkSystem.removeEventListener("change", listener)),
    () => darkSystem.matches,
  );
  return theme === "system" ? system : theme === "dark";
}

export function usePrefs(): Prefs {
  return useSyncExternalStore(
    (listener) => (listeners.add(listener), () => listeners.delete(listener)),
    () => prefs,
  );
}
