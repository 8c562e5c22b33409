//! The state of encryption at rest over HTTP: providers, stored values by provider, rewriting; and a request to rewrite.

use std::sync::Arc;

use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::health::HealthCheck;
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use apiserver::storage::status_of_store;
use async_trait::async_trait;
use encryption::Encryption;
use encryption::rewrite::Rewriter;
use http::{Method, Response};
use object::Status;
use serde_json::json;

/// GET reports the state, POST starts rewriting.
pub const PATH: &str = "/flotilla/v1alpha1/encryption";

/// Serves [`PATH`] to callers with rights to it.
pub(crate) struct AtRestState {
    /// `None` if values are stored as they are.
    pub sealing: Option<(Arc<Encryption>, Arc<Rewriter>)>,
}

#[async_trait]
impl Extension for AtRestState {
    fn handles(&self, path: &str) -> bool {
        path == PATH
    }

    async fn serve(&self, _: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        let Some((encryption, rewriter)) = &self.sealing else {
            return Ok(respond::value(200, &json!({"enabled": false})));
        };
        match request.incoming.method {
            Method::GET => {}
            Method::POST => {
                // A key that a KMS has rotated is known before values are compared with it.
                encryption.check_plugins().await.map_err(Status::unavailable)?;
                rewriter.request();
                tracing::info!(user = request.user.name, "rewriting of stored values was requested");
            }
            _ => return Err(Status::new(405, "MethodNotAllowed", "read the state with GET, rewrite with POST")),
        }
        let providers = encryption.providers().into_iter();
        let resources: Vec<_> = providers
            .map(|(resource, provider)| json!({"resource": resource, "provider": provider.to_string()}))
            .collect();
        let state = json!({
            "enabled": true,
            "resources": resources,
            "values": rewriter.survey().await.map_err(status_of_store)?,
            "rewriting": rewriter.progress(),
            "kms": encryption.health().map(|health| health.err().unwrap_or_else(|| "ok".to_owned())),
        });
        Ok(respond::value(200, &state))
    }
}

/// The readiness check of KMS plugins, under its name in kube-apiserver.
pub(crate) struct KmsHealth(pub Arc<Encryption>);

impl HealthCheck for KmsHealth {
    fn name(&self) -> &'static str {
        "kms-providers"
    }

    fn check(&self) -> Option<Result<(), String>> {
        self.0.health()
    }
}
