//! Asks running planes whether they are ready.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster_client::ClusterClient;
use manager_kinds::annotations::Mode;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::running::{Health, RunningInstance};

pub const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Changes of an object bring its key back at any rate; failures are counted per time.
const PROBE_GAP: Duration = Duration::from_secs(2);

/// Check of a plane that fails when its storage has reached its size limit.
const STORAGE_CHECK: &str = "/readyz/storage-quota";

/// The result of one probe.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Probed {
    Ready,
    /// It answers and refuses writes that need space.
    Full(String),
    Failed(String),
    Unanswered,
}

/// Asks a plane whether it is ready, unless it was asked a moment ago. Returns at the timeout at the latest, even if the plane
/// blocks the thread that runs its code.
pub async fn probe(running: &RunningInstance) {
    if !begin(&running.health, Instant::now()) {
        return;
    }
    let (admin, health) = (running.admin.clone(), Arc::clone(&running.health));
    let is_imported = running.mode == Mode::Imported;
    let asked = tokio::spawn(async move {
        let answer = match ask(&admin).await {
            Probed::Ready if !is_imported => ask_for_space(&admin).await,
            answer => answer,
        };
        health.lock().is_probing = false;
        answer
    });
    let probed = match tokio::time::timeout(PROBE_TIMEOUT, asked).await {
        Ok(Ok(probed)) => probed,
        Ok(Err(error)) => {
            running.health.lock().is_probing = false;
            Probed::Failed(format!("the probe failed: {error}"))
        }
        Err(_) => Probed::Unanswered,
    };
    note(&mut running.health.lock(), probed);
}

/// Returns true if a probe is due. A probe that has not ended yet counts as another one without an answer: each would block
/// one more thread.
fn begin(health: &Mutex<Health>, now: Instant) -> bool {
    let mut health = health.lock();
    if health.probed_at.is_some_and(|at| now.duration_since(at) < PROBE_GAP) {
        return false;
    }
    health.probed_at = Some(now);
    if health.is_probing {
        note(&mut health, Probed::Unanswered);
        return false;
    }
    health.is_probing = true;
    true
}

fn note(health: &mut Health, probed: Probed) {
    let mut answered = |full_storage| {
        (health.failures, health.unanswered) = (0, 0);
        health.message.clear();
        health.full_storage = full_storage;
    };
    let (message, is_unanswered) = match probed {
        Probed::Ready => return answered(None),
        Probed::Full(problem) => return answered(Some(problem)),
        Probed::Failed(message) => (message, false),
        Probed::Unanswered => (format!("/readyz did not answer within {PROBE_TIMEOUT:?}"), true),
    };
    health.failures += 1;
    health.unanswered = if is_unanswered { health.unanswered + 1 } else { 0 };
    health.message = message;
}

async fn ask(admin: &ClusterClient) -> Probed {
    let Ok(request) = http::Request::get("/readyz").body(Bytes::new()) else {
        return Probed::Failed("/readyz is not a path".to_owned());
    };
    match admin.raw(request).await {
        Ok(answer) if answer.status().is_success() => Probed::Ready,
        Ok(answer) => Probed::Failed(format!("/readyz answered {}", answer.status())),
        Err(status) => Probed::Failed(status.to_string()),
    }
}

/// Asks a plane that is ready whether its storage has space.
async fn ask_for_space(admin: &ClusterClient) -> Probed {
    let Ok(request) = http::Request::get(STORAGE_CHECK).body(Bytes::new()) else { return Probed::Ready };
    match admin.raw(request).await {
        Ok(answer) if answer.status() == http::StatusCode::INTERNAL_SERVER_ERROR => {
            Probed::Full(String::from_utf8_lossy(answer.body()).trim().to_owned())
        }
        _ => Probed::Ready,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_until_an_answer() {
        let mut health = Health::default();
        note(&mut health, Probed::Unanswered);
        note(&mut health, Probed::Unanswered);
        assert_eq!((health.failures, health.unanswered), (2, 2));
        note(&mut health, Probed::Failed("500".into()));
        assert_eq!((health.failures, health.unanswered, health.message.as_str()), (3, 0, "500"));
        note(&mut health, Probed::Full("full".into()));
        assert_eq!((health.failures, health.full_storage.as_deref()), (0, Some("full")));
        note(&mut health, Probed::Ready);
        assert_eq!((health.failures, health.unanswered, health.message.as_str()), (0, 0, ""));
        assert_eq!(health.full_storage, None);
    }

    #[test]
    fn a_probe_that_hangs_is_counted_without_another_one() {
        let (health, now) = (Mutex::new(Health::default()), Instant::now());
        assert!(begin(&health, now));
        assert!(!begin(&health, now), "asked a moment ago");
        assert_eq!(health.lock().failures, 0);
        assert!(!begin(&health, now + PROBE_GAP), "the first one has not ended");
        let counted = health.lock().clone();
        assert_eq!((counted.failures, counted.unanswered), (1, 1));
        health.lock().is_probing = false;
        assert!(begin(&health, now + PROBE_GAP * 2));
    }
}
