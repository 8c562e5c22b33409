//! Users set by an authenticating proxy: `X-Remote-*` headers, trusted only with a front-proxy certificate.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use jiff::Timestamp;
use object::request::User;
use pki::tls::client_trust::ClientTrust;
use rustls_pki_types::CertificateDer;

use super::impersonation::unescape_key;
use super::with_authenticated_group;

const EXTRA_PREFIX: &str = "x-remote-extra-";

/// The trusted proxies.
pub struct FrontProxyConfig {
    pub ca: Arc<ClientTrust>,
    /// Common names a proxy's certificate may have; any when empty.
    pub allowed_names: Vec<String>,
}

pub struct FrontProxy {
    config: FrontProxyConfig,
}

impl FrontProxy {
    pub fn new(config: FrontProxyConfig) -> Self {
        Self { config }
    }

    /// `None` when the peer is no such proxy or names no user; its certificate may still authenticate the peer itself.
    pub fn user(&self, chain: &[CertificateDer<'_>], headers: &HeaderMap) -> Option<Arc<User>> {
        let name = text(headers, "x-remote-user").filter(|name| !name.is_empty())?;
        let identity = self.config.ca.verify(chain, Timestamp::now()).ok()?;
        let allowed = &self.config.allowed_names;
        if !allowed.is_empty() && !allowed.contains(&identity.common_name) {
            return None;
        }
        let groups = headers.get_all("x-remote-group").iter().filter_map(|value| value.to_str().ok());
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (header, value) in headers {
            if let (Some(key), Ok(value)) = (header.as_str().strip_prefix(EXTRA_PREFIX), value.to_str()) {
                extra.entry(unescape_key(key)).or_default().push(value.to_owned());
            }
        }
        Some(Arc::new(with_authenticated_group(User {
            name: name.to_owned(),
            uid: text(headers, "x-remote-uid").unwrap_or_default().to_owned(),
            groups: groups.filter(|group| !group.is_empty()).map(str::to_owned).collect(),
            extra,
        })))
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
