// Checks manifests against the OpenAPI documents of the control plane while they are typed.

import { isMap, isScalar, isSeq, type Node, type Pair, parseAllDocuments, type Scalar, type YAMLMap } from "yaml";
import { msg, t } from "../i18n";
import { itemLimit, mapLimit, scalarLimit } from "./limits";
import { loadSchemas, resolveSchema, type Schema, type SchemaDocument, schemaOfKind } from "./schema";

export interface SchemaProblem {
  from: number;
  to: number;
  severity: "error" | "warning";
  message: string;
}

/** Problems shown at once. */
const PROBLEMS_MAX = 50;

export async function schemaProblems(text: string): Promise<SchemaProblem[]> {
  const found: SchemaProblem[] = [];
  for (const document of parseAllDocuments(text)) {
    const root = document.contents;
    // What is not YAML is reported as such.
    if (document.errors.length > 0 || !root) continue;
    if (!isMap(root)) {
      found.push(problem(root, t("A manifest is an object with apiVersion, kind and metadata")));
      continue;
    }
    found.push(...(await documentProblems(root)));
  }
  return found.slice(0, PROBLEMS_MAX);
}

async function documentProblems(root: YAMLMap): Promise<SchemaProblem[]> {
  const [apiVersion, kind] = [root.get("apiVersion"), root.get("kind")];
  for (const [field, value] of [["apiVersion", apiVersion], ["kind", kind]] as const) {
    if (typeof value !== "string" || !value) return [problem(firstKey(root), t("{field} is missing", { field }))];
  }
  const document = await loadSchemas(String(apiVersion));
  if (document.missing) return [problem(root.get("apiVersion", true) as Node, t("The control plane does not serve {name}", { name: String(apiVersion) }))];
  if (!document.components) return [];
  const schema = schemaOfKind(document, String(kind));
  if (!schema) return [problem(root.get("kind", true) as Node, t("{name} has no kind {kind}", { name: String(apiVersion), kind: String(kind) }))];
  return check(document, schema, root, "");
}

const firstKey = (map: YAMLMap): Node => (map.items[0]?.key as Node | undefined) ?? map;

function problem(node: Node, message: string, severity: SchemaProblem["severity"] = "error"): SchemaProblem {
  const [from = 0, to = from] = node.range ?? [];
  return { from, to: Math.max(to, from), severity, message };
}

/** The schema allows more than one type, or anything. */
const isOpen = (schema: Schema) => Boolean(schema.oneOf || schema.anyOf || schema["x-kubernetes-int-or-string"] || schema.format === "int-or-string" || (!schema.type && !schema.properties && !schema.items));

function check(document: SchemaDocument, raw: Schema | undefined, node: unknown, path: string): SchemaProblem[] {
  const schema = resolveSchema(document, raw);
  if (!schema) return [];
  // Where several types are allowed, limits still hold for values of their type.
  if (isOpen(schema)) return isScalar(node) ? beyond(node, path, scalarLimit(schema, node.value)) : [];
  if (isMap(node)) return checkMap(document, schema, node, path);
  if (isSeq(node)) {
    if (schema.type && schema.type !== "array") return [wrongType(node, path, schema.type)];
    return [...beyond(node, path, itemLimit(schema, node.toJSON())), ...node.items.flatMap((item, index) => check(document, schema.items, item, `${path}[${index}]`))];
  }
  return isScalar(node) ? checkScalar(schema, node, path) : [];
}

function checkMap(document: SchemaDocument, schema: Schema, map: YAMLMap, path: string): SchemaProblem[] {
  if (schema.type && schema.type !== "object") return [wrongType(map, path, schema.type)];
  const { properties, additionalProperties } = schema;
  const takesMore = !properties || additionalProperties === true || schema["x-kubernetes-preserve-unknown-fields"];
  const found: SchemaProblem[] = beyond(firstKey(map), path, mapLimit(schema, map.items.length));
  for (const pair of map.items as Pair<Node, Node>[]) {
    const key = String(isScalar(pair.key) ? pair.key.value : pair.key);
    const at = path ? `${path}.${key}` : key;
    const child = properties?.[key] ?? (typeof additionalProperties === "object" ? additionalProperties : undefined);
    if (child) found.push(...check(document, child, pair.value, at));
    else if (!takesMore && key !== "<<") found.push(problem(pair.key, unknownField(at, key, Object.keys(properties ?? {}))));
  }
  for (const name of schema.required ?? []) {
    if (!map.has(name)) found.push(problem(firstKey(map), t("{field} is missing", { field: path ? `${path}.${name}` : name }), "warning"));
  }
  return found;
}

function unknownField(path: string, key: string, known: string[]): string {
  const near = known.find((one) => one.toLowerCase() === key.toLowerCase()) ?? known.find((one) => distance(one.toLowerCase(), key.toLowerCase()) <= 2);
  return near ? t("unknown field {field}; did you mean {near}?", { field: path, near }) : t("unknown field {field}", { field: path });
}

/** Letters to change, add or remove to get from one word to the other. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    row = next;
  }
  return row[b.length]!;
}

const NAMES: Record<string, string> = { string: msg("a string"), integer: msg("an integer"), number: msg("a number"), boolean: msg("a boolean"), object: msg("an object"), array: msg("an array") };

const wrongType = (node: Node, path: string, type: string) => problem(node, t("{field} must be {type}", { field: path, type: t(NAMES[type] ?? type) }));

function checkScalar(schema: Schema, node: Scalar, path: string): SchemaProblem[] {
  const { value } = node;
  // Without a value a field is as if it were not there.
  if (value === null || value === undefined) return [];
  const fits: Record<string, boolean> = { string: typeof value === "string", integer: Number.isInteger(value) || typeof value === "bigint", number: typeof value === "number", boolean: typeof value === "boolean" };
  if (schema.type && !(fits[schema.type] ?? false)) return [wrongType(node, path, schema.type)];
  if (schema.enum && !schema.enum.includes(value)) return [problem(node, t("{field} must be one of {values}", { field: path, values: schema.enum.join(", ") }))];
  return beyond(node, path, scalarLimit(schema, value));
}

const beyond = (node: Node, path: string, limit: string | undefined): SchemaProblem[] => (limit ? [problem(node, `${path}: ${limit}`)] : []);
