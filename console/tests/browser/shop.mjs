// The workload that the pages show: it stays as it is whatever the journeys do to clusters.

import { until } from "./harness.mjs";

const labels = { app: "shop" };
const container = { name: "web", image: "registry.k8s.io/nginx:1.27", resources: { requests: { cpu: "100m", memory: "64Mi" } } };

const DEPLOYMENT = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "shop", namespace: "default", labels },
  spec: { replicas: 6, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers: [container] } } },
};

const POLICY = {
  apiVersion: "policy.karmada.io/v1alpha1",
  kind: "PropagationPolicy",
  metadata: { name: "shop", namespace: "default" },
  spec: {
    resourceSelectors: [{ apiVersion: "apps/v1", kind: "Deployment", name: "shop" }],
    placement: {
      clusterAffinity: { clusterNames: ["member1", "member2", "member3"] },
      // It stays in clusters that a journey cordons or evacuates.
      clusterTolerations: [{ operator: "Exists" }],
      replicaScheduling: { replicaSchedulingType: "Divided", replicaDivisionPreference: "Weighted" },
    },
  },
};

const SECRET = { apiVersion: "v1", kind: "Secret", metadata: { name: "canary", namespace: "default" }, stringData: { password: "canary-7f3a" } };

const BINDING = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings/shop-deployment";

/** A Secret whose value no page shows unless it is asked for. */
export const canary = (visitor) => visitor.api("POST", "/api/v1/namespaces/default/secrets", SECRET);

/** Deploys it, with a Secret, and waits until it is healthy in three members. */
export async function shop(visitor) {
  await canary(visitor);
  await visitor.api("POST", "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies", POLICY);
  await visitor.api("POST", "/apis/apps/v1/namespaces/default/deployments", DEPLOYMENT);
  const healthy = (binding) => (binding.status?.aggregatedStatus ?? []).filter((one) => one.health === "Healthy").length === 3;
  await until(visitor, BINDING, healthy, "shop is healthy in three members");
}
