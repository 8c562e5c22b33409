//! The part of a request behind the question mark, and percent-encoding in general.

use http::Uri;

/// More parameters than any request has; the rest is not looked at.
const PARAMETERS_MAX: usize = 128;

pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn of(uri: &Uri) -> Self {
        let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()).take(PARAMETERS_MAX);
        let read = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decode(key)?, decode(&value.replace('+', "%20"))?))
        };
        Self(pairs.filter_map(read).collect())
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The values of a parameter that may be given several times.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// Nothing for what is not well formed.
pub fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || (rest.next()? as char).to_digit(16);
        let value = digit()? * 16 + digit()?;
        bytes.push(u8::try_from(value).ok()?);
    }
    String::from_utf8(bytes).ok()
}

pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(byte as char);
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_and_decoding_are_each_others_opposite() {
        for text in ["", "a/b:c", "ä %", "sha256:0a", "+&="] {
            assert_eq!(decode(&encode(text)).as_deref(), Some(text));
        }
        for bad in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }

    #[test]
    fn parameters_are_found_by_name() {
        let query = Query::of(&"http://x/?mount=sha256%3Aab&from=a%2Fb+c&n&bad=%".parse().unwrap());
        assert_eq!(query.get("mount"), Some("sha256:ab"));
        assert_eq!(query.get("from"), Some("a/b c"));
        assert_eq!(query.get("n"), Some(""));
        assert_eq!(query.get("bad"), None);
    }
}
