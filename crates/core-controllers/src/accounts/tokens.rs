//! Fills secrets of type `kubernetes.io/service-account-token`, and deletes them when their account is gone.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, DeleteOptions, Preconditions, ResourceRef, WriteOptions};
use object::Object;
use object::builtin;
use reconcile::{Controller, Mirror, MirrorSpec, ObjectKey, Outcome, ReconcileError, Source};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::resources::target;
use crate::start::SignToken;

const SECRET_TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

struct TokenController {
    client: ClusterClient,
    ca_pem: String,
    sign: SignToken,
}

pub async fn run(client: ClusterClient, ca_pem: String, sign: SignToken, cancel: CancellationToken) {
    let spec =
        MirrorSpec { field_selector: Some(format!("type={SECRET_TYPE}")), ..MirrorSpec::new(&builtin::secrets()) };
    let secrets = Mirror::start(client.clone(), spec, cancel.clone());
    let accounts = Mirror::start(client.clone(), MirrorSpec::new(&builtin::service_accounts()), cancel.clone());
    let of_account = secrets.index(by_account);
    let sources = vec![Source::each(&secrets), Source::new(&accounts, move |change| of_account.keys(&change.key))];
    let tokens = Arc::new(TokenController { client, ca_pem, sign });
    let reconcile = move |key: ObjectKey| reconcile(Arc::clone(&tokens), key);
    Controller::new("serviceaccount-token").run(sources, 2, cancel, reconcile).await;
}

fn by_account(secret: &Object) -> Vec<ObjectKey> {
    let name = secret.annotation(ACCOUNT_NAME).unwrap_or_default();
    vec![ObjectKey::new(secret.namespace(), name)]
}

async fn reconcile(tokens: Arc<TokenController>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let place = target(&builtin::secrets(), &key);
    let Some(secret) = tokens.client.find(place.clone()).await? else { return Ok(Outcome::Done) };
    let name = secret.annotation(ACCOUNT_NAME).unwrap_or_default();
    if secret.str_at(&["type"]) != SECRET_TYPE || secret.is_deleting() || name.is_empty() {
        return Ok(Outcome::Done);
    }
    let account =
        tokens.client.find(ResourceRef::namespaced(&builtin::service_accounts(), &key.namespace, name)).await?;
    let written = match plan(&secret, account.as_deref(), &tokens.ca_pem) {
        TokenPlan::Keep => return Ok(Outcome::Done),
        TokenPlan::Delete => {
            let preconditions = Preconditions { uid: Some(secret.uid().to_owned()), resource_version: None };
            tokens.client.delete(place, DeleteOptions { preconditions, ..DeleteOptions::default() }).await
        }
        TokenPlan::Fill { mut secret, claims } => {
            if let Some(claims) = claims {
                let token = (tokens.sign)(&claims).map_err(ReconcileError::Other)?;
                secret.set(&["data", "token"], STANDARD.encode(token));
            }
            tokens.client.update(place, secret, WriteOptions::default()).await
        }
    };
    match written {
        Err(status) if !status.is_not_found() => Err(status.into()),
        _ => Ok(Outcome::Done),
    }
}

#[derive(Debug, PartialEq)]
enum TokenPlan {
    Keep,
    Delete,
    /// Holds the claims if a token must be issued.
    Fill {
        secret: Object,
        claims: Option<Map<String, Value>>,
    },
}

fn plan(secret: &Object, account: Option<&Object>, ca_pem: &str) -> TokenPlan {
    let stated = secret.annotation(ACCOUNT_UID).unwrap_or_default();
    let Some(account) = account.filter(|account| stated.is_empty() || account.uid() == stated) else {
        return TokenPlan::Delete;
    };
    let mut filled = secret.clone();
    filled.set_annotation(ACCOUNT_UID, account.uid());
    filled.set(&["data", "ca.crt"], STANDARD.encode(ca_pem));
    filled.set(&["data", "namespace"], STANDARD.encode(secret.namespace()));
    let claims = secret.str_at(&["data", "token"]).is_empty().then(|| claims(secret, account));
    if claims.is_none() && filled == *secret {
        return TokenPlan::Keep;
    }
    TokenPlan::Fill { secret: filled, claims }
}

/// Returns the claims of a token without expiration, valid as long as its secret exists.
fn claims(secret: &Object, account: &Object) -> Map<String, Value> {
    let (namespace, name) = (secret.namespace(), account.name());
    let claims = json!({
        "iss": LEGACY_ISSUER,
        "sub": format!("system:serviceaccount:{namespace}:{name}"),
        "kubernetes.io/serviceaccount/namespace": namespace,
        "kubernetes.io/serviceaccount/secret.name": secret.name(),
        "kubernetes.io/serviceaccount/service-account.name": name,
        "kubernetes.io/serviceaccount/service-account.uid": account.uid(),
    });
    claims.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Object {
        Object::from_value(value).expect("a map")
    }

    #[test]
    fn a_secret_follows_its_account() {
        let account = object(json!({"metadata": {"name": "robot", "namespace": "a", "uid": "1"}}));
        let asked =
            object(json!({"metadata": {"name": "s", "namespace": "a", "annotations": {ACCOUNT_NAME: "robot"}}}));
        let TokenPlan::Fill { secret: mut filled, claims: Some(claims) } = plan(&asked, Some(&account), "PEM") else {
            panic!("an empty secret is filled")
        };
        assert_eq!(claims["sub"], "system:serviceaccount:a:robot");
        assert_eq!(filled.annotation(ACCOUNT_UID), Some("1"));
        filled.set(&["data", "token"], "dG9rZW4=");
        assert_eq!(plan(&filled, Some(&account), "PEM"), TokenPlan::Keep);
        assert_eq!(plan(&filled, None, "PEM"), TokenPlan::Delete);
        let reborn = object(json!({"metadata": {"name": "robot", "namespace": "a", "uid": "2"}}));
        assert_eq!(plan(&filled, Some(&reborn), "PEM"), TokenPlan::Delete);
    }
}
