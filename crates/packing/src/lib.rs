//! Values that are many, alike and seldom read, kept in a fraction of their room.
//!
//! Encoded objects of one sort repeat each other more than themselves: each is packed by its likeness to the first.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use lz4_flex::block::{compress_with_dict, decompress_with_dict};

/// Smaller values are not worth it.
const PACK_FROM_BYTES: usize = 256;
/// Packing reads the sample each time; the names of fields and what stands under most of them are in its beginning.
const SAMPLE_BYTES_MAX: usize = 8 << 10;

/// What the values of one sort look like: the first of them that was packed.
#[derive(Default)]
pub struct Likeness(OnceLock<Arc<[u8]>>);

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
    pub fn pack(&self, value: Bytes) -> Packed {
        if value.len() < PACK_FROM_BYTES {
            return Packed::plain(value);
        }
        let sample = self.0.get_or_init(|| value[..value.len().min(SAMPLE_BYTES_MAX)].into());
        let bytes = compress_with_dict(&value, sample).into_boxed_slice();
        if bytes.len() > value.len() / 2 {
            return Packed::plain(value);
        }
        Packed(Form::Alike(Arc::new(Alike { bytes, plain_bytes: value.len(), sample: Arc::clone(sample) })))
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
    fn a_value_that_would_not_shrink_is_kept_as_it_is() {
        let noise: Vec<u8> = (0..2048_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let value = Bytes::from(noise);
        let likeness = Likeness::default();
        likeness.pack(Bytes::from("a quite different value ".repeat(20)));
        assert_eq!(likeness.pack(value.clone()).unpack().as_ptr(), value.as_ptr());
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
                prop_assert_eq!(packed.unpack(), value);
            }
        }
    }
}
