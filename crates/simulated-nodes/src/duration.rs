//! Parses durations in annotations and settings: `500ms`, `2s`, `1m30s`, `forever`.

use std::time::Duration;

/// An effectively infinite duration.
pub const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// `None` if the text is not a duration.
pub fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    if matches!(text, "forever" | "infinity" | "inf") {
        return Some(FOREVER);
    }
    let length = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => object::duration::parse_with_days(text).ok().and_then(|length| Duration::try_from(length).ok()),
    };
    length.filter(|length| *length <= FOREVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed() {
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
