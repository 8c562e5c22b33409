//! Ends responses and upgraded connections when their caller loses the right to them.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use apiserver::respond::Body;
use cluster_client::ClusterClient;
use futures::StreamExt;
use object::builtin;
use reconcile::{Mirror, MirrorSpec};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::access::Rights;
use crate::bootstrap::CREDENTIAL_NAMESPACE;

/// Interval of checks without a change, for credentials and bindings that expire.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Reports changes of rights and credentials to open responses.
#[derive(Clone)]
pub struct Revocations {
    changes: watch::Receiver<u64>,
}

/// Returns false when the caller may not read on.
pub type StillAllowed = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = bool> + Send>> + Send + Sync>;

/// Completes when the caller of a connection may not use it any longer.
pub type SessionEnd = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Revocations {
    pub fn start(rights: &Rights, client: &ClusterClient, cancel: &CancellationToken) -> Self {
        let secrets = builtin::secrets();
        let credentials =
            Mirror::start(client.clone(), MirrorSpec::new(&secrets).within(CREDENTIAL_NAMESPACE), cancel.clone());
        let (sender, changes) = watch::channel(0);
        let (rights, cancel) = (rights.clone(), cancel.clone());
        tokio::spawn(async move {
            let mut followers = rights.followers();
            followers.push(credentials.subscribe());
            loop {
                let changed = futures::future::select_all(followers.iter_mut().map(|one| Box::pin(one.next())));
                tokio::select! {
                    () = cancel.cancelled() => return,
                    _ = changed => sender.send_modify(|count| *count += 1),
                }
            }
        });
        Self { changes }
    }

    /// Returns a body that ends when `is_allowed` returns false after a change.
    pub fn guard(&self, body: Body, is_allowed: StillAllowed) -> Body {
        match body {
            Body::Stream(stream) => Body::stream(stream.take_until(self.lost(is_allowed))),
            Body::Frames(frames) => Body::Frames(Box::pin(frames.take_until(self.lost(is_allowed)))),
            // Other bodies are complete before they are sent.
            body => body,
        }
    }

    /// Completes when `is_allowed` returns false after a change.
    pub fn lost(&self, is_allowed: StillAllowed) -> SessionEnd {
        let mut changes = self.changes.clone();
        changes.mark_unchanged();
        Box::pin(async move {
            loop {
                if let Ok(Err(_)) = tokio::time::timeout(CHECK_INTERVAL, changes.changed()).await {
                    return;
                }
                if !is_allowed().await {
                    return;
                }
            }
        })
    }
}
