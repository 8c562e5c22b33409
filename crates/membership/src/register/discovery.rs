//! Identifies the control plane: `cluster-info`, read without trust, is verified by its signature and the hash of its CA.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use cluster_client::remote::config::{ClientCertificate, Pem};
use cluster_client::{ClusterClient, Endpoint, RemoteConfig, ResourceRef};
use object::builtin;
use object::{Object, Status};
use serde_json::Value;
use tokio::time::Instant;

use crate::register::signing::IssuedCertificate;
use crate::token::{BootstrapToken, key_pins};
use crate::{MembershipError, Progress};

const RETRY: Duration = Duration::from_secs(2);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The method by which the control plane is verified.
#[derive(Clone, Debug)]
pub enum CaVerification {
    /// Only by the signature made with the token.
    SignatureOnly,
    /// By the signature, and one of these hashes of the public key of its CA.
    Pins(Vec<String>),
}

/// A verified control plane.
pub struct VerifiedControlPlane {
    /// PEM.
    pub authority: Vec<u8>,
}

impl VerifiedControlPlane {
    pub fn connect_with_token(&self, server: &str, token: &BootstrapToken) -> Result<ClusterClient, MembershipError> {
        let mut remote = self.remote(server);
        remote.credentials.token = Some(token.to_string());
        Ok(ClusterClient::connect(Endpoint::Remote(remote))?)
    }

    pub fn connect_with_certificate(
        &self,
        server: &str,
        issued: &IssuedCertificate,
    ) -> Result<ClusterClient, MembershipError> {
        let mut remote = self.remote(server);
        remote.credentials.client_certificate = Some(ClientCertificate {
            certificate: Pem::Text(issued.certificate.clone()),
            key: Pem::Text(issued.key.clone().into_bytes()),
        });
        Ok(ClusterClient::connect(Endpoint::Remote(remote))?)
    }

    fn remote(&self, server: &str) -> RemoteConfig {
        RemoteConfig {
            ca: Some(Pem::Text(self.authority.clone())),
            request_timeout: REQUEST_TIMEOUT,
            ..RemoteConfig::new(server)
        }
    }
}

/// Reads `cluster-info` until it is signed with the token, then verifies it.
pub async fn discover(
    server: &str,
    token: &BootstrapToken,
    verification: &CaVerification,
    deadline: Instant,
    progress: &dyn Progress,
) -> Result<VerifiedControlPlane, MembershipError> {
    // The server is not verified yet: nothing secret is sent, and nothing is used before it is verified.
    let unverified =
        RemoteConfig { insecure_skip_tls_verify: true, request_timeout: REQUEST_TIMEOUT, ..RemoteConfig::new(server) };
    let client = ClusterClient::connect(Endpoint::Remote(unverified))?;
    let mut shown = String::new();
    loop {
        let problem = match cluster_info(&client).await {
            Ok(info) if signature_of(&info, &token.id).is_some() => {
                let text = verify(&info, token)?;
                let authority = authority_in(text)?;
                return confirm(server, &info, authority, verification).await;
            }
            Ok(_) => format!("it is not signed with the token {}; is the token still valid?", token.id),
            Err(status) => status.to_string(),
        };
        if Instant::now() + RETRY >= deadline {
            return Err(MembershipError::Discovery(format!(
                "cannot read cluster-info of {server} before the timeout: {problem}"
            )));
        }
        if problem != shown {
            progress.note(&format!("[discovery] waiting for cluster-info of {server}: {problem}"));
            shown = problem;
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// With pins, the CA must be a pinned one, and the server must have a certificate of that CA.
async fn confirm(
    server: &str,
    info: &Object,
    authority: Vec<u8>,
    verification: &CaVerification,
) -> Result<VerifiedControlPlane, MembershipError> {
    let discovered = VerifiedControlPlane { authority };
    if let CaVerification::Pins(pins) = verification {
        let found = key_pins(&discovered.authority)?;
        if !found.iter().any(|found| pins.iter().any(|pin| pin.eq_ignore_ascii_case(found))) {
            return Err(MembershipError::Discovery(format!(
                "cluster CA found in cluster-info ConfigMap is invalid: none of its public keys {found:?} is pinned"
            )));
        }
        let verified = ClusterClient::connect(Endpoint::Remote(discovered.remote(server)))?;
        let again = cluster_info(&verified).await.map_err(|status| MembershipError::DiscoveryRequest {
            context: "the server's certificate does not match the CA in cluster-info".to_owned(),
            status,
        })?;
        if again.str_at(&["data", "kubeconfig"]) != info.str_at(&["data", "kubeconfig"]) {
            return Err(MembershipError::Discovery(
                "the second cluster-info ConfigMap, read with the CA of the first, differs from it".to_owned(),
            ));
        }
    }
    Ok(discovered)
}

async fn cluster_info(client: &ClusterClient) -> Result<std::sync::Arc<Object>, Status> {
    let gvr = builtin::config_maps();
    client.get(ResourceRef::namespaced(&gvr, "kube-public", "cluster-info")).await
}

fn signature_of<'a>(info: &'a Object, id: &str) -> Option<&'a str> {
    info.get(&["data", &format!("jws-kubeconfig-{id}")]).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Returns the kubeconfig in cluster-info if its detached signature is valid.
fn verify<'a>(info: &'a Object, token: &BootstrapToken) -> Result<&'a str, MembershipError> {
    let text = info.str_at(&["data", "kubeconfig"]);
    let bad = || MembershipError::Discovery("cluster-info is not signed with this token".to_owned());
    let (header, rest) = signature_of(info, &token.id).and_then(|text| text.split_once('.')).ok_or_else(bad)?;
    let signature = rest.strip_prefix('.').ok_or_else(bad)?;
    let decoded = URL_SAFE_NO_PAD.decode(header).map_err(|_| bad())?;
    let decoded: Value = serde_json::from_slice(&decoded).map_err(|_| bad())?;
    // The algorithm is fixed: a header that chooses it could choose none.
    if decoded["alg"] != "HS256" || decoded["kid"] != token.id.as_str() {
        return Err(bad());
    }
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| bad())?;
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, token.secret.as_bytes());
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(text));
    ring::hmac::verify(&key, signed.as_bytes(), &signature).map_err(|_| bad())?;
    Ok(text)
}

/// Returns the CA of the only cluster in a kubeconfig.
fn authority_in(kubeconfig: &str) -> Result<Vec<u8>, MembershipError> {
    let invalid = |text: &str| MembershipError::Discovery(text.to_owned());
    let config: Value =
        serde_saphyr::from_str(kubeconfig).map_err(|_| invalid("cluster-info contains no kubeconfig"))?;
    let clusters = config["clusters"].as_array().map(Vec::as_slice).unwrap_or_default();
    let [only] = clusters else {
        return Err(MembershipError::Discovery(format!(
            "expected the kubeconfig file in the cluster-info ConfigMap to have a single cluster, but it had {}",
            clusters.len()
        )));
    };
    let data = only["cluster"]["certificate-authority-data"].as_str().unwrap_or_default();
    let authority = STANDARD.decode(data).map_err(|_| invalid("the CA in cluster-info is not base64"))?;
    if authority.is_empty() {
        return Err(invalid("cluster-info has no CA"));
    }
    Ok(authority)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SECRET: &str = "0123456789abcdef";
    const CONFIG: &str = "clusters: [{name: '', cluster: {server: 'https://a', certificate-authority-data: Q0E=}}]";

    fn signed(header: Value, secret: &str, text: &str) -> Object {
        let header = URL_SAFE_NO_PAD.encode(header.to_string());
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
        let tag = ring::hmac::sign(&key, format!("{header}.{}", URL_SAFE_NO_PAD.encode(text)).as_bytes());
        let jws = format!("{header}..{}", URL_SAFE_NO_PAD.encode(tag));
        let info = json!({"data": {"kubeconfig": CONFIG, "jws-kubeconfig-abcdef": jws}});
        Object::from_value(info).expect("a map")
    }

    #[track_caller]
    fn check(info: &Object, is_accepted: bool) {
        let token = BootstrapToken::parse(&format!("abcdef.{SECRET}")).expect("a token");
        assert_eq!(verify(info, &token).is_ok(), is_accepted, "{info:?}");
    }

    #[test]
    fn cluster_info_is_accepted_only_when_signed_with_the_token() {
        let header = || json!({"alg": "HS256", "kid": "abcdef"});
        check(&signed(header(), SECRET, CONFIG), true);
        check(&signed(header(), "another-secret00", CONFIG), false);
        check(&signed(header(), SECRET, "another kubeconfig"), false);
        check(&signed(json!({"alg": "none", "kid": "abcdef"}), SECRET, CONFIG), false);
        check(&signed(json!({"alg": "HS256", "kid": "zzzzzz"}), SECRET, CONFIG), false);
        let mut cut = signed(header(), SECRET, CONFIG);
        cut.set(&["data", "jws-kubeconfig-abcdef"], "no.jws");
        check(&cut, false);
    }

    #[test]
    fn cluster_info_describes_one_cluster() {
        assert_eq!(authority_in(CONFIG).expect("a CA"), b"CA");
        for text in ["clusters: []", "a: b", "clusters: [{cluster: {}}]", "clusters: [{}, {}]"] {
            assert!(authority_in(text).is_err(), "{text}");
        }
    }
}
