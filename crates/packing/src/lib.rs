//! Values that are many, alike and seldom read, kept in a fraction of their room.
//!
//! Encoded objects of one sort repeat each other more than themselves: each is packed by its likeness to a sample of them.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use lz4_flex::block::{compress_with_dict, decompress_with_dict};
use parking_lot::Mutex;

/// Smaller values are not worth it.
const PACK_FROM_BYTES: usize = 256;
/// Values from this size on are packed even where they are read often: reading an object takes ten times as long as unpacking.
const LARGE_BYTES: usize = 2 << 10;
/// Packing reads the sample each time; the names of fields and what stands under most of them are in its beginning.
const SAMPLE_BYTES_MAX: usize = 8 << 10;

/// A value that takes more than one part in so many is unlike the sample.
const ALIKE_SHARE: usize = 4;
/// So many more unlike values than like ones, and the last of them becomes the sample.
const UNLIKE_MAX: u32 = 8;

/// What the values of one sort look like: one of them, the first until others have proved to be of another kind.
pub struct Likeness {
    sample: Mutex<Sample>,
    pack_from_bytes: usize,
}

#[derive(Default)]
struct Sample {
    value: Option<Arc<[u8]>>,
    unlike: u32,
}

impl Default for Likeness {
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

/// A value, in whichever form takes less room. Clones share it.
#[derive(Clone)]
pub struct Packed(Form);

#[derive(Clone)]
enum Form {
    Plain(Bytes),
    Alike(Arc<Alike>),
}

struct Alike {
    bytes: Box<[u8]>,
    plain_bytes: usize,
    sample: Arc<[u8]>,
}

impl Likeness {
    /// Packs large values alone, for those that are read often.
    pub fn of_large() -> Self {
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
        Packed(Form::Alike(Arc::new(Alike { bytes, plain_bytes: value.len(), sample })))
    }
}

impl Packed {
    pub fn plain(value: Bytes) -> Self {
        Self(Form::Plain(value))
    }

    pub fn unpack(&self) -> Bytes {
        match &self.0 {
            Form::Plain(value) => value.clone(),
            Form::Alike(alike) => {
                let plain = decompress_with_dict(&alike.bytes, alike.plain_bytes, &alike.sample);
                plain.expect("what was packed in this process can be unpacked").into()
            }
        }
    }

    pub fn plain_size(&self) -> usize {
        match &self.0 {
            Form::Plain(value) => value.len(),
            Form::Alike(alike) => alike.plain_bytes,
        }
    }

    /// The room the value takes here.
    pub fn size(&self) -> usize {
        match &self.0 {
            Form::Plain(value) => value.len(),
            Form::Alike(alike) => alike.bytes.len(),
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
    fn values_that_are_alike_take_a_fraction_of_their_room() {
        let fields: String = (0..40).map(|number| format!("\"field{number}\":\"{}\",", number * number)).collect();
        let likeness = Likeness::default();
        for name in ["first", "second", "third"] {
            let value = Bytes::from(format!("{{{fields}\"name\":\"{name}\"}}"));
            let packed = likeness.pack(value.clone());
            assert!(packed.size() * 4 < value.len(), "{name} takes {} of {} bytes", packed.size(), value.len());
        }
    }

    #[test]
    fn the_sample_follows_what_most_values_are_like_and_keeps_to_it() {
        let text = |seed: u64| -> Bytes {
            let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed));
            let numbers = std::iter::successors(Some(seed), next).map(|number| (number >> 33).to_string());
            numbers.take(100).collect::<String>().into()
        };
        let (few, many) = (text(1), text(2));
        let likeness = Likeness::default();
        let is_small = |value: &Bytes| likeness.pack(value.clone()).size() * 4 < value.len();
        assert!(is_small(&few));
        let packed: Vec<bool> = (0..20).map(|_| is_small(&many)).collect();
        assert_eq!(packed, [vec![false; 8], vec![true; 12]].concat());
        assert!((0..20).all(|_| !is_small(&few) && is_small(&many)), "a change now and then changes nothing");
    }

    #[test]
    fn a_value_that_would_not_shrink_is_kept_as_it_is() {
        let noise: Vec<u8> = (0..2048_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let value = Bytes::from(noise);
        let likeness = Likeness::default();
        likeness.pack(Bytes::from("a quite different value ".repeat(20)));
        assert_eq!(likeness.pack(value.clone()).unpack().as_ptr(), value.as_ptr());
    }

    #[test]
    fn what_is_read_often_is_packed_when_it_is_large() {
        let likeness = Likeness::of_large();
        for (size, is_packed) in [(LARGE_BYTES - 1, false), (LARGE_BYTES, true)] {
            assert_eq!(likeness.pack(vec![b'x'; size].into()).size() < size, is_packed, "{size}");
        }
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_back_as_it_was(
            values in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..1024), 0_usize..40), 1..8),
        ) {
            let likeness = Likeness::default();
            for (part, repeat) in &values {
                let value = Bytes::from(part.repeat(*repeat));
                let packed = likeness.pack(value.clone());
                prop_assert!(packed.size() <= value.len());
                prop_assert_eq!(packed.plain_size(), value.len());
                prop_assert_eq!(packed.unpack(), value);
            }
        }
    }
}
