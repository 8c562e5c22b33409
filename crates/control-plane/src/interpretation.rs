//! Calls the webhooks of resource interpreters from the control plane.

use std::sync::{Arc, Weak};

use api::features::Features;
use apiserver::outgoing::{Destination, post_json};
use apiserver::server::Server;
use async_trait::async_trait;
use cluster_client::ClusterClient;
use interpreter_runtime::{SharedInterpreter, WebhookCall, WebhookCaller};
use reconcile::SystemClock;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Reads all customizations and follows their changes until cancelled.
pub async fn start(
    client: ClusterClient,
    server: &Arc<Server>,
    features: Arc<Features>,
    cancel: CancellationToken,
) -> SharedInterpreter {
    let caller: Arc<dyn WebhookCaller> = Arc::new(Webhooks { server: Arc::downgrade(server) });
    member_sync::interpretation::follow(client, caller, features, Arc::new(SystemClock), cancel).await
}

/// Calls through the API server's outgoing connections, which resolve services and CAs.
struct Webhooks {
    server: Weak<Server>,
}

#[async_trait]
impl WebhookCaller for Webhooks {
    async fn call(&self, call: WebhookCall) -> Result<Value, String> {
        let server = self.server.upgrade().ok_or("the control plane is stopping")?;
        let found = Destination::of_client_config(server.resources(), &call.client_config).await;
        let mut destination = found.map_err(|error| error.to_string())?;
        destination.path = call.with_timeout(destination.path);
        post_json(&destination, &call.body, call.deadline).await.map_err(|error| error.to_string())
    }
}
