// Commands that change something. Each honours --dry-run: client sends no change, server sends one that is not stored.

import { getJson, query, request, send } from "../../api/client";
import { CLUSTERS, pathOf } from "../../api/resources";
import type { KObject, Taint } from "../../api/types";
import { taintsOf, UNSCHEDULABLE } from "../../model/cluster";
import type { CommandLine } from "./parse";
import { memberOf, noMore, objectPath, onlySubject, subjectOf, type Surroundings } from "./target";

type Run = (line: CommandLine, around: Surroundings) => Promise<string>;

const PATCHES = {
  strategic: "application/strategic-merge-patch+json",
  merge: "application/merge-patch+json",
  json: "application/json-patch+json",
};

/** How far a change goes, and what is added to the message about it. */
function dryRunOf({ options }: CommandLine) {
  const mode = options.get("dry-run") ?? "none";
  return { sends: mode !== "client", isDry: mode !== "none", parameters: query({ dryRun: mode === "server" ? "All" : undefined }), suffix: mode === "server" ? " (server dry run)" : mode === "client" ? " (dry run)" : "" };
}

/** Patches an object; with --dry-run=client it is only read, so that a missing one is reported. */
async function patchObject(line: CommandLine, path: string, body: unknown, type: keyof typeof PATCHES = "merge", subresource = ""): Promise<string> {
  const { sends, parameters, suffix } = dryRunOf(line);
  if (sends) await send("PATCH", path + subresource + parameters, body, PATCHES[type]);
  else await getJson(path);
  return suffix;
}

export const scale: Run = async (line, around) => {
  const subject = onlySubject(line, around);
  const replicas = line.options.get("replicas") ?? "";
  if (!/^\d+$/.test(replicas)) throw new Error("--replicas must be a number");
  const suffix = await patchObject(line, objectPath(line, around, subject), { spec: { replicas: Number(replicas) } }, "merge", "/scale");
  return `${subject.resource.plural}/${subject.name} scaled to ${replicas}${suffix}`;
};

export const remove: Run = async (line, around) => {
  const subject = onlySubject(line, around);
  const shown = `${subject.resource.plural}/${subject.name}`;
  const path = objectPath(line, around, subject);
  const { sends, isDry, parameters, suffix } = dryRunOf(line);
  const member = memberOf(line);
  if (!isDry && !line.options.has("yes")) throw new Error(`this deletes ${shown} ${member ? `in ${member}` : "and its copies in all clusters"}; repeat it with --yes`);
  if (sends) await request(path + parameters, { method: "DELETE" });
  else await getJson(path);
  return `${shown} deleted${suffix}`;
};

/** Sets and removes labels or annotations: key=value, key-. An existing value is kept without --overwrite. */
export const mark = (field: "labels" | "annotations"): Run => async (line, around) => {
  const subject = subjectOf(line, around);
  const given = subject.rest;
  if (given.length === 0) throw new Error("add key=value, or key- to remove one");
  const changes: Record<string, string | null> = {};
  for (const one of given) {
    const [, key = "", value] = /^([^=]+)=(.*)$/s.exec(one) ?? /^([^=]+)-$/.exec(one) ?? [];
    if (!key) throw new Error(`write key=value, or key- to remove one, not ${one}`);
    if (key in changes) throw new Error(`${key} is given twice`);
    changes[key] = value ?? null;
  }
  const path = objectPath(line, around, subject);
  const metadata: Record<string, unknown> = { [field]: changes };
  if (!line.options.has("overwrite")) {
    const before = (await getJson<KObject>(path)).metadata;
    for (const [key, value] of Object.entries(changes)) {
      const kept = before[field]?.[key];
      if (value !== null && kept !== undefined && kept !== value) throw new Error(`${key} already has the value ${kept}; replace it with --overwrite`);
    }
    metadata.resourceVersion = before.resourceVersion;
  }
  const suffix = await patchObject(line, path, { metadata });
  return `${subject.resource.plural}/${subject.name} changed${suffix}`;
};

async function setTaints(line: CommandLine, name: string, change: (taints: Taint[]) => Taint[]): Promise<string> {
  const path = pathOf(CLUSTERS, "", name);
  const cluster = await getJson<KObject>(path);
  return patchObject(line, path, { metadata: { resourceVersion: cluster.metadata.resourceVersion }, spec: { taints: change(taintsOf(cluster)) } });
}

export const cordon = (on: boolean): Run => async (line) => {
  const [name, ...rest] = line.words;
  if (!name) throw new Error("name a cluster");
  noMore(rest);
  const suffix = await setTaints(line, name, (taints) => [...taints.filter((one) => one.key !== UNSCHEDULABLE), ...(on ? [{ key: UNSCHEDULABLE, effect: "NoSchedule" }] : [])]);
  return `cluster/${name} ${on ? "cordoned" : "uncordoned"}${suffix}`;
};

export const taint: Run = async (line) => {
  const [name, text, ...rest] = line.words[0] === "clusters" || line.words[0] === "cluster" ? line.words.slice(1) : line.words;
  const match = /^([^=:]+)(?:=([^:]*))?:(NoSchedule|NoExecute|PreferNoSchedule)(-?)$/.exec(text ?? "");
  if (!name || !match) throw new Error("write taint CLUSTER key=value:NoExecute, with a - at the end to remove it");
  noMore(rest);
  const [, key = "", value = "", effect = "", off] = match;
  const suffix = await setTaints(line, name, (taints) => {
    const same = taints.find((one) => one.key === key && one.effect === effect);
    if (off && !same) throw new Error(`cluster/${name} has no taint ${key}:${effect}`);
    if (!off && same && (same.value ?? "") !== value && !line.options.has("overwrite")) throw new Error(`${key}:${effect} already has the value ${same.value || "empty"}; replace it with --overwrite`);
    return [...taints.filter((one) => one !== same), ...(off ? [] : [{ key, effect, ...(value ? { value } : {}) }])];
  });
  return `cluster/${name} ${off ? "untainted" : "tainted"}${suffix}`;
};

export const restart: Run = async (line, around) => {
  const subject = onlySubject(line, around);
  const annotations = { "kubectl.kubernetes.io/restartedAt": new Date().toISOString() };
  const suffix = await patchObject(line, objectPath(line, around, subject), { spec: { template: { metadata: { annotations } } } });
  return `${subject.resource.plural}/${subject.name} restarted${suffix}`;
};

export const patch: Run = async (line, around) => {
  const subject = onlySubject(line, around);
  let body: unknown;
  try {
    body = JSON.parse(line.options.get("patch") ?? "");
  } catch {
    throw new Error("--patch must be JSON, for example --patch '{\"spec\":{\"paused\":true}}'");
  }
  const type = (line.options.get("type") ?? (Array.isArray(body) ? "json" : "strategic")) as keyof typeof PATCHES;
  if (Array.isArray(body) !== (type === "json")) throw new Error(type === "json" ? "a patch of the type json is a list of operations" : `a patch of the type ${type} is an object`);
  const suffix = await patchObject(line, objectPath(line, around, subject), body, type);
  return `${subject.resource.plural}/${subject.name} patched${suffix}`;
};
