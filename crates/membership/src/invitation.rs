//! Permissions of a bootstrap token created for one cluster: get the certificate of its agent, and create its Cluster.
//!
//! Any other token can get the identity that grants agents their permissions, and with it every permission. For this one
//! the agent's permissions are granted when the token is created. RBAC cannot limit `create` by name, so the server
//! limits what the token creates to its cluster.

use api::Resource;
use api::cluster::CLUSTERS;
use cluster_client::{ClusterClient, ResourceRef, WriteOptions};
use object::Object;
use serde_json::json;

use crate::cluster_name::check_name;
use crate::credentials::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, SECRETS};
use crate::rights::{AgentRights, LEASES, ROLE_BINDINGS, ROLES, ensure, remove, role};
use crate::{MembershipError, Progress};

const GROUP_PREFIX: &str = "system:bootstrappers:karmada:cluster:";
/// An agent of this name would have the name of the identity with full access.
const NAME_RESERVED: &str = "rbac-generator";

const REVIEWS: Resource = Resource::cluster("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews");

/// Permission for one cluster to register with its own token.
pub struct Invitation {
    cluster: String,
    /// Namespace of its secrets.
    namespace: String,
}

impl Invitation {
    pub fn new(cluster: &str, namespace: &str) -> Result<Self, MembershipError> {
        check_name(cluster)?;
        if cluster == NAME_RESERVED {
            return Err(MembershipError::ReservedName(cluster.to_owned()));
        }
        Ok(Self { cluster: cluster.to_owned(), namespace: namespace.to_owned() })
    }

    /// Returns the group of its tokens.
    pub fn group(&self) -> String {
        format!("{GROUP_PREFIX}{}", self.cluster)
    }

    /// Grants the agent its permissions, and the token those to register it.
    pub async fn grant(&self, plane: &ClusterClient) -> Result<(), MembershipError> {
        AgentRights::new(&self.cluster, &self.namespace).grant_permissions(plane).await?;
        for (resource, object) in self.objects() {
            ensure(plane, &resource, object).await?;
        }
        Ok(())
    }

    /// Revokes the permissions of this cluster's tokens; the agent keeps its own.
    pub async fn revoke(&self, plane: &ClusterClient, progress: &dyn Progress) {
        let objects = self.objects().into_iter().rev();
        let targets = objects.map(|(resource, o)| (resource, o.namespace().to_owned(), o.name().to_owned()));
        remove(plane, targets.collect(), progress).await;
    }

    fn objects(&self) -> Vec<(Resource, Object)> {
        let name = format!("system:karmada:{}:bootstrap", self.cluster);
        let subjects = json!([{"apiGroup": CLUSTER_ROLES.group, "kind": "Group", "name": self.group()}]);
        let own = json!([self.cluster]);
        let everywhere = json!([
            {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"],
                "verbs": ["get", "create"]},
            // The approval of certificates checks this permission.
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

/// Returns the cluster a token with these groups was created for.
pub fn cluster_of<'a>(groups: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    groups.into_iter().find_map(|group| group.strip_prefix(GROUP_PREFIX))
}

/// Returns the cluster the token of this client was created for; `None` for a token that any cluster can use.
pub async fn bound_to(bootstrap: &ClusterClient) -> Result<Option<String>, MembershipError> {
    let review = REVIEWS.object("", "");
    match bootstrap.create(ResourceRef::all(&REVIEWS.gvr()), review, WriteOptions::default()).await {
        Ok(answer) => {
            let groups = answer.items(&["status", "userInfo", "groups"]).iter().filter_map(|group| group.as_str());
            Ok(cluster_of(groups).map(str::to_owned))
        }
        // A control plane without SelfSubjectReview has no such tokens.
        Err(status) if status.code == 403 || status.is_not_found() => Ok(None),
        Err(status) => Err(MembershipError::RejectedToken(status)),
    }
}

#[cfg(test)]
mod tests {
    use cluster_client::testing::MemoryApi;

    use super::*;
    use crate::NoProgress;

    #[tokio::test]
    async fn an_invitation_covers_one_cluster_and_can_be_revoked() {
        let api = MemoryApi::default();
        let invitation = Invitation::new("m1", "karmada-cluster").expect("a name");
        invitation.grant(&api.client()).await.expect("granted");
        let role = ResourceRef::cluster(&CLUSTER_ROLES.gvr(), "system:karmada:m1:bootstrap");
        let rules = api.client().get(role.clone()).await.expect("there").items(&["rules"]).to_vec();
        let approval = rules.iter().find(|rule| rule["resources"][0] == "certificatesigningrequests/clusteragent");
        assert_eq!(approval.expect("a rule")["resourceNames"], json!(["m1"]));
        invitation.grant(&api.client()).await.expect("granting twice is harmless");
        invitation.revoke(&api.client(), &NoProgress).await;
        assert!(api.client().find(role).await.expect("answers").is_none());
        let agents = ResourceRef::cluster(&CLUSTER_ROLES.gvr(), "system:karmada:m1:agent");
        assert!(api.client().find(agents).await.expect("answers").is_some(), "the agent keeps its permissions");
    }

    #[test]
    fn reserved_and_invalid_names_are_rejected() {
        for name in ["rbac-generator", "UPPER", "", "a:b"] {
            assert!(Invitation::new(name, "n").is_err(), "{name}");
        }
        let groups = ["system:bootstrappers", "system:bootstrappers:karmada:cluster:m1"];
        assert_eq!(cluster_of(groups), Some("m1"));
        assert_eq!(cluster_of(["system:bootstrappers:karmada:default-cluster-token"]), None);
    }
}
