// The YAML editor and the difference view, loaded when they are first shown.

import { autocompletion, type CompletionSource } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, foldGutter, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, linter } from "@codemirror/lint";
import { MergeView } from "@codemirror/merge";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { parseAllDocuments } from "yaml";
import { schemaProblems } from "./validation";

const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--c1)" },
  { tag: [tags.string, tags.content], color: "var(--c2)" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: "var(--c4)" },
  { tag: [tags.comment, tags.meta], color: "var(--text-3)", fontStyle: "italic" },
  { tag: [tags.punctuation, tags.separator], color: "var(--text-3)" },
]);

const theme = EditorView.theme({
  "&": { backgroundColor: "var(--surface)", color: "var(--text)", fontSize: "13px", height: "100%" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-gutters": { backgroundColor: "var(--surface-2)", color: "var(--text-3)", border: "0", borderRight: "1px solid var(--border)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--accent) 7%, transparent)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--accent-soft) !important" },
  ".cm-panels, .cm-tooltip": { backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--border)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent-soft)", color: "var(--text)" },
  ".cm-deletedChunk, .cm-merge-a .cm-changedLine": { backgroundColor: "var(--bad-soft)" },
  ".cm-merge-b .cm-changedLine": { backgroundColor: "var(--ok-soft)" },
  ".cm-merge-a .cm-changedText": { background: "color-mix(in srgb, var(--bad) 25%, transparent)" },
  ".cm-merge-b .cm-changedText": { background: "color-mix(in srgb, var(--ok) 25%, transparent)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
});

const base = (label: string): Extension[] => [
  lineNumbers(), foldGutter(), drawSelection(), bracketMatching(), highlightSelectionMatches(), yaml(),
  syntaxHighlighting(colours), theme, EditorView.lineWrapping, EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
  nonce ? EditorView.cspNonce.of(nonce) : [],
  keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap]),
];

const yamlErrors = linter((view): Diagnostic[] => {
  const text = view.state.doc.toString();
  return parseAllDocuments(text).flatMap((document) =>
    document.errors.map((error) => {
      const from = Math.min(error.pos[0], text.length);
      return { from, to: Math.min(Math.max(error.pos[1], from), text.length), severity: "error" as const, message: error.message.split("\n")[0] ?? "" };
    }),
  );
});

/** Fields and values that the control plane does not know. */
const schemaErrors = linter((view): Promise<Diagnostic[]> => schemaProblems(view.state.doc.toString()), { delay: 600 });

export interface EditorOptions {
  parent: HTMLElement;
  text: string;
  label: string;
  readOnly?: boolean;
  onChange?: (text: string) => void;
  complete?: CompletionSource;
}

export function openEditor({ parent, text, label, readOnly, onChange, complete }: EditorOptions): EditorView {
  const writable: Extension[] = [
    history(), indentOnInput(), highlightActiveLine(), yamlErrors, schemaErrors, lintGutter(), keymap.of([indentWithTab]),
    autocompletion(complete ? { override: [complete] } : {}),
    EditorView.updateListener.of((update) => update.docChanged && onChange?.(update.state.doc.toString())),
  ];
  const fixed: Extension[] = [EditorState.readOnly.of(true), EditorView.editable.of(false)];
  return new EditorView({ parent, state: EditorState.create({ doc: text, extensions: [base(label), readOnly ? fixed : writable] }) });
}

export function openDifference(parent: HTMLElement, before: string, after: string, labels: [string, string]): MergeView {
  const fixed = [EditorState.readOnly.of(true), EditorView.editable.of(false)];
  return new MergeView({
    parent,
    a: { doc: before, extensions: [base(labels[0]), fixed] },
    b: { doc: after, extensions: [base(labels[1]), fixed] },
    collapseUnchanged: { margin: 3, minSize: 6 },
    gutter: true,
  });
}
