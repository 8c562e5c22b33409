//! Keeps the interpreter current with the customizations of the control plane, wherever it is asked from.

use std::sync::Arc;

use api::config::{INTERPRETER_CUSTOMIZATIONS, INTERPRETER_WEBHOOKS};
use cluster_client::ClusterClient;
use interpreter::{Interpreter, Shared, WebhookCaller};
use reconcile::{Mirror, MirrorSpec};
use tokio_util::sync::CancellationToken;

/// Reads all customizations, and goes on reading them as they change until cancelled.
pub async fn follow(plane: ClusterClient, caller: Arc<dyn WebhookCaller>, cancel: CancellationToken) -> Shared {
    let mirror =
        |resource: api::Resource| Mirror::start(plane.clone(), MirrorSpec::new(&resource.gvr()), cancel.clone());
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
