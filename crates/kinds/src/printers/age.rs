//! Human-readable ages and durations: `5m`, `3d4h`, `<unknown>`, `<invalid>`.

use jiff::{SignedDuration, Timestamp};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// The time since `time`; an empty or invalid time is unknown.
pub fn since(time: &str, now: Timestamp) -> String {
    match object::time::parse(time) {
        Some(time) => human(now.duration_since(time)),
        None => "<unknown>".to_owned(),
    }
}

/// A duration with two or three significant figures; the units depend on its length.
pub fn human(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    // Clocks of two machines differ slightly, so one second in the future still counts as now.
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    match seconds {
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => pair(s / MINUTE, 'm', s % MINUTE, 's'),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => pair(s / HOUR, 'h', s % HOUR / MINUTE, 'm'),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => pair(s / DAY, 'd', s % DAY / HOUR, 'h'),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => pair(s / YEAR, 'y', s / DAY % 365, 'd'),
        s => format!("{}y", s / YEAR),
    }
}

fn pair(large: i64, large_unit: char, small: i64, small_unit: char) -> String {
    if small == 0 { format!("{large}{large_unit}") } else { format!("{large}{large_unit}{small}{small_unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_kubectl_shows_them() {
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 90, "3h1m"),
            (8 * HOUR, "8h"),
            (47 * HOUR, "47h"),
            (48 * HOUR, "2d"),
            (76 * HOUR, "3d4h"),
            (8 * DAY, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + DAY, "2y1d"),
            (8 * YEAR + 50 * DAY, "8y"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(human(SignedDuration::from_secs(seconds)), expected, "{seconds}s");
        }
    }

    #[test]
    fn a_missing_time_is_unknown() {
        assert_eq!(since("", Timestamp::UNIX_EPOCH), "<unknown>");
        assert_eq!(since("1970-01-01T00:00:00Z", Timestamp::UNIX_EPOCH), "0s");
    }
}
