// Completion of field names from the OpenAPI documents of the control plane.

import type { CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { getJson } from "../api/client";
import { loadSchemas, resolveSchema, type Schema, type SchemaDocument, schemaOfKind } from "./schema";

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

function schemaAt(document: SchemaDocument, schema: Schema | undefined, path: string[]): Schema | undefined {
  let at = resolveSchema(document, schema);
  for (const key of path) {
    if (at?.type === "array" || at?.items) at = resolveSchema(document, at.items);
    const extra = typeof at?.additionalProperties === "object" ? at.additionalProperties : undefined;
    at = resolveSchema(document, at?.properties?.[key] ?? extra);
    if (!at) return undefined;
  }
  return at?.items ? resolveSchema(document, at.items) : at;
}

/** The document of a stream in which `position` is. */
function documentAround(text: string, position: number): [string, number] {
  const start = text.lastIndexOf("\n---", position - 1);
  const from = start < 0 ? 0 : text.indexOf("\n", start + 1) + 1;
  const end = text.indexOf("\n---", position);
  return [text.slice(from, end < 0 ? undefined : end), position - from];
}

let groupVersions: Promise<string[]> | undefined;

/** The versions that the control plane serves, as manifests name them. */
function loadVersions(): Promise<string[]> {
  groupVersions ??= getJson<{ paths?: Record<string, unknown> }>("/openapi/v3").then(
    ({ paths }) => Object.keys(paths ?? {}).flatMap((path) => /^(?:api|apis\/[^/]+)\/[^/]+$/.exec(path)?.[0].replace(/^apis?\//, "") ?? []),
    () => {
      groupVersions = undefined;
      return [];
    },
  );
  return groupVersions;
}

/** Values of apiVersion and kind, and of fields that allow only some. */
async function valuesAt(text: string, position: number, path: string[], key: string): Promise<string[]> {
  if (path.length === 0 && key === "apiVersion") return loadVersions();
  const apiVersion = /^apiVersion:\s*"?([\w./-]+)/m.exec(text)?.[1];
  if (!apiVersion) return [];
  const document = await loadSchemas(apiVersion);
  if (path.length === 0 && key === "kind") {
    const kinds = Object.values(document.components?.schemas ?? {}).filter((schema) => schema.properties?.metadata && !schema.properties.items);
    return kinds.flatMap((schema) => schema["x-kubernetes-group-version-kind"]?.map((one) => one.kind) ?? []);
  }
  const kind = /^kind:\s*"?(\w+)/m.exec(text)?.[1];
  const parent = kind ? schemaAt(document, schemaOfKind(document, kind), pathAt(text, position)) : undefined;
  const field = resolveSchema(document, parent?.properties?.[key]);
  return field?.type === "boolean" ? ["true", "false"] : (field?.enum ?? []).map(String);
}

async function completeValue(context: CompletionContext, before: string): Promise<CompletionResult | null> {
  const match = /^([\s-]*)(\w+):\s+([\w./-]*)$/.exec(before);
  if (!match) return null;
  const [text, position] = documentAround(context.state.doc.toString(), context.pos);
  const values = await valuesAt(text, position, pathAt(text, position), match[2]!);
  if (values.length === 0) return null;
  return { from: context.pos - match[3]!.length, options: [...new Set(values)].map((label) => ({ label, type: "enum" })), validFor: /^[\w./-]*$/ };
}

export async function completeFields(context: CompletionContext): Promise<CompletionResult | null> {
  const word = context.matchBefore(/[\w]*/);
  const line = context.state.doc.lineAt(context.pos);
  const before = line.text.slice(0, context.pos - line.from);
  if (!/^[\s-]*\w*$/.test(before)) return completeValue(context, before);
  if (!context.explicit && (!word || word.from === word.to)) return null;
  const [text, position] = documentAround(context.state.doc.toString(), context.pos);
  const apiVersion = /^apiVersion:\s*"?([\w./-]+)/m.exec(text)?.[1];
  const kind = /^kind:\s*"?(\w+)/m.exec(text)?.[1];
  if (!apiVersion || !kind) return { from: word?.from ?? context.pos, options: ["apiVersion", "kind"].map((label) => ({ label, type: "property", apply: `${label}: ` })) };
  const document = await loadSchemas(apiVersion);
  const schema = schemaAt(document, schemaOfKind(document, kind), pathAt(text, position));
  if (!schema?.properties) return null;
  return {
    from: word?.from ?? context.pos,
    options: Object.entries(schema.properties).map(([label, raw]) => {
      const field = resolveSchema(document, raw);
      const nested = field?.properties || field?.items;
      return { label, type: "property", detail: field?.type, info: field?.description, apply: nested ? `${label}:` : `${label}: ` };
    }),
  };
}
