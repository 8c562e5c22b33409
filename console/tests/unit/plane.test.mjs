// What the pages of a control plane derive from its objects.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { load } from "./load.mjs";

const { pageOf, pageOfKind, subjectOf } = await load("model/links.ts");
const { matchesFilter, policyKey, summarize } = await load("model/bindingSummary.ts");
const { stateOfMove } = await load("model/failover.ts");
const { mentionOf, mergeEvents } = await load("model/events.ts");
const { checksOf } = await load("model/components.ts");
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
