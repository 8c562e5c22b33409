// One table of all pages: where each is and what it shows in each state. The texts are parts of what a user sees.
//
//   one          with one workload in three members
//   empty        when every list is empty
//   many         lists that get 10,000 objects
//   denied       without any rights
//   down         when no request is answered
//   live         it follows a stream and says when that is interrupted

const DENIED = "You may not see this";
const DOWN = "The control plane does not answer";
const NGINX = "/workloads/apps~v1~deployments/default/nginx";

const EVERYWHERE = ["events"];

const page = (path, one, options = {}) => ({ path, one, empty: one, many: EVERYWHERE, denied: DENIED, down: DOWN, live: false, ...options });
const workload = (tab, one, options = {}) => page(`${NGINX}?tab=${tab}`, one, { empty: "Deployment nginx does not exist", live: true, ...options });
/** Works without data of the control plane. */
const free = (path, one, options = {}) => page(path, one, { denied: one, down: one, ...options });

export const TABLE = {
  overview: page("/", "Objects healthy", { empty: "No clusters yet", many: ["clusters", "resourcebindings", "events"], live: true }),
  clusters: page("/clusters", "member1", { empty: "No clusters yet", many: ["clusters"], live: true }),
  "clusters-join": page("/clusters?join=pull", "flotilla token create", { many: ["clusters"], denied: "flotilla token create", down: "flotilla token create", live: true }),
  cluster: page("/clusters/member1", "Capacity", { empty: "There is no cluster member1", live: true }),
  "cluster-workloads": page("/clusters/member1?tab=workloads", "nginx", { empty: "There is no cluster member1", many: ["resourcebindings"], live: true }),
  "cluster-nodes": page("/clusters/member1?tab=nodes", "Ready", { empty: "There is no cluster member1", many: ["nodes"], live: true }),
  "cluster-taints": page("/clusters/member1?tab=taints", "Taints", { empty: "There is no cluster member1", live: true }),
  workloads: page("/workloads", "nginx", { empty: "No Deployments here", many: ["deployments"], live: true }),
  workload: workload("summary", "Replicas by cluster"),
  "workload-why": workload("why", "It runs as it should"),
  "workload-timeline": workload("timeline", "Applied in all clusters"),
  "workload-pods": workload("pods", "nginx-", { many: ["pods"] }),
  "workload-clusters": workload("clusters", "member2"),
  "workload-history": workload("history", "member1"),
  "workload-events": workload("events", "nginx"),
  "workload-yaml": workload("yaml", "apiVersion: apps/v1"),
  apply: free("/apply", "Begin with an example"),
  policies: page("/policies", "nginx", { empty: "No policies of this kind", many: ["propagationpolicies"], live: true }),
  "policy-new": free("/policies/new/PropagationPolicy", "PropagationPolicy"),
  policy: page("/resources/policy.karmada.io~v1alpha1~propagationpolicies/default/nginx", "nginx", { empty: "does not exist", live: true }),
  failover: page("/failover?cluster=member1", "Past failovers", { empty: "No clusters yet", many: ["clusters", "resourcebindings"], live: true }),
  topology: page("/topology", "member1", { empty: "No clusters yet", many: ["resourcebindings"], live: true }),
  convert: page("/convert?cluster=member1", "Everything of this kind is managed", { empty: "No clusters yet", many: ["deployments"] }),
  kinds: page("/resources", "Deployment", { denied: "Deployment" }),
  bindings: page("/resources/work.karmada.io~v1alpha2~resourcebindings", "nginx-deployment", { empty: "No resourcebindings here", many: ["resourcebindings"], live: true }),
  configmaps: page("/resources/core~v1~configmaps", "kube-root-ca.crt", { empty: "No configmaps here", many: ["configmaps"], live: true }),
  secret: page("/resources/core~v1~secrets/default/canary", "••••••••", { empty: "does not exist", live: true }),
  events: page("/events", "Events", { empty: "No events", many: ["events"], live: true }),
  metrics: page("/metrics", "Health of the clusters", { empty: "Nothing is measured yet" }),
  search: page("/search?q=nginx", "Deployment", { empty: "Nothing found", many: ["configmaps"], denied: "Nothing found" }),
  shell: free("/shell", "Command line"),
  audit: page("/audit", "Audit", { empty: "No entries yet", many: ["audit"] }),
  access: page("/access", "system:masters", { denied: "nobody-here", down: DOWN }),
  "access-subjects": page("/access?tab=subjects", "Bind a role", { empty: "No role is bound", many: ["clusterrolebindings"], live: true }),
  "access-bindings": page("/access?tab=clusterrolebindings", "cluster-admin", { empty: "No bindings", many: ["clusterrolebindings"], live: true }),
  settings: free("/settings", "Theme"),
};

export const STATES = ["one", "empty", "many", "slow", "down", "interrupted", "forbidden"];
