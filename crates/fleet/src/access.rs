//! Unified authentication: allows impersonation in a cluster of the users with permission for its proxy.
//!
//! Every cluster with an impersonator secret gets a ClusterRole that may impersonate the users, service accounts and
//! groups bound to a role over `clusters/proxy` (or over `proxying/proxy` of the search), and its binding. Both
//! travel as Works that the cluster owns.

use std::collections::BTreeSet;
use std::sync::Arc;

use access::rule::PolicyRule;
use api::cluster::{ClusterSpec, LABEL_SYSTEM};
use object::{GroupVersionKind, GroupVersionResource, Object};
use propagation::works::DesiredWork;
use reconcile::{Change, Controller, Index, Mirror, MirrorSpec, ObjectKey, Outcome, ReconcileError, Recorder, Source};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::plane::{Plane, cluster_of_new_space};
use crate::works;

const COMPONENT: &str = "unified-auth-controller";
const WORKERS: usize = 2;
/// The name of the role and of its binding.
const IMPERSONATOR: &str = "karmada-impersonator";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Stands for all clusters in the index of roles.
const EVERY_CLUSTER: &str = "*";

struct Access {
    plane: Arc<Plane>,
    roles: Mirror,
    /// By the clusters whose proxy they open.
    roles_by_cluster: Index<String>,
    /// By the ClusterRole they give.
    bindings_by_role: Index<String>,
    events: Recorder,
}

pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    let resource = |name: &str| GroupVersionResource::new(RBAC, "v1", name);
    let roles = plane.mirror(MirrorSpec::new(&resource("clusterroles")));
    let access = Arc::new(Access {
        roles_by_cluster: roles.index(opened_clusters),
        roles,
        bindings_by_role: plane.mirror(MirrorSpec::new(&resource("clusterrolebindings"))).index(role_of),
        events: plane.recorder(COMPONENT, &cancel),
        plane,
    });
    let by_role = Arc::clone(&access);
    let by_binding = Arc::clone(&access);
    let sources = vec![
        Source::new(&access.plane.clusters, clusters_with_new_secret),
        Source::new(&access.plane.namespaces, cluster_of_new_space),
        Source::new(&access.roles, move |change| by_role.clusters_of_role(change)),
        Source::new(access.bindings_by_role.mirror(), move |change| by_binding.clusters_of_binding(change)),
    ];
    let controller = Controller::new(COMPONENT).observed_by(&access.plane.metrics.controllers);
    let reconcile = move |key: ObjectKey| reconcile(Arc::clone(&access), key);
    controller.run(sources, WORKERS, cancel, reconcile).await;
}

fn clusters_with_new_secret(change: &Change) -> Vec<ObjectKey> {
    let secret = |object: &Option<Arc<Object>>| {
        object.as_ref().and_then(|cluster| cluster.get(&["spec", "impersonatorSecretRef"]).cloned())
    };
    let is_new = change.before.is_none() || secret(&change.before) != secret(&change.now);
    if is_new && change.now.is_some() { vec![change.key.clone()] } else { Vec::new() }
}

impl Access {
    /// Clusters that a role opened or opens. What is there at the start comes with the clusters themselves.
    fn clusters_of_role(&self, change: &Change) -> Vec<ObjectKey> {
        if change.is_initial {
            return Vec::new();
        }
        let states = [&change.before, &change.now].into_iter().flatten();
        self.keys(states.flat_map(|role| opened_clusters(role)).collect())
    }

    fn clusters_of_binding(&self, change: &Change) -> Vec<ObjectKey> {
        if change.is_initial {
            return Vec::new();
        }
        let states = [&change.before, &change.now].into_iter().flatten();
        let roles: BTreeSet<String> = states.flat_map(|binding| role_of(binding)).collect();
        let roles = roles.iter().filter_map(|name| self.roles.get(&ObjectKey::new("", name)));
        self.keys(roles.flat_map(|role| opened_clusters(&role)).collect())
    }

    fn keys(&self, opened: BTreeSet<String>) -> Vec<ObjectKey> {
        let names = match opened.contains(EVERY_CLUSTER) {
            true => self.plane.cluster_names(),
            false => opened.into_iter().collect(),
        };
        names.iter().map(|name| ObjectKey::new("", name)).collect()
    }

    fn gather_subjects(&self, cluster: &str) -> Vec<Value> {
        let mut roles = self.roles_by_cluster.list(EVERY_CLUSTER);
        roles.extend(self.roles_by_cluster.list(cluster));
        let names: BTreeSet<&str> = roles.iter().map(|role| role.name()).collect();
        let bindings = names.into_iter().flat_map(|role| self.bindings_by_role.list(role));
        bindings.flat_map(|binding| binding.items(&["subjects"]).to_vec()).collect()
    }

    async fn commit(&self, cluster: &Object, role: Object, binding: Object) -> Result<bool, ReconcileError> {
        let mut is_written = false;
        for manifest in [role, binding] {
            let mut work = DesiredWork::new(cluster.name(), manifest);
            work.owner = Some(works::owner(cluster));
            is_written |= works::commit(&self.plane.client, work).await?;
        }
        Ok(is_written)
    }
}

async fn reconcile(access: Arc<Access>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let Some(cluster) = access.plane.clusters.get(&key) else { return Ok(Outcome::Done) };
    let spec: ClusterSpec = api::read(&cluster)?;
    let Some(secret) = spec.impersonator_secret_ref else { return Ok(Outcome::Done) };
    // Its execution namespace wakes this when it comes.
    if !access.plane.takes_works(&key.name) {
        return Ok(Outcome::Done);
    }
    let role = plan_role(&access.gather_subjects(&key.name));
    match access.commit(&cluster, role, plan_binding(&secret.namespace)).await {
        Ok(true) => {
            access.events.normal(&*cluster, "SyncImpersonationConfigSucceed", "Sync impersonation config succeed.");
            Ok(Outcome::Done)
        }
        Ok(false) => Ok(Outcome::Done),
        Err(error) => {
            if !error.is_conflict() {
                access.events.warning(&*cluster, "SyncImpersonationConfigFailed", error.to_string());
            }
            Err(error)
        }
    }
}

/// The clusters whose proxy a ClusterRole opens.
fn opened_clusters(role: &Object) -> Vec<String> {
    let mut opened = BTreeSet::new();
    for rule in role.items(&["rules"]).iter().map(PolicyRule::from_value) {
        let has = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        let covers = |group: &str, resource: &str| has(&rule.api_groups, group) && has(&rule.resources, resource);
        if covers("search.karmada.io", "proxying/proxy") {
            opened.insert(EVERY_CLUSTER.to_owned());
        }
        if covers("cluster.karmada.io", "clusters/proxy") {
            match rule.resource_names.is_empty() {
                true => drop(opened.insert(EVERY_CLUSTER.to_owned())),
                false => opened.extend(rule.resource_names.iter().cloned()),
            }
        }
    }
    opened.into_iter().collect()
}

fn role_of(binding: &Object) -> Vec<String> {
    let is_cluster_role = binding.str_at(&["roleRef", "kind"]) == "ClusterRole";
    is_cluster_role.then(|| binding.str_at(&["roleRef", "name"]).to_owned()).into_iter().collect()
}

/// The role that may impersonate the subjects. Service accounts are known by their name alone.
fn plan_role(subjects: &[Value]) -> Object {
    let rules: Vec<Value> = [("User", "users"), ("ServiceAccount", "serviceaccounts"), ("Group", "groups")]
        .into_iter()
        .filter_map(|(kind, resource)| {
            let of_kind = subjects.iter().filter(|subject| subject["kind"] == kind);
            let names: BTreeSet<&str> = of_kind.filter_map(|subject| subject["name"].as_str()).collect();
            (!names.is_empty()).then(|| {
                json!({"verbs": ["impersonate"], "apiGroups": [""], "resources": [resource], "resourceNames": names})
            })
        })
        .collect();
    let mut role = rbac_object("ClusterRole");
    role.set(&["rules"], if rules.is_empty() { Value::Null } else { Value::Array(rules) });
    role
}

fn plan_binding(secret_namespace: &str) -> Object {
    let mut binding = rbac_object("ClusterRoleBinding");
    let account = json!({"kind": "ServiceAccount", "namespace": secret_namespace, "name": IMPERSONATOR});
    binding.set(&["subjects"], vec![account]);
    binding.set(&["roleRef"], json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": IMPERSONATOR}));
    binding
}

fn rbac_object(kind: &str) -> Object {
    let mut object = Object::new(&GroupVersionKind::new(RBAC, "v1", kind), None, IMPERSONATOR);
    object.set_label(LABEL_SYSTEM, "true");
    object
}

#[cfg(test)]
mod tests;
