// The workload that the pages show: it stays as it is whatever the journeys do to clusters.

import { check, until } from "./harness.mjs";

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
    resourceSelectors: [{ apiVersion: "apps/v1", kind: "Deployment", name: "shop" }, { apiVersion: "apps/v1", kind: "StatefulSet", name: "shop-db" }],
    placement: {
      clusterAffinity: { clusterNames: ["member1", "member2", "member3"] },
      // It stays in clusters that a journey cordons or evacuates.
      clusterTolerations: [{ operator: "Exists" }],
      replicaScheduling: { replicaSchedulingType: "Divided", replicaDivisionPreference: "Weighted" },
    },
  },
};

const METADATA = { name: "shop", namespace: "default", labels };
const STATEFULSET = { apiVersion: "apps/v1", kind: "StatefulSet", metadata: { ...METADATA, name: "shop-db" }, spec: { ...DEPLOYMENT.spec, replicas: 3, serviceName: "shop" } };
const SERVICE = { apiVersion: "v1", kind: "Service", metadata: METADATA, spec: { selector: labels, ports: [{ name: "http", port: 8080 }] } };
const INGRESS = { apiVersion: "networking.k8s.io/v1", kind: "Ingress", metadata: METADATA, spec: { rules: [{ host: "shop.example.com", http: { paths: [{ path: "/", pathType: "Prefix", backend: { service: { name: "shop", port: { number: 8080 } } } }] } }] } };
const WIDGET_SCHEMA = { type: "object", properties: { spec: { type: "object", properties: { size: { type: "integer" } } } } };
const WIDGETS = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "widgets.console.test" },
  spec: { group: "console.test", scope: "Namespaced", names: { plural: "widgets", singular: "widget", kind: "Widget" }, versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: WIDGET_SCHEMA } }] },
};
const WIDGET = { apiVersion: "console.test/v1", kind: "Widget", metadata: { ...METADATA, name: "shop-widget" }, spec: { size: 3 } };

const SECRET = { apiVersion: "v1", kind: "Secret", metadata: { name: "canary", namespace: "default" }, stringData: { password: "canary-7f3a" } };

const BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";

/** A Secret whose value no page shows unless it is asked for. */
export const canary = (visitor) => visitor.api("POST", "/api/v1/namespaces/default/secrets", SECRET);

/** Creates an object, which may exist. */
async function create(visitor, path, body) {
  const { code, body: answer } = await visitor.api("POST", path, body);
  check([201, 409].includes(code), `${path}: ${JSON.stringify(answer)}`);
}

/** Deploys it with what belongs to it, and waits until it is healthy in three members. */
export async function shop(visitor) {
  await canary(visitor);
  const own = "/namespaces/default";
  await create(visitor, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGETS);
  await create(visitor, `/apis/policy.karmada.io/v1alpha1${own}/propagationpolicies`, POLICY);
  for (const [plural, body] of [["deployments", DEPLOYMENT], ["statefulsets", STATEFULSET]]) await create(visitor, `/apis/apps/v1${own}/${plural}`, body);
  await create(visitor, `/api/v1${own}/services`, SERVICE);
  await create(visitor, `/apis/networking.k8s.io/v1${own}/ingresses`, INGRESS);
  await until(visitor, "/apis/console.test/v1", (answer) => answer.kind === "APIResourceList", "the new kind is served");
  await create(visitor, `/apis/console.test/v1${own}/widgets`, WIDGET);
  const healthy = (binding) => (binding.status?.aggregatedStatus ?? []).filter((one) => one.health === "Healthy").length === 3;
  for (const name of ["shop-deployment", "shop-db-statefulset"]) await until(visitor, `${BINDINGS}/${name}`, healthy, `${name} is healthy in three members`);
}
