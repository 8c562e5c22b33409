//! Percent escapes, as they stand in URLs, in query strings and in names of headers.

/// Decodes the escapes; the error is the position of the first invalid one.
pub fn decode(text: &str) -> Result<Vec<u8>, usize> {
    bytes_of(text).collect()
}

/// Decodes the escapes; invalid ones stay as they are.
pub fn decode_lenient(text: &str) -> String {
    // Most texts have none, and some are read with every request.
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes: Vec<u8> = bytes_of(text).map(|byte| byte.unwrap_or(b'%')).collect();
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Returns true when every percent sign is followed by two hexadecimal digits.
pub fn is_whole(text: &str) -> bool {
    !text.contains('%') || bytes_of(text).all(|byte| byte.is_ok())
}

/// Byte for byte; a percent sign that begins no escape is an error with its place.
fn bytes_of(text: &str) -> impl Iterator<Item = Result<u8, usize>> {
    let bytes = text.as_bytes();
    let mut next = 0;
    std::iter::from_fn(move || {
        let at = next;
        let byte = *bytes.get(at)?;
        next += 1;
        if byte != b'%' {
            return Some(Ok(byte));
        }
        let digit = |place: usize| bytes.get(place).and_then(|digit| char::from(*digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(at + 1), digit(at + 2)) else { return Some(Err(at)) };
        next += 2;
        Some(u8::try_from(high * 16 + low).map_err(|_| at))
    })
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
}
