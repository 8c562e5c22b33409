//! Measures the time in which this process was observing: time during which it was suspended or stopped, or by which
//! its clock was set forward, does not count as silence of clusters.
//!
//! A machine that wakes up has seen no heartbeat for hours. Kubernetes and Karmada treat that as the loss of all
//! clusters, until their own rate limits and the first heartbeat stop them.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

pub struct SuspendDetector {
    /// No more than this passes between two looks of a process that is awake.
    gap_max: SignedDuration,
    state: Mutex<State>,
}

struct State {
    /// The last look; `None` before the first one.
    last: Option<Timestamp>,
    /// All time that passed unseen; less than nothing where the clock was put back.
    unseen: SignedDuration,
    awake_since: Timestamp,
}

impl SuspendDetector {
    pub fn new(gap_max: Duration, now: Timestamp) -> Self {
        let gap_max = SignedDuration::try_from(gap_max).unwrap_or(SignedDuration::MAX);
        let state = State { last: None, unseen: SignedDuration::ZERO, awake_since: now };
        Self { gap_max, state: Mutex::new(state) }
    }

    /// Records a look and returns the unobserved time since the last one.
    pub fn look(&self, now: Timestamp) -> SignedDuration {
        let mut state = self.state.lock();
        let elapsed = state.last.map_or(SignedDuration::ZERO, |last| now.duration_since(last));
        let unseen = elapsed.saturating_sub(elapsed.clamp(SignedDuration::ZERO, self.gap_max));
        state.last = Some(now);
        if !unseen.is_zero() {
            state.unseen = state.unseen.saturating_add(unseen);
            state.awake_since = now;
        }
        unseen
    }

    /// Converts a time to a clock that stops while this process does not observe.
    pub fn watched(&self, time: Timestamp) -> Timestamp {
        time.checked_sub(self.state.lock().unseen).unwrap_or(time)
    }

    /// Since when it has watched without a pause; a pause that the next look is to find ends now.
    pub fn awake_since(&self, now: Timestamp) -> Timestamp {
        let state = self.state.lock();
        match state.last.map(|last| now.duration_since(last)) {
            Some(elapsed) if elapsed > self.gap_max || elapsed.is_negative() => now,
            _ => state.awake_since,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    /// Looks at these seconds; checks the resulting second on the watched clock, and since when it is awake.
    #[track_caller]
    fn check(looks: &[i64], watched: i64, awake_since: i64) {
        let suspend_detector = SuspendDetector::new(Duration::from_secs(10), at(0));
        for second in looks {
            suspend_detector.look(at(*second));
        }
        let last = at(*looks.last().expect("a look"));
        assert_eq!(suspend_detector.watched(last), at(watched), "{looks:?}");
        assert_eq!(suspend_detector.awake_since(last), at(awake_since), "{looks:?}");
    }

    #[test]
    fn time_counts_only_while_the_process_observes() {
        check(&[0, 5, 10, 20], 20, 0);
        // An hour without a look counts as the maximum gap.
        check(&[0, 5, 3605], 15, 3605);
        check(&[0, 5, 3605, 3610], 20, 3605);
        // A clock that is put back takes nothing from the time that was watched.
        check(&[100, 105, 5], 105, 5);
        check(&[100, 105, 5, 10], 110, 5);
    }

    #[test]
    fn a_pause_is_detected_before_the_next_check() {
        let suspend_detector = SuspendDetector::new(Duration::from_secs(10), at(0));
        assert_eq!(suspend_detector.awake_since(at(500)), at(0), "nothing was observed");
        suspend_detector.look(at(0));
        assert_eq!(suspend_detector.awake_since(at(10)), at(0));
        assert_eq!(suspend_detector.awake_since(at(500)), at(500));
    }
}
