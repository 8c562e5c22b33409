//! Events of a run apart from its histories, and its current step: for progress lines and for a run out of time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::history::writes::Violation;

const PROGRESS_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct RunLog {
    pub violations: Vec<Violation>,
    pub refused: Vec<String>,
    pub notes: Vec<String>,
    /// Programs that may exit, and until when.
    pub excuses: Vec<(String, Instant)>,
    pub faults: usize,
    /// User actions that were done or that failed.
    pub actions: usize,
    /// User actions whose time had passed.
    pub skipped: usize,
    /// The current stage of the run.
    pub stage: &'static str,
    /// The current user action, and since when.
    pub action: Option<(String, Instant)>,
    /// Faults that have not been healed.
    pub active_faults: Vec<String>,
}

pub type SharedRunLog = Arc<Mutex<RunLog>>;

pub fn with<T>(run_log: &SharedRunLog, act: impl FnOnce(&mut RunLog) -> T) -> T {
    act(&mut run_log.lock().unwrap_or_else(PoisonError::into_inner))
}

impl RunLog {
    /// Describes what the run does now.
    pub fn describe(&self) -> String {
        let Self { faults, actions, skipped, stage, .. } = self;
        let action = self.action.as_ref();
        let action = action.map_or_else(String::new, |(action, since)| {
            format!("; user action {action} for {} s", since.elapsed().as_secs())
        });
        let active = match self.active_faults.is_empty() {
            true => String::new(),
            false => format!("; active: {}", self.active_faults.join(", ")),
        };
        format!("{stage}; {actions} user actions done, {skipped} skipped, {faults} faults{active}{action}")
    }
}

/// Prints what the run does at intervals, until cancelled.
pub async fn print_progress(run_log: SharedRunLog, length: Duration, cancel: CancellationToken) {
    let start = Instant::now();
    let mut interval = tokio::time::interval(PROGRESS_INTERVAL);
    interval.tick().await;
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = cancel.cancelled() => return,
        }
        let line = with(&run_log, |run_log| run_log.describe());
        eprintln!("  [{} of {} s] {line}", start.elapsed().as_secs(), length.as_secs());
    }
}
