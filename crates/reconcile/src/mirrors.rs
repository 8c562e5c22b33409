//! One mirror per resource and scope of an API, shared by all components that read it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use cluster_client::ClusterClient;
use object::GroupVersionResource;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::mirror::{Mirror, MirrorLimits, MirrorSpec};

/// Hands out the mirrors of one API. Clones share them. The mirrors run until the token of the factory is cancelled.
#[derive(Clone)]
pub struct Mirrors {
    factory: Arc<Factory>,
}

struct Factory {
    client: ClusterClient,
    cancel: CancellationToken,
    /// Mirrors that outlive this factory; those that run are preferred to own ones.
    outer: Option<Mirrors>,
    running: Mutex<HashMap<Identity, Mirror>>,
}

/// The parts of a spec in which two mirrors must agree to be one.
#[derive(PartialEq, Eq, Hash)]
struct Identity {
    gvr: GroupVersionResource,
    namespace: Option<String>,
    namespaces: BTreeSet<String>,
    label_selector: Option<String>,
    field_selector: Option<String>,
    is_packed: bool,
    has_history: bool,
    limits: MirrorLimits,
}

impl Mirrors {
    pub fn new(client: ClusterClient, cancel: CancellationToken) -> Self {
        Self { factory: Arc::new(Factory { client, cancel, outer: None, running: Mutex::default() }) }
    }

    /// A factory for components that end earlier, such as those of a leader term. They share the mirrors that run here.
    pub fn within(&self, client: ClusterClient, cancel: CancellationToken) -> Self {
        let outer = Some(self.clone());
        Self { factory: Arc::new(Factory { client, cancel, outer, running: Mutex::default() }) }
    }

    /// The client the mirrors read with.
    pub fn client(&self) -> &ClusterClient {
        &self.factory.client
    }

    /// The mirror of a resource, decoded in memory.
    pub fn of(&self, gvr: &GroupVersionResource) -> Mirror {
        self.get(MirrorSpec::new(gvr))
    }

    /// The mirror of a resource with many objects, packed.
    pub fn packed(&self, gvr: &GroupVersionResource) -> Mirror {
        self.get(MirrorSpec::new(gvr).packed())
    }

    /// The mirror of a resource and scope; it is started by the first caller. A trimmed mirror is never shared, since
    /// another reader may need what it lacks.
    pub fn get(&self, spec: MirrorSpec) -> Mirror {
        let factory = &self.factory;
        if spec.trim.is_some() {
            return Mirror::start(factory.client.clone(), spec, factory.cancel.clone());
        }
        let identity = Identity::of(&spec);
        if let Some(mirror) = factory.outer.as_ref().and_then(|outer| outer.running(&identity)) {
            return mirror;
        }
        let start = || Mirror::start(factory.client.clone(), spec, factory.cancel.clone());
        factory.running.lock().entry(identity).or_insert_with(start).clone()
    }

    /// The mirrored resources, one entry per mirror, sorted.
    pub fn resources(&self) -> Vec<String> {
        let mut resources: Vec<String> =
            self.factory.running.lock().keys().map(|identity| identity.gvr.resource.clone()).collect();
        resources.sort();
        resources
    }

    fn running(&self, identity: &Identity) -> Option<Mirror> {
        let own = self.factory.running.lock().get(identity).cloned();
        own.or_else(|| self.factory.outer.as_ref()?.running(identity))
    }
}

impl Identity {
    fn of(spec: &MirrorSpec) -> Self {
        Self {
            gvr: spec.gvr.clone(),
            namespace: spec.namespace.clone(),
            namespaces: spec.namespaces.clone(),
            label_selector: spec.label_selector.clone(),
            field_selector: spec.field_selector.clone(),
            is_packed: spec.is_packed,
            has_history: spec.has_history,
            limits: spec.limits,
        }
    }
}
