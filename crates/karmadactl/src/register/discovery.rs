//! Who the control plane is: `cluster-info`, read without trust, is believed by its signature and the hash of its CA.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use cluster_client::remote::config::{ClientCertificate, Pem};
use cluster_client::{ClusterClient, Endpoint, RemoteConfig, ResourceRef};
use object::{GroupVersionResource, Object, Status};
use serde_json::Value;
use tokio::time::Instant;

use crate::console::Console;
use crate::register::signing::Keyed;

const RETRY: Duration = Duration::from_secs(2);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A bootstrap token: a public id and a secret.
pub struct Token {
    id: String,
    secret: String,
}

impl Token {
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let is_part = |part: &str, length: usize| {
            part.len() == length && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        match text.split_once('.') {
            Some((id, secret)) if is_part(id, 6) && is_part(secret, 16) => {
                Ok(Self { id: id.to_owned(), secret: secret.to_owned() })
            }
            _ => bail!("the bootstrap token must be of the form [a-z0-9]{{6}}.[a-z0-9]{{16}}"),
        }
    }
}

/// What makes the control plane believed beside its signature.
pub enum Trust {
    /// Nothing.
    Signature,
    /// One of these hashes of its CA's public key.
    Pins(Vec<String>),
}

/// A control plane that is believed.
pub struct Discovered {
    /// PEM.
    pub authority: Vec<u8>,
}

impl Discovered {
    pub fn connect_with_token(&self, server: &str, token: &Token) -> anyhow::Result<ClusterClient> {
        let mut remote = self.remote(server);
        remote.credentials.token = Some(format!("{}.{}", token.id, token.secret));
        Ok(ClusterClient::connect(Endpoint::Remote(remote))?)
    }

    pub fn connect_with_certificate(&self, server: &str, keyed: &Keyed) -> anyhow::Result<ClusterClient> {
        let mut remote = self.remote(server);
        remote.credentials.client_certificate = Some(ClientCertificate {
            certificate: Pem::Text(keyed.certificate.clone()),
            key: Pem::Text(keyed.key.clone().into_bytes()),
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

/// Asks until there is an answer signed with the token, and believes it or says why not.
pub async fn discover(
    console: &Console,
    server: &str,
    token: &Token,
    trust: &Trust,
    deadline: Instant,
) -> anyhow::Result<Discovered> {
    // Nobody is trusted yet: nothing secret is sent, and nothing is believed before it is verified.
    let unsure =
        RemoteConfig { insecure_skip_tls_verify: true, request_timeout: REQUEST_TIMEOUT, ..RemoteConfig::new(server) };
    let client = ClusterClient::connect(Endpoint::Remote(unsure))?;
    let mut told = String::new();
    loop {
        let problem = match cluster_info(&client).await {
            Ok(info) if signature_of(&info, &token.id).is_some() => {
                let text = verify(&info, token)?;
                let authority = authority_in(text)?;
                return confirm(server, &info, authority, trust).await;
            }
            Ok(_) => format!("it is not signed with the token {}; is that token still good?", token.id),
            Err(status) => status.to_string(),
        };
        if Instant::now() + RETRY >= deadline {
            bail!("cluster-info of {server} could not be had in time: {problem}");
        }
        if problem != told {
            console.note(format!("[discovery] waiting for cluster-info of {server}: {problem}"));
            told = problem;
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// With pins, the CA must be the one that is expected, and the server must prove that it is certified by it.
async fn confirm(server: &str, info: &Object, authority: Vec<u8>, trust: &Trust) -> anyhow::Result<Discovered> {
    let discovered = Discovered { authority };
    if let Trust::Pins(pins) = trust {
        let found = crate::token::key_pins(&discovered.authority)?;
        if !found.iter().any(|found| pins.iter().any(|pin| pin.eq_ignore_ascii_case(found))) {
            bail!("cluster CA found in cluster-info ConfigMap is invalid: none of its public keys {found:?} is pinned");
        }
        let sure = ClusterClient::connect(Endpoint::Remote(discovered.remote(server)))?;
        let again = cluster_info(&sure).await.context("the server does not prove to be who cluster-info says")?;
        if again.str_at(&["data", "kubeconfig"]) != info.str_at(&["data", "kubeconfig"]) {
            bail!("the second cluster-info ConfigMap, read with the CA of the first, is another");
        }
    }
    Ok(discovered)
}

async fn cluster_info(client: &ClusterClient) -> Result<std::sync::Arc<Object>, Status> {
    let gvr = GroupVersionResource::new("", "v1", "configmaps");
    client.get(ResourceRef::namespaced(&gvr, "kube-public", "cluster-info")).await
}

fn signature_of<'a>(info: &'a Object, id: &str) -> Option<&'a str> {
    info.get(&["data", &format!("jws-kubeconfig-{id}")]).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The kubeconfig in cluster-info, once its detached signature holds.
fn verify<'a>(info: &'a Object, token: &Token) -> anyhow::Result<&'a str> {
    let text = info.str_at(&["data", "kubeconfig"]);
    let bad = || anyhow!("the signature of cluster-info is not made with this token");
    let (header, rest) = signature_of(info, &token.id).and_then(|text| text.split_once('.')).ok_or_else(bad)?;
    let signature = rest.strip_prefix('.').ok_or_else(bad)?;
    let decoded = URL_SAFE_NO_PAD.decode(header).map_err(|_| bad())?;
    let decoded: Value = serde_json::from_slice(&decoded).map_err(|_| bad())?;
    // A header that could choose another method could choose none.
    if decoded["alg"] != "HS256" || decoded["kid"] != token.id.as_str() {
        return Err(bad());
    }
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| bad())?;
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, token.secret.as_bytes());
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(text));
    ring::hmac::verify(&key, signed.as_bytes(), &signature).map_err(|_| bad())?;
    Ok(text)
}

/// The CA of the one cluster a kubeconfig describes.
fn authority_in(kubeconfig: &str) -> anyhow::Result<Vec<u8>> {
    let config: Value = serde_saphyr::from_str(kubeconfig).context("cluster-info holds no kubeconfig")?;
    let clusters = config["clusters"].as_array().map(Vec::as_slice).unwrap_or_default();
    let [only] = clusters else {
        bail!(
            "expected the kubeconfig file in the cluster-info ConfigMap to have a single cluster, but it had {}",
            clusters.len()
        );
    };
    let data = only["cluster"]["certificate-authority-data"].as_str().unwrap_or_default();
    let authority = STANDARD.decode(data).context("the CA in cluster-info is not base64")?;
    if authority.is_empty() {
        bail!("cluster-info has no CA");
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
    fn check(info: &Object, is_believed: bool) {
        let token = Token::parse(&format!("abcdef.{SECRET}")).expect("a token");
        assert_eq!(verify(info, &token).is_ok(), is_believed, "{info:?}");
    }

    #[test]
    fn cluster_info_is_believed_only_when_signed_with_the_token() {
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
    fn tokens_have_an_id_of_six_and_a_secret_of_sixteen() {
        for text in ["abcdef", "abcde.0123456789abcdef", "abcdef.0123456789ABCDEF", "abcdef.0123456789abcdef0", ""] {
            assert!(Token::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn cluster_info_describes_one_cluster() {
        assert_eq!(authority_in(CONFIG).expect("a CA"), b"CA");
        for text in ["clusters: []", "a: b", "clusters: [{cluster: {}}]", "clusters: [{}, {}]"] {
            assert!(authority_in(text).is_err(), "{text}");
        }
    }
}
