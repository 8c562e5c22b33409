// Completion of field names from the OpenAPI documents of the control plane.

import type { CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { getJson } from "../api/client";

type Schema = { properties?: Record<string, Schema>; items?: Schema; $ref?: string; allOf?: Schema[]; description?: string; type?: string; enum?: string[]; additionalProperties?: Schema | boolean; "x-kubernetes-group-version-kind"?: { group: string; version: string; kind: string }[] };
type Document = { components?: { schemas?: Record<string, Schema> } };

const documents = new Map<string, Promise<Document>>();

function load(apiVersion: string): Promise<Document> {
  const path = `/openapi/v3/${apiVersion.includes("/") ? "apis" : "api"}/${apiVersion}`;
  let found = documents.get(path);
  if (!found) {
    found = getJson<Document>(path).catch(() => ({}));
    documents.set(path, found);
  }
  return found;
}

function resolve(document: Document, schema: Schema | undefined): Schema | undefined {
  const reference = schema?.$ref ?? schema?.allOf?.[0]?.$ref;
  const target = reference ? document.components?.schemas?.[reference.replace("#/components/schemas/", "")] : undefined;
  return target ? { ...target, description: schema?.description ?? target.description } : schema;
}

/** The keys that lead to the line at `position`, read from indentation. */
export function pathAt(text: string, position: number): string[] {
  const lines = text.slice(0, position).split("\n");
  const current = lines.pop() ?? "";
  let indent = /^[\s-]*/.exec(current)?.[0].length ?? 0;
  const path: string[] = [];
  for (const line of lines.reverse()) {
    if (/^(---|\.\.\.)/.test(line)) break;
    const match = /^([\s-]*)([\w./-]+):/.exec(line);
    if (!match || !match[2]) continue;
    const depth = match[1]?.length ?? 0;
    if (depth >= indent) continue;
    path.unshift(match[2]);
    // The key of a list item is at the level of its dash.
    const dash = (match[1] ?? "").indexOf("-");
    indent = dash < 0 ? depth : dash + 0.5;
    if (indent === 0) break;
  }
  return path;
}

function schemaAt(document: Document, schema: Schema | undefined, path: string[]): Schema | undefined {
  let at = resolve(document, schema);
  for (const key of path) {
    if (at?.type === "array" || at?.items) at = resolve(document, at.items);
    const extra = typeof at?.additionalProperties === "object" ? at.additionalProperties : undefined;
    at = resolve(document, at?.properties?.[key] ?? extra);
    if (!at) return undefined;
  }
  return at?.items ? resolve(document, at.items) : at;
}

/** The document of a stream in which `position` is. */
function documentAround(text: string, position: number): [string, number] {
  const start = text.lastIndexOf("\n---", position - 1);
  const from = start < 0 ? 0 : text.indexOf("\n", start + 1) + 1;
  const end = text.indexOf("\n---", position);
  return [text.slice(from, end < 0 ? undefined : end), position - from];
}

export async function completeFields(context: CompletionContext): Promise<CompletionResult | null> {
  const word = context.matchBefore(/[\w]*/);
  const line = context.state.doc.lineAt(context.pos);
  if (!/^[\s-]*\w*$/.test(line.text.slice(0, context.pos - line.from))) return null;
  if (!context.explicit && (!word || word.from === word.to)) return null;
  const [text, position] = documentAround(context.state.doc.toString(), context.pos);
  const apiVersion = /^apiVersion:\s*"?([\w./-]+)/m.exec(text)?.[1];
  const kind = /^kind:\s*"?(\w+)/m.exec(text)?.[1];
  if (!apiVersion || !kind) return null;
  const document = await load(apiVersion);
  const schemas = Object.values(document.components?.schemas ?? {});
  const root = schemas.find((schema) => schema["x-kubernetes-group-version-kind"]?.some((one) => one.kind === kind));
  const schema = schemaAt(document, root, pathAt(text, position));
  if (!schema?.properties) return null;
  return {
    from: word?.from ?? context.pos,
    options: Object.entries(schema.properties).map(([label, raw]) => {
      const field = resolve(document, raw);
      const nested = field?.properties || field?.items;
      return { label, type: "property", detail: field?.type, info: field?.description, apply: nested ? `${label}:` : `${label}: ` };
    }),
  };
}
