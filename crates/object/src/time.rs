//! Times in Kubernetes' format: RFC 3339 in UTC, to the second (`Time`) or the microsecond (`MicroTime`).

use jiff::{SignedDuration, Timestamp};

/// `2026-11-15T21:02:44Z`, the form of `metadata.creationTimestamp` and every condition.
pub fn format_seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `2026-11-15T21:02:44.000000Z`, the form of lease and event times.
pub fn format_micros(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Returns the time `seconds` after `at`, or the last (first) time there is when that is beyond it. For seconds that come
/// from objects or requests, where plain arithmetic would panic.
pub fn after(at: Timestamp, seconds: i64) -> Timestamp {
    let limit = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
    at.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(limit)
}

/// Parses any RFC 3339 time; `None` if it is invalid.
pub fn parse(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_beyond_the_calendar_stop_at_its_ends() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        for (seconds, expected) in [
            (0, "2026-01-01T00:00:00Z"),
            (60, "2026-01-01T00:01:00Z"),
            (-60, "2025-12-31T23:59:00Z"),
            (253_402_300_799, "9999-12-30T22:00:00Z"),
            (i64::MAX, "9999-12-30T22:00:00Z"),
            (i64::MIN, "-9999-01-02T01:59:59Z"),
        ] {
            assert_eq!(format_seconds(after(now, seconds)), expected, "{seconds}");
        }
    }
}
