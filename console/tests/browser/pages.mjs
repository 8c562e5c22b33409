// One table of all pages: where each is and what it shows in each state. The texts are parts of what a user sees.
//
//   one          with the workload `shop` in three members
//   looks        also in Chinese or on a narrow screen
//   shots        states of which a screenshot is kept, besides light and dark
//   empty        when every list is empty
//   many         lists that get 10,000 objects
//   denied       without any rights
//   down         when no request is answered
//   live         it follows a stream and says when that is interrupted

const DENIED = "You may not see this";
const DOWN = "The control plane does not answer";
const SHOP = "/workloads/apps~v1~deployments/default/shop";

const EVERYWHERE = ["events"];

const page = (path, one, options = {}) => ({ path, one, empty: one, many: EVERYWHERE, denied: DENIED, down: DOWN, live: false, looks: [], shots: options.many ? ["many"] : [], ...options });
const workload = (tab, one, options = {}) => page(`${SHOP}?tab=${tab}`, one, { empty: "Deployment shop does not exist", live: true, ...options });
/** Works without data of the control plane. */
const free = (path, one, options = {}) => page(path, one, { denied: one, down: one, ...options });

export const TABLE = {
  overview: page("/", "Objects healthy", { empty: "No clusters yet", many: ["clusters", "resourcebindings", "events"], live: true, looks: ["chinese", "narrow"], shots: ["empty", "many", "forbidden"] }),
  clusters: page("/clusters", "member1", { empty: "No clusters yet", many: ["clusters"], live: true, looks: ["chinese", "narrow"], shots: ["empty", "many", "down", "stale"] }),
  "clusters-join": page("/clusters?join=pull", "flotilla token create", { many: ["clusters"], denied: "flotilla token create", down: "flotilla token create", live: true }),
  cluster: page("/clusters/member1", "Capacity", { empty: "There is no cluster member1", live: true }),
  "cluster-workloads": page("/clusters/member1?tab=workloads", "shop", { empty: "There is no cluster member1", many: ["resourcebindings"], live: true }),
  "cluster-nodes": page("/clusters/member1?tab=nodes", "Ready", { empty: "There is no cluster member1", many: ["nodes"], live: true }),
  "cluster-taints": page("/clusters/member1?tab=taints", "Taints", { empty: "There is no cluster member1", live: true }),
  workloads: page("/workloads", "shop", { empty: "No Deployments here", many: ["deployments"], live: true, shots: ["empty", "many"] }),
  workload: workload("summary", "Replicas by cluster", { looks: ["narrow"], shots: ["down"] }),
  "workload-why": workload("why", "It runs as it should", { looks: ["chinese"] }),
  "workload-timeline": workload("timeline", "Applied in all clusters"),
  "workload-pods": workload("pods", "shop-", { many: ["pods"] }),
  "workload-clusters": workload("clusters", "member2"),
  "workload-history": workload("history", "member1"),
  "workload-events": workload("events", "shop"),
  "workload-yaml": workload("yaml", "apiVersion: apps/v1"),
  apply: free("/apply", "Begin with an example"),
  policies: page("/policies", "shop", { empty: "No policies of this kind", many: ["propagationpolicies"], live: true }),
  "policy-new": free("/policies/new/PropagationPolicy", "PropagationPolicy", { looks: ["chinese"] }),
  policy: page("/resources/policy.karmada.io~v1alpha1~propagationpolicies/default/shop", "shop", { empty: "does not exist", live: true }),
  failover: page("/failover?cluster=member1", "Past failovers", { empty: "No clusters yet", many: ["clusters", "resourcebindings"], live: true, shots: ["empty", "many"] }),
  topology: page("/topology", "member1", { empty: "No clusters yet", many: ["resourcebindings"], live: true, looks: ["chinese", "narrow"], shots: ["empty", "many"] }),
  convert: page("/convert?cluster=member3", "Everything of this kind is managed", { empty: "No clusters yet", many: ["deployments"] }),
  kinds: page("/resources", "Deployment", { denied: "Deployment" }),
  bindings: page("/resources/work.karmada.io~v1alpha2~resourcebindings", "shop-deployment", { empty: "No resourcebindings here", many: ["resourcebindings"], live: true }),
  configmaps: page("/resources/core~v1~configmaps", "kube-root-ca.crt", { empty: "No configmaps here", many: ["configmaps"], live: true }),
  secret: page("/resources/core~v1~secrets/default/canary", "••••••••", { empty: "does not exist", live: true }),
  events: page("/events", "Events", { empty: "No events", many: ["events"], live: true }),
  metrics: page("/metrics", "Health of the clusters", { empty: "Nothing is measured yet", looks: ["chinese"] }),
  search: page("/search?q=shop", "Deployment", { empty: "Nothing found", many: ["configmaps"], denied: "Nothing found" }),
  shell: free("/shell", "Command line", { looks: ["narrow"] }),
  audit: page("/audit", "Audit", { empty: "No entries yet", many: ["audit"], looks: ["chinese", "narrow"] }),
  access: page("/access", "system:masters", { denied: "nobody-here", down: DOWN }),
  "access-subjects": page("/access?tab=subjects", "Bind a role", { empty: "No role is bound", many: ["clusterrolebindings"], live: true }),
  "access-bindings": page("/access?tab=clusterrolebindings", "cluster-admin", { empty: "No bindings", many: ["clusterrolebindings"], live: true }),
  settings: free("/settings", "Theme"),
};

/** The pages of a manager, with the instance `east`, the cluster `m1` in it, and the user `ann`. */
export const MANAGER_TABLE = {
  "manager-instances": page("/", "east", { empty: "No instances yet", many: ["karmadas"], live: true, looks: ["chinese", "narrow"], shots: ["empty", "many"] }),
  "manager-inventory": page("/inventory", "m1", { empty: "No clusters registered", many: ["managedclusters"], live: true, looks: ["chinese"], shots: ["empty", "many"] }),
  "manager-users": page("/members", "ann", { empty: "Nothing here yet", many: ["users"], live: true }),
  "manager-bindings": page("/members?tab=bindings", "ben-view", { empty: "Nothing here yet", many: ["bindings"], live: true }),
  "manager-tokens": page("/members?tab=tokens", "My tokens and kubeconfigs", { denied: "My tokens and kubeconfigs" }),
  "manager-webhooks": page("/members?tab=webhooks", "No webhooks", {}),
  "manager-search": page("/search?q=nginx", "Deployment", { empty: "Nothing found", denied: "Nothing found" }),
};
