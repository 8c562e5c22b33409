// Commands of the console's command line. They call the API with the rights of the user; no program runs on the server.

import { getJson, jsonPatch, mergePatch, query, request, send } from "../../api/client";
import { apiVersionOf, CLUSTERS, EVENTS, memberPath, pathOf, PODS, type Resource } from "../../api/resources";
import type { KObject, Taint, Why } from "../../api/types";
import { toYaml, withoutNoise } from "../../editor/ObjectYaml";
import { taintsOf, UNSCHEDULABLE } from "../../model/cluster";
import { duration } from "../../ui/parts";
import { type CommandLine, columns, parseLine } from "./parse";

export interface Surroundings {
  resources: Resource[];
  namespace: string;
}

interface Command {
  usage: string;
  help: string;
  run: (line: CommandLine, around: Surroundings) => Promise<string>;
}

const ROWS_MAX = 500;
const TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";

export function findResource(resources: Resource[], text: string): Resource {
  const [name = "", ...group] = text.toLowerCase().split(".");
  const fits = (one: Resource) => one.plural === name || one.kind.toLowerCase() === name || one.shortNames.includes(name);
  const found = resources.find((one) => fits(one) && (group.length === 0 || one.group === group.join(".")));
  if (!found) throw new Error(`the server doesn't have a resource type "${text}"`);
  return found;
}

/** KIND NAME, or KIND/NAME. */
function subject({ words }: CommandLine, from: number, { resources }: Surroundings): { resource: Resource; name: string } {
  const [kind = "", name = ""] = words[from]?.includes("/") ? words[from]!.split("/") : [words[from], words[from + 1]];
  if (!kind || !name) throw new Error("name a kind and an object, for example deployment web or deployment/web");
  return { resource: findResource(resources, kind), name };
}

const placeOf = ({ options }: CommandLine, { namespace }: Surroundings) => (options.has("all-namespaces") ? "" : (options.get("namespace") ?? (namespace || "default")));

/** The path in the control plane, or in the member of -C. */
function target(line: CommandLine, path: string): string {
  const cluster = line.options.get("cluster");
  return cluster ? memberPath(cluster, path) : path;
}

async function get(line: CommandLine, around: Surroundings): Promise<string> {
  const [, kinds = "", named] = line.words;
  if (!kinds) throw new Error("name a kind, for example get deployments");
  const [kind = "", slash] = kinds.split("/");
  const name = slash ?? named ?? "";
  const output = line.options.get("output") ?? "";
  const texts: string[] = [];
  for (const one of kind.split(",")) {
    const resource = findResource(around.resources, one);
    const path = target(line, pathOf(resource, placeOf(line, around), name)) + query({ labelSelector: line.options.get("selector"), limit: name ? undefined : ROWS_MAX });
    if (output === "yaml" || output === "json" || output === "name") {
      const answer = await getJson<KObject & { items?: KObject[] }>(path);
      if (output === "name") texts.push((answer.items ?? [answer]).map((object) => `${resource.plural}/${object.metadata.name}`).join("\n"));
      else texts.push(output === "yaml" ? await toYaml(clean(answer)) : JSON.stringify(clean(answer), undefined, 2));
    } else if (output === "" || output === "wide") texts.push(await printTable(path, resource, output === "wide", line.options.has("all-namespaces") && resource.namespaced));
    else throw new Error(`the output ${output} is not known: use wide, yaml, json or name`);
  }
  return texts.join("\n\n");
}

const clean = (answer: KObject & { items?: KObject[] }): unknown => (answer.items ? { ...answer, items: answer.items.map(withoutNoise) } : withoutNoise(answer));

async function printTable(path: string, resource: Resource, wide: boolean, withNamespace: boolean): Promise<string> {
  const table = await getJson<any>(path, { headers: { Accept: TABLE } });
  const rows: any[] = table.rows ?? [];
  if (rows.length === 0) return `No ${resource.plural} found`;
  const shown = (table.columnDefinitions as any[]).map((column, index) => ({ column, index })).filter(({ column }) => wide || column.priority === 0);
  const cell = (value: unknown) => (value === null || value === undefined ? "<none>" : String(value));
  const head = [...(withNamespace ? ["NAMESPACE"] : []), ...shown.map(({ column }) => String(column.name).toUpperCase())];
  const body = rows.map((row) => [...(withNamespace ? [row.object?.metadata?.namespace ?? ""] : []), ...shown.map(({ index }) => cell(row.cells[index]))]);
  const rest = table.metadata?.remainingItemCount;
  return columns([head, ...body]) + (rest ? `\n… and ${rest} more; narrow it with -n or -l` : "");
}

async function describe(line: CommandLine, around: Surroundings): Promise<string> {
  const { resource, name } = subject(line, 1, around);
  const object = await getJson<KObject>(target(line, pathOf(resource, placeOf(line, around), name)));
  const events = await getJson<{ items: KObject[] }>(target(line, pathOf(EVENTS, object.metadata.namespace ?? "")) + query({ fieldSelector: `involvedObject.name=${name}` })).catch(() => ({ items: [] }));
  const own = events.items.filter((event) => event.involvedObject?.kind === resource.kind);
  if (resource.kind === "Secret" && object.data) object.data = Object.fromEntries(Object.keys(object.data).map((key) => [key, "(hidden)"]));
  const lines = own.map((event) => [event.type, event.reason, duration((Date.now() - Date.parse(event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp)) / 1000), event.message]);
  return `${await toYaml(withoutNoise(object))}\nEvents:\n${lines.length > 0 ? columns([["TYPE", "REASON", "AGE", "MESSAGE"], ...lines]) : "<none>"}`;
}

async function logs(line: CommandLine, around: Surroundings): Promise<string> {
  const pod = (line.words[1] ?? "").replace(/^pods?\//, "");
  if (!pod || !line.options.has("cluster")) throw new Error("name a pod and its cluster: logs POD -C CLUSTER");
  const path = `${target(line, pathOf(PODS, placeOf(line, around), pod))}/log`;
  return (await request(path + query({ tailLines: line.options.get("tail") ?? 200, container: line.options.get("container"), previous: line.options.get("previous") }), { headers: { Accept: "*/*" } })).text();
}

async function scale(line: CommandLine, around: Surroundings): Promise<string> {
  const { resource, name } = subject(line, 1, around);
  const replicas = line.options.get("replicas") ?? "";
  if (!/^\d+$/.test(replicas)) throw new Error("--replicas must be a number");
  await mergePatch(`${pathOf(resource, placeOf(line, around), name)}/scale`, { spec: { replicas: Number(replicas) } });
  return `${resource.plural}/${name} scaled to ${replicas}`;
}

async function remove(line: CommandLine, around: Surroundings): Promise<string> {
  const { resource, name } = subject(line, 1, around);
  if (!line.options.has("yes")) throw new Error(`this deletes ${resource.plural}/${name} and its copies in all clusters; repeat it with --yes`);
  await request(target(line, pathOf(resource, placeOf(line, around), name)), { method: "DELETE" });
  return `${resource.plural}/${name} deleted`;
}

/** Sets and removes labels or annotations: key=value, key-. */
const mark = (field: "labels" | "annotations") => async (line: CommandLine, around: Surroundings): Promise<string> => {
  const { resource, name } = subject(line, 1, around);
  const given = line.words.slice(line.words[1]?.includes("/") ? 2 : 3);
  if (given.length === 0) throw new Error("add key=value, or key- to remove one");
  const changes = Object.fromEntries(given.map((one) => (one.endsWith("-") ? [one.slice(0, -1), null] : [one.slice(0, one.indexOf("=")), one.slice(one.indexOf("=") + 1)])));
  if (given.some((one) => !one.endsWith("-") && !one.includes("="))) throw new Error("write key=value, or key- to remove one");
  await mergePatch(pathOf(resource, placeOf(line, around), name), { metadata: { [field]: changes } });
  return `${resource.plural}/${name} changed`;
};

async function setTaints(name: string, change: (taints: Taint[]) => Taint[]): Promise<void> {
  const path = pathOf(CLUSTERS, "", name);
  const cluster = await getJson<KObject>(path);
  await mergePatch(path, { metadata: { resourceVersion: cluster.metadata.resourceVersion }, spec: { taints: change(taintsOf(cluster)) } });
}

const cordon = (on: boolean) => async ({ words }: CommandLine): Promise<string> => {
  const name = words[1];
  if (!name) throw new Error("name a cluster");
  await setTaints(name, (taints) => [...taints.filter((one) => one.key !== UNSCHEDULABLE), ...(on ? [{ key: UNSCHEDULABLE, effect: "NoSchedule" }] : [])]);
  return `cluster/${name} ${on ? "cordoned" : "uncordoned"}`;
};

async function taint({ words }: CommandLine): Promise<string> {
  const [, first, ...rest] = words;
  const [name, text] = first === "clusters" || first === "cluster" ? rest : [first, rest[0]];
  const match = /^([^=:]+)(?:=([^:]*))?:(NoSchedule|NoExecute|PreferNoSchedule)(-?)$/.exec(text ?? "");
  if (!name || !match) throw new Error("write taint CLUSTER key=value:NoExecute, with a - at the end to remove it");
  const [, key = "", value, effect = "", off] = match;
  await setTaints(name, (taints) => [...taints.filter((one) => one.key !== key || one.effect !== effect), ...(off ? [] : [{ key, effect, ...(value ? { value } : {}) }])]);
  return `cluster/${name} ${off ? "untainted" : "tainted"}`;
}

async function rollout(line: CommandLine, around: Surroundings): Promise<string> {
  if (line.words[1] !== "restart") throw new Error("only rollout restart is known here");
  const { resource, name } = subject(line, 2, around);
  const annotations = { "kubectl.kubernetes.io/restartedAt": new Date().toISOString() };
  await mergePatch(pathOf(resource, placeOf(line, around), name), { spec: { template: { metadata: { annotations } } } });
  return `${resource.plural}/${name} restarted`;
}

async function why(line: CommandLine, around: Surroundings): Promise<string> {
  const { resource, name } = subject(line, 1, around);
  const namespace = resource.namespaced ? placeOf(line, around) : undefined;
  return (await getJson<Why>(`/flotilla/v1alpha1/why${query({ apiVersion: apiVersionOf(resource), kind: resource.kind, namespace, name })}`)).text;
}

async function auth(line: CommandLine, around: Surroundings): Promise<string> {
  const [, what, verb = "", kind = ""] = line.words;
  if (what === "whoami") {
    const review = await send<KObject>("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview", metadata: {} });
    const { username, groups = [] } = review.status?.userInfo ?? {};
    return columns([["Username", username ?? ""], ["Groups", groups.join(", ")]]);
  }
  if (what !== "can-i" || !verb || !kind) throw new Error("use auth whoami or auth can-i VERB KIND");
  const resource = findResource(around.resources, kind);
  const resourceAttributes = { verb, resource: resource.plural, group: resource.group, namespace: placeOf(line, around) };
  const review = await send<KObject>("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", spec: { resourceAttributes } });
  return review.status?.allowed ? "yes" : `no${review.status?.reason ? ` - ${review.status.reason}` : ""}`;
}

async function patch(line: CommandLine, around: Surroundings): Promise<string> {
  const { resource, name } = subject(line, 1, around);
  let body: unknown;
  try {
    body = JSON.parse(line.options.get("patch") ?? "");
  } catch {
    throw new Error("--patch must be JSON, for example --patch '{\"spec\":{\"paused\":true}}'");
  }
  await (Array.isArray(body) ? jsonPatch : mergePatch)(pathOf(resource, placeOf(line, around), name), body);
  return `${resource.plural}/${name} patched`;
}

export const COMMANDS: Record<string, Command> = {
  get: { usage: "get KIND [NAME] [-n NS | -A] [-l SELECTOR] [-o wide|yaml|json|name] [-C CLUSTER]", help: "List objects, or show one; with -C in a member cluster", run: get },
  describe: { usage: "describe KIND NAME [-n NS] [-C CLUSTER]", help: "Show an object with its events", run: describe },
  logs: { usage: "logs POD -C CLUSTER [-n NS] [-c CONTAINER] [--tail N] [-p]", help: "Print the log of a pod", run: logs },
  why: { usage: "why KIND NAME [-n NS]", help: "Explain where an object is and why", run: why },
  failover: { usage: "failover CLUSTER", help: "Simulate the loss of a cluster", run: async ({ words }) => (await getJson<{ text: string }>(`/flotilla/v1alpha1/failover${query({ cluster: words.at(-1) })}`)).text },
  scale: { usage: "scale KIND NAME --replicas N [-n NS]", help: "Set the number of replicas", run: scale },
  rollout: { usage: "rollout restart KIND NAME [-n NS]", help: "Restart the pods of a workload", run: rollout },
  label: { usage: "label KIND NAME key=value | key- [-n NS]", help: "Set or remove labels", run: mark("labels") },
  annotate: { usage: "annotate KIND NAME key=value | key- [-n NS]", help: "Set or remove annotations", run: mark("annotations") },
  patch: { usage: "patch KIND NAME --patch JSON [-n NS]", help: "Change fields of an object", run: patch },
  delete: { usage: "delete KIND NAME --yes [-n NS] [-C CLUSTER]", help: "Delete an object", run: remove },
  cordon: { usage: "cordon CLUSTER", help: "Send no new workloads to a cluster", run: cordon(true) },
  uncordon: { usage: "uncordon CLUSTER", help: "Send workloads to a cluster again", run: cordon(false) },
  taint: { usage: "taint CLUSTER key=value:EFFECT[-]", help: "Add or remove a taint; NoExecute evicts", run: taint },
  auth: { usage: "auth whoami | auth can-i VERB KIND [-n NS]", help: "Show who you are and what you may do", run: auth },
  "api-resources": { usage: "api-resources", help: "List all kinds", run: async (_, { resources }) => columns([["NAME", "SHORTNAMES", "GROUP", "NAMESPACED", "KIND"], ...resources.map((one) => [one.plural, one.shortNames.join(","), one.group || "core", String(one.namespaced), one.kind])]) },
  version: { usage: "version", help: "Show the version of the control plane", run: async () => (await getJson<{ gitVersion: string }>("/version")).gitVersion },
  help: { usage: "help", help: "List the commands", run: async () => columns(Object.values(COMMANDS).map((command) => [command.usage, command.help])) },
};

export async function runLine(text: string, around: Surroundings): Promise<string> {
  const line = parseLine(text);
  const name = line.words[0] ?? "";
  const command = COMMANDS[name];
  if (!command) throw new Error(`${name} is not a command here; help lists them`);
  if (line.options.has("help")) return `${command.usage}\n${command.help}`;
  return command.run(line, around);
}

/** Possible ends of the last word. */
export function complete(text: string, { resources }: Surroundings): string[] {
  const words = text.replace(/^(kubectl|flotilla|karmadactl)\s+/, "").split(/\s+/);
  const last = words.at(-1) ?? "";
  const options = words.length <= 1 ? Object.keys(COMMANDS) : words.length === 2 && !["logs", "cordon", "uncordon", "taint", "failover"].includes(words[0]!) ? resources.map((one) => one.plural) : [];
  return [...new Set(options)].filter((one) => one.startsWith(last)).sort();
}
