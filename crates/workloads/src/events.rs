//! Records events of one controller, rate-limited per object.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use object::Object;
use parking_lot::Mutex;
use reconcile::Recorder;
use tokio::time::Instant;

/// Burst of events per object; after that, one each `REFILL_EVERY`. The limits of client-go.
const BURST_MAX: u32 = 25;
const REFILL_EVERY: Duration = Duration::from_secs(300);
/// Maximum number of tracked objects; beyond it all budgets are reset.
const REMEMBERED_MAX: usize = 4096;

/// Clones share their budgets.
#[derive(Clone)]
pub struct RateLimitedRecorder {
    recorder: Recorder,
    budgets: Arc<Mutex<HashMap<String, Budget>>>,
}

struct Budget {
    left: u32,
    refilled: Instant,
}

impl RateLimitedRecorder {
    pub fn new(recorder: Recorder) -> Self {
        Self { recorder, budgets: Arc::default() }
    }

    pub fn normal(&self, about: &Object, reason: &'static str, message: impl Into<String>) {
        if self.may_record(about.uid()) {
            self.recorder.normal(about, reason, message);
        }
    }

    pub fn warning(&self, about: &Object, reason: &'static str, message: impl Into<String>) {
        if self.may_record(about.uid()) {
            self.recorder.warning(about, reason, message);
        }
    }

    fn may_record(&self, uid: &str) -> bool {
        let mut budgets = self.budgets.lock();
        if budgets.len() >= REMEMBERED_MAX && !budgets.contains_key(uid) {
            budgets.clear();
        }
        let full = || Budget { left: BURST_MAX, refilled: Instant::now() };
        let budget = budgets.entry(uid.to_owned()).or_insert_with(full);
        let periods = budget.refilled.elapsed().as_secs() / REFILL_EVERY.as_secs();
        if let Some(periods) = u32::try_from(periods).ok().filter(|periods| *periods > 0) {
            budget.left = budget.left.saturating_add(periods).min(BURST_MAX);
            budget.refilled += REFILL_EVERY * periods;
        }
        let may = budget.left > 0;
        budget.left = budget.left.saturating_sub(1);
        may
    }
}
