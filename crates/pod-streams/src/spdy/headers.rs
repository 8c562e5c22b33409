//! Header blocks: names and values, compressed over the life of a connection.

use bytes::{Buf, BufMut};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

use super::frame::FrameError;

/// The compression dictionary that is part of the protocol.
const DICTIONARY: &[u8] = include_bytes!("dictionary.bin");
const DICTIONARY_ID: u32 = 0xe3c6_a7c2;
/// The header of a zlib stream has this bit if a dictionary is used.
const HAS_DICTIONARY: u8 = 0x20;
/// Maximum decompressed size of a header block.
pub const HEADERS_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: u32 = 256;

pub type Headers = Vec<(String, String)>;

/// Decompresses the header blocks of one direction, in order.
pub struct HeaderReader {
    inflate: Option<Decompress>,
}

impl HeaderReader {
    pub fn new() -> Self {
        Self { inflate: None }
    }

    pub fn read(&mut self, block: &[u8]) -> Result<Headers, FrameError> {
        let mut block = block;
        let inflate = match &mut self.inflate {
            Some(inflate) => inflate,
            None => {
                let (inflate, rest) = begin(block)?;
                block = rest;
                self.inflate.insert(inflate)
            }
        };
        parse(&unpack(inflate, block)?)
    }
}

/// Reads the head of the zlib stream. The dictionary is prepended as a stored block, which any inflater accepts.
fn begin(block: &[u8]) -> Result<(Decompress, &[u8]), FrameError> {
    let [method, flags, rest @ ..] = block else { return Err(FrameError::Headers) };
    if method & 0x0f != 8 || u16::from_be_bytes([*method, *flags]) % 31 != 0 {
        return Err(FrameError::Headers);
    }
    let mut inflate = Decompress::new(false);
    if flags & HAS_DICTIONARY == 0 {
        return Ok((inflate, rest));
    }
    let (id, rest) = rest.split_first_chunk::<4>().ok_or(FrameError::Headers)?;
    if u32::from_be_bytes(*id) != DICTIONARY_ID {
        return Err(FrameError::Headers);
    }
    let length = (DICTIONARY.len() as u16).to_le_bytes();
    let mut stored = vec![0, length[0], length[1], !length[0], !length[1]];
    stored.extend_from_slice(DICTIONARY);
    unpack(&mut inflate, &stored)?;
    Ok((inflate, rest))
}

fn unpack(inflate: &mut Decompress, block: &[u8]) -> Result<Vec<u8>, FrameError> {
    let mut out = Vec::with_capacity(1024);
    let mut input = block;
    loop {
        if out.len() == out.capacity() {
            out.reserve(out.len());
        }
        let (read, written) = (inflate.total_in(), inflate.total_out());
        inflate.decompress_vec(input, &mut out, FlushDecompress::Sync).map_err(|_| FrameError::Headers)?;
        let read = (inflate.total_in() - read) as usize;
        input = &input[read..];
        if out.len() > HEADERS_BYTES_MAX {
            return Err(FrameError::TooLarge);
        }
        let is_full = out.len() == out.capacity();
        if input.is_empty() && !is_full {
            return Ok(out);
        }
        if read == 0 && inflate.total_out() == written && !is_full {
            // Data after the end of the stream.
            return Err(FrameError::Headers);
        }
    }
}

fn parse(bytes: &[u8]) -> Result<Headers, FrameError> {
    let mut rest = bytes;
    let count = rest.try_get_u32().map_err(|_| FrameError::Headers)?;
    if count > HEADERS_MAX {
        return Err(FrameError::TooLarge);
    }
    let mut text = || -> Result<String, FrameError> {
        let length = rest.try_get_u32().map_err(|_| FrameError::Headers)? as usize;
        let (text, left) = rest.split_at_checked(length).ok_or(FrameError::Headers)?;
        rest = left;
        String::from_utf8(text.to_vec()).map_err(|_| FrameError::Headers)
    };
    (0..count).map(|_| Ok((text()?, text()?))).collect()
}

/// Compresses the header blocks of one direction. Without the dictionary, so readers need not have it.
pub struct HeaderWriter {
    deflate: Compress,
}

impl HeaderWriter {
    pub fn new() -> Self {
        Self { deflate: Compress::new(Compression::fast(), true) }
    }

    pub fn write(&mut self, headers: &[(String, String)]) -> Vec<u8> {
        let mut plain = Vec::new();
        plain.put_u32(headers.len() as u32);
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            plain.put_u32(text.len() as u32);
            plain.extend_from_slice(text.as_bytes());
        }
        let mut out = Vec::with_capacity(plain.len() + 64);
        let mut input = plain.as_slice();
        loop {
            let before = self.deflate.total_in();
            // Compressing into memory fails only if the compressor is misused.
            let packed = self.deflate.compress_vec(input, &mut out, FlushCompress::Sync);
            packed.expect("the buffer is large enough and the stream never finished");
            input = &input[(self.deflate.total_in() - before) as usize..];
            if input.is_empty() && out.len() < out.capacity() {
                return out;
            }
            out.reserve(out.capacity());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_block_compressed_with_the_dictionary_is_read() {
        // zlib.compressobj(zdict=DICTIONARY) over {streamtype: stdin}, then over {streamtype: error}, each sync-flushed.
        let first = b"\x78\xbb\xe3\xc6\xa7\xc2\x02\xa6\x23\x46\x70\x3a\x2b\x29\x4a\x4d\xcc\x85\x16\x25\xac\xc5\x25\xc0\x3c\x01\x00\x00\x00\xff\xff";
        let second = b"\xc2\x2e\x95\x0a\x8a\x03\x00\x00\x00\x00\xff\xff";
        let mut reader = HeaderReader::new();
        let stream = |kind: &str| vec![("streamtype".to_owned(), kind.to_owned())];
        assert_eq!(reader.read(first).expect("readable"), stream("stdin"));
        assert_eq!(reader.read(second).expect("readable"), stream("error"));
    }

    #[test]
    fn a_block_that_unpacks_beyond_the_limit_is_refused() {
        let mut bomb = Compress::new(Compression::best(), true);
        let mut packed = Vec::with_capacity(1 << 20);
        let zeros = vec![0u8; 8 << 20];
        bomb.compress_vec(&zeros, &mut packed, FlushCompress::Sync).expect("compressed");
        assert_eq!(HeaderReader::new().read(&packed), Err(FrameError::TooLarge));
    }

    proptest! {
        #[test]
        fn headers_round_trip(blocks in prop::collection::vec(prop::collection::vec((".{0,40}", ".{0,200}"), 0..8), 1..5)) {
            let (mut writer, mut reader) = (HeaderWriter::new(), HeaderReader::new());
            for headers in blocks {
                prop_assert_eq!(reader.read(&writer.write(&headers)).expect("readable"), headers);
            }
        }

        #[test]
        fn hostile_blocks_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), zlib in any::<bool>()) {
            let mut block = if zlib { vec![0x78, 0x01] } else { Vec::new() };
            block.extend(bytes);
            let mut reader = HeaderReader::new();
            let _ = reader.read(&block);
            let _ = reader.read(&block);
        }
    }
}
