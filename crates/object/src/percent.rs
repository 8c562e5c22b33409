//! Percent-encoding, as used in URLs, query strings and header names.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Everything but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes every reserved character, for one segment of a path or one value of a query.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Decodes the text, or returns the offset of the first invalid escape.
pub fn decode(text: &str) -> Result<Vec<u8>, usize> {
    match invalid_escape(text) {
        Some(at) => Err(at),
        None => Ok(percent_decode_str(text).collect()),
    }
}

/// Decodes the text; invalid escapes stay as they are, and invalid UTF-8 becomes U+FFFD.
pub fn decode_lenient(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Reports whether every percent sign is followed by two hexadecimal digits.
pub fn is_whole(text: &str) -> bool {
    invalid_escape(text).is_none()
}

fn invalid_escape(text: &str) -> Option<usize> {
    let is_escape = |at: usize| {
        let digits = text.as_bytes().get(at + 1..at + 3);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    text.match_indices('%').map(|(at, _)| at).find(|at| !is_escape(*at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_and_invalid_ones_reported_or_kept() {
        let cases: [(&str, Result<&str, usize>, &str); 7] = [
            ("", Ok(""), ""),
            ("a%20b%2fc", Ok("a b/c"), "a b/c"),
            ("%C3%A9", Ok("é"), "é"),
            ("é%25", Ok("é%"), "é%"),
            ("a%zz%41", Err(1), "a%zzA"),
            ("%+5", Err(0), "%+5"),
            ("ab%4", Err(2), "ab%4"),
        ];
        for (text, decoded, lenient) in cases {
            assert_eq!(decode(text), decoded.map(|text| text.as_bytes().to_vec()), "{text}");
            assert_eq!(is_whole(text), decoded.is_ok(), "{text}");
            assert_eq!(decode_lenient(text), lenient, "{text}");
        }
        assert_eq!(decode_lenient("%ff"), "\u{fffd}");
    }

    #[test]
    fn encoding_is_reversed_by_decoding() {
        for text in ["", "a/b:c", "ä %", "sha256:0a", "+&=", "-._~"] {
            assert_eq!(decode(&encode(text)), Ok(text.as_bytes().to_vec()), "{text}");
        }
        assert_eq!(encode("a/b:c ä~"), "a%2Fb%3Ac%20%C3%A4~");
    }
}
