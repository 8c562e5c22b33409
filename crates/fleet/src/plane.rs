//! State shared by the controllers of this crate: client, clock, and mirrors of clusters, namespaces and bindings.

use std::sync::Arc;

use api::cluster::CLUSTERS;
use api::features::Features;
use api::work::{CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS};
use cluster_client::ClusterClient;
use object::{GroupVersionResource, Object, conditions};
use plane_metrics::PlaneMetrics;
use reconcile::{Change, Clock, Mirror, MirrorSpec, ObjectKey, Recorder};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::settings::Settings;
use crate::start::Parts;
use crate::vigil::Vigil;

/// Field manager of the writes.
pub const FIELD_MANAGER: &str = "karmada-controller-manager";

/// Bindings by the clusters they place on.
const BY_CLUSTER: &str = "cluster";
/// Clusters by `Push` and `Pull`.
const BY_MODE: &str = "mode";
/// Clusters by what is special about them, so that the common case asks one empty index.
const BY_TROUBLE: &str = "trouble";
const LEAVING: &str = "leaving";
const EVICTING: &str = "evicting";

pub struct Plane {
    pub client: ClusterClient,
    pub clock: Arc<dyn Clock>,
    pub features: Arc<Features>,
    pub metrics: PlaneMetrics,
    pub settings: Settings,
    pub clusters: Mirror,
    pub namespaces: Mirror,
    /// ResourceBindings and ClusterResourceBindings: one code for both.
    pub bindings: [Mirror; 2],
    pub vigil: Vigil,
}

impl Plane {
    pub fn start(parts: Parts, cancel: &CancellationToken) -> Arc<Self> {
        let Parts { client, features, clock, metrics, settings } = parts;
        let mirror = |spec: MirrorSpec| Mirror::start(client.clone(), spec, cancel.clone());
        let clusters = MirrorSpec::new(&CLUSTERS.gvr()).index(BY_MODE, mode_of).index(BY_TROUBLE, trouble_of);
        let bindings = [RESOURCE_BINDINGS, CLUSTER_RESOURCE_BINDINGS]
            .map(|resource| mirror(MirrorSpec::new(&resource.gvr()).packed().index(BY_CLUSTER, targets_of)));
        // A look may take a while, and a machine be busy: only what cannot be either is a pause.
        let gap_max = settings.cluster_monitor_period + settings.cluster_monitor_grace_period / 4;
        let vigil = Vigil::new(gap_max, clock.now());
        let plane = Self {
            vigil,
            clusters: mirror(clusters),
            namespaces: mirror(MirrorSpec::new(&namespaces())),
            bindings,
            client,
            clock,
            features,
            metrics,
            settings,
        };
        Arc::new(plane)
    }

    /// A mirror of one controller alone.
    pub fn mirror(&self, spec: MirrorSpec, cancel: &CancellationToken) -> Mirror {
        Mirror::start(self.client.clone(), spec, cancel.clone())
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
        self.clusters.list_by(BY_MODE, "Pull")
    }

    pub fn is_anything_leaving(&self) -> bool {
        !self.clusters.list_by(BY_TROUBLE, LEAVING).is_empty()
    }

    /// Clusters with a taint that drives out what runs there.
    pub fn evicting_clusters(&self) -> Vec<Arc<Object>> {
        self.clusters.list_by(BY_TROUBLE, EVICTING)
    }

    /// Reports whether another cluster is known to be ready.
    pub fn has_ready_cluster_beside(&self, cluster: &str) -> bool {
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
        let listed = |mirror| Mirror::list_by(mirror, BY_CLUSTER, cluster).into_iter().map(move |b| (mirror, b));
        self.bindings.iter().flat_map(listed).collect()
    }

    /// The same for one kind of binding, by its place in `bindings`.
    pub fn placed_on_kind(&self, kind: usize, cluster: &str) -> Vec<Arc<Object>> {
        self.bindings[kind].list_by(BY_CLUSTER, cluster)
    }
}

pub fn namespaces() -> GroupVersionResource {
    GroupVersionResource::new("", "v1", "namespaces")
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

fn trouble_of(cluster: &Object) -> Vec<String> {
    let is_evicting = has_no_execute(cluster.items(&["spec", "taints"]));
    let troubles = [(cluster.is_deleting(), LEAVING), (is_evicting, EVICTING)];
    troubles.into_iter().filter(|(holds, _)| *holds).map(|(_, trouble)| trouble.to_owned()).collect()
}

pub fn has_no_execute(taints: &[Value]) -> bool {
    taints.iter().any(|taint| taint["effect"] == "NoExecute")
}
