// What the pages of a manager and of access derive from answers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./load.mjs";

const { allows } = await load("pages/access/rbac.ts");
const { parseLabels, labelsText } = await load("pages/manager/labels.ts");
const { byAttention, countedOf, phaseOf, workloadsOf } = await load("model/instance.ts");
const { firstSteps, shapeProblem } = await load("pages/manager/KubeconfigField.tsx");
const { targetText } = await load("pages/manager/kinds.ts");
const { reduced } = await load("pages/manager/BindingForm.tsx");

test("a role allows what one of its rules has in all parts", () => {
  const role = {
    rules: [
      { verbs: ["get", "list"], apiGroups: ["apps"], resources: ["deployments", "*/scale"] },
      { verbs: ["*"], apiGroups: [""], resources: ["secrets"], resourceNames: ["canary"] },
    ],
  };
  const check = (verb, group, resource, name, expected) => assert.equal(allows(role, { verb, group, resource, name, namespace: "shop" }), expected, `${verb} ${group} ${resource} ${name}`);
  check("get", "apps", "deployments", "web", true);
  check("delete", "apps", "deployments", "web", false);
  check("get", "", "deployments", "web", false);
  check("get", "apps", "statefulsets", "web", false);
  check("get", "apps", "deployments/scale", "web", true);
  check("get", "apps", "statefulsets/scale", "web", true);
  check("get", "apps", "deployments/status", "web", false);
  check("delete", "", "secrets", "canary", true);
  check("get", "", "secrets", "other", false);
  check("list", "", "secrets", "", false);
  assert.equal(allows({ rules: [{ verbs: ["*"], apiGroups: ["*"], resources: ["*"] }] }, { verb: "use", group: "x.example", resource: "y/z", name: "", namespace: "" }), true);
  assert.equal(allows({}, { verb: "get", group: "", resource: "pods", name: "", namespace: "" }), false);
});

test("labels survive a round trip through their text", () => {
  assert.deepEqual(parseLabels(" team=shop,stage=test  plain "), { team: "shop", stage: "test", plain: "" });
  assert.deepEqual(parseLabels(labelsText({ a: "b", c: "" })), { a: "b", c: "" });
  assert.deepEqual(parseLabels(""), {});
});

test("instances that need attention come first", () => {
  const instance = (name, state, phase, message = "") => ({ name, state, phase, message });
  const all = [
    instance("run", "STATE_RUNNING", "Running"),
    instance("sleep", "STATE_HIBERNATED", "Hibernated"),
    instance("start", "STATE_INPROCESS", ""),
    instance("bad", "STATE_UNAVAILABLE", "Failed", "no space"),
    instance("behind", "STATE_RUNNING", "Running", "a check fails"),
  ];
  assert.deepEqual(all.map(phaseOf), [["Running", "ok"], ["Hibernated", ""], ["Pending", "warn"], ["Failed", "bad"], ["Running", "warn"]]);
  assert.deepEqual([...all].sort(byAttention).map((one) => one.name), ["bad", "behind", "start", "sleep", "run"]);
});

test("numbers of instances are texts and may be missing", () => {
  assert.equal(countedOf({ total: "3", ready: "2" }), "2/3");
  assert.equal(countedOf(undefined), "–");
  assert.equal(workloadsOf({ summary: { workloads: { deployments: { total: "2" }, jobs: { total: 1 }, daemonsets: {} } } }), 3);
  assert.equal(workloadsOf({}), undefined);
});

test("a check of a kubeconfig says which step failed", () => {
  const states = (outcome) => firstSteps({ shape: "", ...outcome }, "It answers").map((one) => one.state);
  assert.deepEqual(states({}), ["waiting", "waiting"]);
  assert.deepEqual(states({ shape: "It has no users." }), ["failed", "waiting"]);
  assert.deepEqual(states({ problem: "kubeconfig: users[u].user.exec is not accepted" }), ["failed", "waiting"]);
  assert.deepEqual(states({ problem: "kubeconfig: https://east:5443 cannot be used: refused" }), ["done", "failed"]);
  assert.deepEqual(states({ problem: "https://m1:6443 cannot be used: refused" }), ["done", "failed"]);
  assert.deepEqual(states({ checked: { server: "https://m1:6443", kubernetesVersion: "v1.36.0" } }), ["done", "done"]);
  assert.notEqual(shapeProblem("kind: Config"), "");
  assert.notEqual(shapeProblem("clusters: []"), "");
  assert.equal(shapeProblem("clusters: []\nusers: []"), "");
  assert.equal(shapeProblem('{"apiVersion":"v1","clusters":[],"users":[]}'), "");
});

test("the place of a binding is the most exact that is set", () => {
  assert.equal(targetText(reduced({ folder: "", workspace: "", instance: "east", namespace: "shop" })), "east / shop");
  assert.equal(targetText(reduced({ folder: "", workspace: "shop", instance: "", namespace: "" })), "workspace shop");
  assert.equal(targetText(undefined), "the whole platform");
  assert.deepEqual(reduced({ folder: "", instance: "east" }), { instance: "east" });
});
