//! Publishes a change of a member's readiness only after it has lasted.

use std::time::Duration;

use api::core::Condition;
use jiff::{SignedDuration, Timestamp};

/// Members are not checked more often.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// The observed readiness of one member, and its start time.
#[derive(Clone, Debug)]
pub struct Threshold {
    success: Duration,
    failure: Duration,
    /// The last observed status, and when it came to be that; `None` for what was so from the start.
    observed: Option<(String, Option<Timestamp>)>,
}

impl Threshold {
    pub fn new(success: Duration, failure: Duration) -> Self {
        Self { success, failure, observed: None }
    }

    /// The Ready condition to publish: the observed one, or the published one while the change is too young. A check
    /// that fails counts from when it `began`: a member that does not answer has been away for as long.
    pub fn adjust(
        &mut self,
        published: Option<&Condition>,
        observed: Condition,
        began: Timestamp,
        now: Timestamp,
    ) -> Condition {
        let first_seen = if observed.is_true() { now } else { began };
        let since = match &self.observed {
            // The first look after a start counts at once.
            None => {
                self.observed = Some((observed.status.clone(), None));
                return observed;
            }
            Some((status, since)) if *status == observed.status => *since,
            Some(_) => {
                self.observed = Some((observed.status.clone(), Some(first_seen)));
                Some(first_seen)
            }
        };
        let Some(published) = published else { return observed };
        let threshold = if observed.is_true() { self.success } else { self.failure };
        let lasted = since.map_or(SignedDuration::MAX, |since| now.duration_since(since));
        let is_young = lasted < SignedDuration::try_from(threshold).unwrap_or(SignedDuration::MAX);
        if published.is_true() != observed.is_true() && is_young { published.clone() } else { observed }
    }

    /// Returns the time until the observed readiness is old enough to be published, if it differs from `published`.
    pub fn pending(&self, published: &Condition, now: Timestamp) -> Option<Duration> {
        let (status, since) = self.observed.as_ref()?;
        if (status == "True") == published.is_true() {
            return None;
        }
        let threshold = if status == "True" { self.success } else { self.failure };
        let lasted = Duration::try_from(now.duration_since((*since)?)).unwrap_or_default();
        Some(threshold.saturating_sub(lasted))
    }
}

/// Returns the interval of health checks: two fit into the time after which a member counts as failed.
pub fn interval(heartbeat: Duration, failure: Duration) -> Duration {
    match failure.is_zero() {
        true => heartbeat,
        false => heartbeat.min((failure / 2).max(INTERVAL_MIN)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(status: &str) -> Condition {
        Condition { kind: "Ready".into(), status: status.into(), ..Condition::default() }
    }

    /// (second, observed, expected): each expected one is what is published for the next.
    #[track_caller]
    fn check(start: Option<&str>, steps: &[(i64, &str, &str)]) {
        let mut threshold = Threshold::new(Duration::from_secs(30), Duration::from_secs(30));
        let mut published = start.map(condition);
        for (second, observed, expected) in steps {
            let now = Timestamp::from_second(1_000_000 + second).expect("a time");
            let ready = threshold.adjust(published.as_ref(), condition(observed), now, now);
            assert_eq!(ready.status, *expected, "at {second} of {steps:?}");
            published = Some(ready);
        }
    }

    #[test]
    fn readiness_changes_only_after_the_threshold() {
        check(None, &[(0, "True", "True")]);
        check(Some("True"), &[(0, "False", "False")]);
        check(None, &[(0, "True", "True"), (10, "False", "True"), (39, "False", "True"), (40, "False", "False")]);
        check(
            None,
            &[
                (0, "True", "True"),
                (10, "False", "True"),
                (20, "True", "True"),
                (30, "False", "True"),
                (50, "False", "True"),
            ],
        );
        check(None, &[(0, "False", "False"), (10, "True", "False"), (40, "True", "True")]);
        check(Some("Unknown"), &[(0, "Unknown", "Unknown"), (1, "False", "False")]);
    }
    /// Returns the seconds until the loss of a member is published, if a failing check takes this long.
    fn detection(heartbeat: u64, failure: u64, check: u64) -> u64 {
        let (heartbeat, failure) = (Duration::from_secs(heartbeat), Duration::from_secs(failure));
        let mut threshold = Threshold::new(failure, failure);
        let time =
            |second: u64| Timestamp::from_second(1_000_000 + i64::try_from(second).expect("small")).expect("a time");
        let published = condition("True");
        threshold.adjust(Some(&published), condition("True"), time(0), time(0));
        // Lost right after a check that succeeded.
        let mut now = interval(heartbeat, failure).as_secs();
        loop {
            let began = time(now);
            now += check;
            let ready = threshold.adjust(Some(&published), condition("False"), began, time(now));
            if ready.is_false() {
                return now;
            }
            let due = threshold.pending(&published, time(now)).expect("a change is pending");
            now += due.min(interval(heartbeat, failure)).as_secs().max(1);
        }
    }

    #[test]
    fn a_partition_is_published_about_as_soon_as_a_crash() {
        for (heartbeat, failure, check, max) in [(10, 6, 2, 11), (10, 30, 10, 51), (10, 10, 3, 18)] {
            let (crash, partition) = (detection(heartbeat, failure, 0), detection(heartbeat, failure, check));
            assert!(partition <= crash + check, "{heartbeat} {failure}: {crash} s and {partition} s");
            assert!(partition <= max, "{heartbeat} {failure}: {partition} s");
        }
    }

    #[test]
    fn a_short_threshold_shortens_the_interval() {
        let seconds =
            |heartbeat, failure| interval(Duration::from_secs(heartbeat), Duration::from_secs(failure)).as_secs();
        assert_eq!((seconds(10, 30), seconds(10, 6), seconds(10, 1), seconds(10, 0)), (10, 3, 1, 10));
    }
}
