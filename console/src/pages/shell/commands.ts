// Commands of the console's command line. They call the API with the rights of the user; no program runs on the server.

import { cordon, mark, patch, remove, restart, scale, taint } from "./change";
import { optionOf, type OptionName, spelling } from "./options";
import { type CommandLine, columns, type Lookup, parseLine, wordsOf } from "./parse";
import { apiResources, canI, describe, failover, get, logs, version, whoAmI, why } from "./read";
import type { Surroundings } from "./target";

export interface Command {
  /** What follows its name, without options. */
  words: string;
  help: string;
  /** The options it takes, besides --help. */
  options: OptionName[];
  run: (line: CommandLine, around: Surroundings) => Promise<string>;
}

const command = (words: string, options: OptionName[], help: string, run: Command["run"]): Command => ({ words, options, help, run });

export const COMMANDS: Record<string, Command> = {
  get: command("KIND [NAME]", ["namespace", "all-namespaces", "selector", "field-selector", "output", "show-labels", "operation-scope", "cluster"], "List objects, or show one; with -C in a member cluster", get),
  describe: command("KIND NAME", ["namespace", "operation-scope", "cluster"], "Show an object with its events", describe),
  logs: command("POD -C CLUSTER", ["cluster", "operation-scope", "namespace", "container", "tail", "previous", "timestamps"], "Print the log of a pod", logs),
  why: command("KIND NAME", ["namespace"], "Explain where an object is and why", why),
  "failover simulate": command("CLUSTER", [], "Simulate a cluster failure", failover),
  scale: command("KIND NAME --replicas N", ["replicas", "namespace", "dry-run"], "Set the number of replicas", scale),
  "rollout restart": command("KIND NAME", ["namespace", "dry-run"], "Restart the pods of a workload", restart),
  label: command("KIND NAME key=value | key-", ["overwrite", "namespace", "dry-run"], "Set or remove labels", mark("labels")),
  annotate: command("KIND NAME key=value | key-", ["overwrite", "namespace", "dry-run"], "Set or remove annotations", mark("annotations")),
  patch: command("KIND NAME --patch JSON", ["patch", "type", "namespace", "dry-run"], "Change fields of an object", patch),
  delete: command("KIND NAME --yes", ["yes", "namespace", "operation-scope", "cluster", "dry-run"], "Delete an object", remove),
  cordon: command("CLUSTER", ["dry-run"], "Send no new workloads to a cluster", cordon(true)),
  uncordon: command("CLUSTER", ["dry-run"], "Send workloads to a cluster again", cordon(false)),
  taint: command("CLUSTER key=value:EFFECT[-]", ["overwrite", "dry-run"], "Add or remove a taint; NoExecute evicts", taint),
  "auth whoami": command("", [], "Show who you are", whoAmI),
  "auth can-i": command("VERB KIND[/NAME]", ["namespace", "all-namespaces"], "Show whether you may do something", canI),
  "api-resources": command("", [], "List all kinds", apiResources),
  version: command("", [], "Show the version of the control plane", version),
  help: command("[COMMAND]", [], "List the commands, or explain one", async ({ words }) => (words.length > 0 ? explain(lookup(words, words.length).name) : listCommands())),
};

const OTHER_NAMES: Record<string, string> = { failover: "failover simulate" };

const usage = (name: string) => `${name} ${COMMANDS[name]!.words}`.trim();

const listCommands = () => `${columns(Object.entries(COMMANDS).map(([name, { help }]) => [usage(name), help]))}\n\nCOMMAND --help lists the options of a command; other options are refused.`;

function explain(name: string): string {
  const { help, options } = COMMANDS[name]!;
  const lines = options.map((one) => [`  ${spelling(one)}`, optionOf(one).help]);
  return [usage(name), help, ...(lines.length > 0 ? ["", columns(lines)] : [])].join("\n");
}

/** The command that the words begin with; `length` is how many words may belong to its name. */
function lookup(words: string[], length = 2): { name: string; length: number } {
  for (const count of [2, 1].filter((one) => one <= length)) {
    const text = words.slice(0, count).join(" ");
    const name = OTHER_NAMES[text] ?? text;
    if (Object.hasOwn(COMMANDS, name)) return { name, length: count };
  }
  const first = words[0] ?? "";
  const longer = Object.keys(COMMANDS).filter((name) => name.startsWith(`${first} `));
  if (first && longer.length > 0) throw new Error(`use ${longer.map(usage).join(" or ")}`);
  throw new Error(first ? `${first} is not a command here; help lists them` : "write a command; help lists them");
}

const lookupWithOptions: Lookup = (words) => {
  const found = words.length > 0 ? lookup(words) : { name: "help", length: 0 };
  return { ...found, options: [...COMMANDS[found.name]!.options, "help"] };
};

export async function runLine(text: string, around: Surroundings): Promise<string> {
  const { command: name, ...line } = parseLine(text, lookupWithOptions);
  if (line.options.has("help")) return name === "help" ? listCommands() : explain(name);
  return COMMANDS[name]!.run(line, around);
}

/** Commands whose first word is not a kind. */
const WITHOUT_KIND = new Set(["logs", "cordon", "uncordon", "taint", "failover simulate", "failover", "auth whoami", "auth can-i", "auth", "api-resources", "version", "help", "rollout"]);

/** Possible ends of the last word. */
export function complete(text: string, { resources }: Surroundings): string[] {
  let words: string[];
  try {
    words = wordsOf(text);
  } catch {
    return [];
  }
  const last = /\s$/.test(text) || words.length === 0 ? "" : words.pop()!;
  return [...new Set(candidates(words, last, resources.map((one) => one.plural)))].filter((one) => one.startsWith(last)).sort();
}

function candidates(before: string[], last: string, kinds: string[]): string[] {
  const typed = before.join(" ");
  if (before.length === 0) return Object.keys(COMMANDS).map((name) => name.split(" ")[0]!);
  const longer = Object.keys(COMMANDS).filter((name) => name.startsWith(`${typed} `));
  if (longer.length > 0 && !Object.hasOwn(COMMANDS, typed)) return longer.map((name) => name.slice(typed.length + 1));
  const name = [before.slice(0, 2).join(" "), before[0]!].find((one) => Object.hasOwn(COMMANDS, one));
  if (!name) return [];
  if (last.startsWith("-")) return COMMANDS[name]!.options.map((one) => `--${one}`);
  return before.length === name.split(" ").length && !WITHOUT_KIND.has(name) ? kinds : [];
}
