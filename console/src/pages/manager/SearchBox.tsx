// The box of the search over instances: it completes terms, their values and names while a query is typed.

import { useQuery } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { type ApiError, getJson, query } from "../../api/client";
import { MANAGER, useInstances } from "../../api/manager";
import { t } from "../../i18n";
import { useSettled } from "../../ui/settled";

interface Completion {
  text: string;
  hint: string;
}

const SHOWN_MAX = 10;
const SUGGEST_MIN = 2;

const TERMS = (): Completion[] => [
  { text: "kind:", hint: t("Kinds, such as deploy or Service") },
  { text: "name~", hint: t("Part of the name") },
  { text: "name:", hint: t("The name, also with *") },
  { text: "ns:", hint: t("Namespaces") },
  { text: "instance:", hint: t("Instances") },
  { text: "cluster:", hint: t("Clusters, also with *") },
  { text: "label:", hint: t("A label, such as app=web") },
  { text: "field:", hint: t("A field, such as status.phase!=Running") },
  { text: "owner:", hint: t("The owner, as KIND/NAME") },
  { text: "age<", hint: t("Younger than, such as 2h") },
  { text: "age>", hint: t("Older than, such as 7d") },
  { text: "created>", hint: t("Created after a day") },
  { text: "sort:", hint: t("Order, such as -created") },
];

const SORTS = ["name", "namespace", "kind", "instance", "cluster", "created", "-created"];

/** The word that ends at the cursor. */
const wordAt = (text: string, at: number) => /\S*$/.exec(text.slice(0, at))?.[0] ?? "";

interface Known {
  kinds: string[];
  namespaces: string[];
  clusters: string[];
}

function valuesOf(key: string, { kinds, namespaces, clusters }: Known, instances: string[]): string[] {
  switch (key) {
    case "kind":
      return kinds;
    case "ns":
    case "namespace":
      return namespaces;
    case "instance":
      return instances;
    case "cluster":
      return clusters;
    case "sort":
      return SORTS;
    default:
      return [];
  }
}

/** Names of objects that contain a word. */
function useNames(word: string): Completion[] {
  const isPlain = word.length >= SUGGEST_MIN && !/[:~<>=]/.test(word);
  const found = useQuery<{ suggestions?: { instance: string; kind: string; namespace: string; name: string }[] }, ApiError>({
    queryKey: ["suggest", word],
    queryFn: () => getJson(`${MANAGER}/search:suggest${query({ text: word, limit: SHOWN_MAX })}`),
    enabled: isPlain,
    retry: false,
  });
  const names = new Map<string, string>();
  for (const { name, kind, namespace, instance } of (isPlain && found.data?.suggestions) || []) if (!names.has(name)) names.set(name, [kind, namespace, instance].filter(Boolean).join(" · "));
  return [...names].map(([name, hint]) => ({ text: `name:${name}`, hint }));
}

function useCompletions(word: string, known: Known): Completion[] {
  const instances = useInstances().items.map((one) => one.name);
  const names = useNames(useSettled(word, 200));
  if (word === "") return [];
  const term = /^(\w+)([:~])(.*)$/.exec(word);
  if (!term) return [...TERMS().filter((one) => one.text.startsWith(word.toLowerCase())), ...names].slice(0, SHOWN_MAX);
  const [, key = "", operator = "", typed = ""] = term;
  // Several values are separated by commas; the last is completed.
  const before = typed.slice(0, typed.lastIndexOf(",") + 1);
  const part = typed.slice(before.length).toLowerCase();
  const values = valuesOf(key, known, instances).filter((value) => value.toLowerCase().includes(part) && value.toLowerCase() !== part);
  return values.slice(0, SHOWN_MAX).map((value) => ({ text: `${key}${operator}${before}${value}`, hint: "" }));
}

export function SearchBox({ value, known, onChange }: { value: string; known: Known; onChange: (text: string) => void }) {
  const input = useRef<HTMLInputElement>(null);
  const [at, setAt] = useState(0);
  const [chosen, setChosen] = useState(0);
  const [isOpen, setOpen] = useState(false);
  const word = wordAt(value, at);
  const completions = useCompletions(isOpen ? word : "", known);
  const shown = isOpen && completions.length > 0;
  const active = Math.min(chosen, completions.length - 1);
  const take = (index: number) => {
    const completion = completions[index];
    if (!completion) return;
    const isComplete = !/[:~<>]$/.test(completion.text);
    const text = `${value.slice(0, at - word.length)}${completion.text}${isComplete ? " " : ""}`;
    onChange(text + value.slice(at).replace(/^ /, isComplete ? "" : " "));
    setAt(text.length);
    setChosen(0);
    requestAnimationFrame(() => input.current?.setSelectionRange(text.length, text.length));
  };
  const onKeyDown = (event: React.KeyboardEvent) => {
    if (!shown) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") setChosen((active + (event.key === "ArrowDown" ? 1 : completions.length - 1)) % completions.length);
    else if (event.key === "Tab" && !event.shiftKey) take(active);
    else if (event.key === "Enter") take(active);
    else if (event.key === "Escape") setOpen(false);
    else return;
    event.preventDefault();
  };
  return (
    <div className="completing">
      <input
        ref={input}
        className="input"
        data-filter
        type="search"
        role="combobox"
        aria-expanded={shown}
        aria-controls="search-completions"
        aria-autocomplete="list"
        aria-activedescendant={shown ? `completion-${active}` : undefined}
        autoFocus
        autoComplete="off"
        spellCheck={false}
        aria-label={t("Search")}
        placeholder={t("Name, or terms such as kind:deploy label:app=web")}
        value={value}
        onChange={(event) => { onChange(event.target.value); setAt(event.target.selectionStart ?? event.target.value.length); setChosen(0); setOpen(true); }}
        onSelect={(event) => setAt(event.currentTarget.selectionStart ?? 0)}
        onKeyDown={onKeyDown}
        onBlur={() => setOpen(false)}
      />
      <ul id="search-completions" role="listbox" aria-label={t("Completions")} hidden={!shown}>
        {shown && completions.map((one, index) => (
          <li key={one.text} id={`completion-${index}`} role="option" aria-selected={index === active} onPointerDown={(event) => { event.preventDefault(); take(index); }}>
            <code>{one.text}</code>
            <span className="small muted ellipsis">{one.hint}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
