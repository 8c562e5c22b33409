//! A small DER writer, and the few reads needed to parse private keys.

use crate::error::PkiError;

pub mod tag {
    pub const BOOLEAN: u8 = 0x01;
    pub const INTEGER: u8 = 0x02;
    pub const BIT_STRING: u8 = 0x03;
    pub const OCTET_STRING: u8 = 0x04;
    pub const NULL: u8 = 0x05;
    pub const OID: u8 = 0x06;
    pub const UTF8_STRING: u8 = 0x0c;
    pub const UTC_TIME: u8 = 0x17;
    pub const GENERALIZED_TIME: u8 = 0x18;
    pub const SEQUENCE: u8 = 0x30;
    pub const SET: u8 = 0x31;
}

/// Tag, length and content of one value.
pub fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 6);
    out.push(tag);
    let length = content.len();
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let significant = &bytes[length.leading_zeros() as usize / 8..];
        out.push(0x80 | significant.len() as u8);
        out.extend_from_slice(significant);
    }
    out.extend_from_slice(content);
    out
}

pub fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    tlv(tag::SEQUENCE, &parts.concat())
}

/// A SET OF with its members in DER order.
pub fn set(mut members: Vec<Vec<u8>>) -> Vec<u8> {
    members.sort();
    tlv(tag::SET, &members.concat())
}

pub fn boolean(value: bool) -> Vec<u8> {
    tlv(tag::BOOLEAN, &[if value { 0xff } else { 0 }])
}

pub fn null() -> Vec<u8> {
    tlv(tag::NULL, &[])
}

/// A non-negative INTEGER from big-endian bytes of any length.
pub fn unsigned_integer(big_endian: &[u8]) -> Vec<u8> {
    let start = big_endian.iter().position(|byte| *byte != 0).unwrap_or(big_endian.len());
    let mut content = Vec::with_capacity(big_endian.len() + 1);
    if big_endian.get(start).is_none_or(|first| first & 0x80 != 0) {
        content.push(0);
    }
    content.extend_from_slice(&big_endian[start..]);
    tlv(tag::INTEGER, &content)
}

pub fn octet_string(content: &[u8]) -> Vec<u8> {
    tlv(tag::OCTET_STRING, content)
}

pub fn utf8_string(text: &str) -> Vec<u8> {
    tlv(tag::UTF8_STRING, text.as_bytes())
}

/// A BIT STRING of whole bytes, as keys and signatures are.
pub fn bit_string(content: &[u8]) -> Vec<u8> {
    tlv(tag::BIT_STRING, &[&[0][..], content].concat())
}

/// A BIT STRING of named bits, where DER forbids trailing zero bits.
pub fn named_bits(bits: impl IntoIterator<Item = u8>) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    for bit in bits {
        let index = usize::from(bit / 8);
        if bytes.len() <= index {
            bytes.resize(index + 1, 0);
        }
        bytes[index] |= 0x80 >> (bit % 8);
    }
    let unused = bytes.last().map_or(0, |last| last.trailing_zeros() as u8);
    tlv(tag::BIT_STRING, &[&[unused][..], &bytes].concat())
}

pub fn oid(arcs: &[u64]) -> Vec<u8> {
    tlv(tag::OID, &oid_content(arcs))
}

/// The content bytes of an object identifier, to compare parsed identifiers with ours.
pub fn oid_content(arcs: &[u64]) -> Vec<u8> {
    assert!(arcs.len() >= 2, "an object identifier has at least two arcs");
    let mut out = Vec::with_capacity(arcs.len() + 4);
    push_base128(&mut out, arcs[0] * 40 + arcs[1]);
    for arc in &arcs[2..] {
        push_base128(&mut out, *arc);
    }
    out
}

fn push_base128(out: &mut Vec<u8>, value: u64) {
    let groups = (64 - value.leading_zeros()).div_ceil(7).max(1);
    for group in (0..groups).rev() {
        let low = (value >> (group * 7)) as u8 & 0x7f;
        out.push(if group == 0 { low } else { low | 0x80 });
    }
}

/// `[number]` around complete values.
pub fn explicit(number: u8, content: &[u8]) -> Vec<u8> {
    tlv(0xa0 | number, content)
}

/// `[number]` in place of a primitive value's own tag.
pub fn implicit(number: u8, content: &[u8]) -> Vec<u8> {
    tlv(0x80 | number, content)
}

/// UTCTime until 2049 and GeneralizedTime after, as RFC 5280 requires.
pub fn time(at: jiff::Timestamp) -> Vec<u8> {
    const YEAR_2050: i64 = 2_524_608_000;
    if at.as_second() < YEAR_2050 {
        tlv(tag::UTC_TIME, at.strftime("%y%m%d%H%M%SZ").to_string().as_bytes())
    } else {
        tlv(tag::GENERALIZED_TIME, at.strftime("%Y%m%d%H%M%SZ").to_string().as_bytes())
    }
}

/// Reads the values of a DER encoding one after the other.
pub struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// `what` names the structure in error messages.
    pub fn new(input: &'a [u8], what: &'static str) -> Self {
        Self { rest: input, what }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn peek_tag(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// The content of the next value, which must have `tag`.
    pub fn read(&mut self, tag: u8) -> Result<&'a [u8], PkiError> {
        match self.read_any()? {
            (found, content) if found == tag => Ok(content),
            _ => Err(self.malformed()),
        }
    }

    pub fn read_sequence(&mut self) -> Result<Reader<'a>, PkiError> {
        let what = self.what;
        self.read(tag::SEQUENCE).map(|content| Reader::new(content, what))
    }

    pub fn read_any(&mut self) -> Result<(u8, &'a [u8]), PkiError> {
        let [tag, first, after @ ..] = self.rest else { return Err(self.malformed()) };
        let (length, body) = match first {
            0..=0x7f => (usize::from(*first), after),
            0x81..=0x84 => {
                let count = usize::from(first & 0x7f);
                let digits = after.get(..count).ok_or_else(|| self.malformed())?;
                let length = digits.iter().fold(0usize, |sum, digit| sum << 8 | usize::from(*digit));
                (length, &after[count..])
            }
            _ => return Err(self.malformed()),
        };
        let content = body.get(..length).ok_or_else(|| self.malformed())?;
        self.rest = &body[length..];
        Ok((*tag, content))
    }

    pub fn malformed(&self) -> PkiError {
        PkiError::Malformed { what: self.what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_minimal_and_never_negative() {
        assert_eq!(unsigned_integer(&[]), [2, 1, 0]);
        assert_eq!(unsigned_integer(&[0, 0, 5]), [2, 1, 5]);
        assert_eq!(unsigned_integer(&[0x80]), [2, 2, 0, 0x80]);
    }

    #[test]
    fn long_lengths_use_the_fewest_bytes() {
        assert_eq!(tlv(4, &[7; 127])[..2], [4, 127]);
        assert_eq!(tlv(4, &[7; 128])[..3], [4, 0x81, 128]);
        assert_eq!(tlv(4, &[7; 300])[..4], [4, 0x82, 1, 44]);
    }

    #[test]
    fn object_identifiers_match_known_encodings() {
        assert_eq!(oid(&[2, 5, 4, 3]), [6, 3, 0x55, 4, 3]);
        assert_eq!(oid(&[1, 2, 840, 10045, 2, 1]), [6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1]);
    }

    #[test]
    fn named_bits_drop_trailing_zeros() {
        assert_eq!(named_bits([0, 2]), [3, 2, 5, 0xa0]);
        assert_eq!(named_bits([5, 6]), [3, 2, 1, 0x06]);
        assert_eq!(named_bits([8]), [3, 3, 7, 0, 0x80]);
        assert_eq!(named_bits([]), [3, 1, 0]);
    }

    #[test]
    fn times_change_form_at_2050() {
        let check = |text: &str, expected: &[u8]| {
            let encoded = time(text.parse().unwrap());
            assert_eq!(&encoded[2..], expected);
        };
        check("2049-12-31T23:59:59Z", b"491231235959Z");
        check("2050-01-01T00:00:00Z", b"20500101000000Z");
    }
}
