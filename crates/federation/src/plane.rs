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
use reconcile::{Clock, Index, Mirror};
use tokio_util::sync::CancellationToken;

use crate::bindings::{binding_ids, template_kind};
use crate::dependencies::dependency_keys;
use crate::settings::Settings;
use crate::start::FederationDeps;
use crate::templates::Templates;
use crate::work::selected_kinds;

/// Field manager in `managedFields`: the name Karmada's clients look for.
pub const FIELD_MANAGER: &str = "karmada-controller-manager";

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
    pub bindings: Mirror,
    pub cluster_bindings: Mirror,
    /// By the permanent ids of the policies that claim them; namespaced bindings, then cluster-wide ones.
    pub bindings_by_policy: [Index<String>; 2],
    /// By the apiVersion and kind of their templates; namespaced bindings, then cluster-wide ones.
    pub bindings_by_kind: [Index<String>; 2],
    /// By the label keys that say which bindings need what they carry.
    pub bindings_by_dependent: Index<String>,
    /// By the dependencies of their templates, as `dependency_key` writes them.
    pub bindings_by_dependency: Index<String>,
    pub works: Mirror,
    /// By the permanent ids of the bindings they come from.
    pub works_by_binding: Index<String>,
    pub clusters: Mirror,
    pub policies: Mirror,
    pub cluster_policies: Mirror,
    pub overrides: Mirror,
    pub cluster_overrides: Mirror,
    /// By namespace, apiVersion and kind of what they select; namespaced policies, then cluster-wide ones.
    pub overrides_by_kind: [Index<String>; 2],
}

impl Plane {
    pub fn start(deps: FederationDeps, cancel: &CancellationToken) -> Arc<Self> {
        let FederationDeps { mirrors, interpreter, features, clock, metrics, settings } = deps;
        let client = mirrors.client().clone();
        let of = |resource: Resource| mirrors.of(&resource.gvr());
        let packed = |resource: Resource| mirrors.packed(&resource.gvr());
        let (bindings, cluster_bindings) = (packed(RESOURCE_BINDINGS), packed(CLUSTER_RESOURCE_BINDINGS));
        let (overrides, cluster_overrides) = (of(OVERRIDE_POLICIES), of(CLUSTER_OVERRIDE_POLICIES));
        let works = packed(WORKS);
        Arc::new(Self {
            templates: Templates::new(client.clone(), settings.skipped_apis.clone(), cancel.clone()),
            bindings_by_policy: [&bindings, &cluster_bindings].map(|mirror| mirror.index(policy_ids)),
            bindings_by_kind: [&bindings, &cluster_bindings].map(|mirror| mirror.index(template_kind)),
            bindings_by_dependent: bindings.index(dependent_keys),
            bindings_by_dependency: bindings.index(dependency_keys),
            bindings,
            cluster_bindings,
            works_by_binding: works.index(binding_ids),
            works,
            clusters: of(CLUSTERS),
            policies: of(PROPAGATION_POLICIES),
            cluster_policies: of(CLUSTER_PROPAGATION_POLICIES),
            overrides_by_kind: [&overrides, &cluster_overrides].map(|mirror| mirror.index(selected_kinds)),
            overrides,
            cluster_overrides,
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
