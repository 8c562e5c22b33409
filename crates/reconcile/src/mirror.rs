//! A read-only copy of one resource of an API, kept current by a watch.

mod feed;
mod store;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cluster_client::{ClusterClient, ResourceRef};
use object::{GroupVersionResource, Object};
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::mirror::store::{Kept, Store};

pub use crate::mirror::store::{Change, Subscription};

/// How long one watch stays open before it is opened anew; the real figure is between this and twice this, so that
/// many mirrors of one server do not come back at once.
pub const WATCH_TIMEOUT: Duration = Duration::from_secs(300);

/// A streaming list that is silent for this long before its end is one the server does not know.
pub const STREAMING_LIST_SILENCE_MAX: Duration = Duration::from_secs(20);

/// Namespace and name; the namespace of cluster-wide objects is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    pub namespace: String,
    pub name: String,
}

/// The values an object is found under.
pub type IndexFn = fn(&Object) -> Vec<String>;

/// Takes out of an object what its reader will not look at. Namespace, name, uid and resourceVersion must stay.
pub type TrimFn = fn(&mut Object);

/// What to mirror.
#[derive(Clone, Debug, Default)]
pub struct MirrorSpec {
    pub gvr: GroupVersionResource,
    /// All namespaces when `None`.
    pub namespace: Option<String>,
    pub label_selector: Option<String>,
    pub field_selector: Option<String>,
    pub indexes: Vec<(&'static str, IndexFn)>,
    /// What is kept of each object; all of it when `None`.
    pub trim: Option<TrimFn>,
    /// Keep objects encoded.
    pub is_packed: bool,
}

/// A handle on a mirror. Clones share it; the feeding task ends with its token.
#[derive(Clone)]
pub struct Mirror {
    shared: Arc<Shared>,
}

struct Shared {
    spec: MirrorSpec,
    store: RwLock<Store>,
    synced: watch::Sender<bool>,
    /// Why the mirror is not current, while it is not.
    trouble: RwLock<Option<String>>,
    relists: std::sync::atomic::AtomicU64,
}

impl MirrorSpec {
    pub fn new(gvr: &GroupVersionResource) -> Self {
        Self { gvr: gvr.clone(), ..Self::default() }
    }

    pub fn within(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    pub fn labels(mut self, selector: &str) -> Self {
        self.label_selector = Some(selector.to_owned());
        self
    }

    pub fn fields(mut self, selector: &str) -> Self {
        self.field_selector = Some(selector.to_owned());
        self
    }

    pub fn index(mut self, name: &'static str, values: IndexFn) -> Self {
        self.indexes.push((name, values));
        self
    }

    /// Keeps objects encoded, in a fraction of the room, and decodes them when they are asked for: for resources of which
    /// there are many and each is looked at now and then.
    pub fn packed(mut self) -> Self {
        self.is_packed = true;
        self
    }

    /// Keeps less of each object. For members: an object in this process is shared, and trimming would copy it.
    pub fn trim(mut self, trim: TrimFn) -> Self {
        self.trim = Some(trim);
        self
    }
}

impl Mirror {
    /// Starts to mirror; the copy is complete once `synced` returns.
    pub fn start(client: ClusterClient, spec: MirrorSpec, cancel: CancellationToken) -> Self {
        let store = Store::new(&spec.indexes, spec.is_packed);
        let shared = Arc::new(Shared {
            spec,
            store: RwLock::new(store),
            synced: watch::Sender::new(false),
            trouble: RwLock::default(),
            relists: Default::default(),
        });
        let mirror = Self { shared };
        tokio::spawn(feed::run(mirror.clone(), client, cancel));
        mirror
    }

    pub fn gvr(&self) -> &GroupVersionResource {
        &self.shared.spec.gvr
    }

    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Object>> {
        let kept = self.shared.store.read().get(key);
        kept.map(|kept| kept.object())
    }

    /// Everything, ordered by namespace and name.
    pub fn list(&self) -> Vec<Arc<Object>> {
        let kept = self.shared.store.read().list();
        kept.iter().map(Kept::object).collect()
    }

    pub fn list_within(&self, namespace: &str) -> Vec<Arc<Object>> {
        let kept = self.shared.store.read().list_within(namespace);
        kept.iter().map(Kept::object).collect()
    }

    /// Looks at everything in a namespace, one after the other: packed objects are not decoded all at once.
    pub fn each_within(&self, namespace: &str, mut look: impl FnMut(&Arc<Object>)) {
        let kept = self.shared.store.read().list_within(namespace);
        kept.iter().for_each(|kept| look(&kept.object()));
    }

    /// The objects an index has under a value. Asking for an index the mirror was not given is a mistake in the program.
    pub fn list_by(&self, index: &'static str, value: &str) -> Vec<Arc<Object>> {
        let kept = self.shared.store.read().list_by(index, value);
        kept.iter().map(Kept::object).collect()
    }

    pub fn len(&self) -> usize {
        self.shared.store.read().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The copy has been complete at some time; it may lag since.
    pub fn is_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Returns once the copy is complete.
    pub async fn synced(&self) {
        let mut synced = self.shared.synced.subscribe();
        // The sender lives as long as this handle.
        let _ = synced.wait_for(|synced| *synced).await;
    }

    /// Why the mirror is not current, while it is not.
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble.read().clone()
    }

    /// How often everything was listed.
    pub fn relists(&self) -> u64 {
        self.shared.relists.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Tells of every object there is now, and then of every change. A slow reader loses no key, only steps between.
    pub fn subscribe(&self) -> Subscription {
        Subscription::new(&mut self.shared.store.write())
    }

    /// Where to write an object of this mirror.
    pub fn target(&self, key: &ObjectKey) -> ResourceRef {
        match key.namespace.as_str() {
            "" => ResourceRef::cluster(self.gvr(), &key.name),
            namespace => ResourceRef::namespaced(self.gvr(), namespace, &key.name),
        }
    }
}

impl ObjectKey {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    pub fn of(object: &Object) -> Self {
        Self::new(object.namespace(), object.name())
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}
