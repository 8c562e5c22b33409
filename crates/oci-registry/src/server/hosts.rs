//! Host names a registry on loopback answers to.
//!
//! A web page can make its own name resolve to 127.0.0.1 and then counts as the same origin as this registry. The Host
//! header still carries the page's name, so names that are not known are refused.

use std::net::IpAddr;

use http::{Request, StatusCode, header};

use super::answer::OciError;

pub struct AllowedHosts {
    /// Registries on other addresses are meant to be reached by name.
    is_checked: bool,
    names: Vec<String>,
}

impl AllowedHosts {
    pub fn new(bound: IpAddr, names: Vec<String>) -> Self {
        Self { is_checked: bound.is_loopback(), names }
    }

    pub fn check<B>(&self, request: &Request<B>) -> Result<(), OciError> {
        let header = request.headers().get(header::HOST).map(|value| value.to_str().unwrap_or_default());
        let host = request.uri().authority().map(|authority| authority.as_str()).or(header);
        match host {
            Some(host) if self.is_checked && !self.allows(host) => Err(OciError::new(
                StatusCode::MISDIRECTED_REQUEST,
                "DENIED",
                "this registry is not known by that host name; allow it with --allowed-host",
            )),
            _ => Ok(()),
        }
    }

    fn allows(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if !name.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit()) => name,
            _ => host,
        };
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let is_local = name.eq_ignore_ascii_case("localhost") || name.to_ascii_lowercase().ends_with(".localhost");
        is_local
            || bare.parse::<IpAddr>().is_ok()
            || self.names.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_on_loopback_answers_to_local_and_allowed_names() {
        let loopback = AllowedHosts::new([127, 0, 0, 1].into(), vec!["registry.test".to_owned()]);
        let public = AllowedHosts::new([0, 0, 0, 0].into(), Vec::new());
        // Host header, allowed on loopback.
        let cases = [
            ("localhost:32000", true),
            ("LOCALHOST", true),
            ("a.localhost:1", true),
            ("127.0.0.1:32000", true),
            ("[::1]:32000", true),
            ("10.0.0.1", true),
            ("registry.test:32000", true),
            ("registry.test", true),
            ("evil.example", false),
            ("evil.example:32000", false),
            ("localhost.evil.example:32000", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ];
        for (host, expected) in cases {
            let request = Request::builder().header(header::HOST, host).body(()).unwrap();
            assert_eq!(loopback.check(&request).is_ok(), expected, "{host}");
            assert!(public.check(&request).is_ok(), "{host}");
        }
    }
}
