// The workload of the journeys, as the API has it.

export const DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/nginx";
export const BINDING = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings/nginx-deployment";
/** Its page. */
export const DETAIL = "/workloads/apps~v1~deployments/default/nginx";
export const MERGE = "application/merge-patch+json";
export const MEMBERS = ["member1", "member2", "member3"];

export const cluster = (name) => `/apis/cluster.karmada.io/v1alpha1/clusters/${name}`;
/** A path in a member. */
export const member = (name, path) => `${cluster(name)}/proxy${path}`;

export const replicasIn = (binding, cluster) => binding.spec?.clusters?.find((one) => one.name === cluster)?.replicas ?? 0;
export const replicas = (binding) => (binding.spec?.clusters ?? []).reduce((sum, one) => sum + (one.replicas ?? 0), 0);
/** Keys of the taints of a cluster. */
export const taints = (cluster) => (cluster.spec?.taints ?? []).map((one) => one.key);
export const CORDONED = "cluster.karmada.io/unschedulable";
