//! State shared by the controllers of this crate: client, clock, and mirrors of clusters, namespaces and bindings.

use std::sync::Arc;

use api::cluster::CLUSTERS;
use api::features::Features;
use api::work::{CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS};
use cluster_client::ClusterClient;
use object::builtin;
use object::{GroupVersionResource, Object, conditions};
use plane_metrics::PlaneMetrics;
use reconcile::{Change, Clock, Index, Mirror, MirrorSpec, Mirrors, ObjectKey, Recorder};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::settings::Settings;
use crate::start::FleetDeps;
use crate::suspend_detector::SuspendDetector;

/// Field manager of the writes.
pub const FIELD_MANAGER: &str = "karmada-controller-manager";

/// Reasons to look at a cluster. Most clusters have none, so the common case asks an empty index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Attention {
    Leaving,
    /// A taint drives out what runs there.
    Evicting,
}

pub struct Plane {
    pub client: ClusterClient,
    pub clock: Arc<dyn Clock>,
    pub features: Arc<Features>,
    pub metrics: PlaneMetrics,
    pub settings: Settings,
    mirrors: Mirrors,
    pub clusters: Mirror,
    /// By `Push` and `Pull`.
    clusters_by_mode: Index<String>,
    clusters_by_attention: Index<Attention>,
    pub namespaces: Mirror,
    /// ResourceBindings and ClusterResourceBindings: one code for both.
    pub bindings: [Mirror; 2],
    /// By the clusters they place on.
    bindings_by_cluster: [Index<String>; 2],
    pub suspend_detector: SuspendDetector,
}

impl Plane {
    pub fn start(deps: FleetDeps) -> Arc<Self> {
        let FleetDeps { mirrors, features, clock, metrics, settings } = deps;
        let clusters = mirrors.of(&CLUSTERS.gvr());
        let bindings = [RESOURCE_BINDINGS, CLUSTER_RESOURCE_BINDINGS].map(|resource| mirrors.packed(&resource.gvr()));
        // A look may take a while, and a machine be busy: only what cannot be either is a pause.
        let gap_max = settings.cluster_monitor_period + settings.cluster_monitor_grace_period / 4;
        let suspend_detector = SuspendDetector::new(gap_max, clock.now());
        let plane = Self {
            suspend_detector,
            clusters_by_mode: clusters.index(mode_of),
            clusters_by_attention: clusters.index(attention_of),
            clusters,
            namespaces: mirrors.of(&namespaces()),
            bindings_by_cluster: [&bindings[0], &bindings[1]].map(|mirror| mirror.index(targets_of)),
            bindings,
            client: mirrors.client().clone(),
            mirrors,
            clock,
            features,
            metrics,
            settings,
        };
        Arc::new(plane)
    }

    /// Any other mirror of the plane.
    pub fn mirror(&self, spec: MirrorSpec) -> Mirror {
        self.mirrors.get(spec)
    }

    /// Records events under the name of a Karmada component.
    pub fn recorder(&self, component: &'static str, cancel: &CancellationToken) -> Recorder {
        Recorder::start(self.client.clone(), component, Arc::clone(&self.clock), cancel.clone())
    }

    pub fn cluster(&self, name: &str) -> Option<Arc<Object>> {
        self.clusters.get(&ObjectKey::new("", name))
    }

    pub fn cluster_names(&self) -> Vec<String> {
        self.clusters.list().iter().map(|cluster| cluster.name().to_owned()).collect()
    }

    /// Clusters whose agents come to the plane.
    pub fn pull_clusters(&self) -> Vec<Arc<Object>> {
        self.clusters_by_mode.list("Pull")
    }

    pub fn is_anything_leaving(&self) -> bool {
        !self.clusters_by_attention.keys(&Attention::Leaving).is_empty()
    }

    /// Clusters with a taint that drives out what runs there.
    pub fn evicting_clusters(&self) -> Vec<Arc<Object>> {
        self.clusters_by_attention.list(&Attention::Evicting)
    }

    /// Reports whether another cluster is known to be ready.
    pub fn has_other_ready_cluster(&self, cluster: &str) -> bool {
        self.clusters.list().iter().any(|other| other.name() != cluster && !other.is_deleting() && is_ready(other))
    }

    /// Can works for the cluster be written?
    pub fn takes_works(&self, cluster: &str) -> bool {
        let namespace = self.namespaces.get(&ObjectKey::new("", &api::names::execution_namespace(cluster)));
        namespace.is_some_and(|namespace| !namespace.is_deleting())
            && self.cluster(cluster).is_some_and(|cluster| !cluster.is_deleting())
    }

    /// The bindings that place on the cluster, each with the mirror it is from.
    pub fn placed_on(&self, cluster: &str) -> Vec<(&Mirror, Arc<Object>)> {
        let listed = |index| Index::list(index, cluster).into_iter().map(move |b| (index.mirror(), b));
        self.bindings_by_cluster.iter().flat_map(listed).collect()
    }

    /// The same for one kind of binding, by its place in `bindings`.
    pub fn placed_on_kind(&self, kind: usize, cluster: &str) -> Vec<Arc<Object>> {
        self.bindings_by_cluster[kind].list(cluster)
    }
}

pub fn namespaces() -> GroupVersionResource {
    builtin::namespaces()
}

/// The clusters a binding places on.
pub fn targets_of(binding: &Object) -> Vec<String> {
    target_names(binding).map(str::to_owned).collect()
}

pub fn target_names(binding: &Object) -> impl Iterator<Item = &str> {
    binding.items(&["spec", "clusters"]).iter().filter_map(|target| target["name"].as_str())
}

/// The cluster whose execution namespace has just come: works can be written from now on.
pub fn cluster_of_new_space(change: &Change) -> Vec<ObjectKey> {
    let is_new = change.now.is_some() && change.before.is_none() && !change.is_initial;
    if is_new { cluster_of_space(change) } else { Vec::new() }
}

/// The cluster that has just come. It may find its execution namespace there already.
pub fn new_cluster(change: &Change) -> Vec<ObjectKey> {
    let is_new = change.now.is_some() && change.before.is_none() && !change.is_initial;
    if is_new { vec![change.key.clone()] } else { Vec::new() }
}

/// The cluster whose execution namespace has just gone.
pub fn cluster_of_lost_space(change: &Change) -> Vec<ObjectKey> {
    if change.now.is_none() { cluster_of_space(change) } else { Vec::new() }
}

fn cluster_of_space(change: &Change) -> Vec<ObjectKey> {
    let cluster = api::names::cluster_of_execution_namespace(&change.key.name);
    cluster.map(|cluster| ObjectKey::new("", cluster)).into_iter().collect()
}

fn is_ready(cluster: &Object) -> bool {
    conditions::is_true(cluster, api::cluster::CONDITION_READY)
}

fn mode_of(cluster: &Object) -> Vec<String> {
    vec![cluster.str_at(&["spec", "syncMode"]).to_owned()]
}

fn attention_of(cluster: &Object) -> Vec<Attention> {
    let is_evicting = has_no_execute(cluster.items(&["spec", "taints"]));
    let reasons = [(cluster.is_deleting(), Attention::Leaving), (is_evicting, Attention::Evicting)];
    reasons.into_iter().filter(|(holds, _)| *holds).map(|(_, reason)| reason).collect()
}

pub fn has_no_execute(taints: &[Value]) -> bool {
    taints.iter().any(|taint| taint["effect"] == "NoExecute")
}
