//! A copy of one resource of an API, kept current by a watch and by the answers of own writes (`own_writes`).

mod feed;
mod history;
mod index;
mod kept;
mod own_writes;
mod store;
mod subscription;

use std::collections::BTreeSet;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use cluster_client::{ClusterClient, ResourceRef};
use object::selector::{FieldSelector, LabelSelector};
use object::{GroupVersionResource, Object};
use packing::Dictionary;
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::mirror::index::Table;
use crate::mirror::kept::number;
use crate::mirror::own_writes::Answer;
use crate::mirror::store::Store;

pub use crate::mirror::history::{ChangeBatch, Follower, RecordedChange, TooOld};
pub use crate::mirror::index::Index;
pub use crate::mirror::kept::Kept;
pub use crate::mirror::own_writes::{HIDDEN_MAX, OWN_WRITES_MAX};
pub use crate::mirror::subscription::{Change, Subscription};

/// Minimum lifetime of a watch; the actual one is up to twice as long, so that many mirrors of one server do not
/// reconnect in sync.
pub const WATCH_TIMEOUT: Duration = Duration::from_secs(300);

/// A streaming list that is silent for this long before its end is not supported by the server.
pub const STREAMING_LIST_SILENCE_MAX: Duration = Duration::from_secs(20);

/// Namespace and name; the namespace of cluster-scoped objects is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    pub namespace: String,
    pub name: String,
}

/// Removes unneeded fields from an object. Namespace, name, uid and resourceVersion must stay.
#[derive(Clone)]
pub struct Trim(Arc<dyn Fn(&mut Object) + Send + Sync>);

impl fmt::Debug for Trim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trim")
    }
}

/// The resource to mirror, and how.
#[derive(Clone, Debug, Default)]
pub struct MirrorSpec {
    pub gvr: GroupVersionResource,
    /// All namespaces when `None`.
    pub namespace: Option<String>,
    /// Of all namespaces only these; all if empty.
    pub namespaces: BTreeSet<String>,
    pub label_selector: Option<String>,
    pub field_selector: Option<String>,
    /// Trims each object; `None` keeps all of it.
    pub trim: Option<Trim>,
    /// Keep objects encoded.
    pub is_packed: bool,
    /// Record recent changes, for followers.
    pub has_history: bool,
    pub limits: MirrorLimits,
}

/// The most a mirror holds. An API that has more is not mirrored any further, and the mirror reports why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// `None` if a selector cannot be parsed: the server refuses it, and nothing is mirrored.
    selection: Option<Selection>,
    dictionary: Option<Arc<Dictionary>>,
    store: RwLock<Store>,
    synced: watch::Sender<bool>,
    /// The error that keeps the mirror from being current, if any.
    error: RwLock<Option<String>>,
    relists: std::sync::atomic::AtomicU64,
}

/// The selectors of a mirror, for own writes; what the watch delivers is selected by the server.
struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
}

impl MirrorSpec {
    pub fn new(gvr: &GroupVersionResource) -> Self {
        Self { gvr: gvr.clone(), ..Self::default() }
    }

    pub fn within(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Keeps only objects of these namespaces. All are still listed and watched: there is one version for all.
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

    /// Keeps objects compressed and decodes them on demand: for resources with many objects that are rarely read.
    pub fn packed(mut self) -> Self {
        self.is_packed = true;
        self
    }

    /// Trims each object. For members: objects of an API in this process are shared, and trimming would copy them.
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

impl Selection {
    fn of(spec: &MirrorSpec) -> Option<Self> {
        Some(Self {
            labels: LabelSelector::parse(spec.label_selector.as_deref().unwrap_or_default()).ok()?,
            fields: FieldSelector::parse(spec.field_selector.as_deref().unwrap_or_default()).ok()?,
        })
    }

    fn matches(&self, object: &Object) -> bool {
        let field = |name: &str| object.str_at(&name.split('.').collect::<Vec<_>>());
        self.labels.matches(object) && self.fields.matches_with(field)
    }
}

impl Mirror {
    /// Starts mirroring; the copy is complete once `synced` returns.
    pub fn start(client: ClusterClient, spec: MirrorSpec, cancel: CancellationToken) -> Self {
        let dictionary = spec.is_packed.then(Arc::<Dictionary>::default);
        let mut store = Store::new(dictionary.clone(), spec.has_history);
        if spec.limits.is_bounded() {
            store = store.count_bytes();
        }
        let shared = Arc::new(Shared {
            selection: Selection::of(&spec),
            spec,
            dictionary,
            store: RwLock::new(store),
            synced: watch::Sender::new(false),
            error: RwLock::default(),
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

    /// All objects, ordered by namespace and name.
    pub fn list(&self) -> Vec<Arc<Object>> {
        let kept = self.shared.store.read().list();
        kept.iter().map(Kept::object).collect()
    }

    pub fn list_within(&self, namespace: &str) -> Vec<Arc<Object>> {
        let kept = self.shared.store.read().list_within(namespace);
        kept.iter().map(Kept::object).collect()
    }

    /// The keys of the objects in a namespace, without decoding the objects.
    pub fn keys_within(&self, namespace: &str) -> Vec<ObjectKey> {
        self.shared.store.read().keys_within(namespace)
    }

    /// Visits the objects in a namespace one by one, so that packed objects are not all decoded at once.
    pub fn each_within(&self, namespace: &str, mut look: impl FnMut(&Arc<Object>)) {
        let kept = self.shared.store.read().list_within(namespace);
        kept.iter().for_each(|kept| look(&kept.object()));
    }

    /// An index of the objects by the values a function returns for them. Each call creates one: share the handle.
    pub fn index<K>(&self, values: impl Fn(&Object) -> Vec<K> + Send + Sync + 'static) -> Index<K>
    where
        K: Eq + Hash + Send + Sync + 'static,
    {
        let table = Table::new(values);
        self.shared.store.write().add_index(Arc::downgrade(&table) as _);
        Index::new(self.clone(), table)
    }

    /// Notes the answer of a create, update or patch of this resource: reads and subscribers get it at once, and never
    /// an older version (see `own_writes`). A mirror with a history records only what the watch shows.
    pub fn note(&self, written: &Arc<Object>) {
        if is_removed(written) {
            return self.note_gone(written);
        }
        let spec = &self.shared.spec;
        let is_elsewhere = spec.namespace.as_deref().is_some_and(|namespace| namespace != written.namespace());
        let version = number(written.resource_version());
        // Most watches in this process are faster than the answer.
        if spec.has_history || is_elsewhere || version <= number(self.shared.store.read().version()) {
            return;
        }
        let is_selected = self.shared.selection.as_ref().is_some_and(|selection| selection.matches(written));
        let mut seen = (is_selected && spec.admits(written)).then(|| Arc::clone(written));
        if let (Some(Trim(trim)), Some(seen)) = (&spec.trim, &mut seen) {
            trim(Arc::make_mut(seen));
        }
        let answer = Answer { version, uid: written.uid(), is_deletion: false };
        self.shared.store.write().note(&ObjectKey::of(written), answer, seen);
    }

    /// Notes the answer of a delete, which is a status or the object. One that waits for finalizers or a grace period has
    /// a deletionTimestamp and is still there.
    pub fn note_deleted(&self, deleted: &Object, answer: &Arc<Object>) {
        match answer.is_deleting() {
            true => self.note(answer),
            false => self.note_gone(deleted),
        }
    }

    /// Notes that the API no longer has this object, known by its uid.
    pub fn note_gone(&self, gone: &Object) {
        if self.shared.spec.has_history || gone.uid().is_empty() {
            return;
        }
        let answer = Answer { version: number(gone.resource_version()), uid: gone.uid(), is_deletion: true };
        self.shared.store.write().note(&ObjectKey::of(gone), answer, None);
    }

    /// The number of own writes that the watch has not shown yet.
    pub fn own_writes(&self) -> usize {
        self.shared.store.read().own_writes()
    }

    /// The stored form, without decoding.
    pub fn kept(&self, key: &ObjectKey) -> Option<Kept> {
        self.shared.store.read().get(key)
    }

    /// Up to `count_max` objects after a key, in order, in stored form; of all namespaces if `namespace` is empty.
    pub fn chunk(&self, namespace: &str, after: Option<&ObjectKey>, count_max: usize) -> Vec<(ObjectKey, Kept)> {
        self.shared.store.read().chunk(namespace, after, count_max)
    }

    /// The current version of the copy; empty before the first list.
    pub fn version(&self) -> String {
        self.shared.store.read().version().to_owned()
    }

    /// Follows every change from now on.
    pub fn follow(&self) -> Follower {
        Follower::from_now(&self.shared)
    }

    /// Follows every change after a version, while it is in the history.
    pub fn follow_after(&self, version: u64) -> Result<Follower, TooOld> {
        Follower::after(&self.shared, version)
    }

    pub fn len(&self) -> usize {
        self.shared.store.read().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The copy has been complete once; it may lag since.
    pub fn is_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Returns once the copy is complete.
    pub async fn synced(&self) {
        let mut synced = self.shared.synced.subscribe();
        // The sender lives as long as this handle.
        let _ = synced.wait_for(|synced| *synced).await;
    }

    /// The error that keeps the mirror from being current, if any.
    pub fn error(&self) -> Option<String> {
        self.shared.error.read().clone()
    }

    /// Number of full lists so far.
    pub fn relists(&self) -> u64 {
        self.shared.relists.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Delivers every existing object, and then every change. A slow reader misses intermediate states but no key.
    pub fn subscribe(&self) -> Subscription {
        Subscription::new(&mut self.shared.store.write())
    }

    /// Delivers every change from now on. For subscribers to which existing objects mean nothing: to deliver thousands of
    /// them is most of the work of a start.
    pub fn subscribe_to_changes(&self) -> Subscription {
        self.subscribe_with_keys().1
    }

    /// The same, with the keys of the objects that exist.
    pub fn subscribe_with_keys(&self) -> (Vec<ObjectKey>, Subscription) {
        Subscription::of_changes(&mut self.shared.store.write())
    }

    /// The API reference of an object in this mirror, for writes.
    pub fn target(&self, key: &ObjectKey) -> ResourceRef {
        match key.namespace.as_str() {
            "" => ResourceRef::cluster(self.gvr(), &key.name),
            namespace => ResourceRef::namespaced(self.gvr(), namespace, &key.name),
        }
    }
}

/// Reports whether the API has removed the object: its deletion was requested, and there is nothing left to wait for. The
/// write that removes the last finalizer is answered with such an object.
fn is_removed(object: &Object) -> bool {
    let grace = object.i64_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
    object.is_deleting() && grace == 0 && object.finalizers().next().is_none()
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
