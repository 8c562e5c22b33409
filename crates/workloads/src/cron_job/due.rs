//! Computes when a CronJob was last due and when it is due next.

use std::time::Duration;

use cron::Schedule;
use jiff::{SignedDuration, Timestamp};

/// More missed start times than this are reported, since the clock may be wrong.
const MISSED_MANY: i64 = 100;
/// Maximum number of schedule times iterated to find the last one.
const WALKED_MAX: usize = 10_000;
/// Delay after a schedule time, so that it has certainly passed.
const AFTER: Duration = Duration::from_millis(100);

/// The start of the schedule computation.
#[derive(Clone, Copy, Debug)]
pub struct ScheduleStart {
    pub created: Timestamp,
    pub last: Option<Timestamp>,
    pub deadline_seconds: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The last schedule time that has passed, if any.
    pub at: Option<Timestamp>,
    pub is_many: bool,
    /// The start of the computation.
    earliest: Timestamp,
}

/// Returns the last schedule time since the CronJob last ran. Times before the starting deadline are ignored.
pub fn last_due(schedule: &Schedule, since: ScheduleStart, now: Timestamp) -> Due {
    let mut earliest = since.last.unwrap_or(since.created);
    if let Some(seconds) = since.deadline_seconds
        && let Ok(deadline) = now.checked_sub(SignedDuration::from_secs(seconds))
    {
        earliest = earliest.max(deadline);
    }
    let none = Due { at: None, is_many: false, earliest };
    let Some(first) = schedule.next_after(earliest).filter(|first| *first <= now) else { return none };
    let once = Due { at: Some(first), ..none };
    let Some(second) = schedule.next_after(first).filter(|second| *second <= now) else { return once };
    let between = (second.as_second() - first.as_second()).max(1);
    let missed = (now.as_second() - first.as_second()) / between + 1;
    // Iterating from shortly before now is enough, except for schedules with long gaps, where no time lies in that
    // range.
    let guess = SignedDuration::from_secs((missed - 2).max(0) * between);
    let start = first.checked_add(guess).unwrap_or(first);
    let at = last_within(schedule, start, now).or_else(|| last_within(schedule, first, now)).unwrap_or(first);
    Due { at: Some(at), is_many: missed > MISSED_MANY, earliest }
}

fn last_within(schedule: &Schedule, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
    let times = std::iter::successors(schedule.next_after(after), |time| schedule.next_after(*time));
    times.take(WALKED_MAX).take_while(|time| *time <= until).last()
}

/// Returns the time until the next schedule time.
pub fn until_next(schedule: &Schedule, since: ScheduleStart, now: Timestamp) -> Option<Duration> {
    let due = last_due(schedule, ScheduleStart { deadline_seconds: None, ..since }, now);
    let next = schedule.next_after(due.at.unwrap_or(due.earliest))?;
    let left = next.duration_since(now);
    Some(AFTER + if left.is_positive() { left.unsigned_abs() } else { Duration::ZERO })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        format!("2026-01-01T{text}Z").parse().expect("a time")
    }

    #[track_caller]
    fn check(schedule: &str, last: &str, deadline_seconds: Option<i64>, now: &str, expected: (&str, bool, u64)) {
        let schedule = Schedule::parse(schedule, Some("UTC")).expect("a schedule");
        let last = (!last.is_empty()).then(|| time(last));
        let since = ScheduleStart { created: time("00:00:30"), last, deadline_seconds };
        let due = last_due(&schedule, since, time(now));
        let at = due.at.map(|at| at.to_string()).unwrap_or_default();
        let wait = until_next(&schedule, since, time(now)).unwrap_or_default();
        let expected_at = if expected.0.is_empty() { String::new() } else { time(expected.0).to_string() };
        assert_eq!((at, due.is_many, wait.as_secs()), (expected_at, expected.1, expected.2));
    }

    #[test]
    fn the_last_passed_time_is_due() {
        check("0 * * * *", "", None, "00:30:00", ("", false, 1800));
        check("0 * * * *", "", None, "01:00:00", ("01:00:00", false, 3600));
        check("0 * * * *", "", None, "03:10:00", ("03:00:00", false, 3000));
        check("0 * * * *", "03:00:00", None, "03:10:00", ("", false, 3000));
        check("* * * * *", "", None, "03:00:10", ("03:00:00", true, 50));
        check("0,1 * * * *", "", None, "03:10:00", ("03:01:00", false, 3000));
        check("1,2 1 * * *", "", None, "03:10:00", ("01:02:00", true, 78_660));
        // A start time past the deadline is not made up for.
        check("0 * * * *", "", Some(60), "03:10:00", ("", false, 3000));
        check("0 * * * *", "", Some(3600), "03:10:00", ("03:00:00", false, 3000));
    }
}
