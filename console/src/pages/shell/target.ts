// What a command is about: a kind, an object, a namespace, a member.

import { memberPath, pathOf, type Resource } from "../../api/resources";
import type { CommandLine } from "./parse";

export interface Surroundings {
  resources: Resource[];
  namespace: string;
}

export function findResource(resources: Resource[], text: string): Resource {
  const [name = "", ...group] = text.toLowerCase().split(".");
  const fits = (one: Resource) => one.plural === name || one.kind.toLowerCase() === name || one.shortNames.includes(name);
  const found = resources.find((one) => fits(one) && (group.length === 0 || one.group === group.join(".")));
  if (!found) throw new Error(`the server doesn't have a resource type "${text}"`);
  return found;
}

export interface Subject {
  resource: Resource;
  name: string;
  /** The words after it. */
  rest: string[];
}

/** KIND NAME, or KIND/NAME, and what follows. */
export function subjectOf({ words }: CommandLine, { resources }: Surroundings): Subject {
  const joined = words[0]?.includes("/") ?? false;
  const [kind = "", name = ""] = joined ? words[0]!.split("/") : words;
  if (!kind || !name) throw new Error("name a kind and an object, for example deployment web or deployment/web");
  return { resource: findResource(resources, kind), name, rest: words.slice(joined ? 1 : 2) };
}

/** Refuses words that a command would ignore. */
export function noMore(rest: string[]): void {
  if (rest.length > 0) throw new Error(`too many arguments: ${rest.join(" ")}`);
}

/** The object of a command that takes one object and nothing else. */
export function onlySubject(line: CommandLine, around: Surroundings): Subject {
  const subject = subjectOf(line, around);
  noMore(subject.rest);
  return subject;
}

export const placeOf = ({ options }: CommandLine, { namespace }: Surroundings): string => (options.has("all-namespaces") ? "" : (options.get("namespace") ?? (namespace || "default")));

/** The one member of -C; none for the control plane. */
export function memberOf({ options }: CommandLine): string | undefined {
  const [cluster, scope] = [options.get("cluster"), options.get("operation-scope")];
  if (scope === "all") throw new Error("only get takes the scope all");
  if (scope === "members" && !cluster) throw new Error("name the member with -C CLUSTER");
  if (scope === "karmada" && cluster) throw new Error("-C names a member, but the scope karmada is the control plane");
  if (cluster?.includes(",")) throw new Error("name one member only");
  return cluster;
}

/** A path in the control plane, or in a member. */
export const pathIn = (member: string | undefined, path: string): string => (member ? memberPath(member, path) : path);

/** The path of an object, in the control plane or in the member of -C. */
export const objectPath = (line: CommandLine, around: Surroundings, { resource, name }: Subject): string => pathIn(memberOf(line), pathOf(resource, placeOf(line, around), name));
