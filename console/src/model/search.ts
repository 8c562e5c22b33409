// Queries of the search in one control plane: words and terms such as kind:deploy ns:shop label:app=web.

import type { Resource } from "../api/resources";
import type { Meta } from "../api/types";

export interface SearchQuery {
  /** Part of the namespace, the name or a column; several must all occur. */
  words: string[];
  kinds: string[];
  namespace: string;
  labelSelector: string;
}

export function parseSearch(text: string): SearchQuery {
  const found: SearchQuery = { words: [], kinds: [], namespace: "", labelSelector: "" };
  const labels: string[] = [];
  for (const word of text.trim().split(/\s+/).filter(Boolean)) {
    const [, term = "", value = ""] = /^(kind|ns|namespace|label):(.*)$/i.exec(word) ?? [];
    switch (term.toLowerCase()) {
      case "kind":
        found.kinds.push(...value.toLowerCase().split(",").filter(Boolean));
        break;
      case "ns":
      case "namespace":
        found.namespace = value;
        break;
      case "label":
        if (value) labels.push(value);
        break;
      default:
        found.words.push(word.toLowerCase());
    }
  }
  return { ...found, labelSelector: labels.join(",") };
}

/** Something to search for: a query of one letter finds nearly everything. */
export const isSearchable = ({ words, kinds, namespace, labelSelector }: SearchQuery) => words.join("").length >= 2 || labelSelector !== "" || (kinds.length > 0 && (words.length > 0 || namespace !== "")) || kinds.some((kind) => kind.length >= 2);

const SKIPPED = /^(events|leases|endpointslices|endpoints|controllerrevisions|componentstatuses|apiservices)$/;
const SKIPPED_GROUPS = /^(search\.karmada\.io|.*metrics\.k8s\.io|flowcontrol\.apiserver\.k8s\.io)$/;

/** The kinds that a query is about. */
export function kindsFor(resources: Resource[], { kinds, namespace }: SearchQuery): Resource[] {
  const isWanted = (one: Resource) => kinds.length === 0 || kinds.some((kind) => [one.kind.toLowerCase(), one.plural, ...one.shortNames].some((name) => name === kind || (kind.length > 2 && name.startsWith(kind))));
  return resources.filter((one) => one.verbs.includes("list") && isWanted(one) && (namespace === "" || one.namespaced) && (kinds.length > 0 || (!SKIPPED.test(one.plural) && !SKIPPED_GROUPS.test(one.group))));
}

/** The longest word is looked for by the server; the others narrow what it finds. */
export function splitWords(words: string[]): { sent: string; others: string[] } {
  const sent = [...words].sort((a, b) => b.length - a.length)[0] ?? "";
  return { sent, others: words.filter((word) => word !== sent) };
}

export const textOfMeta = ({ namespace = "", name, labels }: Meta) => `${namespace}/${name} ${Object.entries(labels ?? {}).map(([key, value]) => `${key}=${value}`).join(" ")}`.toLowerCase();

/** Ways to complete the last word of a query. */
export function completionsOf(text: string, resources: Resource[], namespaces: string[]): string[] {
  const word = /\S*$/.exec(text)?.[0] ?? "";
  const before = text.slice(0, text.length - word.length);
  const [, term = "", value = ""] = /^(kind|ns):(.*)$/.exec(word) ?? [];
  const values = term === "kind" ? [...new Set(resources.map((one) => one.kind))] : term === "ns" ? namespaces : [];
  const found = term ? values.filter((one) => one.toLowerCase().startsWith(value.toLowerCase())).map((one) => `${term}:${one}`) : ["kind:", "ns:", "label:"].filter((one) => word !== "" && one.startsWith(word));
  return found.slice(0, 12).map((one) => before + one);
}
