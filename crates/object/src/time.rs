//! Times as Kubernetes writes them: RFC 3339 in UTC, to the second (`Time`) or the microsecond (`MicroTime`).

use jiff::Timestamp;

/// `2026-11-15T21:02:44Z`, the form of `metadata.creationTimestamp` and every condition.
pub fn format_seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `2026-11-15T21:02:44.000000Z`, the form of lease and event times.
pub fn format_micros(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Reads any RFC 3339 time; `None` when it is not one.
pub fn parse(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}
