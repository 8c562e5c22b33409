//! Backoff of a Job before it replaces failed pods.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use reconcile::ObjectKey;

use crate::job::spec::failures_of;
use crate::pods::Pod;

const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(600);

/// Failures since the last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackoffRecord {
    failures: u32,
    last: Option<Timestamp>,
}

/// The backoff records of running Jobs, removed with the Job.
#[derive(Default)]
pub struct BackoffRecords {
    records: Mutex<HashMap<ObjectKey, BackoffRecord>>,
}

impl BackoffRecords {
    pub fn get(&self, job: &ObjectKey) -> BackoffRecord {
        self.records.lock().get(job).copied().unwrap_or_default()
    }

    pub fn set(&self, job: &ObjectKey, record: BackoffRecord) {
        let mut records = self.records.lock();
        if record == BackoffRecord::default() {
            records.remove(job);
        } else {
            records.insert(job.clone(), record);
        }
    }

    pub fn forget(&self, job: &ObjectKey) {
        self.records.lock().remove(job);
    }
}

impl BackoffRecord {
    /// Adds pods that finished since.
    pub fn with(self, succeeded: &[&Pod], failed: &[&Pod]) -> Self {
        let last_success = succeeded.iter().filter_map(|pod| pod.finished()).max();
        let since = |pod: &&&Pod| last_success.is_none_or(|success| pod.finished().is_some_and(|end| end > success));
        let recent: Vec<_> = failed.iter().filter(since).collect();
        let base = if succeeded.is_empty() { self } else { Self::default() };
        match recent.iter().filter_map(|pod| pod.finished()).max() {
            None => base,
            last => Self { failures: base.failures + recent.len() as u32, last },
        }
    }

    pub fn wait(self, now: Timestamp) -> Duration {
        self.last.map_or(Duration::ZERO, |last| wait_after(self.failures, last, now))
    }
}

/// Returns the remaining backoff of an index after a failed pod.
pub fn wait_for_index(failed: Option<&Pod>, now: Timestamp) -> Duration {
    let Some(pod) = failed else { return Duration::ZERO };
    let (counted, ignored) = failures_of(pod);
    let failures = u32::try_from(counted + ignored + 1).unwrap_or(u32::MAX);
    pod.finished().map_or(Duration::ZERO, |last| wait_after(failures, last, now))
}

fn wait_after(failures: u32, last: Timestamp, now: Timestamp) -> Duration {
    if failures == 0 {
        return Duration::ZERO;
    }
    let doublings = (failures - 1).min(16);
    let wait = FIRST.saturating_mul(1 << doublings).min(LONGEST);
    let since = now.duration_since(last);
    if since.is_negative() { wait } else { wait.saturating_sub(since.unsigned_abs()) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object::Object;
    use serde_json::json;

    use super::*;

    fn pod(second: u32) -> Pod {
        let finished = format!("2026-01-01T00:00:{second:02}Z");
        let pod = json!({"status": {"containerStatuses": [{"state": {"terminated": {"finishedAt": finished}}}]}});
        Pod::new(Arc::new(Object::from_value(pod).expect("a map")))
    }

    #[track_caller]
    fn check(record: BackoffRecord, succeeded: &[u32], failed: &[u32], expected: (u32, u64)) -> BackoffRecord {
        let pods = |seconds: &[u32]| seconds.iter().map(|second| pod(*second)).collect::<Vec<_>>();
        let (succeeded, failed) = (pods(succeeded), pods(failed));
        let record = record.with(&succeeded.iter().collect::<Vec<_>>(), &failed.iter().collect::<Vec<_>>());
        let now = "2026-01-01T00:00:30Z".parse().expect("a time");
        assert_eq!((record.failures, record.wait(now).as_secs()), expected);
        record
    }

    #[test]
    fn failures_add_up_until_a_success() {
        let none = BackoffRecord::default();
        check(none, &[], &[], (0, 0));
        check(none, &[], &[10], (1, 0));
        let once = check(none, &[], &[25], (1, 5));
        let thrice = check(once, &[], &[26, 27], (3, 37));
        check(thrice, &[28], &[], (0, 0));
        check(thrice, &[28], &[27, 29], (1, 9));
        let many = BackoffRecord { failures: 30, last: "2026-01-01T00:00:30Z".parse().ok() };
        check(many, &[], &[], (30, 600));
    }
}
