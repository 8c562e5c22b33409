// One table of all pages: where each is and what it shows in each state. The texts are parts of what a user sees.
//
//   one          with the workload `shop` in three members
//   looks        also in Chinese or on a narrow screen
//   shots        states of which a screenshot is kept, besides light and dark
//   empty        when every list is empty; `absent` is a path without an object, where that needs no list
//   many, grown  lists that get 10,000 objects, and what the page shows with them; `copied` changes each of them
//   denied       without any rights
//   down         when no request is answered
//   loads        it waits for an answer before it shows its content, and says so
//   live         it follows a stream and says when that is interrupted
//   adds         a list, and what another client creates in it after an interruption
//   labelled     an object of which it shows a label that another client sets after an interruption

const DENIED = "Access denied";
const DOWN = "The control plane is not reachable";
const SHOP = "/workloads/apps~v1~deployments/default/shop";

const EVERYWHERE = ["events"];
const COUNT = "10,000";

const page = (path, one, options = {}) => ({ path, one, empty: one, many: EVERYWHERE, grown: options.many ? COUNT : one, denied: DENIED, down: DOWN, loads: true, live: false, looks: [], shots: options.many ? ["many"] : [], ...options });
const workload = (tab, one, options = {}) => page(`${SHOP}?tab=${tab}`, one, { empty: "Deployment shop does not exist", live: true, ...options });
/** Works without data of the control plane. */
const free = (path, one, options = {}) => page(path, one, { denied: one, down: one, loads: false, ...options });
/** The list of a kind, in which another client creates an object. */
const kind = (slug, one, object, options = {}) => {
  const [group, version, plural] = slug.split("~");
  const root = group === "core" ? `/api/${version}` : `/apis/${group}/${version}`;
  const path = options.namespaced === false ? `${root}/${plural}` : `${root}/namespaces/default/${plural}`;
  return page(`/resources/${slug}`, one, { empty: `No ${plural} here`, many: [plural], live: true, adds: object && [path, { metadata: { name: `zz-${plural}` }, ...object }], ...options });
};
const LABELS = { app: "zz" };
const POD_TEMPLATE = { metadata: { labels: LABELS }, spec: { containers: [{ name: "web", image: "registry.k8s.io/nginx:1.27" }] } };
const MEMBER1 = "/apis/cluster.karmada.io/v1alpha1/clusters/member1";
const APPS = "/apis/apps/v1/namespaces/default";
/** An object of a member that this control plane does not manage. */
const unmanaged = (one) => ({ ...one, metadata: { ...one.metadata, labels: LABELS, annotations: undefined } });
/** A binding of a role to a person of its own; those of the system are not shown. */
const boundToPeople = (one, index) => ({ ...one, roleRef: { ...one.roleRef, name: "view" }, subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: `person-${index}` }] });
/** A workload that no policy selects. */
const unselected = (name, spec = {}) => ({ metadata: { name, labels: LABELS }, spec: { replicas: 0, selector: { matchLabels: LABELS }, template: POD_TEMPLATE, ...spec } });

export const TABLE = {
  overview: page("/", "Objects healthy", { empty: "No clusters yet", many: ["clusters", "bindings", "resourcebindings", "events"], live: true, looks: ["chinese", "narrow"], shots: ["empty", "many", "forbidden"] }),
  clusters: page("/clusters", "member1", { empty: "No clusters yet", many: ["clusters"], live: true, labelled: MEMBER1, looks: ["chinese", "narrow"], shots: ["empty", "many", "down", "stale"] }),
  "clusters-join": page("/clusters?join=pull", "flotilla token create", { many: ["clusters"], denied: "flotilla token create", down: "flotilla token create", live: true }),
  cluster: page("/clusters/member1", "Capacity", { empty: "There is no cluster member1", live: true, labelled: MEMBER1 }),
  "cluster-workloads": page("/clusters/member1?tab=workloads", "shop", { empty: "There is no cluster member1", many: ["bindings", "resourcebindings"], live: true }),
  "cluster-nodes": page("/clusters/member1?tab=nodes", "Ready", { empty: "There is no cluster member1", many: ["nodes"], live: true }),
  "cluster-taints": page("/clusters/member1?tab=taints", "Taints", { empty: "There is no cluster member1", live: true }),
  workloads: page("/workloads", "shop", { empty: "No Deployments here", many: ["deployments"], live: true, shots: ["empty", "many"], adds: [`${APPS}/deployments`, unselected("zz-web")] }),
  statefulsets: page("/workloads?kind=StatefulSet", "shop-db", { empty: "No StatefulSets here", many: ["statefulsets"], live: true, adds: [`${APPS}/statefulsets`, unselected("zz-db", { serviceName: "zz" })] }),
  statefulset: page("/workloads/apps~v1~statefulsets/default/shop-db?tab=summary", "Replicas by cluster", { empty: "StatefulSet shop-db does not exist", live: true }),
  workload: workload("summary", "Replicas by cluster", { looks: ["narrow"], shots: ["down"] }),
  "workload-why": workload("why", "It runs as it should", { looks: ["chinese"] }),
  "workload-timeline": workload("timeline", "Applied in all clusters"),
  "workload-pods": workload("pods", "shop-", { many: ["pods"], grown: "copy-00009" }),
  "workload-clusters": workload("clusters", "member2"),
  "workload-history": workload("history", "member1"),
  "workload-events": workload("events", "shop"),
  "workload-yaml": workload("yaml", "apiVersion: apps/v1"),
  apply: free("/apply", "Start from an example"),
  policies: page("/policies", "shop", { empty: "No policies of this kind", many: ["propagationpolicies"], live: true }),
  "policy-new": free("/policies/new/PropagationPolicy", "PropagationPolicy", { looks: ["chinese"] }),
  policy: page("/resources/policy.karmada.io~v1alpha1~propagationpolicies/default/shop", "shop", { empty: "does not exist", live: true }),
  failover: page("/failover?cluster=member1", "Past failovers", { empty: "No clusters yet", many: ["clusters", "bindings", "resourcebindings"], grown: "and 9,960 more", live: true, shots: ["empty", "many"] }),
  topology: page("/topology", "member1", { empty: "No clusters yet", many: ["clusters"], grown: "and 9,940 more", live: true, looks: ["chinese", "narrow"], shots: ["empty", "many"] }),
  convert: page("/convert?cluster=member3", "All objects of this kind are managed", { empty: "No clusters yet", many: ["deployments"], grown: "10,000", copied: unmanaged }),
  kinds: page("/resources", "Deployment", { denied: "Deployment" }),
  works: kind("work.karmada.io~v1alpha1~works", "shop-", undefined),
  services: kind("core~v1~services", "shop", { spec: { ports: [{ port: 80 }] } }),
  service: page("/resources/core~v1~services/default/shop", "8080/TCP", { empty: "does not exist", live: true }),
  ingresses: kind("networking.k8s.io~v1~ingresses", "shop", { spec: { defaultBackend: { service: { name: "shop", port: { number: 80 } } } } }),
  ingress: page("/resources/networking.k8s.io~v1~ingresses/default/shop", "shop.example.com", { empty: "does not exist", live: true }),
  namespaces: kind("core~v1~namespaces", "kube-system", {}, { namespaced: false }),
  custom: kind("console.test~v1~widgets", "shop-widget", { apiVersion: "console.test/v1", kind: "Widget", spec: { size: 1 } }),
  "custom-object": page("/resources/console.test~v1~widgets/default/shop-widget", "Labels", { empty: "does not exist", live: true }),
  bindings: page("/resources/work.karmada.io~v1alpha2~resourcebindings", "shop-deployment", { empty: "No resourcebindings here", many: ["resourcebindings"], live: true }),
  configmaps: kind("core~v1~configmaps", "kube-root-ca.crt", { data: { a: "b" } }),
  secret: page("/resources/core~v1~secrets/default/canary", "••••••••", { empty: "does not exist", absent: "/resources/core~v1~secrets/default/absent", live: true }),
  events: page("/events", "Events", { empty: "No events", many: ["events"], live: true }),
  metrics: page("/metrics", "Cluster readiness", { empty: "No metrics yet", looks: ["chinese"] }),
  search: page("/search?q=shop", "Deployment", { empty: "Nothing found", many: ["services"], grown: "10,0", denied: "Nothing found" }),
  shell: free("/shell", "Commands of kubectl", { down: DOWN, loads: true, looks: ["narrow"] }),
  audit: page("/audit", "Audit", { empty: "No entries yet", many: ["audit"], grown: "2,000", looks: ["chinese", "narrow"] }),
  access: page("/access", "system:masters", { denied: "nobody-here", down: DOWN }),
  "access-subjects": page("/access?tab=subjects", "Bind a role", { empty: "No role bindings", many: ["clusterrolebindings"], grown: "person-1", copied: boundToPeople, live: true }),
  "access-bindings": page("/access?tab=clusterrolebindings", "cluster-admin", { empty: "No bindings", many: ["clusterrolebindings"], live: true }),
  settings: free("/settings", "Theme", { loads: true }),
};

/** The pages of a manager, with the instance `east`, the cluster `m1` in it, the user `ann`, and one of each other kind. */
const MANAGER = "/apis/manager.flotilla.dev/v1alpha1";
const members = (tab, one, added, options = {}) => page(`/members?tab=${tab}`, one, { empty: "Nothing here yet", many: [tab], live: true, adds: added && [`${MANAGER}/${tab}`, { apiVersion: "manager.flotilla.dev/v1alpha1", metadata: { name: `zz-${tab}` }, ...added }], ...options });
export const MANAGER_TABLE = {
  "manager-instances": page("/", "east", { empty: "No instances yet", denied: "No instances yet", many: ["instances"], live: true, looks: ["chinese", "narrow"], shots: ["empty", "many"] }),
  "manager-inventory": page("/inventory", "m1", { empty: "No clusters registered", many: ["clusters"], live: true, looks: ["chinese"], shots: ["empty", "many"] }),
  "manager-users": members("users", "ann", { kind: "User", spec: { displayName: "Zz" } }),
  "manager-groups": members("groups", "builders", { kind: "Group", spec: { members: ["ann"] } }),
  "manager-bindings": members("bindings", "ben-view", undefined, { live: false }),
  "manager-roles": members("roles", "deployer", { kind: "Role", spec: { grants: "view" } }),
  "manager-workspaces": members("workspaces", "shop-team", { kind: "Workspace", spec: { displayName: "Zz" } }),
  "manager-folders": members("folders", "europe", { kind: "Folder", spec: { displayName: "Zz" } }),
  "manager-tokens": page("/members?tab=tokens", "My tokens and kubeconfigs", { denied: "My tokens and kubeconfigs" }),
  "manager-webhooks": page("/members?tab=webhooks", "No webhooks", {}),
  "manager-search": page("/search?q=nginx", "Deployment", { empty: "Nothing found", denied: "Nothing found" }),
};
