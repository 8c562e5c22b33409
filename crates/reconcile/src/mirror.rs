//! A read-only copy of one resource of an API, kept current by a watch.

mod feed;
mod history;
mod store;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cluster_client::{ClusterClient, ResourceRef};
use object::{GroupVersionResource, Object};
use packing::Dictionary;
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::mirror::store::Store;

pub use crate::mirror::history::{Follower, Progress, Step, TooOld};
pub use crate::mirror::store::{Change, Kept, Subscription};

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
#[derive(Clone)]
pub struct Trim(Arc<dyn Fn(&mut Object) + Send + Sync>);

impl fmt::Debug for Trim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trim")
    }
}

/// What to mirror.
#[derive(Clone, Debug, Default)]
pub struct MirrorSpec {
    pub gvr: GroupVersionResource,
    /// All namespaces when `None`.
    pub namespace: Option<String>,
    /// Of all namespaces only these; all when empty.
    pub namespaces: BTreeSet<String>,
    pub label_selector: Option<String>,
    pub field_selector: Option<String>,
    pub indexes: Vec<(&'static str, IndexFn)>,
    /// What is kept of each object; all of it when `None`.
    pub trim: Option<Trim>,
    /// Keep objects encoded.
    pub is_packed: bool,
    /// Remember recent changes, for followers.
    pub has_history: bool,
    pub limits: MirrorLimits,
}

/// The most a mirror holds. An API that has more is not mirrored any further, and the mirror reports why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorLimits {
    pub objects: usize,
    pub bytes: usize,
}

impl MirrorLimits {
    /// For one resource of a member, whose API is not trusted with the memory of this process.
    pub const MEMBER: Self = Self { objects: 500_000, bytes: 512 * 1024 * 1024 };

    fn is_bounded(&self) -> bool {
        *self != Self::default()
    }
}

impl Default for MirrorLimits {
    fn default() -> Self {
        Self { objects: usize::MAX, bytes: usize::MAX }
    }
}

/// A handle on a mirror. Clones share it; the feeding task ends with its token.
#[derive(Clone)]
pub struct Mirror {
    shared: Arc<Shared>,
}

struct Shared {
    spec: MirrorSpec,
    dictionary: Option<Arc<Dictionary>>,
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

    /// Keeps nothing of other namespaces, though they are listed and watched too: there is one version for all.
    pub fn within_any(mut self, namespaces: BTreeSet<String>) -> Self {
        self.namespaces = namespaces;
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
    pub fn trim(mut self, trim: impl Fn(&mut Object) + Send + Sync + 'static) -> Self {
        self.trim = Some(Trim(Arc::new(trim)));
        self
    }

    /// Bounds what the mirror holds.
    pub fn limits(mut self, limits: MirrorLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Remembers recent changes, one by one, so that the mirror can be followed from a version on.
    pub fn with_history(mut self) -> Self {
        self.has_history = true;
        self
    }

    fn admits(&self, object: &Object) -> bool {
        self.namespaces.is_empty() || self.namespaces.contains(object.namespace())
    }
}

impl Mirror {
    /// Starts to mirror; the copy is complete once `synced` returns.
    pub fn start(client: ClusterClient, spec: MirrorSpec, cancel: CancellationToken) -> Self {
        let dictionary = spec.is_packed.then(Arc::<Dictionary>::default);
        let store = Store::new(&spec.indexes, dictionary.clone(), spec.has_history);
        let store = if spec.limits.is_bounded() { store.count_bytes() } else { store };
        let shared = Arc::new(Shared {
            spec,
            dictionary,
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

    /// As it is kept, which need not be decoded.
    pub fn kept(&self, key: &ObjectKey) -> Option<Kept> {
        self.shared.store.read().get(key)
    }

    /// Some objects behind a key, in order, as they are kept; of all namespaces when none is named.
    pub fn chunk(&self, namespace: &str, after: Option<&ObjectKey>, count_max: usize) -> Vec<(ObjectKey, Kept)> {
        self.shared.store.read().chunk(namespace, after, count_max)
    }

    /// The version of the API this was the state of just now; empty before the first list.
    pub fn version(&self) -> String {
        self.shared.store.read().version().to_owned()
    }

    /// Tells of every change from now on.
    pub fn follow(&self) -> Follower {
        Follower::from_now(&self.shared)
    }

    /// Tells of every change after a version, while those are remembered.
    pub fn follow_after(&self, version: u64) -> Result<Follower, TooOld> {
        Follower::after(&self.shared, version)
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
