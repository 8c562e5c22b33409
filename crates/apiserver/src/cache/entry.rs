//! One object in memory: its stored bytes, its revision, and the fields lists and watches filter by.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use cluster_client::Origin;
use kinds::SelectableField;
use object::selector::{FieldSelector, LabelSelector};
use object::{Head, Object};
use packing::Dictionary;
use parking_lot::Mutex;
use thiserror::Error;

use crate::storage::Stored;

/// Bytes in the store that are not an object of ours.
#[derive(Debug, Error)]
#[error("stored object {key} cannot be read: {problem}")]
pub struct UnreadableEntry {
    pub key: String,
    pub problem: String,
}

/// An object at one revision.
pub struct Entry {
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub stored: Stored,
    labels: Box<[(Box<str>, Box<str>)]>,
    /// Values of the kind's selectable fields, in the order the kind lists them.
    fields: Box<[Box<str>]>,
    /// In-process watchers of the same revision share one decoded tree for as long as any of them holds it.
    shared: Mutex<Weak<Object>>,
}

impl Entry {
    pub fn read(
        key: &str,
        bytes: Bytes,
        revision: u64,
        selectable: &[SelectableField],
    ) -> Result<Self, UnreadableEntry> {
        let unreadable = |problem: String| UnreadableEntry { key: key.to_owned(), problem };
        let head = Head::read(&bytes).map_err(|e| unreadable(e.to_string()))?;
        let labels = head.metadata.labels.into_iter().flatten();
        let labels = labels.map(|(k, v)| (Box::from(&*k), Box::from(&*v))).collect();
        let (namespace, name) = (Box::from(&*head.metadata.namespace), Box::from(&*head.metadata.name));
        let fields = if selectable.is_empty() {
            Box::default()
        } else {
            let object = Object::decode_stored(&bytes).map_err(|e| unreadable(e.to_string()))?;
            selectable.iter().map(|field| field.value(&object).into_boxed_str()).collect()
        };
        let stored = Stored::new(bytes, revision).ok_or_else(|| unreadable("it has no metadata".to_owned()))?;
        Ok(Self { namespace, name, stored, labels, fields, shared: Mutex::new(Weak::new()) })
    }

    /// The same for a cache that keeps it.
    pub fn packed(self, dictionary: &Dictionary) -> Self {
        Self { stored: self.stored.packed(dictionary), ..self }
    }

    /// The same object under another revision: what a watcher is shown when it is deleted or leaves a selector.
    pub fn at_revision(&self, revision: u64) -> Self {
        Self {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            stored: self.stored.at_revision(revision),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            shared: Mutex::new(Weak::new()),
        }
    }

    /// The object as a tree, in the storage version, with its resourceVersion.
    pub fn decode(&self) -> Arc<Object> {
        Arc::new(self.stored.decode().expect("an entry is only made from bytes that parse"))
    }

    /// The same for components in this process that keep it: one tree for all of them, without managedFields, which only the
    /// server needs and which are as large as the rest.
    pub fn share(&self) -> Arc<Object> {
        self.share_or(|_| None)
    }

    /// The same, where a writer may still hold the tree of this revision.
    pub fn share_or(&self, at_hand: impl FnOnce(u64) -> Option<Arc<Object>>) -> Arc<Object> {
        let mut slot = self.shared.lock();
        if let Some(shared) = slot.upgrade() {
            return shared;
        }
        let decode = || Arc::new(self.stored.decode_unmanaged().expect("an entry is only made from bytes that parse"));
        let object = at_hand(self.stored.revision).unwrap_or_else(decode);
        *slot = Arc::downgrade(&object);
        object
    }

    /// Its size on the wire.
    pub fn bytes(&self) -> usize {
        self.stored.size()
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(k, _)| &**k == key).map(|(_, v)| &**v)
    }

    pub fn matches(&self, filter: &Filter) -> bool {
        (filter.namespace.is_empty() || *self.namespace == *filter.namespace)
            && filter.labels.matches_with(|key| self.label(key))
            && filter.fields.matches_with(|field| self.field(filter, field))
    }

    fn field<'a>(&'a self, filter: &Filter, field: &str) -> &'a str {
        match field {
            "metadata.name" => &self.name,
            "metadata.namespace" => &self.namespace,
            other => {
                let index = filter.field_names.iter().position(|name| name == other);
                index.and_then(|i| self.fields.get(i)).map_or("", |value| value)
            }
        }
    }
}

/// Mirrors in this process keep a hold on the entry instead of a copy of its object.
impl Origin for Entry {
    fn object(&self) -> Arc<Object> {
        self.share()
    }
}

/// The part of a resource a list or watch selects.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub namespace: String,
    pub labels: LabelSelector,
    pub fields: FieldSelector,
    /// Names of the kind's selectable fields, in the order entries hold their values.
    pub field_names: Arc<[String]>,
}

impl Filter {
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_revision_is_spliced_into_the_stored_bytes() {
        for size in [0, 100_000] {
            let object = Object::from_value(json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "a", "namespace": "n", "labels": {"x": "y"}},
                "data": {"k": "\"metadata\":{", "long": "x".repeat(size)}}))
            .expect("a map");
            let bytes = object.encode();
            let entry =
                Entry::read("n/a", bytes.clone(), 42, &[]).expect("readable").packed(&Dictionary::for_large_values());
            let decoded = Object::decode(&entry.stored.to_json()).expect("valid JSON");
            assert_eq!(decoded.resource_version(), "42");
            assert_eq!(*entry.decode(), decoded);
            assert_eq!((entry.label("x"), entry.bytes()), (Some("y"), bytes.len()));
        }
    }
}
