// Reads a line as kubectl would: words, quotes and options.

export interface CommandLine {
  words: string[];
  options: Map<string, string>;
}

/** Options without a value. */
const SWITCHES = new Set(["A", "all-namespaces", "yes", "y", "previous", "p", "watch", "w", "show-labels", "help", "h"]);
const LONG: Record<string, string> = { n: "namespace", A: "all-namespaces", l: "selector", o: "output", C: "cluster", c: "container", y: "yes", p: "previous", h: "help", "operation-scope": "operation-scope" };

export function splitWords(line: string): string[] {
  const words: string[] = [];
  let word = "";
  let quote = "";
  let begun = false;
  for (const char of line) {
    if (quote) {
      if (char === quote) quote = "";
      else word += char;
    } else if (char === '"' || char === "'") {
      quote = char;
      begun = true;
    } else if (/\s/.test(char)) {
      if (begun || word) words.push(word);
      word = "";
      begun = false;
    } else word += char;
  }
  if (quote) throw new Error(`the quote ${quote} is not closed`);
  if (begun || word) words.push(word);
  return words;
}

export function parseLine(line: string): CommandLine {
  const words: string[] = [];
  const options = new Map<string, string>();
  const all = splitWords(line);
  if (["kubectl", "flotilla", "karmadactl"].includes(all[0] ?? "")) all.shift();
  for (let index = 0; index < all.length; index++) {
    const word = all[index]!;
    const match = /^(--?)([A-Za-z][\w-]*)(?:=(.*))?$/s.exec(word);
    if (!match) {
      words.push(word);
      continue;
    }
    const [, dashes, name = "", value] = match;
    // -nkube-system and -oyaml
    const glued = dashes === "-" && name.length > 1 && value === undefined && !SWITCHES.has(name);
    const key = glued ? name[0]! : name;
    const long = LONG[key] ?? key;
    if (value !== undefined) options.set(long, value);
    else if (glued) options.set(long, name.slice(1));
    else if (SWITCHES.has(key)) options.set(long, "true");
    else {
      const next = all[++index];
      if (next === undefined) throw new Error(`the option ${word} needs a value`);
      options.set(long, next);
    }
  }
  return { words, options };
}

/** Columns of equal width, as kubectl prints them. */
export function columns(rows: string[][]): string {
  const widths = rows.reduce<number[]>((all, row) => row.map((cell, index) => Math.max(all[index] ?? 0, cell.length)), []);
  return rows.map((row) => row.map((cell, index) => (index === row.length - 1 ? cell : cell.padEnd(widths[index]! + 3))).join("").trimEnd()).join("\n");
}
