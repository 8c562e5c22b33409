//! SPDY frames. Data payloads are passed on as they arrive, so that no frame is buffered as a whole.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

use super::headers::{HeaderReader, HeaderWriter, Headers};

const VERSION: u16 = 3;
const CONTROL: u16 = 0x8000;
const FIN: u8 = 1;
/// Control frames are short; a longer one is an attack or another protocol.
pub const CONTROL_BYTES_MAX: usize = 64 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    SynStream {
        id: u32,
        headers: Headers,
        fin: bool,
    },
    SynReply {
        id: u32,
        headers: Headers,
        fin: bool,
    },
    Reset {
        id: u32,
        status: u32,
    },
    Ping(u32),
    GoAway {
        last_id: u32,
        status: u32,
    },
    /// One data frame may arrive as several of these; the last has its end mark.
    Data {
        id: u32,
        bytes: Bytes,
        fin: bool,
    },
    /// Settings, windows, later headers: ignored.
    Other(u16),
}

#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("unsupported SPDY version {0}")]
    Version(u16),
    #[error("truncated control frame")]
    Short,
    #[error("invalid header block")]
    Headers,
    #[error("oversized control frame")]
    TooLarge,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl PartialEq for FrameError {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// Reads and writes frames; header compression keeps state per direction.
pub struct Codec {
    reader: HeaderReader,
    writer: HeaderWriter,
    /// The data frame being received: stream, remaining bytes, whether the stream ends with it.
    arriving: Option<(u32, usize, bool)>,
}

impl Default for Codec {
    fn default() -> Self {
        Self { reader: HeaderReader::new(), writer: HeaderWriter::new(), arriving: None }
    }
}

impl Codec {
    fn data(&mut self, source: &mut BytesMut) -> Option<Frame> {
        let (id, left, fin) = self.arriving?;
        if source.is_empty() && left > 0 {
            return None;
        }
        let taken = left.min(source.len());
        let bytes = source.split_to(taken).freeze();
        let left = left - taken;
        self.arriving = (left > 0).then_some((id, left, fin));
        Some(Frame::Data { id, bytes, fin: fin && left == 0 })
    }

    fn control(&mut self, kind: u16, flags: u8, payload: &[u8]) -> Result<Frame, FrameError> {
        let mut rest = payload;
        let fin = flags & FIN != 0;
        let mut number = || rest.try_get_u32().map_err(|_| FrameError::Short);
        Ok(match kind {
            1 => {
                let id = number()? & 0x7fff_ffff;
                number()?;
                let block = rest.get(2..).ok_or(FrameError::Short)?;
                Frame::SynStream { id, headers: self.reader.read(block)?, fin }
            }
            2 => {
                let id = number()? & 0x7fff_ffff;
                Frame::SynReply { id, headers: self.reader.read(rest)?, fin }
            }
            3 => Frame::Reset { id: number()? & 0x7fff_ffff, status: number()? },
            6 => Frame::Ping(number()?),
            7 => Frame::GoAway { last_id: number()? & 0x7fff_ffff, status: number()? },
            8 => {
                number()?;
                // Decoded only to keep the header compression state in sync.
                self.reader.read(rest)?;
                Frame::Other(8)
            }
            other => Frame::Other(other),
        })
    }
}

impl Decoder for Codec {
    type Item = Frame;
    type Error = FrameError;

    fn decode(&mut self, source: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        if self.arriving.is_some() {
            return Ok(self.data(source));
        }
        let Some(head) = source.first_chunk::<8>() else { return Ok(None) };
        let first = u16::from_be_bytes([head[0], head[1]]);
        let flags = head[4];
        let length = u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize;
        if first & CONTROL == 0 {
            let id = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
            source.advance(8);
            self.arriving = Some((id, length, flags & FIN != 0));
            return Ok(self.data(source));
        }
        let version = first & !CONTROL;
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        if length > CONTROL_BYTES_MAX {
            return Err(FrameError::TooLarge);
        }
        let kind = u16::from_be_bytes([head[2], head[3]]);
        if source.len() < 8 + length {
            return Ok(None);
        }
        let payload = source.split_to(8 + length).split_off(8);
        self.control(kind, flags, &payload).map(Some)
    }
}

impl Encoder<Frame> for Codec {
    type Error = FrameError;

    fn encode(&mut self, frame: Frame, out: &mut BytesMut) -> Result<(), FrameError> {
        let mark = |fin: bool| if fin { FIN } else { 0 };
        match frame {
            Frame::Data { id, bytes, fin } => {
                if bytes.len() > 0x00ff_ffff {
                    return Err(FrameError::TooLarge);
                }
                out.put_u32(id & 0x7fff_ffff);
                out.put_u32(u32::from(mark(fin)) << 24 | bytes.len() as u32);
                out.extend_from_slice(&bytes);
            }
            Frame::SynStream { id, headers, fin } => {
                let block = self.writer.write(&headers);
                let mut payload = Vec::with_capacity(10 + block.len());
                payload.put_u32(id);
                payload.put_u32(0);
                payload.put_u16(0);
                payload.extend(block);
                control(out, 1, mark(fin), &payload);
            }
            Frame::SynReply { id, headers, fin } => {
                let mut payload = id.to_be_bytes().to_vec();
                payload.extend(self.writer.write(&headers));
                control(out, 2, mark(fin), &payload);
            }
            Frame::Reset { id, status } => control(out, 3, 0, &pair(id, status)),
            Frame::Ping(id) => control(out, 6, 0, &id.to_be_bytes()),
            Frame::GoAway { last_id, status } => control(out, 7, 0, &pair(last_id, status)),
            Frame::Other(_) => {}
        }
        Ok(())
    }
}

fn pair(first: u32, second: u32) -> Vec<u8> {
    [first.to_be_bytes(), second.to_be_bytes()].concat()
}

fn control(out: &mut BytesMut, kind: u16, flags: u8, payload: &[u8]) {
    out.put_u16(CONTROL | VERSION);
    out.put_u16(kind);
    out.put_u32(u32::from(flags) << 24 | payload.len() as u32);
    out.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames() -> impl Strategy<Value = Frame> {
        let id = 0u32..0x7fff_ffff;
        let headers = prop::collection::vec(("[a-z]{1,12}", ".{0,30}"), 0..4);
        prop_oneof![
            (id.clone(), headers.clone(), any::<bool>()).prop_map(|(id, headers, fin)| Frame::SynStream {
                id,
                headers,
                fin
            }),
            (id.clone(), headers, any::<bool>()).prop_map(|(id, headers, fin)| Frame::SynReply { id, headers, fin }),
            (id.clone(), any::<u32>()).prop_map(|(id, status)| Frame::Reset { id, status }),
            any::<u32>().prop_map(Frame::Ping),
            (id.clone(), any::<u32>()).prop_map(|(last_id, status)| Frame::GoAway { last_id, status }),
            (id, prop::collection::vec(any::<u8>(), 0..600), any::<bool>()).prop_map(|(id, bytes, fin)| Frame::Data {
                id,
                bytes: bytes.into(),
                fin
            }),
        ]
    }

    /// Chunks of one data frame put together again.
    fn joined(frames: Vec<Frame>) -> Vec<Frame> {
        let mut out: Vec<Frame> = Vec::new();
        let mut open = false;
        for frame in frames {
            match (out.last_mut(), frame) {
                (Some(Frame::Data { id, bytes, fin }), Frame::Data { id: next, bytes: more, fin: end })
                    if open && *id == next =>
                {
                    *bytes = [bytes.as_ref(), more.as_ref()].concat().into();
                    *fin = end;
                }
                (_, frame) => out.push(frame),
            }
            open = true;
        }
        out
    }

    proptest! {
        #[test]
        fn frames_do_not_depend_on_chunk_boundaries(sent in prop::collection::vec(frames(), 1..8), cut in 1usize..50) {
            let (mut here, mut there) = (Codec::default(), Codec::default());
            for frame in sent {
                let mut wire = BytesMut::new();
                here.encode(frame.clone(), &mut wire).expect("small enough");
                let (mut arrived, mut seen) = (BytesMut::new(), Vec::new());
                for piece in wire.chunks(cut) {
                    arrived.extend_from_slice(piece);
                    while let Some(frame) = there.decode(&mut arrived).expect("readable") {
                        seen.push(frame);
                    }
                }
                prop_assert!(arrived.is_empty());
                prop_assert_eq!(joined(seen), vec![frame]);
            }
        }

        #[test]
        fn hostile_bytes_never_panic_and_take_bounded_memory(bytes in prop::collection::vec(any::<u8>(), 0..2000), spdy in any::<bool>()) {
            let mut codec = Codec::default();
            let mut source = BytesMut::new();
            if spdy {
                source.extend_from_slice(&[0x80, 3]);
            }
            source.extend_from_slice(&bytes);
            while let Ok(Some(_)) = codec.decode(&mut source) {}
        }
    }

    #[test]
    fn invalid_frames_are_rejected() {
        let mut other_version = BytesMut::from(&[0x80, 2, 0, 1, 0, 0, 0, 0][..]);
        assert_eq!(Codec::default().decode(&mut other_version), Err(FrameError::Version(2)));
        let mut huge = BytesMut::from(&[0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff][..]);
        assert_eq!(Codec::default().decode(&mut huge), Err(FrameError::TooLarge));
        let mut short = BytesMut::from(&[0x80, 3, 0, 6, 0, 0, 0, 1, 9][..]);
        assert_eq!(Codec::default().decode(&mut short), Err(FrameError::Short));
    }
}
