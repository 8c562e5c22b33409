//! Publishes a change of a member's readiness only after it has lasted.

use std::time::Duration;

use api::core::Condition;
use jiff::{SignedDuration, Timestamp};

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

    /// The Ready condition to publish: the observed one, or the published one while the change is too young.
    pub fn adjust(&mut self, published: Option<&Condition>, observed: Condition, now: Timestamp) -> Condition {
        let since = match &self.observed {
            // The first look after a start counts at once.
            None => {
                self.observed = Some((observed.status.clone(), None));
                return observed;
            }
            Some((status, since)) if *status == observed.status => *since,
            Some(_) => {
                self.observed = Some((observed.status.clone(), Some(now)));
                Some(now)
            }
        };
        let Some(published) = published else { return observed };
        let is_true = |condition: &Condition| condition.status == "True";
        let threshold = if is_true(&observed) { self.success } else { self.failure };
        let lasted = since.map_or(SignedDuration::MAX, |since| now.duration_since(since));
        let is_young = lasted < SignedDuration::try_from(threshold).unwrap_or(SignedDuration::MAX);
        if is_true(published) != is_true(&observed) && is_young { published.clone() } else { observed }
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
            let ready = threshold.adjust(published.as_ref(), condition(observed), now);
            assert_eq!(ready.status, *expected, "at {second} of {steps:?}");
            published = Some(ready);
        }
    }

    #[test]
    fn readiness_flips_only_after_it_has_lasted() {
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
}
