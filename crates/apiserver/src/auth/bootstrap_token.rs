//! Bootstrap tokens: secrets in `kube-system` with which a new machine requests its first certificate.

use jiff::Timestamp;
use object::Object;
use object::request::User;
use pki::token::{BootstrapToken, constant_time_eq};

use super::find_core;
use super::service_account::secret_data;
use crate::resources::Resources;

const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const DEFAULT_GROUP: &str = "system:bootstrappers";

/// The user the token stands for, `None` when there is no such token or it is not (or no longer) for authentication.
pub async fn user(resources: Resources<'_>, token: &BootstrapToken) -> Result<Option<User>, String> {
    let name = format!("bootstrap-token-{}", token.id);
    let found = find_core(resources, "secrets", "kube-system", &name).await.map_err(|status| status.message)?;
    Ok(found.and_then(|secret| user_of(&secret, token, Timestamp::now())))
}

fn user_of(secret: &Object, token: &BootstrapToken, now: Timestamp) -> Option<User> {
    let text = |key: &str| String::from_utf8(secret_data(secret, key)).unwrap_or_default();
    let stored = secret_data(secret, "token-secret");
    let same = !stored.is_empty() && constant_time_eq(&stored, token.secret.expose().as_bytes());
    let usable = same
        && !secret.is_deleting()
        && secret.str_at(&["type"]) == SECRET_TYPE
        && text("token-id") == token.id
        && !expired(&text("expiration"), now)
        && text("usage-bootstrap-authentication") == "true";
    if !usable {
        return None;
    }
    let mut groups = vec![DEFAULT_GROUP.to_owned()];
    for group in text("auth-extra-groups").split(',').map(str::trim).filter(|group| !group.is_empty()) {
        if !is_bootstrap_group(group) {
            return None;
        }
        groups.push(group.to_owned());
    }
    groups.sort();
    groups.dedup();
    Some(User { name: format!("system:bootstrap:{}", token.id), groups, ..User::default() })
}

/// A time that cannot be read counts as past: a typo must not make a token valid without end.
fn expired(expiration: &str, now: Timestamp) -> bool {
    !expiration.is_empty() && expiration.parse::<Timestamp>().map_or(true, |at| at < now)
}

/// `system:bootstrappers:` and up to 256 characters of a-z, 0-9, `:` and `-`, not ending in a mark.
fn is_bootstrap_group(group: &str) -> bool {
    let Some(rest) = group.strip_prefix("system:bootstrappers:") else { return false };
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    rest.len() <= 256
        && rest.bytes().last().is_some_and(is_word)
        && rest.bytes().all(|byte| is_word(byte) || matches!(byte, b':' | b'-'))
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_bootstrap_token_is_valid_only_as_its_secret_states() {
        let good = json!({"token-id": "abcdef", "token-secret": "0123456789abcdef",
            "usage-bootstrap-authentication": "true"});
        let cases = [
            (json!({}), Some("system:bootstrappers")),
            (json!({"expiration": "2999-01-01T00:00:00Z"}), Some("system:bootstrappers")),
            (json!({"expiration": "2001-01-01T00:00:00Z"}), None),
            (json!({"expiration": "tomorrow"}), None),
            (json!({"token-secret": "0123456789abcdeX"}), None),
            (json!({"token-id": "other1"}), None),
            (json!({"usage-bootstrap-authentication": "True"}), None),
            (
                json!({"auth-extra-groups": "system:bootstrappers:b,system:bootstrappers:a"}),
                Some("system:bootstrappers system:bootstrappers:a system:bootstrappers:b"),
            ),
            (json!({"auth-extra-groups": "system:masters"}), None),
        ];
        let token = BootstrapToken::parse("abcdef.0123456789abcdef").expect("well formed");
        for (change, expected) in cases {
            let mut data = good.clone();
            for (key, value) in change.as_object().expect("a map") {
                data[key] = value.clone();
            }
            let encode = |value: &Value| {
                Value::from(base64::engine::general_purpose::STANDARD.encode(value.as_str().expect("text")))
            };
            let data: serde_json::Map<_, _> =
                data.as_object().expect("a map").iter().map(|(k, v)| (k.clone(), encode(v))).collect();
            let secret = Object::from_value(json!({"type": SECRET_TYPE, "metadata": {}, "data": data})).expect("a map");
            let user = user_of(&secret, &token, Timestamp::now());
            assert_eq!(user.map(|u| u.groups.join(" ")).as_deref(), expected, "{change}");
        }
    }
}
