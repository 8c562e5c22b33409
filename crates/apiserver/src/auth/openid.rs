//! OpenID documents with which other servers verify this server's ServiceAccount tokens.

use http::{HeaderValue, Response, header};
use object::Status;
use pki::jwt::jwks;
use serde_json::json;

use super::service_account::ServiceAccounts;
use crate::respond::{self, Body};

pub fn document(accounts: &ServiceAccounts, path: &str) -> Result<Response<Body>, Status> {
    let mut response = match path {
        "/.well-known/openid-configuration" => {
            let mut algorithms: Vec<_> = accounts.keys().iter().filter_map(|key| key.algorithm).collect();
            algorithms.sort_unstable_by_key(|algorithm| algorithm.name());
            algorithms.dedup();
            let algorithms: Vec<&str> = algorithms.into_iter().map(|algorithm| algorithm.name()).collect();
            respond::value(
                200,
                &json!({
                    "issuer": accounts.issuer(),
                    "jwks_uri": accounts.jwks_uri(),
                    "response_types_supported": ["id_token"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": algorithms,
                }),
            )
        }
        "/openid/v1/jwks" => {
            let keys = jwks::publish(accounts.keys()).map_err(Status::internal)?;
            respond::text(200, "application/jwk-set+json", keys.to_string())
        }
        _ => return Err(Status::resource_not_served()),
    };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    Ok(response)
}
