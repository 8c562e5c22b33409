// Limits of values in OpenAPI schemas: patterns, lengths, ranges and numbers of items.

import { t } from "../i18n";
import type { Schema } from "./schema";

const patterns = new Map<string, RegExp | undefined>();

/** The control plane has another dialect of expressions; one that the browser does not know is left to it. */
function compiled(pattern: string): RegExp | undefined {
  if (!patterns.has(pattern)) {
    let found: RegExp | undefined;
    for (const flags of ["u", ""]) {
      try {
        found ??= new RegExp(pattern, flags);
      } catch {
        // The other flags may fit.
      }
    }
    patterns.set(pattern, found);
  }
  return patterns.get(pattern);
}

/** The limit that a text or number does not keep, in words. */
export function scalarLimit(schema: Schema, value: unknown): string | undefined {
  if (typeof value === "string") return textLimit(schema, value);
  if (typeof value === "number" || typeof value === "bigint") return numberLimit(schema, Number(value));
  return undefined;
}

function textLimit({ minLength, maxLength, pattern }: Schema, value: string): string | undefined {
  const length = [...value].length;
  if (minLength !== undefined && length < minLength) return t("at least {count} characters are needed", { count: minLength });
  if (maxLength !== undefined && length > maxLength) return t("at most {count} characters are allowed", { count: maxLength });
  if (pattern && compiled(pattern)?.test(value) === false) return t("must match {pattern}", { pattern });
  return undefined;
}

function numberLimit({ minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf }: Schema, value: number): string | undefined {
  if (minimum !== undefined && (exclusiveMinimum ? value <= minimum : value < minimum)) return exclusiveMinimum ? t("must be more than {limit}", { limit: minimum }) : t("must be at least {limit}", { limit: minimum });
  if (maximum !== undefined && (exclusiveMaximum ? value >= maximum : value > maximum)) return exclusiveMaximum ? t("must be less than {limit}", { limit: maximum }) : t("must be at most {limit}", { limit: maximum });
  if (multipleOf && value % multipleOf !== 0) return t("must be a multiple of {limit}", { limit: multipleOf });
  return undefined;
}

/** The limit that a list does not keep. */
export function itemLimit({ minItems, maxItems, uniqueItems }: Schema, items: unknown[]): string | undefined {
  if (minItems !== undefined && items.length < minItems) return t("at least {count} items are needed", { count: minItems });
  if (maxItems !== undefined && items.length > maxItems) return t("at most {count} items are allowed", { count: maxItems });
  if (uniqueItems && new Set(items.map((item) => JSON.stringify(item))).size < items.length) return t("items must be unique");
  return undefined;
}

/** The limit that a map does not keep. */
export function mapLimit({ minProperties, maxProperties }: Schema, count: number): string | undefined {
  if (minProperties !== undefined && count < minProperties) return t("at least {count} entries are needed", { count: minProperties });
  if (maxProperties !== undefined && count > maxProperties) return t("at most {count} entries are allowed", { count: maxProperties });
  return undefined;
}
