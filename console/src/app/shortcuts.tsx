// Keyboard shortcuts: `g` and a letter to move, `/` to filter, `?` for help.

import { useEffect, useRef } from "react";
import { t } from "../i18n";
import { Dialog } from "../ui/parts";
import { places } from "./nav";

interface Actions {
  navigate: (path: string) => void;
  openPalette: () => void;
  openHelp: () => void;
}

const isTyping = (target: EventTarget | null) =>
  target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));

export function useShortcuts(actions: Actions) {
  const latest = useRef(actions);
  latest.current = actions;
  useEffect(() => {
    let goAt = 0;
    const onKey = (event: KeyboardEvent) => {
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        latest.current.openPalette();
        return;
      }
      if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
      const followsGo = Date.now() - goAt < 1_200;
      goAt = 0;
      if (followsGo) {
        const place = places.current.find((one) => one.key === event.key);
        if (place) latest.current.navigate(place.path);
      } else if (event.key === "g") goAt = Date.now();
      else if (event.key === "?") latest.current.openHelp();
      else if (event.key === "/") {
        const filter = document.querySelector<HTMLInputElement>("[data-filter]");
        if (!filter) return latest.current.openPalette();
        event.preventDefault();
        filter.focus();
      }
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
}

export function ShortcutHelp({ onClose }: { onClose: () => void }) {
  const moves = places.current.filter((one) => one.key).map((one) => [`g ${one.key}`, t(one.text)] as const);
  const general = [
    ["⌘K / Ctrl K", t("Search and commands")],
    ["/", t("Filter the list")],
    ["↑ ↓ Enter", t("Move in a list and open a row")],
    ["Esc", t("Close a dialog")],
    ["?", t("This list")],
  ] as const;
  return (
    <Dialog title={t("Keyboard shortcuts")} onClose={onClose}>
      <div className="grid2">
        {[general, moves].map((group, index) => (
          <dl className="kv" key={index}>
            {group.map(([keys, text]) => (
              <div key={keys} style={{ display: "contents" }}>
                <dt><span className="kbd">{keys}</span></dt>
                <dd>{text}</dd>
              </div>
            ))}
          </dl>
        ))}
      </div>
    </Dialog>
  );
}
