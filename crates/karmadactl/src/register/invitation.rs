//! What a bootstrap token may do that was made for one cluster: get the certificate of its agent, and make its Cluster.
//!
//! Any other token gets the identity that gives agents their rights, and with it every right there is. For this one the
//! rights of the agent are there already, made by whoever made the token; what it may create has no name in the role, since
//! no such right can, and is held to the cluster by the server.

use agent::credentials::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, SECRETS};
use anyhow::{Context, bail};
use api::Resource;
use api::cluster::CLUSTERS;
use cluster_client::{ClusterClient, DeleteOptions, ResourceRef, WriteOptions};
use object::Object;
use serde_json::json;

use crate::console::Console;
use crate::join::check_name;
use crate::register::rights::{LEASES, ROLE_BINDINGS, ROLES, Rights, ensure, role};

const GROUP_PREFIX: &str = "system:bootstrappers:karmada:cluster:";
/// Its agent would have the name of the identity that may do everything.
const NAME_RESERVED: &str = "rbac-generator";

const REVIEWS: Resource = Resource::cluster("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews");

/// A cluster that may register with a token of its own.
pub struct Invitation {
    cluster: String,
    /// Where its secrets are.
    namespace: String,
}

impl Invitation {
    pub fn new(cluster: &str, namespace: &str) -> anyhow::Result<Self> {
        check_name(cluster)?;
        if cluster == NAME_RESERVED {
            bail!("no cluster can be called {NAME_RESERVED}");
        }
        Ok(Self { cluster: cluster.to_owned(), namespace: namespace.to_owned() })
    }

    /// The group of its tokens.
    pub fn group(&self) -> String {
        format!("{GROUP_PREFIX}{}", self.cluster)
    }

    /// Gives the agent its rights in advance, and the token those to register it.
    pub async fn give(&self, plane: &ClusterClient) -> anyhow::Result<()> {
        Rights::new(&self.cluster, &self.namespace).give_in_advance(plane).await?;
        for (resource, object) in self.objects() {
            ensure(plane, &resource, object).await?;
        }
        Ok(())
    }

    /// Takes away what tokens of this cluster may do; what its agent may, stays.
    pub async fn take(&self, console: &Console, plane: &ClusterClient) {
        for (resource, object) in self.objects().into_iter().rev() {
            let target = ResourceRef::of(&resource.gvr(), &object);
            match plane.delete(target, DeleteOptions::default()).await {
                Err(status) if !status.is_not_found() => {
                    console.warn(format!("{} {} stays in the control plane: {status}", resource.kind, object.name()));
                }
                _ => {}
            }
        }
    }

    fn objects(&self) -> Vec<(Resource, Object)> {
        let name = format!("system:karmada:{}:bootstrap", self.cluster);
        let subjects = json!([{"apiGroup": CLUSTER_ROLES.group, "kind": "Group", "name": self.group()}]);
        let own = json!([self.cluster]);
        let everywhere = json!([
            {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"],
                "verbs": ["get", "create"]},
            // What the approval of certificates goes by.
            {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests/clusteragent"],
                "resourceNames": own, "verbs": ["create"]},
            {"apiGroups": [CLUSTERS.group], "resources": [CLUSTERS.plural], "verbs": ["create"]},
            {"apiGroups": [CLUSTERS.group], "resources": [CLUSTERS.plural], "resourceNames": own, "verbs": ["get"]},
        ]);
        let secrets = json!([{"apiGroups": [""], "resources": [SECRETS.plural], "verbs": ["create"]}]);
        let leases = json!([{"apiGroups": [LEASES.group], "resources": [LEASES.plural], "verbs": ["create"]}]);
        let mut objects = role(&CLUSTER_ROLES, &CLUSTER_ROLE_BINDINGS, "", &name, everywhere, &subjects);
        let lease_namespace = api::names::CLUSTER_NAMESPACE;
        for (namespace, suffix, rules) in
            [(self.namespace.as_str(), "-secret", secrets), (lease_namespace, "-lease", leases)]
        {
            objects.extend(role(&ROLES, &ROLE_BINDINGS, namespace, &format!("{name}{suffix}"), rules, &subjects));
        }
        objects
    }
}

/// The cluster a token of these groups was made for.
pub fn cluster_of<'a>(groups: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    groups.into_iter().find_map(|group| group.strip_prefix(GROUP_PREFIX))
}

/// The cluster the token was made for that this client calls with; `None` for one that was made for any.
pub async fn bound_to(bootstrap: &ClusterClient) -> anyhow::Result<Option<String>> {
    let review = REVIEWS.object("", "");
    match bootstrap.create(ResourceRef::all(&REVIEWS.gvr()), review, WriteOptions::default()).await {
        Ok(answer) => {
            let groups = answer.items(&["status", "userInfo", "groups"]).iter().filter_map(|group| group.as_str());
            Ok(cluster_of(groups).map(str::to_owned))
        }
        // A plane that tells nobody who they are knows no such tokens.
        Err(status) if status.code == 403 || status.is_not_found() => Ok(None),
        Err(status) => Err(status).context("the control plane does not know the token"),
    }
}

#[cfg(test)]
mod tests {
    use cluster_client::testing::MemoryApi;

    use super::*;
    use crate::console::testing;

    #[tokio::test]
    async fn an_invitation_is_for_one_cluster_and_can_be_taken_back() {
        let api = MemoryApi::default();
        let invitation = Invitation::new("m1", "karmada-cluster").expect("a name");
        invitation.give(&api.client()).await.expect("given");
        let role = ResourceRef::cluster(&CLUSTER_ROLES.gvr(), "system:karmada:m1:bootstrap");
        let rules = api.client().get(role.clone()).await.expect("there").items(&["rules"]).to_vec();
        let approval = rules.iter().find(|rule| rule["resources"][0] == "certificatesigningrequests/clusteragent");
        assert_eq!(approval.expect("a rule")["resourceNames"], json!(["m1"]));
        invitation.give(&api.client()).await.expect("twice is as good as once");
        let (console, _, _) = testing::console();
        invitation.take(&console, &api.client()).await;
        assert!(api.client().find(role).await.expect("answers").is_none());
        let agents = ResourceRef::cluster(&CLUSTER_ROLES.gvr(), "system:karmada:m1:agent");
        assert!(api.client().find(agents).await.expect("answers").is_some(), "the agent keeps its rights");
    }

    #[test]
    fn some_names_are_no_clusters() {
        for name in ["rbac-generator", "UPPER", "", "a:b"] {
            assert!(Invitation::new(name, "n").is_err(), "{name}");
        }
        let groups = ["system:bootstrappers", "system:bootstrappers:karmada:cluster:m1"];
        assert_eq!(cluster_of(groups), Some("m1"));
        assert_eq!(cluster_of(["system:bootstrappers:karmada:default-cluster-token"]), None);
    }
}
