//! A version as held in memory, packed with the dictionary of its lease or directory.
//!
//! Leases are for keys that are written often, read rarely and deleted soon, such as events. On a busy control plane
//! those outnumber all other objects. Of the others only large ones are packed.

use std::sync::Arc;

use packing::{Dictionary, Packed};

use crate::kv::{KeyValue, LeaseId, Revision};
use crate::local::chain::Version;

#[derive(Debug)]
pub(crate) struct Kept {
    pub mod_revision: Revision,
    pub create_revision: Revision,
    pub lease: Option<LeaseId>,
    value: Option<Packed>,
}

impl Kept {
    pub fn new(version: Version, dictionary: &Dictionary) -> Self {
        let Version { mod_revision, create_revision, lease, value } = version;
        Self { mod_revision, create_revision, lease, value: value.map(|value| dictionary.pack(value)) }
    }

    pub fn is_deletion(&self) -> bool {
        self.value.is_none()
    }

    pub fn version(&self) -> Version {
        let value = self.value.as_ref().map(Packed::unpack);
        Version { mod_revision: self.mod_revision, create_revision: self.create_revision, lease: self.lease, value }
    }

    pub fn to_kv(&self, key: &Arc<str>) -> Option<KeyValue> {
        self.version().into_kv(key)
    }

    /// Length of the plain value.
    pub fn bytes(&self) -> usize {
        self.value.as_ref().map_or(0, Packed::plain_size)
    }
}
