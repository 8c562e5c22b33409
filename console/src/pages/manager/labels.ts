// Labels as one line of text.

/** Labels of `a=b, c=d`; a word without `=` has an empty value. */
export function parseLabels(text: string): Record<string, string> {
  const pairs = text.split(/[\s,]+/).filter(Boolean).map((word) => word.split("=", 2));
  return Object.fromEntries(pairs.map(([key = "", value = ""]) => [key, value]));
}

export const labelsText = (labels: Record<string, string> = {}) => Object.entries(labels).map(([key, value]) => `${key}=${value}`).join(", ");
