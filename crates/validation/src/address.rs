//! The parts of a URL as Go reads them, as far as rules ask for them.

/// A URL in pieces; what is not there is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    pub scheme: &'a str,
    pub user: Option<&'a str>,
    /// With the port.
    pub host: &'a str,
    pub path: &'a str,
    pub query: &'a str,
    pub fragment: &'a str,
}

impl<'a> Address<'a> {
    /// Fails with what Go's parser says.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        let failed = |problem: &str| Err(format!("parse {}: {problem}", object::field::go_quote(text)));
        if text.chars().any(|c| c.is_ascii_control()) {
            return failed("net/url: invalid control character in URL");
        }
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (scheme, rest) = match split_scheme(rest) {
            Ok(parts) => parts,
            Err(problem) => return failed(problem),
        };
        let Some(rest) = rest.strip_prefix("//") else {
            // `host:port` reads as a scheme and a rest; a path must not have a colon in its first segment.
            if scheme.is_empty() && rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return failed("first path segment in URL cannot contain colon");
            }
            return Ok(Self { scheme, user: None, host: "", path: rest, query, fragment });
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let port = host.rsplit_once(']').map_or(host, |(_, after)| after).rsplit_once(':').map(|(_, port)| port);
        if let Some(port) = port.filter(|port| !port.bytes().all(|byte| byte.is_ascii_digit())) {
            return failed(&format!("invalid port {} after host", object::field::go_quote(&format!(":{port}"))));
        }
        Ok(Self { scheme, user, host, path, query, fragment })
    }
}

fn split_scheme(text: &str) -> Result<(&str, &str), &'static str> {
    for (index, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if index > 0 => {}
            '0'..='9' | '+' | '-' | '.' => return Ok(("", text)),
            ':' if index == 0 => return Err("missing protocol scheme"),
            ':' => return Ok((&text[..index], &text[index + 1..])),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_split_as_in_go() {
        let address = Address::parse("https://u:p@10.0.0.1:6443/a?b#c").expect("valid");
        assert_eq!((address.scheme, address.user, address.host), ("https", Some("u:p"), "10.0.0.1:6443"));
        assert_eq!((address.path, address.query, address.fragment), ("/a", "b", "c"));
        assert_eq!(Address::parse("localhost").expect("valid").host, "");
        assert_eq!(Address::parse("localhost:5443").expect("valid").scheme, "localhost");
        assert_eq!(Address::parse("https://[::1]:6443").expect("valid").host, "[::1]:6443");
        for bad in ["1.2.3.4:5443", ":x", "https://h:port", "a\u{1}"] {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
    }
}
