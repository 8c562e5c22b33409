//! Parses bootstrap token secrets.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use object::{Object, time};
use pki::token::Secret;

/// Returns a value of the secret as text.
pub fn text(secret: &Object, key: &str) -> String {
    let bytes = STANDARD.decode(secret.str_at(&["data", key])).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

/// Returns the expiration, or `None` if there is none. An unparsable expiration counts as expired.
pub fn expiration(secret: &Object) -> Option<Timestamp> {
    let stated = text(secret, "expiration");
    (!stated.is_empty()).then(|| time::parse(&stated).unwrap_or(Timestamp::MIN))
}

/// Returns the id and secret of a token that may sign now.
pub fn signing(secret: &Object, now: Timestamp) -> Option<(String, Secret)> {
    let id = text(secret, "token-id");
    let is_named_after_id = secret.name() == format!("bootstrap-token-{id}") && !id.is_empty();
    let key = text(secret, "token-secret");
    let is_over = expiration(secret).is_some_and(|end| end <= now);
    let may_sign = text(secret, "usage-bootstrap-signing") == "true";
    (is_named_after_id && !key.is_empty() && !is_over && may_sign && !secret.is_deleting())
        .then(|| (id, Secret::new(key)))
}
