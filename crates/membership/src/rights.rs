//! Permissions of an agent in the control plane: its own works, Cluster, lease, secrets and certificate, nothing else.
//!
//! Karmada lets agents create Clusters, secrets and leases of any name, since RBAC cannot limit `create` by name. Here
//! these objects are created for the agent in advance, so that it needs no `create` permission that would cover objects
//! of others. It may not change the spec of its Cluster either: that names the secret the control plane sends to the
//! endpoint it names.

use api::Resource;
use api::cluster::{CLUSTERS, LABEL_SYSTEM};
use api::names::{CLUSTER_NAMESPACE, execution_namespace};
use cluster_client::{ClusterClient, DeleteOptions, ResourceRef, WriteOptions};
use object::Object;
use serde_json::{Value, json};

use crate::credentials::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, SECRETS, ignore_missing, target_of};
use crate::registration::owner;
use crate::{MembershipError, Progress};

pub const ROLES: Resource = Resource::namespaced("rbac.authorization.k8s.io", "v1", "Role", "roles");
pub const ROLE_BINDINGS: Resource =
    Resource::namespaced("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings");
pub const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "Lease", "leases");

/// Permissions of one agent.
pub struct AgentRights {
    cluster: String,
    namespace: String,
}

impl AgentRights {
    pub fn new(cluster: &str, namespace: &str) -> Self {
        Self { cluster: cluster.to_owned(), namespace: namespace.to_owned() }
    }

    /// Grants the permissions and creates the objects the agent expects.
    pub async fn grant(&self, plane: &ClusterClient, cluster: Object) -> Result<(), MembershipError> {
        self.grant_permissions(plane).await?;
        self.create_objects(plane, cluster).await
    }

    /// Grants the permissions, possibly before the agent exists.
    pub async fn grant_permissions(&self, plane: &ClusterClient) -> Result<(), MembershipError> {
        for namespace in self.namespaces() {
            ensure(plane, &NAMESPACES, NAMESPACES.object("", &namespace)).await?;
        }
        for (resource, object) in self.objects() {
            ensure(plane, &resource, object).await?;
        }
        Ok(())
    }

    /// Creates the objects the agent expects: its secrets, its Cluster and its lease.
    pub async fn create_objects(&self, plane: &ClusterClient, cluster: Object) -> Result<(), MembershipError> {
        self.create_secrets(plane).await?;
        ensure(plane, &CLUSTERS, cluster).await?;
        let cluster = plane.get(ResourceRef::cluster(&CLUSTERS.gvr(), &self.cluster)).await?;
        let mut lease = LEASES.object(CLUSTER_NAMESPACE, &self.cluster);
        lease.set(&["metadata", "ownerReferences"], json!([owner(&cluster, false)]));
        ensure(plane, &LEASES, lease).await
    }

    /// Creates the secrets that the agent fills, unless they exist.
    pub async fn create_secrets(&self, plane: &ClusterClient) -> Result<(), MembershipError> {
        for name in self.secrets() {
            ensure(plane, &SECRETS, SECRETS.object(&self.namespace, &name)).await?;
        }
        Ok(())
    }

    /// Revokes the permissions. Failures are reported as warnings.
    pub async fn revoke(&self, plane: &ClusterClient, progress: &dyn Progress) {
        let permissions = self.objects().into_iter().rev();
        let targets = permissions.map(|(resource, o)| (resource, o.namespace().to_owned(), o.name().to_owned()));
        remove(plane, targets.collect(), progress).await;
    }

    /// Revokes the permissions and removes the objects created for the agent.
    pub async fn revoke_with_objects(&self, plane: &ClusterClient, progress: &dyn Progress) {
        let mut targets = vec![
            (CLUSTERS, String::new(), self.cluster.clone()),
            (LEASES, CLUSTER_NAMESPACE.to_owned(), self.cluster.clone()),
        ];
        targets.extend(self.secrets().into_iter().map(|name| (SECRETS, self.namespace.clone(), name)));
        remove(plane, targets, progress).await;
        self.revoke(plane, progress).await;
    }

    /// Returns `Kind namespace/name` of each object, for messages.
    pub fn names(&self) -> Vec<String> {
        let objects = self.objects();
        objects
            .iter()
            .map(|(r, o)| format!("{} {}", r.kind, format!("{}/{}", o.namespace(), o.name()).trim_start_matches('/')))
            .collect()
    }

    fn namespaces(&self) -> Vec<String> {
        let mut namespaces =
            vec![self.namespace.clone(), CLUSTER_NAMESPACE.to_owned(), execution_namespace(&self.cluster)];
        namespaces.dedup();
        namespaces
    }

    fn secrets(&self) -> [String; 2] {
        [self.cluster.clone(), format!("{}-impersonator", self.cluster)]
    }

    fn objects(&self) -> Vec<(Resource, Object)> {
        let cluster = self.cluster.as_str();
        let name = |suffix: &str| format!("system:karmada:{cluster}:agent{suffix}");
        let user = json!([{
            "apiGroup": CLUSTER_ROLES.group, "kind": "User", "name": format!("system:karmada:agent:{cluster}"),
        }]);
        let own = json!([cluster]);
        let everywhere = json!([
            {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"], "resourceNames": own,
                "verbs": ["get", "list", "watch", "delete"]},
            {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters/status"], "resourceNames": own,
                "verbs": ["update", "patch"]},
            {"apiGroups": ["config.karmada.io"],
                "resources": ["resourceinterpreterwebhookconfigurations", "resourceinterpretercustomizations"],
                "verbs": ["get", "list", "watch"]},
            // To renew its own certificate. Requests for another agent's certificate are not approved.
            {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"],
                "verbs": ["get", "create"]},
        ]);
        let secrets = json!([
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": self.secrets(), "verbs": ["get", "patch"]},
        ]);
        let lease = json!([
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": own,
                "verbs": ["get", "update"]},
        ]);
        let works = json!([
            {"apiGroups": ["work.karmada.io"], "resources": ["works"],
                "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]},
            {"apiGroups": ["work.karmada.io"], "resources": ["works/status"], "verbs": ["update", "patch"]},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "update", "patch"]},
        ]);
        let mut objects = role(&CLUSTER_ROLES, &CLUSTER_ROLE_BINDINGS, "", &name(""), everywhere, &user);
        let namespaced = [
            (self.namespace.clone(), name("-secret"), secrets),
            (CLUSTER_NAMESPACE.to_owned(), name("-lease"), lease),
            (execution_namespace(cluster), name("-work"), works),
        ];
        for (namespace, name, rules) in namespaced {
            objects.extend(role(&ROLES, &ROLE_BINDINGS, &namespace, &name, rules, &user));
        }
        objects
    }
}

/// Builds a role and its binding.
pub fn role(
    roles: &Resource,
    bindings: &Resource,
    namespace: &str,
    name: &str,
    rules: Value,
    subjects: &Value,
) -> Vec<(Resource, Object)> {
    let mut role = roles.object(namespace, name);
    role.set(&["rules"], rules);
    let mut binding = bindings.object(namespace, name);
    binding.set(&["roleRef"], json!({"apiGroup": roles.group, "kind": roles.kind, "name": name}));
    binding.set(&["subjects"], subjects.clone());
    vec![(*roles, role), (*bindings, binding)]
}

/// Creates the object unless it exists.
pub async fn ensure(plane: &ClusterClient, resource: &Resource, mut object: Object) -> Result<(), MembershipError> {
    object.set_label(LABEL_SYSTEM, "true");
    let name = object.name().to_owned();
    let target = match object.namespace() {
        "" => ResourceRef::all(&resource.gvr()),
        namespace => ResourceRef::within(&resource.gvr(), namespace),
    };
    match plane.create(target, object, WriteOptions::default()).await {
        Err(status) if !status.is_already_exists() => {
            Err(MembershipError::CreateInControlPlane { kind: resource.kind, name, status })
        }
        _ => Ok(()),
    }
}

/// Deletes objects given as resource, namespace and name. Failures are reported as warnings.
pub async fn remove(plane: &ClusterClient, targets: Vec<(Resource, String, String)>, progress: &dyn Progress) {
    for (resource, namespace, name) in targets {
        let deleted = plane.delete(target_of(&resource, &namespace, &name), DeleteOptions::default()).await;
        if let Err(status) = ignore_missing(deleted) {
            progress.warn(&format!("{} {name} remains in the control plane: {status}", resource.kind));
        }
    }
}
