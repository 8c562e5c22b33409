//! The forms in which a mirror keeps objects.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use cluster_client::Origin;
use object::Object;
use packing::{Dictionary, Packed};
use serde_json::Value;

use crate::mirror::ObjectKey;

/// An object in stored form.
#[derive(Clone)]
pub enum Kept {
    Tree(Arc<Object>),
    /// Its encoding, a fraction of the tree's size; the tree itself while someone else holds it.
    Packed(Packed, Weak<Object>),
    /// Shared with the API server in this process, which has it encoded anyway.
    Held(Arc<dyn Origin>),
}

impl Kept {
    pub fn new(object: &Arc<Object>, dictionary: Option<&Dictionary>, origin: Option<Arc<dyn Origin>>) -> Self {
        match (dictionary, origin) {
            (None, _) => Self::Tree(Arc::clone(object)),
            (Some(_), Some(origin)) => Self::Held(origin),
            (Some(dictionary), None) => Self::packed(object, dictionary),
        }
    }

    pub fn packed(object: &Arc<Object>, dictionary: &Dictionary) -> Self {
        Self::Packed(dictionary.pack(object.encode()), Arc::downgrade(object))
    }

    pub fn object(&self) -> Arc<Object> {
        match self {
            Self::Tree(object) => Arc::clone(object),
            Self::Held(origin) => origin.object(),
            Self::Packed(packed, tree) => tree
                .upgrade()
                .unwrap_or_else(|| Arc::new(Object::decode(&packed.unpack()).expect("encoded from an object"))),
        }
    }

    /// Its share of a mirror's limit. Memory held by the API in this process does not count.
    pub fn weight(&self) -> usize {
        match self {
            Self::Packed(packed, _) => packed.size(),
            Self::Tree(object) => weight(object),
            Self::Held(_) => 0,
        }
    }

    /// Its JSON.
    pub fn encoded(&self) -> Bytes {
        match self {
            Self::Packed(packed, _) => packed.unpack(),
            Self::Tree(_) | Self::Held(_) => self.object().encode(),
        }
    }

    /// Bytes it takes, not counting shared ones.
    pub fn size(&self) -> usize {
        match self {
            Self::Packed(packed, _) => packed.size(),
            Self::Tree(_) | Self::Held(_) => 0,
        }
    }
}

/// An object of a list.
pub enum Listed {
    /// With its shared encoding in this process, if any.
    Tree(Arc<Object>, Option<Arc<dyn Origin>>),
    /// Packed on arrival, so that a long list is never in memory as trees.
    Kept(ObjectKey, Kept),
}

/// The objects a mirror holds, and about what they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorSize {
    pub objects: usize,
    pub bytes: usize,
}

impl MirrorSize {
    pub fn add(&mut self, bytes: usize) {
        self.objects += 1;
        self.bytes += bytes;
    }

    pub fn remove(&mut self, bytes: usize) {
        self.objects = self.objects.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// About what an object takes as a tree.
pub fn weight(object: &Object) -> usize {
    const NODE_BYTES: usize = 64;
    fn of(value: &Value) -> usize {
        NODE_BYTES
            + match value {
                Value::String(text) => text.len(),
                Value::Array(items) => items.iter().map(of).sum(),
                Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + of(value)).sum(),
                _ => 0,
            }
    }
    object.as_map().iter().map(|(key, value)| key.len() + of(value)).sum()
}

impl Listed {
    /// The memory it takes, as far as that is the mirror's own.
    pub fn size(&self) -> usize {
        match self {
            Self::Tree(object, None) => weight(object),
            Self::Tree(_, Some(_)) => 0,
            Self::Kept(_, kept) => kept.size(),
        }
    }

    pub fn key(&self) -> ObjectKey {
        match self {
            Self::Tree(object, _) => ObjectKey::of(object),
            Self::Kept(key, _) => key.clone(),
        }
    }
}

/// A decoded object and its stored form.
pub struct Known {
    pub kept: Kept,
    pub tree: Arc<Object>,
}

impl From<Kept> for Known {
    fn from(kept: Kept) -> Self {
        Self { tree: kept.object(), kept }
    }
}

/// Versions of Kubernetes are numeric; any other one sorts before all of them.
pub fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}
