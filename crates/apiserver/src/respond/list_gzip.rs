//! A large list as a gzip stream of parts that are compressed on their own, so that they can be kept for later lists.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::sync::Arc;

use bytes::Bytes;
use flate2::{Compress, Compression, Crc, FlushCompress};

use super::compressed_parts::{CompressedParts, Part, PartKey};
use super::list_stream::{Items, LIST_END};
use crate::cache::Entry;

/// Plain bytes of a part: it ends behind an object whose name says so, or when it is full. Names decide so that a new object
/// changes its own part and not all that follow.
const PART_BYTES_MIN: usize = 32 << 10;
const PART_BYTES_MAX: usize = 128 << 10;
/// One of so many names ends a part.
const NAMES_PER_END: u64 = 8;
/// Compressed bytes a connection gets at a time.
const PIECE_BYTES: usize = 64 << 10;

const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];
const STORED_BYTES_MAX: usize = u16::MAX as usize;

pub struct GzipOutput {
    parts: Arc<CompressedParts>,
    /// Made for the first part that is not kept.
    compressor: Option<Compress>,
    crc: Crc,
    key: PartKey,
    plain: Vec<u8>,
    unsent: Bytes,
    is_begun: bool,
    is_complete: bool,
}

impl GzipOutput {
    pub fn new(parts: Arc<CompressedParts>) -> Self {
        Self {
            parts,
            compressor: None,
            crc: Crc::new(),
            key: PartKey::default(),
            plain: Vec::new(),
            unsent: Bytes::new(),
            is_begun: false,
            is_complete: false,
        }
    }

    /// The next bytes on the wire; `None` after the last.
    pub fn next_piece(&mut self, opening: &[u8], items: &mut Items) -> Option<Bytes> {
        while self.unsent.is_empty() {
            if self.is_complete {
                return None;
            }
            self.unsent = self.next_part(opening, items);
        }
        Some(self.unsent.split_to(self.unsent.len().min(PIECE_BYTES)))
    }

    fn next_part(&mut self, opening: &[u8], items: &mut Items) -> Bytes {
        if !std::mem::replace(&mut self.is_begun, true) {
            self.crc.update(opening);
            return [&HEADER[..], &stored(opening, false)].concat().into();
        }
        let entries = take_part(items);
        if entries.is_empty() {
            self.is_complete = true;
            self.crc.update(LIST_END);
            let mut end = stored(LIST_END, true);
            end.extend_from_slice(&self.crc.sum().to_le_bytes());
            end.extend_from_slice(&self.crc.amount().to_le_bytes());
            return end.into();
        }
        // Rows and metadata are made for each list.
        let is_kind_shown = items.is_kind_shown();
        let mut kept = None;
        if let Some(is_kind_shown) = is_kind_shown {
            self.key.begin(items.is_first, is_kind_shown);
            entries.iter().for_each(|entry| self.key.add(entry));
            kept = self.parts.find(&self.key);
        }
        let part = match kept {
            Some(part) => {
                items.is_first = false;
                part
            }
            None => {
                let part = Arc::new(self.compress(&entries, items));
                if is_kind_shown.is_some() {
                    self.parts.note(&self.key, &entries, &part);
                }
                part
            }
        };
        self.crc.combine(&part.crc);
        part.deflated.clone()
    }

    fn compress(&mut self, entries: &[Arc<Entry>], items: &mut Items) -> Part {
        self.plain.clear();
        entries.iter().for_each(|entry| items.encode(entry, &mut self.plain));
        let mut crc = Crc::new();
        crc.update(&self.plain);
        let compressor = self.compressor.get_or_insert_with(|| Compress::new(Compression::fast(), false));
        // Compressing in memory cannot fail; if it did, the part would be sent as it is.
        let deflated = deflate(compressor, &self.plain).unwrap_or_else(|| stored(&self.plain, false));
        if self.plain.capacity() > 2 * PART_BYTES_MAX {
            // One large object must not keep its buffer until the end of the list.
            self.plain = Vec::new();
        }
        Part { deflated: deflated.into_boxed_slice().into(), crc }
    }
}

/// Takes the entries of the next part; none at the end of the list.
fn take_part(items: &mut Items) -> Vec<Arc<Entry>> {
    let (mut taken, mut bytes) = (Vec::new(), 0);
    while let Some(entry) = items.entries.pop_front() {
        bytes += entry.bytes();
        let is_end = bytes >= PART_BYTES_MAX || (bytes >= PART_BYTES_MIN && ends_part(&entry));
        taken.push(entry);
        if is_end {
            break;
        }
    }
    taken
}

/// Decided by the name alone, and therefore the same in every list.
fn ends_part(entry: &Entry) -> bool {
    let mut hasher = DefaultHasher::new();
    hasher.write(entry.namespace.as_bytes());
    hasher.write(entry.name.as_bytes());
    hasher.finish().is_multiple_of(NAMES_PER_END)
}

/// Compresses text on its own, up to a byte boundary.
fn deflate(compressor: &mut Compress, plain: &[u8]) -> Option<Vec<u8>> {
    compressor.reset();
    let mut out = Vec::with_capacity(plain.len() / 2 + 64);
    loop {
        let rest = &plain[compressor.total_in() as usize..];
        compressor.compress_vec(rest, &mut out, FlushCompress::Sync).ok()?;
        if compressor.total_in() as usize == plain.len() && out.len() < out.capacity() {
            return Some(out);
        }
        out.reserve(plain.len() / 2 + 64);
    }
}

/// Deflate blocks that hold the bytes as they are.
fn stored(plain: &[u8], is_final: bool) -> Vec<u8> {
    let blocks = plain.len().div_ceil(STORED_BYTES_MAX);
    let mut out = Vec::with_capacity(plain.len() + 5 * blocks);
    for (index, block) in plain.chunks(STORED_BYTES_MAX).enumerate() {
        let length = block.len() as u16;
        out.push(u8::from(is_final && index + 1 == blocks));
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
    }
    out
}
