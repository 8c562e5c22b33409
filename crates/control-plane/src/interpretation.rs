//! Calls the webhooks of resource interpreters from the control plane.

use std::sync::{Arc, Weak};
use std::time::Duration;

use apiserver::outgoing::{Destination, post_json};
use apiserver::server::Server;
use async_trait::async_trait;
use cluster_client::ClusterClient;
use interpreter::{Shared, WebhookCall, WebhookCaller};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Timeout of a webhook that sets none.
const CALL_TIME_MAX: Duration = Duration::from_secs(30);

/// Reads all customizations and follows their changes until cancelled.
pub async fn start(client: ClusterClient, server: &Arc<Server>, cancel: CancellationToken) -> Shared {
    let caller: Arc<dyn WebhookCaller> = Arc::new(Webhooks { server: Arc::downgrade(server) });
    member_sync::interpretation::follow(client, caller, cancel).await
}

/// Calls through the API server's outgoing connections, which resolve services and CAs.
struct Webhooks {
    server: Weak<Server>,
}

#[async_trait]
impl WebhookCaller for Webhooks {
    async fn call(&self, call: WebhookCall) -> Result<Value, String> {
        let server = self.server.upgrade().ok_or("the control plane is stopping")?;
        let found = Destination::of_client_config(&server, &call.client_config).await;
        let mut destination = found.map_err(|error| error.to_string())?;
        let limit = match call.timeout_seconds {
            Some(seconds) if seconds > 0 => {
                destination.path.push(if destination.path.contains('?') { '&' } else { '?' });
                destination.path.push_str(&format!("timeout={seconds}s"));
                Duration::from_secs(seconds.unsigned_abs().into())
            }
            _ => CALL_TIME_MAX,
        };
        post_json(&destination, &call.body, limit).await.map_err(|error| error.to_string())
    }
}
