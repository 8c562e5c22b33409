//! Compresses many similar, rarely read values against a shared dictionary.
//!
//! Encoded objects of one kind have more in common with each other than within themselves, so each is compressed with
//! one of them as the dictionary.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use lz4_flex::block::{compress_with_dict, decompress_with_dict};
use parking_lot::Mutex;

/// Smaller values do not shrink enough to be worth the work.
const PACK_FROM_BYTES: usize = 256;
/// Values of at least this size are packed even when read often: decoding an object takes ten times as long as
/// unpacking.
const LARGE_BYTES: usize = 2 << 10;
/// Packing scans the sample each time; its first bytes hold the field names and most common values.
const SAMPLE_BYTES_MAX: usize = 8 << 10;

/// A value that packs to more than `1/ALIKE_SHARE` of its size does not match the sample.
const ALIKE_SHARE: usize = 4;
/// Once mismatches outnumber matches by this many, the last mismatch becomes the sample.
const UNLIKE_MAX: u32 = 8;

/// A compression dictionary for values of one kind, taken from the values themselves.
pub struct Dictionary {
    sample: Mutex<Sample>,
    pack_from_bytes: usize,
}

#[derive(Default)]
struct Sample {
    value: Option<Arc<[u8]>>,
    unlike: u32,
}

impl Default for Dictionary {
    fn default() -> Self {
        Self { sample: Mutex::default(), pack_from_bytes: PACK_FROM_BYTES }
    }
}

impl Sample {
    fn value(&mut self, first: &[u8]) -> Arc<[u8]> {
        Arc::clone(self.value.get_or_insert_with(|| beginning(first)))
    }

    fn learn(&mut self, value: &[u8], packed_bytes: usize) {
        if packed_bytes * ALIKE_SHARE <= value.len() {
            self.unlike = self.unlike.saturating_sub(1);
            return;
        }
        self.unlike += 1;
        if self.unlike == UNLIKE_MAX {
            *self = Self { value: Some(beginning(value)), unlike: 0 };
        }
    }
}

fn beginning(value: &[u8]) -> Arc<[u8]> {
    value[..value.len().min(SAMPLE_BYTES_MAX)].into()
}

/// A value in its smaller form, plain or compressed. Clones share the bytes.
#[derive(Clone)]
pub struct Packed(Form);

#[derive(Clone)]
enum Form {
    Plain(Bytes),
    Compressed(Arc<Compressed>),
}

struct Compressed {
    bytes: Box<[u8]>,
    plain_bytes: usize,
    sample: Arc<[u8]>,
}

impl Dictionary {
    /// Packs only large values, for those that are read often.
    pub fn for_large_values() -> Self {
        Self { pack_from_bytes: LARGE_BYTES, ..Self::default() }
    }

    pub fn pack(&self, value: Bytes) -> Packed {
        if value.len() < self.pack_from_bytes {
            return Packed::plain(value);
        }
        let sample = self.sample.lock().value(&value);
        let bytes = compress_with_dict(&value, &sample).into_boxed_slice();
        self.sample.lock().learn(&value, bytes.len());
        if bytes.len() > value.len() / 2 {
            return Packed::plain(value);
        }
        Packed(Form::Compressed(Arc::new(Compressed { bytes, plain_bytes: value.len(), sample })))
    }
}

impl Packed {
    pub fn plain(value: Bytes) -> Self {
        Self(Form::Plain(value))
    }

    pub fn unpack(&self) -> Bytes {
        match &self.0 {
            Form::Plain(value) => value.clone(),
            Form::Compressed(compressed) => {
                let plain = decompress_with_dict(&compressed.bytes, compressed.plain_bytes, &compressed.sample);
                plain.expect("packed by this process").into()
            }
        }
    }

    pub fn plain_size(&self) -> usize {
        match &self.0 {
            Form::Plain(value) => value.len(),
            Form::Compressed(compressed) => compressed.plain_bytes,
        }
    }

    /// Bytes this form takes.
    pub fn size(&self) -> usize {
        match &self.0 {
            Form::Plain(value) => value.len(),
            Form::Compressed(compressed) => compressed.bytes.len(),
        }
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packed({} bytes)", self.size())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn similar_values_pack_to_a_fraction_of_their_size() {
        let fields: String = (0..40).map(|number| format!("\"field{number}\":\"{}\",", number * number)).collect();
        let dictionary = Dictionary::default();
        for name in ["first", "second", "third"] {
            let value = Bytes::from(format!("{{{fields}\"name\":\"{name}\"}}"));
            let packed = dictionary.pack(value.clone());
            assert!(packed.size() * 4 < value.len(), "{name} takes {} of {} bytes", packed.size(), value.len());
        }
    }

    #[test]
    fn the_sample_follows_the_majority_of_values() {
        let text = |seed: u64| -> Bytes {
            let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed));
            let numbers = std::iter::successors(Some(seed), next).map(|number| (number >> 33).to_string());
            numbers.take(100).collect::<String>().into()
        };
        let (few, many) = (text(1), text(2));
        let dictionary = Dictionary::default();
        let is_small = |value: &Bytes| dictionary.pack(value.clone()).size() * 4 < value.len();
        assert!(is_small(&few));
        let packed: Vec<bool> = (0..20).map(|_| is_small(&many)).collect();
        assert_eq!(packed, [vec![false; 8], vec![true; 12]].concat());
        assert!((0..20).all(|_| !is_small(&few) && is_small(&many)), "occasional mismatches keep the sample");
    }

    #[test]
    fn a_value_that_does_not_shrink_is_stored_plain() {
        let noise: Vec<u8> = (0..2048_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let value = Bytes::from(noise);
        let dictionary = Dictionary::default();
        dictionary.pack(Bytes::from("a quite different value ".repeat(20)));
        assert_eq!(dictionary.pack(value.clone()).unpack().as_ptr(), value.as_ptr());
    }

    #[test]
    fn for_large_values_packs_only_large_values() {
        let dictionary = Dictionary::for_large_values();
        for (size, is_packed) in [(LARGE_BYTES - 1, false), (LARGE_BYTES, true)] {
            assert_eq!(dictionary.pack(vec![b'x'; size].into()).size() < size, is_packed, "{size}");
        }
    }

    proptest! {
        #[test]
        fn packed_values_unpack_unchanged(
            values in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..1024), 0_usize..40), 1..8),
        ) {
            let dictionary = Dictionary::default();
            for (part, repeat) in &values {
                let value = Bytes::from(part.repeat(*repeat));
                let packed = dictionary.pack(value.clone());
                prop_assert!(packed.size() <= value.len());
                prop_assert_eq!(packed.plain_size(), value.len());
                prop_assert_eq!(packed.unpack(), value);
            }
        }
    }
}
