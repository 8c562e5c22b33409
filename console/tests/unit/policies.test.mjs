// The form of policies: from its fields to a policy, and back without losing what it does not show.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./load.mjs";

const { changedPolicy, draftOf, emptyDraft, hiddenParts, policyFrom } = await load("pages/policies/draft.ts");
const { PROPAGATION_POLICIES, OVERRIDE_POLICIES } = await load("api/resources.ts");

const propagation = {
  apiVersion: "policy.karmada.io/v1alpha1",
  kind: "PropagationPolicy",
  metadata: { name: "web", namespace: "shop", resourceVersion: "7", annotations: { team: "shop" } },
  spec: {
    priority: 3,
    propagateDeps: true,
    failover: { application: { decisionConditions: { tolerationSeconds: 30 } } },
    resourceSelectors: [{ apiVersion: "apps/v1", kind: "Deployment", namespace: "shop", name: "web" }, { apiVersion: "v1", kind: "Service", name: "web" }],
    placement: {
      clusterAffinity: { clusterNames: ["m1"], exclude: ["m9"] },
      clusterTolerations: [{ key: "a", operator: "Exists" }],
      replicaScheduling: { replicaSchedulingType: "Divided", replicaDivisionPreference: "Weighted", weightPreference: { staticWeightList: [{ targetCluster: { clusterNames: ["m1"] }, weight: 2 }] } },
    },
  },
};

test("opening and saving a policy changes nothing", () => {
  assert.deepEqual(changedPolicy(PROPAGATION_POLICIES, propagation, draftOf(propagation)), propagation);
  assert.deepEqual(hiddenParts(propagation), { selectors: 1, rules: 0, overriders: 0, affinities: 0 });
});

test("only what is changed in the form changes in the policy", () => {
  const { spec } = changedPolicy(PROPAGATION_POLICIES, propagation, { ...draftOf(propagation), clusters: ["m1", "m2"], priority: "" });
  assert.deepEqual(spec, { ...propagation.spec, priority: 0, placement: { ...propagation.spec.placement, clusterAffinity: { clusterNames: ["m1", "m2"], exclude: ["m9"] } } });
  const renamed = changedPolicy(PROPAGATION_POLICIES, propagation, { ...draftOf(propagation), objectName: "", labels: "app=web" }).spec;
  assert.deepEqual(JSON.parse(JSON.stringify(renamed.resourceSelectors)), [{ apiVersion: "apps/v1", kind: "Deployment", namespace: "shop", labelSelector: { matchLabels: { app: "web" } } }, propagation.spec.resourceSelectors[1]]);
  const duplicated = changedPolicy(PROPAGATION_POLICIES, propagation, { ...draftOf(propagation), scheduling: "Duplicated" }).spec;
  assert.deepEqual(duplicated.placement.replicaScheduling, { replicaSchedulingType: "Duplicated" });
  assert.equal(propagation.spec.placement.clusterAffinity.clusterNames.length, 1, "the object that was read is not touched");
});

test("a selector of another kind keeps its version", () => {
  const custom = structuredClone(propagation);
  custom.spec.resourceSelectors = [{ apiVersion: "shop.example/v2", kind: "Widget", name: "a" }];
  const { spec } = changedPolicy(PROPAGATION_POLICIES, custom, { ...draftOf(custom), objectName: "b" });
  assert.deepEqual([spec.resourceSelectors[0].apiVersion, spec.resourceSelectors[0].kind, spec.resourceSelectors[0].name], ["shop.example/v2", "Widget", "b"]);
});

const override = (overriders) => ({
  apiVersion: "policy.karmada.io/v1alpha1",
  kind: "OverridePolicy",
  metadata: { name: "web", namespace: "shop" },
  spec: { resourceSelectors: [{ apiVersion: "apps/v1", kind: "Deployment", name: "web" }], overrideRules: [{ targetCluster: { clusterNames: ["m1"] }, overriders }] },
});

const OVERRIDERS = {
  imageTag: { imageOverrider: [{ component: "Tag", operator: "replace", value: "v2" }] },
  imageRegistry: { imageOverrider: [{ component: "Registry", operator: "replace", value: "eu.example" }] },
  imageRepository: { imageOverrider: [{ component: "Repository", operator: "replace", value: "shop/web" }] },
  command: { commandOverrider: [{ containerName: "web", operator: "add", value: ["sh", "-c", "a b"] }] },
  args: { argsOverrider: [{ containerName: "web", operator: "add", value: ["--verbose"] }] },
  label: { labelsOverrider: [{ operator: "add", value: { tier: "front" } }] },
  annotation: { annotationsOverrider: [{ operator: "add", value: { team: "shop" } }] },
  field: { fieldOverrider: [{ fieldPath: "/data/config.yaml", yaml: [{ subPath: "/port", operator: "replace", value: 8080 }] }] },
  plaintext: { plaintext: [{ path: "/spec/replicas", operator: "replace", value: 2 }] },
};

test("every kind of change is read and written", () => {
  for (const [overrider, overriders] of Object.entries(OVERRIDERS)) {
    const policy = override(overriders);
    const draft = draftOf(policy);
    assert.equal(draft.overrider, overrider);
    assert.deepEqual(policyFrom(OVERRIDE_POLICIES, draft), policy, overrider);
    assert.deepEqual(changedPolicy(OVERRIDE_POLICIES, policy, draft), policy, overrider);
  }
});

test("further changes of a rule stay when the first is edited", () => {
  const policy = override({ ...OVERRIDERS.imageTag, plaintext: [{ path: "/spec/replicas", operator: "replace", value: 2 }] });
  const edited = changedPolicy(OVERRIDE_POLICIES, policy, { ...draftOf(policy), overrideValue: "v3" });
  assert.deepEqual(edited.spec.overrideRules[0].overriders, { imageOverrider: [{ component: "Tag", operator: "replace", value: "v3" }], plaintext: policy.spec.overrideRules[0].overriders.plaintext });
  const other = changedPolicy(OVERRIDE_POLICIES, policy, { ...draftOf(policy), overrider: "label", overrideKey: "a", overrideValue: "b" });
  assert.deepEqual(other.spec.overrideRules[0].overriders, { plaintext: policy.spec.overrideRules[0].overriders.plaintext, labelsOverrider: [{ operator: "add", value: { a: "b" } }] });
  assert.deepEqual(hiddenParts(policy), { selectors: 0, rules: 0, overriders: 1, affinities: 0 });
});

test("a new policy is what the form says", () => {
  const draft = { ...emptyDraft("shop"), name: "web", clusters: ["m1"], scheduling: "Divided", division: "Available", priority: "2" };
  assert.deepEqual(policyFrom(PROPAGATION_POLICIES, draft).spec, {
    resourceSelectors: [{ apiVersion: "apps/v1", kind: "Deployment" }],
    priority: 2,
    placement: { clusterAffinity: { clusterNames: ["m1"] }, replicaScheduling: { replicaSchedulingType: "Divided", replicaDivisionPreference: "Weighted", weightPreference: { dynamicWeight: "AvailableReplicas" } } },
  });
});
