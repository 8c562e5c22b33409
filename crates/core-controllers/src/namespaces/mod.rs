//! Deletes the content of terminating namespaces, then finalizes them. Writes their conditions and `spec.finalizers`.

mod aggregated;
mod conditions;
mod content;

use std::sync::Arc;
use std::time::Duration;

use cluster_client::{ClusterClient, ResourceRef, WriteOptions};
use jiff::Timestamp;
use object::builtin;
use object::request::Subresource;
use object::{Object, time};
use reconcile::{Clock, Controller, Mirror, Outcome, ReconcileError, Source};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The finalizer this controller owns.
const FINALIZER: &str = "kubernetes";
const WORKERS: usize = 4;
/// Minimum and maximum interval for checking a namespace whose content waits for finalizers.
const WAIT_MIN: Duration = Duration::from_millis(50);
const WAIT_MAX: Duration = Duration::from_secs(15);

pub async fn run(client: ClusterClient, namespaces: Mirror, clock: Arc<dyn Clock>, cancel: CancellationToken) {
    let sources = vec![Source::new(&namespaces, |change| {
        let is_leaving = change.now.as_ref().is_some_and(|namespace| namespace.is_deleting());
        if is_leaving { vec![change.key.name.clone()] } else { Vec::new() }
    })];
    let reconcile = move |name| reconcile(client.clone(), Arc::clone(&clock), name);
    Controller::<String>::new("namespace").run(sources, WORKERS, cancel, reconcile).await;
}

async fn reconcile(client: ClusterClient, clock: Arc<dyn Clock>, name: String) -> Result<Outcome, ReconcileError> {
    let target = ResourceRef::cluster(&builtin::namespaces(), &name);
    let Some(namespace) = client.find(target.clone()).await? else { return Ok(Outcome::Done) };
    if !namespace.is_deleting() || !is_ours(&namespace) {
        return Ok(Outcome::Done);
    }
    let left = content::remove(&client, &name).await;
    let now = clock.now();
    let mut namespace = Object::clone(&namespace);
    if conditions::set(&mut namespace, &left, now) {
        let written = client.update_status(target.clone(), namespace.clone(), WriteOptions::default()).await;
        match written {
            Ok(written) => namespace = Object::clone(&written),
            Err(status) if status.is_not_found() => return Ok(Outcome::Done),
            Err(status) => return Err(status.into()),
        }
    }
    if !left.is_nothing() {
        return Ok(Outcome::After(pick_wait(namespace.deletion_timestamp(), now)));
    }
    let kept: Vec<Value> =
        namespace.items(&["spec", "finalizers"]).iter().filter(|f| f.as_str() != Some(FINALIZER)).cloned().collect();
    namespace.set(&["spec", "finalizers"], kept);
    match client.update(target.subresource(Subresource::Finalize), namespace, WriteOptions::default()).await {
        Err(status) if !status.is_not_found() => Err(status.into()),
        _ => Ok(Outcome::Done),
    }
}

fn is_ours(namespace: &Object) -> bool {
    namespace.items(&["spec", "finalizers"]).iter().any(|f| f.as_str() == Some(FINALIZER))
}

/// The interval grows with the age of the deletion.
fn pick_wait(deleted_at: Option<&str>, now: Timestamp) -> Duration {
    let since = deleted_at.and_then(time::parse).map(|at| now.duration_since(at).unsigned_abs());
    since.map_or(WAIT_MIN, |since| (since / 4).clamp(WAIT_MIN, WAIT_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(now: &str, expected_ms: u128) {
        let wait = pick_wait(Some("2026-01-01T00:00:00Z"), now.parse().expect("a time"));
        assert_eq!(wait.as_millis(), expected_ms, "{now}");
    }

    #[test]
    fn the_check_interval_grows_with_the_waiting_time() {
        check("2026-01-01T00:00:00Z", 50);
        check("2026-01-01T00:00:02Z", 500);
        check("2026-01-01T01:00:00Z", 15_000);
    }
}
