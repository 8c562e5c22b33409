// Reads a line as kubectl would: words, quotes and the options of the command. What a command does not take is refused.

import { findOption, optionOf, type OptionName } from "./options";

export interface CommandLine {
  /** The words after the command. */
  words: string[];
  options: Map<OptionName, string>;
}

/** The command at the beginning of some words, and how many of them name it. */
export type Lookup = (words: string[]) => { name: string; length: number; options: readonly OptionName[] };

/** Options that may stand in front of the command. */
const LEADING: readonly OptionName[] = ["namespace", "cluster", "operation-scope", "all-namespaces", "help"];

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

/** The words of a line without the name of the program. */
export function wordsOf(line: string): string[] {
  const words = splitWords(line);
  return ["kubectl", "flotilla", "karmadactl"].includes(words[0] ?? "") ? words.slice(1) : words;
}

/** An option as it was written: its name, and its value when that is part of the same word. */
interface Written {
  name: OptionName;
  text: string;
  value?: string;
}

/** The options of a word: `--name`, `--name=value`, or letters such as -A, -nkube-system and -Aoyaml. */
function written(word: string, taken: readonly OptionName[], refuse: (text: string) => never): Written[] {
  if (word.startsWith("--")) {
    const equals = word.indexOf("=");
    const text = equals < 0 ? word : word.slice(0, equals);
    const name = text.length > 3 ? findOption(taken, text.slice(2)) : undefined;
    return name ? [{ name, text, value: equals < 0 ? undefined : word.slice(equals + 1) }] : refuse(text);
  }
  const found: Written[] = [];
  for (let at = 1; at < word.length; at++) {
    const text = `-${word[at]}`;
    const name = findOption(taken, word[at]!) ?? refuse(word.length > 2 ? `${text} in ${word}` : text);
    const rest = word.slice(at + 1);
    if (optionOf(name).value === undefined && !rest.startsWith("=")) {
      found.push({ name, text });
      continue;
    }
    return [...found, { name, text, value: rest ? rest.replace(/^=/, "") : undefined }];
  }
  return found;
}

/** The value of an option, as it is meant: `undefined` for a switch that is off. */
function valueOf({ name, text, value }: Written): string | undefined {
  const { value: wanted, choices } = optionOf(name);
  if (wanted === undefined) {
    if (value === undefined || value === "true") return "true";
    if (value === "false") return undefined;
    throw new Error(`${text} is true or false, not ${value || "empty"}`);
  }
  if (!value) throw new Error(`the option ${text} needs a value`);
  if (choices && !choices.includes(value)) throw new Error(`${text} is ${choices.join(", ").replace(/, ([^,]*)$/, " or $1")}, not ${value}`);
  return value;
}

export function parseLine(line: string, lookup: Lookup): CommandLine & { command: string } {
  const all = wordsOf(line);
  const words: string[] = [];
  const given: Written[] = [];
  const take = (from: string[], taken: readonly OptionName[], refuse: (text: string) => never): string | undefined => {
    const word = from.shift()!;
    if (!/^-./.test(word)) return word;
    const options = written(word, taken, refuse);
    const last = options.at(-1);
    if (last && last.value === undefined && optionOf(last.name).value !== undefined) last.value = optionOf(last.name).bare ?? from.shift();
    given.push(...options);
    return undefined;
  };
  const early = (text: string): never => {
    throw new Error(`${text} cannot stand in front of the command`);
  };
  while (all[0]?.startsWith("-")) take(all, LEADING, early);
  const { name: command, length, options: taken } = lookup(all);
  all.splice(0, length);
  const refuse = (text: string): never => {
    throw new Error(`${command} has no option ${text}; ${command} --help lists what it takes`);
  };
  for (const { name, text } of given) if (!taken.includes(name)) refuse(text);
  while (all.length > 0) {
    if (all[0] === "--") {
      words.push(...all.splice(0).slice(1));
      break;
    }
    const word = take(all, taken, refuse);
    if (word !== undefined) words.push(word);
  }
  const options = new Map<OptionName, string>();
  for (const one of given) {
    const value = valueOf(one);
    if (value === undefined) options.delete(one.name);
    else options.set(one.name, value);
  }
  return { command, words, options };
}

/** Columns of equal width, as kubectl prints them. */
export function columns(rows: string[][]): string {
  const widths = rows.reduce<number[]>((all, row) => row.map((cell, index) => Math.max(all[index] ?? 0, cell.length)), []);
  return rows.map((row) => row.map((cell, index) => (index === row.length - 1 ? cell : cell.padEnd(widths[index]! + 3))).join("").trimEnd()).join("\n");
}
