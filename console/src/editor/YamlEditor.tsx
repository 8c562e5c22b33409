// React components around the editor; both load its code when they are shown.

import { useEffect, useRef, useState } from "react";
import { t } from "../i18n";
import { Loading } from "../ui/parts";
import { completeFields } from "./completion";
import "./editor.css";

interface EditorProps {
  text: string;
  onChange?: (text: string) => void;
  readOnly?: boolean;
  label?: string;
  height?: string;
}

/** `text` is the initial text; a new text from outside replaces the content. */
export function YamlEditor({ text, onChange, readOnly, label = "YAML", height = "60vh" }: EditorProps) {
  const parent = useRef<HTMLDivElement>(null);
  const [ready, setReady] = useState(false);
  const view = useRef<{ destroy(): void; dispatch(change: object): void; state: { doc: { toString(): string; length: number } } }>(undefined);
  const latest = useRef(onChange);
  latest.current = onChange;
  const first = useRef(text);
  useEffect(() => {
    let ended = false;
    void import("./cm").then(({ openEditor }) => {
      if (ended || !parent.current) return;
      view.current = openEditor({ parent: parent.current, text: first.current, label, readOnly, onChange: (next) => latest.current?.(next), complete: completeFields });
      setReady(true);
    });
    return () => {
      ended = true;
      view.current?.destroy();
      view.current = undefined;
    };
  }, [readOnly, label]);
  useEffect(() => {
    first.current = text;
    const current = view.current;
    if (current && current.state.doc.toString() !== text) current.dispatch({ changes: { from: 0, to: current.state.doc.length, insert: text } });
  }, [text, ready]);
  return (
    <div className="editor" style={{ height }}>
      {!ready && <Loading text={t("Loading the editor…")} />}
      <div ref={parent} style={{ height: "100%" }} />
    </div>
  );
}

export function YamlDifference({ before, after, labels }: { before: string; after: string; labels: [string, string] }) {
  const parent = useRef<HTMLDivElement>(null);
  const [ready, setReady] = useState(false);
  useEffect(() => {
    let ended = false;
    let view: { destroy(): void } | undefined;
    void import("./cm").then(({ openDifference }) => {
      if (!ended && parent.current) view = openDifference(parent.current, before, after, labels);
      setReady(true);
    });
    return () => {
      ended = true;
      view?.destroy();
    };
  }, [before, after, labels[0], labels[1]]);
  return (
    <div className="stack tight">
      <div className="difference-head"><span>{labels[0]}</span><span>{labels[1]}</span></div>
      {!ready && before !== after && <Loading text={t("Loading the editor…")} />}
      {before === after ? <p className="muted" style={{ padding: 16 }}>{t("No difference")}</p> : <div className="editor" style={{ maxHeight: "60vh", overflow: "auto" }} ref={parent} />}
    </div>
  );
}
