//! Deletes bootstrap tokens that have expired.

use std::sync::Arc;
use std::time::Duration;

use cluster_client::{ClusterClient, DeleteOptions, Preconditions};
use reconcile::{Clock, Controller, Mirror, ObjectKey, Outcome, ReconcileError, Source};
use tokio_util::sync::CancellationToken;

use super::token;

/// The clock may be changed; check at least this often.
const WAIT_MAX: Duration = Duration::from_secs(3600);

pub async fn run(client: ClusterClient, tokens: Mirror, clock: Arc<dyn Clock>, cancel: CancellationToken) {
    let sources = vec![Source::each(&tokens)];
    let reconcile = move |key: ObjectKey| reconcile(client.clone(), tokens.clone(), Arc::clone(&clock), key);
    Controller::new("token-cleaner").run(sources, 1, cancel, reconcile).await;
}

async fn reconcile(
    client: ClusterClient,
    tokens: Mirror,
    clock: Arc<dyn Clock>,
    key: ObjectKey,
) -> Result<Outcome, ReconcileError> {
    let Some(secret) = tokens.get(&key) else { return Ok(Outcome::Done) };
    let Some(end) = token::expiration(&secret) else { return Ok(Outcome::Done) };
    let left = end.duration_since(clock.now());
    if left.is_positive() {
        return Ok(Outcome::After(left.unsigned_abs().min(WAIT_MAX)));
    }
    let preconditions = Preconditions { uid: Some(secret.uid().to_owned()), resource_version: None };
    let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
    match client.delete(tokens.target(&key), options).await {
        Err(status) if !status.is_not_found() => Err(status.into()),
        _ => Ok(Outcome::Done),
    }
}
