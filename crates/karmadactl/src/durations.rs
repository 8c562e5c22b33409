//! Parses durations (`1m30s`) and formats ages (`3d4h`).

use std::time::Duration;

/// Parses a duration such as `90s`, `1m30s`, `1.5h` or `250ms`.
pub fn parse(text: &str) -> Result<Duration, String> {
    let length = object::duration::parse(text).ok().and_then(|length| Duration::try_from(length).ok());
    length.ok_or_else(|| format!("{text:?} is not a valid duration; use for example 90s, 2m or 1h30m"))
}

/// Formats an age in at most two units, as in tables.
pub fn human(age: jiff::SignedDuration) -> String {
    let seconds = age.as_secs();
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |large: i64, large_unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit}{small}{small_unit}"),
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () if days < 365 * 2 => format!("{days}d"),
        () if days < 365 * 8 => two(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

/// Formats an age in one unit, as in the list of tokens.
pub fn short(age: jiff::SignedDuration) -> String {
    let seconds = age.as_secs();
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        86_400..31_536_000 => format!("{}d", seconds / 86_400),
        _ => format!("{}y", seconds / 31_536_000),
    }
}

/// Formats the time since an API timestamp; `<unknown>` if there is none.
pub fn since(time: &str, now: jiff::Timestamp) -> String {
    match object::time::parse(time) {
        Some(then) => human(now.duration_since(then)),
        None => "<unknown>".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, seconds) in [("60s", 60.0), ("1m0s", 60.0), ("1h30m", 5400.0), ("1.5h", 5400.0), ("250ms", 0.25)] {
            assert_eq!(parse(text).unwrap().as_secs_f64(), seconds, "{text}");
        }
        for text in ["", "5", "m", "1x", "-1s", "one minute"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ages_are_as_tables_show_them() {
        let cases = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (183, "3m3s"),
            (600, "10m"),
            (10_800, "3h"),
            (11_160, "3h6m"),
            (30_000, "8h"),
            (200_000, "2d7h"),
            (864_000, "10d"),
            (365 * 86_400 * 3, "3y"),
            (-5, "<invalid>"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(human(jiff::SignedDuration::from_secs(seconds)), expected, "{seconds}");
        }
    }
}
