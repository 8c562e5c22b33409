// The OpenAPI documents of the control plane: the schema of a kind, loaded once for each group and version.

import { getJson } from "../api/client";

export type Schema = {
  properties?: Record<string, Schema>;
  items?: Schema;
  $ref?: string;
  allOf?: Schema[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  description?: string;
  type?: string;
  format?: string;
  enum?: unknown[];
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: boolean;
  exclusiveMaximum?: boolean;
  multipleOf?: number;
  minItems?: number;
  maxItems?: number;
  uniqueItems?: boolean;
  minProperties?: number;
  maxProperties?: number;
  required?: string[];
  additionalProperties?: Schema | boolean;
  "x-kubernetes-group-version-kind"?: { group: string; version: string; kind: string }[];
  "x-kubernetes-preserve-unknown-fields"?: boolean;
  "x-kubernetes-int-or-string"?: boolean;
};

export type SchemaDocument = { components?: { schemas?: Record<string, Schema> }; missing?: boolean };

const documents = new Map<string, Promise<SchemaDocument>>();

/** `missing` when the control plane does not serve this version; empty when it did not answer. */
export function loadSchemas(apiVersion: string): Promise<SchemaDocument> {
  const path = `/openapi/v3/${apiVersion.includes("/") ? "apis" : "api"}/${apiVersion}`;
  let found = documents.get(path);
  if (!found) {
    found = getJson<SchemaDocument>(path).catch((error) => {
      // Another attempt may succeed.
      if (!error.notFound) documents.delete(path);
      return { missing: error.notFound };
    });
    documents.set(path, found);
  }
  return found;
}

export function schemaOfKind(document: SchemaDocument, kind: string): Schema | undefined {
  const schemas = Object.values(document.components?.schemas ?? {});
  return schemas.find((schema) => schema["x-kubernetes-group-version-kind"]?.some((one) => one.kind === kind));
}

export function resolveSchema(document: SchemaDocument, schema: Schema | undefined): Schema | undefined {
  const reference = schema?.$ref ?? schema?.allOf?.[0]?.$ref;
  const target = reference ? document.components?.schemas?.[reference.replace("#/components/schemas/", "")] : undefined;
  return target ? { ...target, description: schema?.description ?? target.description } : schema;
}
