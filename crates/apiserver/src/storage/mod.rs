//! Objects in the store: their keys, their encoding, and the status for a client when the store fails.

mod leases;
mod writes;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use object::depth::{self, DEPTH_MAX};
use object::{GroupResource, Object, Status};
use packing::{Dictionary, Packed};
use store::{Error, Store};

pub use leases::EventLeases;
pub use writes::{WriteCounts, WriteKind};

/// Objects larger than this are refused, as etcd's request limit makes kube-apiserver do.
pub const OBJECT_BYTES_MAX: usize = 1_572_864;

/// The store for the verbs: reads and writes objects.
#[derive(Clone)]
pub struct Objects {
    store: Arc<dyn Store>,
    /// Lists at older revisions have expired.
    history_start: Arc<AtomicU64>,
    writes: Arc<WriteCounts>,
}

/// An object as it is stored now.
#[derive(Clone)]
pub struct Current {
    /// In the storage version, with its resourceVersion.
    pub object: Object,
    pub revision: u64,
    pub bytes: Bytes,
    /// The stored object is deeper than a tree can be: values in `object` below that depth are null.
    pub is_cut: bool,
}

/// The outcome of a write that expects a revision.
pub enum Outcome {
    Written(u64),
    /// Another writer was first; the object that is stored now, if any.
    Raced(Option<Box<Current>>),
}

impl Objects {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, history_start: Arc::default(), writes: Arc::default() }
    }

    /// The oldest revision that lists can be continued at.
    pub fn history_start(&self) -> u64 {
        self.history_start.load(Ordering::Acquire)
    }

    pub fn forget_history_before(&self, revision: u64) {
        self.history_start.fetch_max(revision, Ordering::AcqRel);
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The writes of this server so far.
    pub fn writes(&self) -> &WriteCounts {
        &self.writes
    }

    pub async fn get(&self, key: &str) -> Result<Option<Current>, Status> {
        let (found, _) = self.store.get(key).await.map_err(status_of_store)?;
        found.map(read_current).transpose()
    }

    pub async fn create(&self, key: &str, bytes: Bytes, lease: Option<i64>) -> Result<Outcome, Status> {
        check_new(&bytes)?;
        match self.store.create(key, bytes, lease).await {
            Ok(revision) => Ok(self.written(key, WriteKind::Create, revision)),
            Err(Error::Exists { current }) => Ok(Outcome::Raced(Some(Box::new(read_current(current)?)))),
            Err(error) => Err(status_of_store(error)),
        }
    }

    pub async fn update(&self, key: &str, bytes: Bytes, expected: u64, lease: Option<i64>) -> Result<Outcome, Status> {
        self.check_update(key, &bytes).await?;
        match self.store.update(key, bytes, expected, lease).await {
            Ok(revision) => Ok(self.written(key, WriteKind::Update, revision)),
            Err(error) => raced(error),
        }
    }

    /// Refuses bytes that are too large or too deep to be stored. An object that already is too deep may keep its depth,
    /// so that its finalizers can be removed.
    pub async fn check_update(&self, key: &str, bytes: &Bytes) -> Result<(), Status> {
        check_size(bytes)?;
        let depth = depth::of_json(bytes);
        if depth <= DEPTH_MAX {
            return Ok(());
        }
        let (found, _) = self.store.get(key).await.map_err(status_of_store)?;
        match found {
            Some(current) if depth <= depth::of_json(&current.value) => Ok(()),
            _ => Err(too_deep(depth)),
        }
    }

    pub async fn delete(&self, key: &str, expected: u64) -> Result<Outcome, Status> {
        match self.store.delete(key, Some(expected)).await {
            Ok((revision, _)) => Ok(self.written(key, WriteKind::Delete, revision)),
            Err(Error::NotFound) => Ok(Outcome::Raced(None)),
            Err(error) => raced(error),
        }
    }

    fn written(&self, key: &str, kind: WriteKind, revision: u64) -> Outcome {
        self.writes.count(key, kind);
        Outcome::Written(revision)
    }
}

fn raced(error: Error) -> Result<Outcome, Status> {
    match error {
        Error::Conflict { current } => Ok(Outcome::Raced(current.map(read_current).transpose()?.map(Box::new))),
        error => Err(status_of_store(error)),
    }
}

fn read_current(kv: store::KeyValue) -> Result<Current, Status> {
    let (object, is_cut) = match Object::decode(&kv.value) {
        Ok(object) => (Ok(object), false),
        Err(_) => (Object::decode_stored(&kv.value), true),
    };
    let unreadable = |error| Status::internal(format!("stored object {} cannot be read: {error}", kv.key));
    let mut object = object.map_err(unreadable)?;
    object.set_resource_version(kv.mod_revision);
    Ok(Current { object, revision: kv.mod_revision, bytes: kv.value, is_cut })
}

/// Refuses bytes of a new object that are too large or too deep to be stored.
pub fn check_new(bytes: &Bytes) -> Result<(), Status> {
    check_size(bytes)?;
    match depth::of_json(bytes) {
        depth if depth > DEPTH_MAX => Err(too_deep(depth)),
        _ => Ok(()),
    }
}

fn too_deep(depth: usize) -> Status {
    let text =
        format!("object is nested {depth} levels deep, managedFields included; at most {DEPTH_MAX} can be stored");
    Status::new(422, "Invalid", text)
}

fn check_size(bytes: &Bytes) -> Result<(), Status> {
    if bytes.len() <= OBJECT_BYTES_MAX {
        return Ok(());
    }
    let text = format!("object is {} bytes, at most {OBJECT_BYTES_MAX} can be stored", bytes.len());
    Err(Status::too_large(text))
}

/// Returns the key prefix of a resource: `/core/pods/`, `/apps/deployments/`.
pub fn prefix(resource: &GroupResource) -> String {
    let group = if resource.group.is_empty() { "core" } else { &resource.group };
    format!("/{group}/{}/", resource.resource)
}

pub fn key(resource: &GroupResource, namespace: &str, name: &str) -> String {
    let mut key = prefix(resource);
    if !namespace.is_empty() {
        key.push_str(namespace);
        key.push('/');
    }
    key.push_str(name);
    key
}

/// Encodes an object for the store: canonical JSON without resourceVersion, which is the revision in the store.
pub fn encode(object: &Object) -> Bytes {
    object.encode_but("resourceVersion")
}

/// The bytes of a stored object with the revision that becomes its resourceVersion.
///
/// Bytes are in the storage version and without resourceVersion, which is spliced in on the way out: so all versions of
/// the API and all responses share one copy.
#[derive(Clone, Debug)]
pub struct Stored {
    pub revision: u64,
    value: Packed,
    splice_at: usize,
}

const METADATA_OPENS: &[u8] = b"\"metadata\":{";

impl Stored {
    /// `None` when the bytes have no metadata, which every encoded object has.
    pub fn new(bytes: Bytes, revision: u64) -> Option<Self> {
        let opens = memchr::memmem::find(&bytes, METADATA_OPENS)?;
        Some(Self { revision, value: Packed::plain(bytes), splice_at: opens + METADATA_OPENS.len() })
    }

    /// Wraps bytes that were just written: the encoding always has metadata.
    pub fn written(bytes: Bytes, revision: u64) -> Self {
        Self::new(bytes, revision).expect("our encoding of an object has metadata")
    }

    pub fn at_revision(&self, revision: u64) -> Self {
        Self { revision, ..self.clone() }
    }

    /// Packs the bytes for a cache that keeps them.
    pub fn packed(self, dictionary: &Dictionary) -> Self {
        Self { value: dictionary.pack(self.value.unpack()), ..self }
    }

    /// The size of the encoded object without its resourceVersion.
    pub fn size(&self) -> usize {
        self.value.plain_size()
    }

    /// Appends the object as clients see it, resourceVersion included.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        self.write_from(0, out);
    }

    /// The same without apiVersion and kind, as the items of built-in lists are shown: the list has them once.
    pub fn write_json_item(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        self.write_from(self.splice_at - METADATA_OPENS.len(), out);
    }

    fn write_from(&self, start: usize, out: &mut Vec<u8>) {
        let bytes = self.value.unpack();
        out.reserve(bytes.len() + 48);
        out.extend_from_slice(&bytes[start..self.splice_at]);
        out.extend_from_slice(b"\"resourceVersion\":\"");
        out.extend_from_slice(self.revision.to_string().as_bytes());
        out.extend_from_slice(if bytes.get(self.splice_at) == Some(&b'}') { b"\"" } else { b"\"," });
        out.extend_from_slice(&bytes[self.splice_at..]);
    }

    pub fn to_json(&self) -> Bytes {
        let mut out = Vec::new();
        self.write_json(&mut out);
        out.into()
    }

    /// The object as a tree, in the storage version, with its resourceVersion.
    pub fn decode(&self) -> Result<Object, Status> {
        self.tree(Object::decode_stored(&self.value.unpack()))
    }

    /// The same without managedFields.
    pub fn decode_unmanaged(&self) -> Result<Object, Status> {
        self.tree(Object::decode_stored_unmanaged(&self.value.unpack()))
    }

    fn tree(&self, decoded: Result<Object, serde_json::Error>) -> Result<Object, Status> {
        let mut object = decoded.map_err(|e| Status::internal(format!("stored object: {e}")))?;
        object.set_resource_version(self.revision);
        Ok(object)
    }
}

/// Returns the status for a client when the store fails.
pub fn status_of_store(error: Error) -> Status {
    match error {
        Error::Compacted { .. } => {
            Status::gone("The provided resource version is too old: the history it needs has been compacted")
        }
        Error::FutureRevision { .. } => Status::timeout(error.to_string()),
        Error::NoSpace(_) => {
            let mut status =
                Status::new(507, "InsufficientStorage", format!("the write was refused and nothing changed: {error}"));
            status.details =
                Some(Box::new(object::status::StatusDetails { retry_after_seconds: 5, ..Default::default() }));
            status
        }
        Error::Unavailable(_) | Error::Closed => Status::unavailable(format!("the store does not answer: {error}")),
        // A timeout, as etcd's clients know it: a retry may find the write done.
        Error::Unknown(_) => Status::timeout(format!("the store did not answer in time: {error}")),
        other => Status::internal(other),
    }
}
