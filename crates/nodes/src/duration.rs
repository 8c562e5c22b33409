//! Lengths of time as people write them in annotations and settings: `500ms`, `2s`, `1m30s`, `forever`.

use std::time::Duration;

/// Longer than anything lasts.
pub const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// `None` when the text is not a length of time.
pub fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    if matches!(text, "forever" | "infinity" | "inf") {
        return Some(FOREVER);
    }
    if let Ok(seconds) = text.parse::<f64>() {
        return seconds_of(seconds);
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        let after = &rest[digits..];
        let unit = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let scale = match &after[..unit] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            _ => return None,
        };
        total = total.checked_add(seconds_of(number * scale)?)?;
        rest = &after[unit..];
    }
    (!text.is_empty()).then_some(total)
}

fn seconds_of(seconds: f64) -> Option<Duration> {
    (seconds.is_finite() && (0.0..=FOREVER.as_secs_f64()).contains(&seconds)).then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_as_people_write_them() {
        let cases = [
            ("500ms", Some(Duration::from_millis(500))),
            ("2s", Some(Duration::from_secs(2))),
            ("1m30s", Some(Duration::from_secs(90))),
            ("1.5h", Some(Duration::from_secs(5400))),
            ("3", Some(Duration::from_secs(3))),
            ("0.1", Some(Duration::from_millis(100))),
            ("forever", Some(FOREVER)),
            ("", None),
            ("soon", None),
            ("5x", None),
            ("-1", None),
            ("1e300", None),
            ("NaN", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }
}
