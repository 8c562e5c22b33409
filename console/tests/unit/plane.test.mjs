// What the pages of a control plane derive from its objects.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { load } from "./load.mjs";

const { pageOf, pageOfKind, subjectOf } = await load("model/links.ts");
const { matchesFilter, policyKey, summarize } = await load("model/bindingSummary.ts");
const { stateOfMove } = await load("model/failover.ts");
const { mentionOf, mergeEvents } = await load("model/events.ts");
const { checksOf, hooksOf } = await load("model/components.ts");
const { isPodOf } = await load("model/workload.ts");
const { formatCpu } = await load("api/quantity.ts");
const { readMasked } = await load("api/secrets.ts");

const resource = (group, version, plural, kind, namespaced = true) => ({ group, version, plural, kind, namespaced, verbs: [], shortNames: [], subresources: [] });
const SERVED = [
  resource("networking.k8s.io", "v1", "ingresses", "Ingress"),
  resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
  resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
  resource("", "v1", "namespaces", "Namespace", false),
  resource("shop.example", "v1", "mice", "Mouse"),
  resource("batch.example", "v1", "jobs", "Job"),
];

test("links follow the names in discovery, not the spelling of the kind", () => {
  const link = (apiVersion, kind, namespace) => pageOfKind(SERVED, { apiVersion, kind, namespace, name: "one" });
  assert.equal(link("networking.k8s.io/v1", "Ingress", "shop"), "/resources/networking.k8s.io~v1~ingresses/shop/one");
  assert.equal(link("networking.k8s.io/v1", "NetworkPolicy", "shop"), "/resources/networking.k8s.io~v1~networkpolicies/shop/one");
  assert.equal(link("shop.example/v1", "Mouse", "shop"), "/resources/shop.example~v1~mice/shop/one");
  assert.equal(link("v1", "Namespace"), "/resources/core~v1~namespaces/one");
  assert.equal(link("apps/v1", "Deployment", "shop"), "/workloads/apps~v1~deployments/shop/one");
  assert.equal(link("batch.example/v1", "Job", "shop"), "/resources/batch.example~v1~jobs/shop/one", "another group's Job is no workload");
  assert.equal(link("unknown.example/v1", "Unknown", "shop"), undefined);
  assert.equal(pageOfKind(undefined, { apiVersion: "v1", kind: "Namespace", name: "one" }), undefined, "without discovery");
  assert.equal(pageOf(resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", false), undefined, "system:node"), "/resources/rbac.authorization.k8s.io~v1~clusterroles/system%3Anode");
});

const binding = (number, { clusters = ["m1"], health = "Healthy", annotations = {}, namespace = "shop", tasks } = {}) => ({
  metadata: { name: `w${number}-deployment`, namespace, annotations },
  spec: { resource: { apiVersion: "apps/v1", kind: "Deployment", namespace, name: `w${number}` }, clusters: clusters.map((name) => ({ name, replicas: 2 })), gracefulEvictionTasks: tasks },
  status: { aggregatedStatus: clusters.map((clusterName) => ({ clusterName, applied: true, health })) },
});

test("every binding counts, also beyond one page", () => {
  const all = [
    ...Array.from({ length: 1_200 }, (_, number) => binding(number, { annotations: { "clusterpropagationpolicy.karmada.io/name": "all" } })),
    binding(1_200, { clusters: ["m1", "m2"], health: "Unhealthy" }),
    binding(1_201, { clusters: [] }),
    binding(1_202, { tasks: [{ fromCluster: "m2" }] }),
  ];
  const { attention, ...counted } = summarize(all);
  assert.deepEqual(counted, {
    total: 1_203, scheduled: 1_202, applied: 1_202, healthy: 1_201, leaving: 1, replicas: 2_406,
    clusters: { m1: { objects: 1_202, replicas: 2_404 }, m2: { objects: 1, replicas: 2 } },
    policies: { "ClusterPropagationPolicy//all": 1_200 },
  });
  assert.deepEqual(attention.map((one) => one.metadata.name), ["w1201-deployment", "w1200-deployment"]);
});

test("a cluster-wide policy holds objects in namespaces", () => {
  const policy = policyKey({ kind: "ClusterPropagationPolicy", namespace: undefined, name: "all" });
  const held = binding(1, { annotations: { "clusterpropagationpolicy.karmada.io/name": "all" } });
  assert.equal(matchesFilter(held, { policy }), true);
  assert.equal(matchesFilter(held, { policy: policyKey({ kind: "PropagationPolicy", namespace: "shop", name: "all" }) }), false);
  assert.equal(matchesFilter(binding(2), { policy }), false);
  assert.equal(matchesFilter(held, { cluster: "m1", leaving: true }), false);
  assert.deepEqual(subjectOf(held), { apiVersion: "apps/v1", kind: "Deployment", namespace: "shop", name: "w1" });
});

test("a failover has a state from its first to its last step", () => {
  const state = (move) => stateOfMove({ from: "m1", ...move })[0];
  assert.equal(state({}), "Not placed yet");
  assert.equal(state({ to: [{ name: "m2" }] }), "Moving");
  assert.equal(state({ to: [{ name: "m2" }], ended: "2026-01-01T00:00:00Z" }), "Moved");
  assert.equal(state({ to: [{ name: "m2" }], ended: "2026-01-01T00:00:00Z", returned: "2026-01-01T00:01:00Z" }), "Returned");
});

test("events of several lists are shown once, newest first", () => {
  const event = (uid, lastTimestamp) => ({ metadata: { uid, name: uid }, lastTimestamp });
  const merged = mergeEvents([[event("a", "2026-01-01T00:00:01Z"), event("b", "2026-01-01T00:00:03Z")], [event("a", "2026-01-01T00:00:01Z"), event("c", "2026-01-01T00:00:02Z")]]);
  assert.deepEqual(merged.map((one) => one.metadata.uid), ["b", "c", "a"]);
  assert.equal(mentionOf({ kind: "Deployment", metadata: { namespace: "shop", name: "web" } }), "(Deployment/shop/web)");
  assert.equal(mentionOf({ kind: "Namespace", metadata: { name: "shop" } }), "(Namespace/shop)");
});

test("health checks are read without the start hooks", () => {
  const report = "[+]ping ok\n[-]etcd failed: reason withheld\n[+]poststarthook/start-x ok\nreadyz check failed\n";
  assert.deepEqual(checksOf(report), [{ name: "ping", ok: true }, { name: "etcd", ok: false }]);
  assert.ok(hooksOf(report).every(({ name }) => name.startsWith("poststarthook/")));
});

/** Answers by path; other paths are not found. */
let answers = {};
let asked = [];
beforeEach(() => {
  asked = [];
  globalThis.fetch = async (url, { headers } = {}) => {
    asked.push([url, new Headers(headers).get("accept")]);
    const body = answers[url];
    return body === undefined ? new Response("404 page not found", { status: 404 }) : Response.json(body);
  };
});

test("a secret is shown from its keys; its values are not read", async () => {
  const path = "/flotilla/v1alpha1/secrets/keys?namespace=shop&name=db";
  answers = { [path]: { metadata: { name: "db", namespace: "shop" }, type: "Opaque", keys: [{ name: "password", bytes: 6 }] } };
  assert.deepEqual((await readMasked("shop", "db")).keys, [{ name: "password", bytes: 6 }]);
  assert.deepEqual(asked.map(([url]) => url), [path]);
});

test("where keys are not served, a table without objects is read", async () => {
  const path = "/api/v1/namespaces/shop/secrets/db?includeObject=None";
  answers = { [path]: { kind: "Table", columnDefinitions: [{ name: "Name" }, { name: "Type" }], rows: [{ cells: ["db", "Opaque"], object: null }] } };
  const masked = await readMasked("shop", "db");
  assert.deepEqual([masked.keys, masked.type, masked.data], [undefined, "Opaque", undefined]);
  assert.deepEqual(asked.at(-1), [path, "application/json;as=Table;g=meta.k8s.io;v=v1"]);
  answers = {};
  await assert.rejects(readMasked("shop", "db"), { code: 404 });
});

test("values beyond the limits of the schema are found while they are typed", async () => {
  const { schemaProblems } = await load("editor/validation.ts");
  const spec = {
    type: "object",
    properties: {
      name: { type: "string", pattern: "^[a-z]+$", maxLength: 5 },
      size: { type: "integer", minimum: 1, maximum: 9 },
      share: { type: "number", minimum: 0, exclusiveMinimum: true },
      quantity: { anyOf: [{ type: "integer" }, { type: "string" }], pattern: "^[0-9]+m?$", "x-kubernetes-int-or-string": true },
      tags: { type: "array", minItems: 1, maxItems: 2, uniqueItems: true, items: { type: "string", minLength: 1 } },
      odd: { type: "string", pattern: "(?P<x>a)" },
    },
  };
  const widget = { type: "object", properties: { apiVersion: { type: "string" }, kind: { type: "string" }, spec }, "x-kubernetes-group-version-kind": [{ group: "shop.example", version: "v1", kind: "Widget" }] };
  answers = { "/openapi/v3/apis/shop.example/v1": { components: { schemas: { Widget: widget } } } };
  const problems = async (fields) => (await schemaProblems(`apiVersion: shop.example/v1\nkind: Widget\nspec: ${JSON.stringify(fields)}\n`)).map((one) => one.message);
  assert.deepEqual(await problems({ name: "abc", size: 1, share: 0.5, quantity: "10m", tags: ["a", "b"], odd: "b" }), []);
  assert.deepEqual(await problems({ name: "ABC" }), ["spec.name: must match ^[a-z]+$"]);
  assert.deepEqual(await problems({ name: "abcdef" }), ["spec.name: at most 5 characters are allowed"]);
  assert.deepEqual(await problems({ size: 0 }), ["spec.size: must be at least 1"]);
  assert.deepEqual(await problems({ size: 10 }), ["spec.size: must be at most 9"]);
  assert.deepEqual(await problems({ share: 0 }), ["spec.share: must be more than 0"]);
  assert.deepEqual(await problems({ quantity: "ten" }), ["spec.quantity: must match ^[0-9]+m?$"]);
  assert.deepEqual(await problems({ tags: [] }), ["spec.tags: at least 1 items are needed"]);
  assert.deepEqual(await problems({ tags: ["a", "a"] }), ["spec.tags: items must be unique"]);
  assert.deepEqual(await problems({ tags: [""] }), ["spec.tags[0]: at least 1 characters are needed"]);
});

test("StatefulSets and DaemonSets have revisions too", async () => {
  const { revisionsOf } = await load("model/revisions.ts");
  const owner = (kind, name) => ({ ownerReferences: [{ kind, name }] });
  const revision = (number, image, name = "db") => ({ metadata: { name: `db-${number}`, ...owner("StatefulSet", name) }, revision: number, data: { spec: { template: { $patch: "replace", metadata: { labels: { app: "db" } }, spec: { containers: [{ image }] } } } } });
  const workload = { kind: "StatefulSet", metadata: { name: "db", namespace: "shop" } };
  const found = revisionsOf(workload, "m1", [revision(1, "db:1"), revision(3, "db:3"), revision(2, "db:2"), revision(9, "other:9", "other")]);
  assert.deepEqual(found.map(({ number, images, current }) => [number, images[0], current]), [[3, "db:3", true], [2, "db:2", false], [1, "db:1", false]]);
  assert.deepEqual(found[2].template, { metadata: { labels: { app: "db" } }, spec: { containers: [{ image: "db:1" }] } });
  const set = (number, replicas) => ({ metadata: { name: `web-${number}`, annotations: { "deployment.kubernetes.io/revision": String(number) }, ...owner("Deployment", "web") }, spec: { replicas, template: { metadata: { labels: { app: "web", "pod-template-hash": "x" } }, spec: { containers: [{ image: `web:${number}` }] } } } });
  const deployment = { kind: "Deployment", metadata: { name: "web", namespace: "shop" } };
  const sets = revisionsOf(deployment, "m1", [set(10, 0), set(9, 0)]);
  assert.deepEqual(sets.map(({ number, current }) => [number, current]), [[10, true], [9, false]], "also when it is scaled to zero");
  assert.deepEqual(sets[0].template.metadata, { labels: { app: "web" } });
});

test("containers are chosen for one pod and for many", async () => {
  const { chosenContainers, containersOfAll, defaultContainer, wordsOfCommand } = await load("model/containers.ts");
  const pod = (containers, init = [], annotations = {}) => ({ metadata: { name: "web", annotations }, spec: { containers: containers.map((name) => ({ name })), initContainers: init.map((name) => ({ name })) } });
  const web = pod(["proxy", "web"], ["setup"], { "kubectl.kubernetes.io/default-container": "web" });
  assert.equal(defaultContainer(web), "web");
  assert.equal(defaultContainer(pod(["a", "b"])), "a");
  assert.deepEqual(chosenContainers(web, ""), ["web"]);
  assert.deepEqual(chosenContainers(web, "*"), ["proxy", "web"]);
  assert.deepEqual(chosenContainers(web, "setup"), ["setup"]);
  assert.deepEqual(chosenContainers(pod(["a"]), "setup"), []);
  assert.deepEqual(containersOfAll([web, pod(["web", "extra"])]).map((one) => one.name), ["proxy", "web", "setup", "extra"]);
  assert.deepEqual(wordsOfCommand(`sh -c "echo 'a b'" ''`), ["sh", "-c", "echo 'a b'", ""]);
});

test("a deletion names clusters, followers and services", async () => {
  const { deletionOf, isProtected, servicesOf } = await load("model/deletion.ts");
  const follower = { apiVersion: "v1", kind: "ConfigMap", namespace: "shop", name: "settings" };
  const held = binding(1, { clusters: ["m1", "m2"], annotations: { "resourcebinding.karmada.io/dependencies": JSON.stringify([follower]) } });
  const { clusters, keeps, followers } = deletionOf(held);
  assert.deepEqual([clusters.map((one) => one.name), keeps, followers], [["m1", "m2"], false, [follower]]);
  assert.equal(deletionOf({ ...held, spec: { ...held.spec, preserveResourcesOnDeletion: true } }).keeps, true);
  assert.deepEqual(deletionOf(undefined), { clusters: [], keeps: false, followers: [] });
  assert.deepEqual(deletionOf(binding(1, { annotations: { "resourcebinding.karmada.io/dependencies": "{" } })).followers, []);
  const workload = { kind: "Deployment", metadata: { name: "web" }, spec: { template: { metadata: { labels: { app: "web", tier: "front" } } } } };
  const service = (name, selector) => ({ metadata: { name }, spec: { selector } });
  assert.deepEqual(servicesOf(workload, [service("web", { app: "web" }), service("other", { app: "db" }), service("none", undefined)]), ["web"]);
  assert.equal(isProtected({ metadata: { labels: { "resourcetemplate.karmada.io/deletion-protected": "Always" } } }), true);
});

test("applying takes over fields of others only when asked", async () => {
  const { applyAll, applyOne } = await load("pages/apply/manifests.ts");
  const served = [resource("", "v1", "configmaps", "ConfigMap"), resource("", "v1", "namespaces", "Namespace", false)];
  const sent = [];
  const conflict = { kind: "Status", reason: "Conflict", message: "1 conflict", details: { causes: [{ reason: "FieldManagerConflict", field: ".data.a", message: 'conflict with "kubectl"' }] } };
  globalThis.fetch = async (url) => {
    sent.push(String(url));
    return String(url).includes("configmaps") && !String(url).includes("force=true") ? Response.json(conflict, { status: 409 }) : Response.json({});
  };
  const object = (kind, name) => ({ apiVersion: "v1", kind, metadata: { name, ...(kind === "ConfigMap" ? { namespace: "shop" } : {}) } });
  const outcomes = await applyAll([object("ConfigMap", "a"), object("Namespace", "shop")], served, () => {});
  assert.deepEqual(outcomes.map((one) => [one.object.kind, one.conflicts]), [["Namespace", undefined], ["ConfigMap", [{ field: ".data.a", message: 'conflict with "kubectl"' }]]]);
  assert.ok(sent.every((url) => !url.includes("force")), sent.join());
  assert.equal((await applyOne(object("ConfigMap", "a"), served, true)).error, undefined);
  assert.ok(sent.at(-1).includes("force=true"));
});

test("a search query has words and terms", async () => {
  const { completionsOf, isSearchable, kindsFor, parseSearch, splitWords } = await load("model/search.ts");
  assert.deepEqual(parseSearch("Web kind:deploy,svc ns:shop label:app=web label:tier front"), { words: ["web", "front"], kinds: ["deploy", "svc"], namespace: "shop", labelSelector: "app=web,tier" });
  assert.deepEqual(["", "w", "kind:", "we", "label:app", "kind:pods"].map((text) => isSearchable(parseSearch(text))), [false, false, false, true, true, true]);
  const served = [resource("apps", "v1", "deployments", "Deployment"), resource("", "v1", "events", "Event"), resource("", "v1", "namespaces", "Namespace", false)].map((one) => ({ ...one, verbs: ["list"], shortNames: one.plural === "deployments" ? ["deploy"] : [] }));
  const plurals = (text) => kindsFor(served, parseSearch(text)).map((one) => one.plural);
  assert.deepEqual(plurals("web"), ["deployments", "namespaces"], "events only when they are named");
  assert.deepEqual(plurals("web kind:deploy"), ["deployments"]);
  assert.deepEqual(plurals("web kind:event"), ["events"]);
  assert.deepEqual(plurals("web ns:shop"), ["deployments"]);
  assert.deepEqual(splitWords(["a", "longer"]), { sent: "longer", others: ["a"] });
  assert.deepEqual(completionsOf("web kind:dep", served, []), ["web kind:Deployment"]);
  assert.deepEqual(completionsOf("ns:s", served, ["shop", "default"]), ["ns:shop"]);
  assert.deepEqual(completionsOf("web ", served, []), []);
});

test("converted objects of several namespaces get a policy in each", async () => {
  const { policiesFor } = await load("pages/convert/model.ts");
  const template = (namespace, name) => ({ apiVersion: "apps/v1", kind: "Deployment", metadata: { namespace, name } });
  const made = policiesFor([template("a", "one"), template("b", "two"), template("a", "three")], "m1", "keep");
  assert.deepEqual(made.map(({ metadata, spec }) => [metadata.namespace, metadata.name, spec.resourceSelectors.map((one) => one.name)]), [["a", "keep", ["one", "three"]], ["b", "keep", ["two"]]]);
  assert.ok(made.every(({ spec }) => spec.preserveResourcesOnDeletion && spec.placement.clusterAffinity.clusterNames[0] === "m1"));
});

test("the pods of a workload are those that it owns, not all that its selector finds", () => {
  const pod = (kind, name, labels = {}) => ({ metadata: { name: "one", labels, ownerReferences: [{ kind, name, controller: true }] } });
  const workload = (kind) => ({ kind, metadata: { name: "shop" } });
  const check = (kind, owned, other) => {
    assert.ok(isPodOf(workload(kind), owned), `${kind} owns`);
    assert.ok(!isPodOf(workload(kind), other), `${kind} does not own`);
  };
  check("Deployment", pod("ReplicaSet", "shop-795f", { "pod-template-hash": "795f" }), pod("ReplicaSet", "shop-db-795f", { "pod-template-hash": "795f" }));
  check("Deployment", pod("ReplicaSet", "shop-795f", { "pod-template-hash": "795f" }), pod("StatefulSet", "shop-db"));
  check("StatefulSet", pod("StatefulSet", "shop"), pod("StatefulSet", "shop-db"));
  check("CronJob", pod("Job", "shop-29"), pod("Job", "other-29"));
  assert.ok(isPodOf(workload("Deployment"), { metadata: { name: "one" } }), "a pod without an owner");
});

test("large numbers of cores have separators", () => {
  assert.equal(formatCpu(160000), (160000).toLocaleString());
  assert.equal(formatCpu(0.6), "600m");
});
