//! What an agent may do in the control plane: its own works, Cluster, lease, secrets and certificate, nothing else.
//!
//! Karmada lets agents create Clusters, secrets and leases of any name, since such a right cannot name the object. Here
//! these are made for the agent in advance, so that it needs no right to create what could be another's. Nor may it change
//! the spec of its Cluster: that names the secret the control plane sends to the endpoint it names.

use agent::credentials::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, SECRETS};
use anyhow::Context;
use api::Resource;
use api::cluster::{CLUSTERS, LABEL_SYSTEM};
use api::names::{CLUSTER_NAMESPACE, execution_namespace};
use cluster_client::{ClusterClient, DeleteOptions, ResourceRef, WriteOptions};
use object::{Object, Status};
use serde_json::{Value, json};

use crate::console::Console;

pub const ROLES: Resource = Resource::namespaced("rbac.authorization.k8s.io", "v1", "Role", "roles");
pub const ROLE_BINDINGS: Resource =
    Resource::namespaced("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings");
pub const LEASES: Resource = Resource::namespaced("coordination.k8s.io", "v1", "Lease", "leases");

/// The rights of one agent.
pub struct Rights {
    cluster: String,
    namespace: String,
}

impl Rights {
    pub fn new(cluster: &str, namespace: &str) -> Self {
        Self { cluster: cluster.to_owned(), namespace: namespace.to_owned() }
    }

    /// Gives them, and makes what the agent finds in place.
    pub async fn give(&self, plane: &ClusterClient, cluster: Object) -> anyhow::Result<()> {
        self.give_in_advance(plane).await?;
        self.make_own(plane, cluster).await
    }

    /// Gives them to an agent that is still to come.
    pub async fn give_in_advance(&self, plane: &ClusterClient) -> anyhow::Result<()> {
        for namespace in self.namespaces() {
            ensure(plane, &NAMESPACES, NAMESPACES.object("", &namespace)).await?;
        }
        for (resource, object) in self.objects() {
            ensure(plane, &resource, object).await?;
        }
        Ok(())
    }

    /// Makes what the agent finds in place: its secrets, its Cluster and its lease.
    pub async fn make_own(&self, plane: &ClusterClient, cluster: Object) -> anyhow::Result<()> {
        for name in self.secrets() {
            ensure(plane, &SECRETS, SECRETS.object(&self.namespace, &name)).await?;
        }
        ensure(plane, &CLUSTERS, cluster).await?;
        let cluster = plane.get(ResourceRef::cluster(&CLUSTERS.gvr(), &self.cluster)).await?;
        let mut lease = LEASES.object(CLUSTER_NAMESPACE, &self.cluster);
        lease.set(&["metadata", "ownerReferences"], json!([agent::registration::owner(&cluster, false)]));
        ensure(plane, &LEASES, lease).await
    }

    /// Takes them away again; with `and_cluster` also what was made for the agent.
    pub async fn take(&self, console: &Console, plane: &ClusterClient, and_cluster: bool) {
        let mut targets: Vec<(Resource, String, String)> = Vec::new();
        if and_cluster {
            targets.push((CLUSTERS, String::new(), self.cluster.clone()));
            targets.push((LEASES, CLUSTER_NAMESPACE.to_owned(), self.cluster.clone()));
            targets.extend(self.secrets().into_iter().map(|name| (SECRETS, self.namespace.clone(), name)));
        }
        let rights = self.objects().into_iter().rev();
        targets.extend(rights.map(|(resource, o)| (resource, o.namespace().to_owned(), o.name().to_owned())));
        for (resource, namespace, name) in targets {
            let target = match namespace.as_str() {
                "" => ResourceRef::cluster(&resource.gvr(), &name),
                namespace => ResourceRef::namespaced(&resource.gvr(), namespace, &name),
            };
            match plane.delete(target, DeleteOptions::default()).await {
                Err(status) if !status.is_not_found() => {
                    console.warn(format!("{} {name} stays in the control plane: {status}", resource.kind));
                }
                _ => {}
            }
        }
    }

    /// `Kind namespace/name` of each, for people.
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
            // To renew its own certificate. Requests for another's are approved by nobody.
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
                "verbs": ["get", "list", "watch", "update", "patch", "delete"]},
            {"apiGroups": ["work.karmada.io"], "resources": ["works/status"], "verbs": ["update", "patch"]},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "update", "patch"]},
        ]);
        let mut objects = role(&CLUSTER_ROLES, &CLUSTER_ROLE_BINDINGS, "", &name(""), everywhere, &user);
        let parts = [
            (self.namespace.clone(), name("-secret"), secrets),
            (CLUSTER_NAMESPACE.to_owned(), name("-lease"), lease),
            (execution_namespace(cluster), name("-work"), works),
        ];
        for (namespace, name, rules) in parts {
            objects.extend(role(&ROLES, &ROLE_BINDINGS, &namespace, &name, rules, &user));
        }
        objects
    }
}

/// A role and its binding.
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

/// Creates, or leaves what is there.
pub async fn ensure(plane: &ClusterClient, resource: &Resource, mut object: Object) -> anyhow::Result<()> {
    object.set_label(LABEL_SYSTEM, "true");
    let described = format!("cannot create {} {} in the control plane", resource.kind, object.name());
    let target = match object.namespace() {
        "" => ResourceRef::all(&resource.gvr()),
        namespace => ResourceRef::within(&resource.gvr(), namespace),
    };
    let created: Result<_, Status> = plane.create(target, object, WriteOptions::default()).await;
    match created {
        Err(status) if !status.is_already_exists() => Err(status).context(described),
        _ => Ok(()),
    }
}
