//! In-memory state of each pod between reconciles: operations in progress, failures, backoffs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::observed::ObservedContainer;
use crate::status::WaitingReason;
use crate::volumes::Mounted;

/// Initial backoff; the first retry is immediate, then it doubles.
pub(crate) const BACKOFF_MIN: Duration = Duration::from_secs(10);
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// After running this long, a container's backoff is reset.
const RAN_WELL: Duration = Duration::from_secs(600);
/// Retry interval for containers with missing configuration sources.
pub(crate) const RETRY_SETTINGS: Duration = Duration::from_secs(3);

#[derive(Default)]
pub(crate) struct PodState {
    /// Names of containers being started or stopped.
    pub busy: BTreeSet<String>,
    /// Containers being stopped, with their grace period in seconds.
    pub stopping: BTreeMap<String, u64>,
    pub waiting: BTreeMap<String, WaitingReason>,
    pub backoffs: BTreeMap<String, Backoff>,
    pub termination_message: BTreeMap<String, String>,
    pub mounted: Option<Mounted>,
    pub pod_ips: Vec<String>,
    /// Cancels operations in progress when the pod ends.
    pub ending: CancellationToken,
    /// Host port forwards; cancelled with this token.
    pub host_ports: Option<CancellationToken>,
    /// The sandbox in which Services are served; cancelled with this token.
    pub services: Option<(String, CancellationToken)>,
}

impl Drop for PodState {
    fn drop(&mut self) {
        self.ending.cancel();
        if let Some(ports) = &self.host_ports {
            ports.cancel();
        }
        if let Some((_, services)) = &self.services {
            services.cancel();
        }
    }
}

/// The reason and duration of a container's backoff.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    pub failures: u32,
    pub until: Instant,
    pub wait: Duration,
    pub cause: Cause,
    /// The container whose exit was counted last.
    pub counted: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Crash,
    Pull,
    Settings,
}

/// All pods, by uid.
#[derive(Default)]
pub(crate) struct States {
    pods: Mutex<HashMap<String, PodState>>,
}

impl States {
    pub fn with<R>(&self, uid: &str, act: impl FnOnce(&mut PodState) -> R) -> R {
        act(self.pods.lock().entry(uid.to_owned()).or_default())
    }

    /// Like `with`, but only for a known pod.
    pub fn with_known<R>(&self, uid: &str, act: impl FnOnce(&mut PodState) -> R) -> Option<R> {
        self.pods.lock().get_mut(uid).map(act)
    }

    /// Cancels all operations in progress.
    pub fn end_all(&self) {
        self.pods.lock().values().for_each(|state| state.ending.cancel());
    }

    pub fn forget(&self, uid: &str) {
        self.pods.lock().remove(uid);
    }
}

impl PodState {
    /// Counts the exit of a container once, and computes its backoff.
    pub fn note_exit(&mut self, seen: &ObservedContainer, now: Timestamp) {
        let old = self.backoffs.get(&seen.name);
        if old.is_some_and(|old| old.cause == Cause::Crash && old.counted == seen.id) {
            return;
        }
        // A container that never started has no run time.
        let nanoseconds = if seen.started_at > 0 { seen.finished_at - seen.started_at } else { 0 };
        let ran = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or_default());
        let crashes = old.filter(|old| old.cause == Cause::Crash && ran < RAN_WELL).map_or(0, |old| old.failures);
        let wait = wait_after(crashes);
        let ended = Timestamp::from_nanosecond(seen.finished_at.into()).unwrap_or(now);
        let since = Duration::try_from(now.duration_since(ended)).unwrap_or_default();
        let until = Instant::now() + wait.saturating_sub(since);
        let backoff = Backoff { failures: crashes + 1, until, wait, cause: Cause::Crash, counted: seen.id.clone() };
        self.backoffs.insert(seen.name.clone(), backoff);
    }

    /// Counts a failed pull or a missing configuration source.
    pub fn note_failure(&mut self, name: &str, cause: Cause) {
        let old = self.backoffs.get(name);
        let failures = old.filter(|old| old.cause == cause).map_or(0, |old| old.failures) + 1;
        let wait = if cause == Cause::Settings { RETRY_SETTINGS } else { wait_after(failures) };
        let counted = old.map(|old| old.counted.clone()).unwrap_or_default();
        self.backoffs.insert(name.to_owned(), Backoff { failures, until: Instant::now() + wait, wait, cause, counted });
    }

    /// Returns the remaining backoff of each container.
    pub fn waits(&self) -> BTreeMap<String, Duration> {
        let now = Instant::now();
        self.backoffs
            .iter()
            .map(|(name, backoff)| (name.clone(), backoff.until.saturating_duration_since(now)))
            .collect()
    }
}

/// Zero after the first failure, then ten seconds, doubled up to five minutes.
fn wait_after(failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        n => BACKOFF_MIN.saturating_mul(1 << (n - 1).min(8)).min(BACKOFF_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_five_minutes() {
        let seconds: Vec<u64> = (0..8).map(|failures| wait_after(failures).as_secs()).collect();
        assert_eq!(seconds, [0, 10, 20, 40, 80, 160, 300, 300]);
    }

    fn ended(id: &str, seconds: i64) -> ObservedContainer {
        let nanos = 1_000_000_000;
        ObservedContainer {
            id: id.into(),
            name: "a".into(),
            started_at: nanos,
            finished_at: nanos * (1 + seconds),
            ..Default::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_exit_counts_once_and_a_long_run_resets_the_backoff() {
        let mut state = PodState::default();
        let at = |seen: &ObservedContainer| Timestamp::from_nanosecond(seen.finished_at.into()).expect("a time");
        let mut check = |id: &str, ran: i64, expected: u64| {
            let seen = ended(id, ran);
            state.note_exit(&seen, at(&seen));
            assert_eq!(state.waits()["a"].as_secs(), expected, "{id}");
        };
        check("one", 1, 0);
        check("one", 1, 0);
        check("two", 1, 10);
        check("two", 1, 10);
        check("three", 1, 20);
        check("four", 700, 0);
        let mut never_started = ended("five", 0);
        never_started.started_at = 0;
        state.note_exit(&never_started, at(&never_started));
        assert_eq!(state.waits()["a"].as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn the_backoff_starts_at_the_exit() {
        let mut state = PodState::default();
        let (first, second) = (ended("one", 1), ended("two", 2));
        state.note_exit(&first, Timestamp::from_second(2).expect("a time"));
        state.note_exit(&second, Timestamp::from_second(7).expect("a time"));
        assert_eq!(state.waits()["a"].as_secs(), 6);
    }
}
