// Commands that change nothing.

import { getJson, query, request, send } from "../../api/client";
import { apiVersionOf, CLUSTERS, EVENTS, pathOf, PODS, type Resource } from "../../api/resources";
import type { KObject, Why } from "../../api/types";
import { toYaml, withoutNoise } from "../../editor/ObjectYaml";
import { duration } from "../../ui/parts";
import { type CommandLine, columns } from "./parse";
import { findResource, memberOf, noMore, objectPath, onlySubject, pathIn, placeOf, type Surroundings } from "./target";

type Run = (line: CommandLine, around: Surroundings) => Promise<string>;
type List = KObject & { items?: KObject[] };

const ROWS_MAX = 500;
const TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";
const PLANE = "Karmada";

/** The members and the control plane that `get` reads; `undefined` is the control plane. */
async function targetsOf({ options }: CommandLine): Promise<(string | undefined)[]> {
  const scope = options.get("operation-scope");
  const named = [...new Set((options.get("cluster") ?? "").split(",").filter(Boolean))];
  if (scope === "karmada" && named.length > 0) throw new Error("-C names members, but the scope karmada is the control plane");
  if (scope !== "members" && scope !== "all") return named.length > 0 ? named : [undefined];
  const members = named.length > 0 ? named : (await everyItem(pathOf(CLUSTERS), {})).items!.map((one) => one.metadata.name);
  return scope === "all" ? [undefined, ...members] : members;
}

/** A list with all its pages. */
async function everyItem(path: string, selectors: Record<string, string | undefined>): Promise<List> {
  const first = await getJson<List>(path + query({ ...selectors, limit: ROWS_MAX }));
  const metadata = first.metadata as { continue?: string; remainingItemCount?: number };
  for (let next = metadata.continue; next; ) {
    const page = await getJson<List>(path + query({ ...selectors, limit: ROWS_MAX, continue: next }));
    first.items!.push(...(page.items ?? []));
    next = (page.metadata as typeof metadata).continue;
  }
  delete metadata.continue;
  delete metadata.remainingItemCount;
  return first;
}

export const get: Run = async (line, around) => {
  const { words, options } = line;
  const [kinds = "", ...names] = words;
  if (!kinds) throw new Error("name a kind, for example get deployments");
  const [kind = "", slash] = kinds.split("/");
  const name = slash ?? names.shift() ?? "";
  noMore(names);
  if (name && options.has("all-namespaces")) throw new Error("an object cannot be read by its name in all namespaces");
  const selectors = { labelSelector: options.get("selector"), fieldSelector: options.get("field-selector") };
  if (name && (selectors.labelSelector || selectors.fieldSelector)) throw new Error("a selector cannot be combined with a name");
  const output = options.get("output") ?? "";
  const text = ["yaml", "json", "name"].includes(output);
  if (text && options.has("show-labels")) throw new Error("--show-labels is an option of tables");
  const targets = await targetsOf(line);
  if (text && output !== "name" && targets.length > 1) throw new Error(`with -o ${output}, name one member with -C`);
  const texts: string[] = [];
  for (const one of kind.split(",")) {
    const resource = findResource(around.resources, one);
    const path = pathOf(resource, placeOf(line, around), name);
    texts.push(text ? await printObjects(targets, path, resource, output, name, selectors) : await printTables(targets, path + query({ ...selectors, limit: name ? undefined : ROWS_MAX }), resource, options));
  }
  return texts.join("\n\n");
};

const clean = (answer: List): unknown => (answer.items ? { ...answer, items: answer.items.map(withoutNoise) } : withoutNoise(answer));

async function printObjects(targets: (string | undefined)[], path: string, resource: Resource, output: string, name: string, selectors: Record<string, string | undefined>): Promise<string> {
  const texts: string[] = [];
  for (const member of targets) {
    const answer = name ? await getJson<List>(pathIn(member, path)) : await everyItem(pathIn(member, path), selectors);
    if (output === "name") texts.push(...(answer.items ?? [answer]).map((object) => `${resource.plural}/${object.metadata.name}`));
    else texts.push(output === "yaml" ? await toYaml(clean(answer)) : JSON.stringify(clean(answer), undefined, 2));
  }
  return texts.join("\n");
}

interface Printed {
  head: string[];
  rows: string[][];
  /** Rows that were left off, or why there are none. */
  note?: string;
}

/** One table for all targets, with the cluster of every row when there are several. */
async function printTables(targets: (string | undefined)[], path: string, resource: Resource, options: CommandLine["options"]): Promise<string> {
  const several = targets.length > 1;
  const parts = await Promise.all(
    targets.map(async (member): Promise<Printed & { cluster: string; failed?: Error }> => {
      const cluster = member ?? PLANE;
      try {
        return { cluster, ...(await readTable(pathIn(member, path), resource, options)) };
      } catch (error) {
        return { cluster, head: [], rows: [], failed: error as Error };
      }
    }),
  );
  const failed = parts.find((one) => one.failed);
  if (failed && parts.every((one) => one.failed)) throw failed.failed;
  const head = [...new Set(parts.flatMap((one) => one.head))];
  // Clusters may have other columns for the same kind.
  const rows = parts.flatMap((part) => part.rows.map((row) => [...(several ? [part.cluster] : []), ...head.map((name) => row[part.head.indexOf(name)] ?? "")]));
  const notes = parts.flatMap(({ cluster, note, failed }) => (failed ? [`${cluster}: ${failed.message}`] : note ? [several ? `${cluster}: ${note}` : note] : []));
  const table = rows.length === 0 ? `No ${resource.plural} found` : columns([[...(several ? ["CLUSTER"] : []), ...head], ...rows]);
  return [table, ...notes].join("\n");
}

async function readTable(path: string, resource: Resource, options: CommandLine["options"]): Promise<Printed> {
  const table = await getJson<any>(path, { headers: { Accept: TABLE } });
  const rows: any[] = table.rows ?? [];
  const wide = options.get("output") === "wide";
  const withNamespace = options.has("all-namespaces") && resource.namespaced;
  const withLabels = options.has("show-labels");
  const shown = (table.columnDefinitions as any[]).map((column, index) => ({ column, index })).filter(({ column }) => wide || column.priority === 0);
  const cell = (value: unknown) => (value === null || value === undefined ? "<none>" : String(value));
  const labels = (row: any) => Object.entries(row.object?.metadata?.labels ?? {}).map(([key, value]) => `${key}=${value}`).join(",") || "<none>";
  const rest = table.metadata?.remainingItemCount;
  return {
    head: [...(withNamespace ? ["NAMESPACE"] : []), ...shown.map(({ column }) => String(column.name).toUpperCase()), ...(withLabels ? ["LABELS"] : [])],
    rows: rows.map((row) => [...(withNamespace ? [row.object?.metadata?.namespace ?? ""] : []), ...shown.map(({ index }) => cell(row.cells[index])), ...(withLabels ? [labels(row)] : [])]),
    note: rest ? `… and ${rest} more; narrow it with -n or -l` : undefined,
  };
}

export const describe: Run = async (line, around) => {
  const subject = onlySubject(line, around);
  const { resource, name } = subject;
  const object = await getJson<KObject>(objectPath(line, around, subject));
  const events = await getJson<{ items: KObject[] }>(pathIn(memberOf(line), pathOf(EVENTS, object.metadata.namespace ?? "")) + query({ fieldSelector: `involvedObject.name=${name}` })).catch(() => ({ items: [] }));
  const own = events.items.filter((event) => event.involvedObject?.kind === resource.kind);
  if (resource.kind === "Secret" && object.data) object.data = Object.fromEntries(Object.keys(object.data).map((key) => [key, "(hidden)"]));
  const lines = own.map((event) => [event.type, event.reason, duration((Date.now() - Date.parse(event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp)) / 1000), event.message]);
  return `${await toYaml(withoutNoise(object))}\nEvents:\n${lines.length > 0 ? columns([["TYPE", "REASON", "AGE", "MESSAGE"], ...lines]) : "<none>"}`;
};

export const logs: Run = async (line, around) => {
  const { words, options } = line;
  const pod = (words[0] ?? "").replace(/^pods?\//, "");
  const member = memberOf(line);
  if (!pod || !member) throw new Error("name a pod and its cluster: logs POD -C CLUSTER");
  noMore(words.slice(1));
  const tail = options.get("tail") ?? "200";
  if (!/^(-1|\d+)$/.test(tail)) throw new Error("--tail must be a number");
  const parameters = { tailLines: tail === "-1" ? undefined : tail, container: options.get("container"), previous: options.get("previous"), timestamps: options.get("timestamps") };
  return (await request(`${pathIn(member, pathOf(PODS, placeOf(line, around), pod))}/log${query(parameters)}`, { headers: { Accept: "*/*" } })).text();
};

export const why: Run = async (line, around) => {
  const { resource, name } = onlySubject(line, around);
  const namespace = resource.namespaced ? placeOf(line, around) : undefined;
  return (await getJson<Why>(`/flotilla/v1alpha1/why${query({ apiVersion: apiVersionOf(resource), kind: resource.kind, namespace, name })}`)).text;
};

export const failover: Run = async ({ words }) => {
  const [cluster, ...rest] = words;
  if (!cluster) throw new Error("name a cluster");
  noMore(rest);
  return (await getJson<{ text: string }>(`/flotilla/v1alpha1/failover${query({ cluster })}`)).text;
};

export const whoAmI: Run = async ({ words }) => {
  noMore(words);
  const review = await send<KObject>("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview", metadata: {} });
  const { username, groups = [] } = review.status?.userInfo ?? {};
  return columns([["Username", username ?? ""], ["Groups", groups.join(", ")]]);
};

export const canI: Run = async (line, around) => {
  const [verb = "", subject = "", ...rest] = line.words;
  if (!verb || !subject) throw new Error("use auth can-i VERB KIND");
  noMore(rest);
  const [kind = "", name] = subject.split("/");
  const resource = findResource(around.resources, kind);
  const resourceAttributes = { verb, resource: resource.plural, group: resource.group, namespace: resource.namespaced ? placeOf(line, around) : "", ...(name ? { name } : {}) };
  const review = await send<KObject>("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", spec: { resourceAttributes } });
  return review.status?.allowed ? "yes" : `no${review.status?.reason ? ` - ${review.status.reason}` : ""}`;
};

export const apiResources: Run = async ({ words }, { resources }) => {
  noMore(words);
  return columns([["NAME", "SHORTNAMES", "GROUP", "NAMESPACED", "KIND"], ...resources.map((one) => [one.plural, one.shortNames.join(","), one.group || "core", String(one.namespaced), one.kind])]);
};

export const version: Run = async ({ words }) => {
  noMore(words);
  return (await getJson<{ gitVersion: string }>("/version")).gitVersion;
};
