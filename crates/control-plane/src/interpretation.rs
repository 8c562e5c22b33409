//! Keeps the interpreter current with the customizations there are, and makes the calls of webhook interpreters.

use std::sync::{Arc, Weak};
use std::time::Duration;

use api::config::{INTERPRETER_CUSTOMIZATIONS, INTERPRETER_WEBHOOKS};
use apiserver::outgoing::{Destination, post_json};
use apiserver::server::Server;
use async_trait::async_trait;
use cluster_client::ClusterClient;
use interpreter::{Interpreter, Shared, WebhookCall, WebhookCaller};
use reconcile::{Mirror, MirrorSpec};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// How long a webhook without a limit of its own may take: nobody waits for ever.
const CALL_TIME_MAX: Duration = Duration::from_secs(30);

/// Reads all customizations, and goes on reading them as they change until cancelled.
pub async fn start(client: ClusterClient, server: &Arc<Server>, cancel: CancellationToken) -> Shared {
    let caller: Arc<dyn WebhookCaller> = Arc::new(Webhooks { server: Arc::downgrade(server) });
    let mirror =
        |resource: api::Resource| Mirror::start(client.clone(), MirrorSpec::new(&resource.gvr()), cancel.clone());
    let (customizations, webhooks) = (mirror(INTERPRETER_CUSTOMIZATIONS), mirror(INTERPRETER_WEBHOOKS));
    tokio::select! {
        () = cancel.cancelled() => {}
        () = async { customizations.synced().await; webhooks.synced().await } => {}
    }
    let read = move |customizations: &Mirror, webhooks: &Mirror| {
        Interpreter::new(&customizations.list(), &webhooks.list(), Arc::clone(&caller))
    };
    let shared = Shared::new(read(&customizations, &webhooks));
    let kept = shared.clone();
    tokio::spawn(async move {
        let (mut of_customizations, mut of_webhooks) = (customizations.subscribe(), webhooks.subscribe());
        loop {
            let change = tokio::select! {
                () = cancel.cancelled() => return,
                change = of_customizations.next() => change,
                change = of_webhooks.next() => change,
            };
            match change {
                Some(change) if change.is_initial => {}
                Some(_) => kept.replace(read(&customizations, &webhooks)),
                None => return,
            }
        }
    });
    shared
}

/// Calls through the server's own way out, which knows services and trust.
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
