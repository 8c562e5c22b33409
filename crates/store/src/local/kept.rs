//! A version as memory holds it: packed, by the dictionary of those under the same lease or in the same directory.
//!
//! Leases are for what is written often, read seldom and soon gone, such as events. On a busy plane those outnumber all other
//! objects. Of the others the large ones are packed.

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

    /// How long the value is.
    pub fn bytes(&self) -> usize {
        self.value.as_ref().map_or(0, Packed::plain_size)
    }
}
