// A command line in the browser. It knows a fixed set of commands and has exactly the rights of the user.

import { useEffect, useRef, useState } from "react";
import { useDiscovery } from "../../api/resources";
import { usePrefs } from "../../app/prefs";
import { t } from "../../i18n";
import { Loading, PageHead, Problem } from "../../ui/parts";
import { complete, runLine } from "./commands";
import "./shell.css";

interface Entry {
  id: number;
  line: string;
  output?: string;
  failed?: boolean;
}

const ENTRIES_MAX = 200;

/** They outlive a visit of another page. */
const memory = { entries: [] as Entry[], next: 1 };

export default function Shell() {
  const discovery = useDiscovery();
  const { namespace } = usePrefs();
  const [entries, setEntries] = useState(memory.entries);
  const [text, setText] = useState("");
  const [at, setAt] = useState(-1);
  const [hint, setHint] = useState("");
  const end = useRef<HTMLDivElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const around = { resources: discovery.data ?? [], namespace };
  useEffect(() => {
    end.current?.scrollIntoView({ block: "end" });
  }, [entries]);
  const change = (update: (before: Entry[]) => Entry[]) => {
    memory.entries = update(memory.entries).slice(-ENTRIES_MAX);
    setEntries(memory.entries);
  };
  const run = async (line: string) => {
    setText("");
    setAt(-1);
    setHint("");
    if (line.trim() === "clear") return change(() => []);
    const id = memory.next++;
    change((before) => [...before, { id, line }]);
    const finish = (output: string, failed: boolean) => change((before) => before.map((one) => (one.id === id ? { ...one, output, failed } : one)));
    try {
      finish(await runLine(line, around), false);
    } catch (error) {
      finish((error as Error).message, true);
    }
  };
  const past = [...entries].reverse();
  const recall = (step: number) => {
    const next = Math.min(Math.max(at + step, -1), past.length - 1);
    setAt(next);
    setText(next < 0 ? "" : past[next]!.line);
  };
  const onKey = (event: React.KeyboardEvent) => {
    if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      event.preventDefault();
      recall(event.key === "ArrowUp" ? 1 : -1);
    } else if (event.key === "Tab" && !event.shiftKey && text) {
      const found = complete(text, around);
      if (found.length === 0) return;
      event.preventDefault();
      if (found.length === 1) setText(`${text.replace(/\S*$/, "")}${found[0]} `);
      setHint(found.length === 1 ? "" : found.slice(0, 30).join("  "));
    }
  };
  return (
    <>
      <PageHead title={t("Command line")} />
      {discovery.isPending ? <Loading /> : discovery.error ? <section className="card"><Problem error={discovery.error} retry={() => void discovery.refetch()} /></section> : (
        <section className="card console">
          <div className="console-out" role="log" aria-label={t("Output")} tabIndex={0}>
            {entries.length === 0 && <p className="muted">{t("Commands of kubectl and flotilla, run in this browser with your permissions: get, describe, why, scale, cordon and more. Type help for the full list.")}</p>}
            {entries.map((entry) => (
              <div key={entry.id}>
                <div className="console-line"><span aria-hidden="true">$ </span>{entry.line}</div>
                {entry.output === undefined ? <span className="muted">…</span> : <pre className={entry.failed ? "failed" : ""}>{entry.failed && <span className="sr">{t("failed")}: </span>}{entry.output}</pre>}
              </div>
            ))}
            <div ref={end} />
          </div>
          {hint && <div className="console-hint" role="status">{hint}</div>}
          <form className="console-in" onSubmit={(event) => { event.preventDefault(); if (text.trim()) void run(text.trim()); }}>
            <span aria-hidden="true">$</span>
            <input ref={input} autoFocus aria-label={t("Command")} placeholder="get deployments -A" spellCheck={false} autoComplete="off" autoCapitalize="off" value={text} onChange={(event) => setText(event.target.value)} onKeyDown={onKey} />
          </form>
        </section>
      )}
    </>
  );
}
