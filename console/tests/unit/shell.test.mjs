// The command line of the console: which requests a line sends, and what it refuses before it sends any.

import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { createServer } from "vite";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");

/** What the sources expect of a browser while they are loaded. */
function standIn() {
  globalThis.location = new URL("https://console.example/console/shell");
  globalThis.localStorage = { getItem: () => null, setItem: () => {} };
  globalThis.matchMedia = () => ({ matches: false, addEventListener: () => {} });
  globalThis.document = { documentElement: { dataset: {} } };
  if (!globalThis.navigator) globalThis.navigator = { language: "en" };
}

const resource = (group, version, plural, kind, namespaced, shortNames) => ({ group, version, plural, kind, namespaced, shortNames, verbs: [], subresources: [] });
const RESOURCES = [
  resource("", "v1", "pods", "Pod", true, ["po"]),
  resource("", "v1", "secrets", "Secret", true, []),
  resource("apps", "v1", "deployments", "Deployment", true, ["deploy"]),
  resource("cluster.karmada.io", "v1alpha1", "clusters", "Cluster", false, []),
];
const AROUND = { resources: RESOURCES, namespace: "" };

const CLUSTER = "/apis/cluster.karmada.io/v1alpha1/clusters/member1";
const WEB = "/apis/apps/v1/namespaces/default/deployments/web";
const PROXY = `${CLUSTER}/proxy`;

/** Answers of the API by path; everything else is an empty list. */
const ANSWERS = {
  [CLUSTER]: { metadata: { name: "member1", resourceVersion: "7" }, spec: { taints: [{ key: "disk", value: "slow", effect: "NoExecute" }] } },
  [WEB]: { kind: "Deployment", metadata: { name: "web", namespace: "default", resourceVersion: "5", labels: { tier: "front" } } },
  [`${PROXY}${WEB}`]: { kind: "Deployment", metadata: { name: "web", namespace: "default", resourceVersion: "9" } },
  "/apis/cluster.karmada.io/v1alpha1/clusters": { metadata: {}, items: [{ metadata: { name: "member1" } }, { metadata: { name: "member2" } }] },
};

let requests = [];

async function answer(address, { method = "GET", body, headers }) {
  const url = new URL(address, "https://console.example");
  requests.push({ method, path: url.pathname, query: Object.fromEntries(url.searchParams), type: new Headers(headers).get("Content-Type"), body: body && JSON.parse(body) });
  const isTable = new Headers(headers).get("Accept")?.includes("as=Table");
  const table = { columnDefinitions: [{ name: "Name", priority: 0 }], rows: [{ cells: [`of ${url.pathname.split("/proxy")[0].split("/").at(-1)}`], object: { metadata: { labels: { app: "web" } } } }] };
  return Response.json(isTable ? table : (ANSWERS[url.pathname] ?? { metadata: {}, items: [], text: "" }));
}

let server;
let shell;
before(async () => {
  standIn();
  globalThis.fetch = answer;
  server = await createServer({ root, configFile: false, appType: "custom", logLevel: "error", server: { middlewareMode: true, ws: false, watch: null }, optimizeDeps: { noDiscovery: true } });
  shell = await server.ssrLoadModule("/src/pages/shell/commands.ts");
});
after(() => server.close());

async function run(line) {
  requests = [];
  const output = await shell.runLine(line, AROUND);
  return { output, requests };
}

const changes = (all) => all.filter(({ method }) => method !== "GET");

/** Lines that must send nothing, with a part of what they print. */
const REFUSED = [
  ["delete deployment web --yes --force", "delete has no option --force"],
  ["delete deployment web --yes --dry-run=perhaps", "--dry-run is none, client or server, not perhaps"],
  ["delete deployment web --yes --dry-run server", "too many arguments: server"],
  ["delete deployment web --yes --dry-run=", "--dry-run needs a value"],
  ["delete deployment web", "repeat it with --yes"],
  ["delete deployment web --yes=false", "repeat it with --yes"],
  ["delete deployment web --yes=maybe", "--yes is true or false, not maybe"],
  ["delete deployment web other --yes", "too many arguments: other"],
  ["delete deployment web --yes -A", "delete has no option -A"],
  ["delete deployment web --yes -l app=web", "delete has no option -l"],
  ["delete deployment web --yes -s members", "name the member with -C"],
  ["delete deployment web --yes -s karmada -C member1", "the scope karmada is the control plane"],
  ["delete deployment web --yes -s all", "only get takes the scope all"],
  ["delete deployment web --yes -C member1,member2", "name one member only"],
  ["delete deployment web --yes -C", "-C needs a value"],
  ["-A delete deployment web --yes", "delete has no option -A"],
  ["--force delete deployment web --yes", "--force cannot stand in front of the command"],
  ["delete -yx deployment web", "delete has no option -x in -yx"],
  ["delete --y deployment web", "delete has no option --y"],
  ["scale deployment web --replicas 3 -C member1", "scale has no option -C"],
  ["scale deployment web --replicas 3 --cluster=member1", "scale has no option --cluster"],
  ["scale deployment web --replicas three", "--replicas must be a number"],
  ["scale deployment web", "--replicas must be a number"],
  ["scale deployment web --replicas 3 --current-replicas=2", "scale has no option --current-replicas"],
  ["label deployment web a=b -C member1", "label has no option -C"],
  ["label deployment web --all a=b", "label has no option --all"],
  ["label deployment web a=b a-", "a is given twice"],
  ["label deployment web tier", "write key=value"],
  ["annotate deployment web", "add key=value"],
  ["patch deployment web --patch {", "--patch must be JSON"],
  ["patch deployment web --patch '{}' --type json", "a list of operations"],
  ["patch deployment web --patch '[]' --type merge", "is an object"],
  ["patch deployment web --patch '{}' --type apply", "--type is strategic, merge or json, not apply"],
  ["patch deployment web --patch '{}' --subresource status", "patch has no option --subresource"],
  ["rollout restart deployment web --force", "rollout restart has no option --force"],
  ["rollout undo deployment web", "use rollout restart"],
  ["cordon member1 member2", "too many arguments: member2"],
  ["cordon --all", "cordon has no option --all"],
  ["cordon", "name a cluster"],
  ["taint member1 disk=slow", "write taint CLUSTER"],
  ["taint member1 disk=slow:NoExecute more:NoExecute", "too many arguments"],
  ["get deployments -w", "get has no option -w"],
  ["get deployments --watch", "get has no option --watch"],
  ["get deployments -o table", "-o is wide, yaml, json or name, not table"],
  ["get deployments web other", "too many arguments: other"],
  ["get deployment web -A", "cannot be read by its name in all namespaces"],
  ["get deployment web -l app=web", "a selector cannot be combined with a name"],
  ["get deployments -s karmada -C member1", "the scope karmada is the control plane"],
  ["get deployments -C member1,member2 -o yaml", "name one member with -C"],
  ["get widgets", "doesn't have a resource type"],
  ["logs web -C member1 --follow", "logs has no option --follow"],
  ["logs web", "name a pod and its cluster"],
  ["logs web -C member1 --tail many", "--tail must be a number"],
  ["describe deployment web -o yaml", "describe has no option -o"],
  ["auth can-i get pods --as ann", "auth can-i has no option --as"],
  ["auth whoami -n default", "auth whoami has no option -n"],
  ["auth", "use auth whoami or auth can-i"],
  ["api-resources --namespaced", "api-resources has no option --namespaced"],
  ["version --client", "version has no option --client"],
  ["version 2", "too many arguments: 2"],
  ["apply -f x.yaml", "apply is not a command here"],
  ["constructor", "constructor is not a command here"],
  ["get 'deployments", "the quote ' is not closed"],
];

test("what a command does not take is refused before any request", async () => {
  for (const [line, text] of REFUSED) {
    requests = [];
    await assert.rejects(shell.runLine(line, AROUND), (error) => error.message.includes(text) || assert.fail(`${line}: ${error.message}`), line);
    assert.deepEqual(requests, [], line);
  }
});

const dry = { dryRun: "All" };

/** Lines that change something: the one request that does, and what is printed. */
const CHANGING = [
  ["delete deployment web --yes", "DELETE", WEB, {}, undefined, "deployments/web deleted"],
  ["delete deploy/web -y", "DELETE", WEB, {}, undefined, "deployments/web deleted"],
  ["kubectl delete deploy/web -yn shop", "DELETE", WEB.replace("default", "shop"), {}, undefined, "deployments/web deleted"],
  ["-n shop delete deploy/web --yes", "DELETE", WEB.replace("default", "shop"), {}, undefined, "deployments/web deleted"],
  ["delete deployment web --dry-run=server", "DELETE", WEB, dry, undefined, "deployments/web deleted (server dry run)"],
  ["delete deployment web --dry-run=none --yes", "DELETE", WEB, {}, undefined, "deployments/web deleted"],
  ["delete deployment web --yes -C member1", "DELETE", PROXY + WEB, {}, undefined, "deployments/web deleted"],
  ["delete deployment web --yes --operation-scope members --cluster=member1 --dry-run=server", "DELETE", PROXY + WEB, dry, undefined, "(server dry run)"],
  ["scale deployment web --replicas 3", "PATCH", `${WEB}/scale`, {}, { spec: { replicas: 3 } }, "scaled to 3"],
  ["scale deployment web --replicas=3 --dry-run=server", "PATCH", `${WEB}/scale`, dry, { spec: { replicas: 3 } }, "(server dry run)"],
  ["label deployment web new=value gone-", "PATCH", WEB, {}, { metadata: { labels: { new: "value", gone: null }, resourceVersion: "5" } }, "changed"],
  ["label deployment web tier=back- --overwrite --dry-run=server", "PATCH", WEB, dry, { metadata: { labels: { tier: "back-" } } }, "(server dry run)"],
  ["annotate deploy/web note='a = b'", "PATCH", WEB, {}, { metadata: { annotations: { note: "a = b" }, resourceVersion: "5" } }, "changed"],
  ["cordon member1", "PATCH", CLUSTER, {}, { metadata: { resourceVersion: "7" }, spec: { taints: [{ key: "disk", value: "slow", effect: "NoExecute" }, { key: "cluster.karmada.io/unschedulable", effect: "NoSchedule" }] } }, "cordoned"],
  ["uncordon member1 --dry-run=server", "PATCH", CLUSTER, dry, { metadata: { resourceVersion: "7" }, spec: { taints: [{ key: "disk", value: "slow", effect: "NoExecute" }] } }, "uncordoned (server dry run)"],
  ["taint clusters member1 disk:NoExecute-", "PATCH", CLUSTER, {}, { metadata: { resourceVersion: "7" }, spec: { taints: [] } }, "untainted"],
  ["taint member1 disk=fast:NoExecute --overwrite", "PATCH", CLUSTER, {}, { metadata: { resourceVersion: "7" }, spec: { taints: [{ key: "disk", value: "fast", effect: "NoExecute" }] } }, "tainted"],
];

test("a change is the request that the options ask for", async () => {
  for (const [line, method, path, query, body, text] of CHANGING) {
    const { output, requests } = await run(line);
    const [change, ...more] = changes(requests);
    assert.deepEqual([change?.method, change?.path, change?.query, change?.body], [method, path, query, body], line);
    assert.deepEqual(more, [], line);
    assert.ok(output.includes(text), `${line}: ${output}`);
  }
});

test("a patch has the type that is asked for", async () => {
  for (const [options, type] of [["--patch '{}'", "strategic-merge-patch"], ["-p '{}' --type=merge", "merge-patch"], ["--patch '[]'", "json-patch"], ["--patch '[]' --type json --dry-run=server", "json-patch"]]) {
    const { requests } = await run(`patch deployment web ${options}`);
    assert.deepEqual(changes(requests).map((one) => [one.path, one.type]), [[WEB, `application/${type}+json`]], options);
  }
});

test("with --dry-run=client nothing is changed, and the object is looked for", async () => {
  const lines = ["delete deployment web --dry-run=client", "delete deployment web --yes --dry-run", "scale deployment web --replicas 3 --dry-run", "label deployment web new=value --dry-run=client", "annotate deployment web note=1 --dry-run", "patch deployment web -p '{}' --dry-run=client", "rollout restart deployment web --dry-run=client", "cordon member1 --dry-run", "uncordon member1 --dry-run=client", "taint member1 disk:NoExecute- --dry-run"];
  for (const line of lines) {
    const { output, requests } = await run(line);
    assert.deepEqual(changes(requests), [], line);
    assert.ok(requests.some(({ path }) => [WEB, CLUSTER].includes(path)), line);
    assert.match(output, / \(dry run\)$/, line);
  }
});

test("every command that changes something takes --dry-run", () => {
  const readers = ["get", "describe", "logs", "why", "failover simulate", "auth whoami", "auth can-i", "api-resources", "version", "help"];
  for (const [name, { options }] of Object.entries(shell.COMMANDS)) assert.equal(options.includes("dry-run"), !readers.includes(name), name);
});

test("existing values are replaced with --overwrite only", async () => {
  for (const line of ["label deployment web tier=back", "taint member1 disk=fast:NoExecute"]) {
    requests = [];
    await assert.rejects(shell.runLine(line, AROUND), /already has the value .*--overwrite/, line);
    assert.deepEqual(changes(requests), [], line);
  }
});

/** Lines that read: the paths of their requests and the query of the last one. */
const READING = [
  ["get deployments", [WEB.replace("/web", "")], { limit: "500" }],
  ["get deploy -A -l app=web --field-selector metadata.name=web", ["/apis/apps/v1/deployments"], { labelSelector: "app=web", fieldSelector: "metadata.name=web", limit: "500" }],
  ["get deploy -Aoname", ["/apis/apps/v1/deployments"], { limit: "500" }],
  ["get deploy/web -nshop", [WEB.replace("default", "shop")], {}],
  ["get deployments -C member1", [PROXY + WEB.replace("/web", "")], { limit: "500" }],
  ["get clusters --operation-scope=karmada", ["/apis/cluster.karmada.io/v1alpha1/clusters"], { limit: "500" }],
  ["describe deployment web -s members -C member1", [PROXY + WEB, `${PROXY}/api/v1/namespaces/default/events`], { fieldSelector: "involvedObject.name=web" }],
  ["logs web-1 -C member1 -c app --tail=20 -p --timestamps", [`${PROXY}/api/v1/namespaces/default/pods/web-1/log`], { tailLines: "20", container: "app", previous: "true", timestamps: "true" }],
  ["logs web-1 -C member1 --tail -1", [`${PROXY}/api/v1/namespaces/default/pods/web-1/log`], {}],
  ["why deployment/web", ["/flotilla/v1alpha1/why"], { apiVersion: "apps/v1", kind: "Deployment", namespace: "default", name: "web" }],
  ["failover simulate member1", ["/flotilla/v1alpha1/failover"], { cluster: "member1" }],
  ["failover member1", ["/flotilla/v1alpha1/failover"], { cluster: "member1" }],
];

test("options of reading commands are part of the request", async () => {
  for (const [line, paths, query] of READING) {
    const { requests } = await run(line);
    assert.deepEqual(requests.map((one) => one.path), paths, line);
    assert.deepEqual(requests.at(-1).query, query, line);
  }
});

test("the scope of get is the control plane, its members, or both", async () => {
  const clusters = async (options) => (await run(`get pods ${options}`)).output;
  assert.match(await clusters("-s members"), /^CLUSTER +NAME\nmember1 +of member1\nmember2 +of member2$/);
  assert.match(await clusters("-s all -C member2"), /^CLUSTER +NAME\nKarmada +of pods\nmember2 +of member2$/);
  assert.match(await clusters("-C member2,member1"), /member2 +of member2\nmember1 +of member1$/);
  assert.match(await clusters("--show-labels"), /^NAME +LABELS\nof pods +app=web$/);
});

test("the help of a command has every option it takes", async () => {
  for (const [name, { options }] of Object.entries(shell.COMMANDS)) {
    const { output, requests } = await run(`${name} --help`);
    for (const option of options) assert.ok(output.includes(`--${option}`), `${name}: ${output}`);
    assert.deepEqual(requests, []);
  }
  assert.match((await run("help get")).output, /-C, --cluster CLUSTER/);
});

test("words and options of a line are completed", () => {
  for (const [text, expected] of [["rollout ", ["restart"]], ["get dep", ["deployments"]], ["scale deploy/web --r", ["--replicas"]], ["delete pods web --d", ["--dry-run"]], ["auth c", ["can-i"]], ["get 'x", []], ["cordon ", []]]) assert.deepEqual(shell.complete(text, AROUND), expected, text);
});
