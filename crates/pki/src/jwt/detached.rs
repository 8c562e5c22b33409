//! The signature on `kube-public/cluster-info`: HS256 with a bootstrap token and a detached payload.

use ring::hmac;
use serde_json::json;

use crate::jwt::base64url;
use crate::token::{Secret, constant_time_eq};

/// `header..signature` over the content, in the format `kubeadm join` expects under `jws-kubeconfig-<token id>`.
pub fn detached_signature(content: &[u8], token_id: &str, token_secret: &Secret) -> String {
    let header = base64url(json!({ "alg": "HS256", "kid": token_id }).to_string());
    let message = format!("{header}.{}", base64url(content));
    let key = hmac::Key::new(hmac::HMAC_SHA256, token_secret.expose().as_bytes());
    let signature = hmac::sign(&key, message.as_bytes());
    format!("{header}..{}", base64url(signature))
}

pub fn detached_is_valid(detached: &str, content: &[u8], token_id: &str, token_secret: &Secret) -> bool {
    let expected = detached_signature(content, token_id, token_secret);
    constant_time_eq(expected.as_bytes(), detached.as_bytes())
}
