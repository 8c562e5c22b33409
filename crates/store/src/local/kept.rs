//! A version as memory holds it: what was written under a lease is packed.
//!
//! Leases are for what is written often, read seldom and soon gone, such as events. On a busy plane those outnumber all other
//! objects, and those of one lease look alike, so each takes a quarter of its room when packed by the likeness of the first.

use std::sync::Arc;

use bytes::Bytes;
use lz4_flex::block::{compress_with_dict, decompress_with_dict};

use crate::kv::{KeyValue, LeaseId, Revision};
use crate::local::chain::Version;

/// Smaller values are not worth it.
const PACK_FROM_BYTES: usize = 256;

#[derive(Debug)]
pub(crate) struct Kept {
    pub mod_revision: Revision,
    pub create_revision: Revision,
    pub lease: Option<LeaseId>,
    value: Option<Value>,
}

#[derive(Debug)]
enum Value {
    Plain(Bytes),
    Packed(Box<Packed>),
}

#[derive(Debug)]
struct Packed {
    bytes: Box<[u8]>,
    plain_bytes: usize,
    /// What the value was packed by.
    sample: Arc<[u8]>,
}

impl Kept {
    pub fn plain(version: Version) -> Self {
        Self::new(version, Value::Plain)
    }

    /// Packs the value by the likeness of `sample`, which is set by the first.
    pub fn packed(version: Version, sample: &mut Option<Arc<[u8]>>) -> Self {
        Self::new(version, |value| match Packed::new(&value, sample) {
            Some(packed) => Value::Packed(Box::new(packed)),
            None => Value::Plain(value),
        })
    }

    fn new(version: Version, keep: impl FnOnce(Bytes) -> Value) -> Self {
        let Version { mod_revision, create_revision, lease, value } = version;
        Self { mod_revision, create_revision, lease, value: value.map(keep) }
    }

    pub fn is_deletion(&self) -> bool {
        self.value.is_none()
    }

    pub fn version(&self) -> Version {
        let value = self.value.as_ref().map(|value| match value {
            Value::Plain(value) => value.clone(),
            Value::Packed(packed) => packed.unpack(),
        });
        Version { mod_revision: self.mod_revision, create_revision: self.create_revision, lease: self.lease, value }
    }

    pub fn to_kv(&self, key: &Arc<str>) -> Option<KeyValue> {
        self.version().into_kv(key)
    }

    /// What the value takes here.
    pub fn bytes(&self) -> usize {
        match &self.value {
            None => 0,
            Some(Value::Plain(value)) => value.len(),
            Some(Value::Packed(packed)) => packed.bytes.len(),
        }
    }
}

impl Packed {
    fn new(value: &[u8], sample: &mut Option<Arc<[u8]>>) -> Option<Self> {
        if value.len() < PACK_FROM_BYTES {
            return None;
        }
        let sample = sample.get_or_insert_with(|| value.into());
        let bytes = compress_with_dict(value, sample).into_boxed_slice();
        let is_worth_it = bytes.len() < value.len() / 2;
        is_worth_it.then(|| Self { bytes, plain_bytes: value.len(), sample: sample.clone() })
    }

    fn unpack(&self) -> Bytes {
        let plain = decompress_with_dict(&self.bytes, self.plain_bytes, &self.sample);
        plain.expect("what was packed in this process can be unpacked").into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn version(value: Option<&[u8]>) -> Version {
        let value = value.map(Bytes::copy_from_slice);
        Version { mod_revision: 7, create_revision: 3, lease: Some(1), value }
    }

    #[test]
    fn values_that_are_alike_take_a_fraction_of_their_room() {
        let event =
            |name: &str| format!("{{\"involvedObject\":{{\"name\":\"{name}\"}},{}}}", "\"key\":\"value\",".repeat(60));
        let mut sample = None;
        for name in ["first", "second", "third"] {
            let value = event(name);
            let kept = Kept::packed(version(Some(value.as_bytes())), &mut sample);
            assert!(kept.bytes() * 4 < value.len(), "{name} takes {} of {} bytes", kept.bytes(), value.len());
        }
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_back_as_it_was(
            values in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..2048), 0_usize..40), 1..8),
        ) {
            let mut sample = None;
            for (is_there, value, repeat) in &values {
                let value = value.repeat(*repeat);
                let version = version(is_there.then_some(&value));
                let kept = Kept::packed(version.clone(), &mut sample);
                prop_assert_eq!(kept.version(), version.clone());
                prop_assert_eq!(kept.is_deletion(), version.value.is_none());
                prop_assert!(kept.bytes() <= value.len());
                prop_assert_eq!(Kept::plain(version.clone()).version(), version);
            }
        }
    }
}
