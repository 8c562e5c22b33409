//! The control plane as the controllers of this crate see it: one client, one set of mirrors, one interpreter.

use std::sync::Arc;

use api::Resource;
use api::cluster::CLUSTERS;
use api::features::Features;
use api::policy::{
    CLUSTER_OVERRIDE_POLICIES, CLUSTER_PROPAGATION_POLICIES, LABEL_CLUSTER_PROPAGATION_ID, LABEL_PROPAGATION_ID,
    OVERRIDE_POLICIES, PROPAGATION_POLICIES,
};
use api::work::{CLUSTER_RESOURCE_BINDINGS, LABEL_DEPENDED_BY_PREFIX, RESOURCE_BINDINGS, WORKS};
use cluster_client::ClusterClient;
use object::Object;
use plane_metrics::PlaneMetrics;
use reconcile::{Clock, Mirror, MirrorSpec};
use tokio_util::sync::CancellationToken;

use crate::bindings::{BY_BINDING, BY_TEMPLATE_KIND, binding_ids, template_kind};
use crate::dependencies::dependency_keys;
use crate::settings::Settings;
use crate::start::Parts;
use crate::templates::Templates;
use crate::work::{BY_SELECTED_KIND, selected_kinds};

/// Field manager in `managedFields`: the name Karmada's clients look for.
pub const FIELD_MANAGER: &str = "karmada-controller-manager";

/// Index of bindings: the permanent ids of the policies that claim them.
pub const BY_POLICY: &str = "policy";
/// Index of bindings: the label keys that say which bindings need what they carry.
pub const BY_DEPENDENT: &str = "dependent";
/// Index of bindings: the dependencies of their templates, as `dependency_key` writes them.
pub const BY_DEPENDENCY: &str = "dependency";

/// Shared by all controllers of this crate.
pub struct Plane {
    pub client: ClusterClient,
    pub interpreter: interpreter_runtime::SharedInterpreter,
    pub features: Arc<Features>,
    pub clock: Arc<dyn Clock>,
    pub metrics: PlaneMetrics,
    pub settings: Settings,
    /// Every object that may be propagated.
    pub templates: Arc<Templates>,
    /// Indexed `BY_POLICY`, `BY_DEPENDENT`, `BY_DEPENDENCY` and `BY_TEMPLATE_KIND`.
    pub bindings: Mirror,
    /// Indexed `BY_POLICY` and `BY_TEMPLATE_KIND`.
    pub cluster_bindings: Mirror,
    /// Indexed `BY_BINDING`.
    pub works: Mirror,
    pub clusters: Mirror,
    pub policies: Mirror,
    pub cluster_policies: Mirror,
    /// Indexed `BY_SELECTED_KIND`.
    pub overrides: Mirror,
    /// Indexed `BY_SELECTED_KIND`.
    pub cluster_overrides: Mirror,
}

impl Plane {
    pub fn start(parts: Parts, cancel: &CancellationToken) -> Arc<Self> {
        let Parts { client, interpreter, features, clock, metrics, settings } = parts;
        let mirror = |spec: MirrorSpec| Mirror::start(client.clone(), spec, cancel.clone());
        let of = |resource: Resource| MirrorSpec::new(&resource.gvr());
        let bindings_of =
            |resource| of(resource).packed().index(BY_POLICY, policy_ids).index(BY_TEMPLATE_KIND, template_kind);
        let dependents = bindings_of(RESOURCE_BINDINGS).index(BY_DEPENDENT, dependent_keys);
        let overrides_of = |resource| of(resource).index(BY_SELECTED_KIND, selected_kinds);
        Arc::new(Self {
            templates: Templates::new(client.clone(), settings.skipped_apis.clone(), cancel.clone()),
            bindings: mirror(dependents.index(BY_DEPENDENCY, dependency_keys)),
            cluster_bindings: mirror(bindings_of(CLUSTER_RESOURCE_BINDINGS)),
            works: mirror(of(WORKS).packed().index(BY_BINDING, binding_ids)),
            clusters: mirror(of(CLUSTERS)),
            policies: mirror(of(PROPAGATION_POLICIES)),
            cluster_policies: mirror(of(CLUSTER_PROPAGATION_POLICIES)),
            overrides: mirror(overrides_of(OVERRIDE_POLICIES)),
            cluster_overrides: mirror(overrides_of(CLUSTER_OVERRIDE_POLICIES)),
            client,
            interpreter,
            features,
            clock,
            metrics,
            settings,
        })
    }
}

/// The permanent ids of the policies that claim an object.
pub fn policy_ids(object: &Object) -> Vec<String> {
    let labels = [LABEL_PROPAGATION_ID, LABEL_CLUSTER_PROPAGATION_ID];
    let ids = labels.into_iter().filter_map(|label| object.label(label)).filter(|id| !id.is_empty());
    ids.map(str::to_owned).collect()
}

fn dependent_keys(object: &Object) -> Vec<String> {
    let keys = object.labels().map(|(key, _)| key).filter(|key| key.starts_with(LABEL_DEPENDED_BY_PREFIX));
    keys.map(str::to_owned).collect()
}
