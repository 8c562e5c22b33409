// The options of the command line. A command takes those it names; any other option is refused.

export interface Option {
  short?: string;
  aliases?: string[];
  /** What its value is; an option without it is a switch. */
  value?: string;
  /** The values it takes, when there are only some. */
  choices?: string[];
  /** Its value when it is given without one. */
  bare?: string;
  help: string;
}

const option = (help: string, more: Omit<Option, "help"> = {}): Option => ({ help, ...more });
const chosen = (help: string, choices: string[], more: Omit<Option, "help" | "choices" | "value"> = {}): Option => ({ help, choices, value: choices.join("|"), ...more });

export const OPTIONS = {
  "all-namespaces": option("All namespaces", { short: "A" }),
  cluster: option("The member cluster; get takes several, separated by commas", { short: "C", aliases: ["clusters"], value: "CLUSTER" }),
  container: option("The container; the first one if it is not given", { short: "c", value: "CONTAINER" }),
  "dry-run": chosen("client sends no change, server has it checked without storing it", ["none", "client", "server"], { bare: "client" }),
  "field-selector": option("Objects with these fields, such as metadata.name=web", { value: "SELECTOR" }),
  help: option("Explain the command", { short: "h" }),
  namespace: option("The namespace", { short: "n", value: "NS" }),
  "operation-scope": chosen("The control plane, its members, or both", ["karmada", "members", "all"], { short: "s" }),
  output: chosen("The format", ["wide", "yaml", "json", "name"], { short: "o" }),
  overwrite: option("Replace existing values"),
  patch: option("The patch, in JSON", { short: "p", value: "JSON" }),
  previous: option("The log of the previous instance of the container", { short: "p" }),
  replicas: option("The number of replicas", { value: "N" }),
  selector: option("Objects with these labels, such as app=web", { short: "l", aliases: ["labels"], value: "SELECTOR" }),
  "show-labels": option("Show all labels in the last column"),
  tail: option("Lines from the end; -1 for all", { value: "N" }),
  timestamps: option("Start each line with its time"),
  type: chosen("The type of the patch", ["strategic", "merge", "json"]),
  yes: option("Do it without asking", { short: "y" }),
} satisfies Record<string, Option>;

export type OptionName = keyof typeof OPTIONS;

const all: Record<OptionName, Option> = OPTIONS;

export const optionOf = (name: OptionName): Option => all[name];

/** How it is written: `-n, --namespace NS`. */
export function spelling(name: OptionName): string {
  const { short, value, bare } = optionOf(name);
  const given = value === undefined ? "" : bare === undefined ? ` ${value}` : `[=${value}]`;
  return `${short ? `-${short}, ` : ""}--${name}${given}`;
}

/** The option with this name, alias or letter, if the command takes it. */
export function findOption(taken: readonly OptionName[], text: string): OptionName | undefined {
  return taken.find((name) => {
    const { short, aliases = [] } = optionOf(name);
    return text.length === 1 ? short === text : name === text || aliases.includes(text);
  });
}
