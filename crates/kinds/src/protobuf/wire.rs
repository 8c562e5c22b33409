//! The wire format: tags, varints, lengths, and the envelope around every object.

use std::borrow::Cow;

use super::ProtobufError;

pub enum Item<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
}

impl Item<'_> {
    pub fn wire_type(&self) -> u8 {
        match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Fixed32 => 5,
        }
    }
}

/// Iterates over the fields of one message.
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub fn next(&mut self) -> Result<Option<(u32, Item<'a>)>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|n| *n > 0).ok_or(ProtobufError::Overflow)?;
        let item = match tag & 7 {
            0 => Item::Varint(self.varint()?),
            1 => Item::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().map_err(|_| ProtobufError::Truncated)?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| ProtobufError::Overflow)?;
                Item::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Item::Fixed32
            }
            // Groups: no Kubernetes message has them.
            other => return Err(ProtobufError::WireType { field: number.to_string(), wire_type: other as u8 }),
        };
        Ok(Some((number, item)))
    }

    /// A varint at the current place: a tag, or an element of a packed list.
    pub fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0u64;
        for (index, byte) in self.rest.iter().enumerate().take(10) {
            let bits = u64::from(byte & 0x7f);
            if index == 9 && bits > 1 {
                return Err(ProtobufError::Overflow);
            }
            value |= bits << (7 * index);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(if self.rest.len() < 10 { ProtobufError::Truncated } else { ProtobufError::Overflow })
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }
}

/// `runtime.Unknown`: the kind of the bytes inside.
#[derive(Default)]
pub struct Envelope<'a> {
    pub api_version: Cow<'a, str>,
    pub kind: Cow<'a, str>,
    pub raw: &'a [u8],
}

pub fn read_envelope(bytes: &[u8]) -> Result<Envelope<'_>, ProtobufError> {
    let mut envelope = Envelope::default();
    let mut fields = Fields::of(bytes);
    while let Some((number, item)) = fields.next()? {
        match (number, item) {
            (1, Item::Bytes(type_meta)) => {
                let mut fields = Fields::of(type_meta);
                while let Some((number, item)) = fields.next()? {
                    match (number, item) {
                        (1, Item::Bytes(text)) => envelope.api_version = String::from_utf8_lossy(text),
                        (2, Item::Bytes(text)) => envelope.kind = String::from_utf8_lossy(text),
                        _ => {}
                    }
                }
            }
            (2, Item::Bytes(raw)) => envelope.raw = raw,
            _ => {}
        }
    }
    Ok(envelope)
}

pub fn write_envelope(
    out: &mut Vec<u8>,
    api_version: &str,
    kind: &str,
    write_object: impl FnOnce(&mut Vec<u8>) -> Result<(), ProtobufError>,
) -> Result<(), ProtobufError> {
    write_nested(out, 1, |out| {
        write_bytes(out, 1, api_version.as_bytes());
        write_bytes(out, 2, kind.as_bytes());
        Ok(())
    })?;
    write_nested(out, 2, write_object)?;
    // contentEncoding and contentType, which Go writes even if empty.
    write_bytes(out, 3, b"");
    write_bytes(out, 4, b"");
    Ok(())
}

pub fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub fn write_tag(out: &mut Vec<u8>, number: u32, wire_type: u8) {
    write_varint(out, u64::from(number) << 3 | u64::from(wire_type));
}

pub fn write_number(out: &mut Vec<u8>, number: u32, value: u64) {
    write_tag(out, number, 0);
    write_varint(out, value);
}

pub fn write_double(out: &mut Vec<u8>, number: u32, value: f64) {
    write_tag(out, number, 1);
    out.extend_from_slice(&value.to_le_bytes());
}

pub fn write_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    write_tag(out, number, 2);
    write_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A message whose length is known only after writing: most fit one byte, others are shifted.
pub fn write_nested(
    out: &mut Vec<u8>,
    number: u32,
    write_content: impl FnOnce(&mut Vec<u8>) -> Result<(), ProtobufError>,
) -> Result<(), ProtobufError> {
    write_tag(out, number, 2);
    let start = out.len();
    out.push(0);
    write_content(out)?;
    let length = out.len() - start - 1;
    if length < 0x80 {
        out[start] = length as u8;
        return Ok(());
    }
    let mut prefix = Vec::with_capacity(5);
    write_varint(&mut prefix, length as u64);
    out.splice(start..=start, prefix);
    Ok(())
}
