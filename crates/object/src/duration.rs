//! Durations in Go's notation, as used in objects and flags: `1h30m`, `-1.5s`, `0`.

use jiff::SignedDuration;

use crate::field::go_quote;

const SECOND: i128 = 1_000_000_000;

/// Parses a duration; the error is worded as in Go.
pub fn parse(text: &str) -> Result<SignedDuration, String> {
    read(text, unit_nanos)
}

/// Like [`parse`], with days: `1d12h`.
pub fn parse_with_days(text: &str) -> Result<SignedDuration, String> {
    read(text, |unit| if unit == "d" { Some(86_400 * SECOND) } else { unit_nanos(unit) })
}

fn read(text: &str, nanos_of: impl Fn(&str) -> Option<i128>) -> Result<SignedDuration, String> {
    let invalid = || format!("time: invalid duration {}", go_quote(text));
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (whole, after) = split_digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), split_digits);
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let unit = &after[..end];
        let nanos = match nanos_of(unit) {
            Some(nanos) => nanos,
            None if unit.is_empty() => return Err(format!("time: missing unit in duration {}", go_quote(text))),
            None => return Err(format!("time: unknown unit {} in duration {}", go_quote(unit), go_quote(text))),
        };
        let part = decimal_times(whole, fraction, nanos);
        total = part.and_then(|part| total.checked_add(part)).ok_or_else(invalid)?;
        rest = &after[end..];
    }
    let signed = if text.starts_with('-') { -total } else { total };
    i64::try_from(signed).map(SignedDuration::from_nanos).map_err(|_| invalid())
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn unit_nanos(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3_600 * SECOND,
        _ => return None,
    })
}

fn decimal_times(whole: &str, fraction: &str, unit: i128) -> Option<i128> {
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Digits below a nanosecond do not matter.
    let digits: i128 = fraction.get(..fraction.len().min(18))?.parse().unwrap_or(0);
    let scale = 10i128.pow(fraction.len().min(18) as u32);
    whole.checked_mul(unit)?.checked_add(digits.checked_mul(unit)? / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_as_in_go() {
        let cases = [
            ("0", Ok("0s")),
            ("1h30m", Ok("5400s")),
            ("-1.5s", Ok("-1.5s")),
            ("+.5m", Ok("30s")),
            ("1m0s", Ok("60s")),
            ("15.5s", Ok("15.5s")),
            ("1.h", Ok("3600s")),
            ("250ms", Ok("0.25s")),
            ("1µs", Ok("0.000001s")),
            ("", Err("time: invalid duration \"\"")),
            ("-", Err("time: invalid duration \"-\"")),
            (".s", Err("time: invalid duration \".s\"")),
            ("one minute", Err("time: invalid duration \"one minute\"")),
            ("5", Err("time: missing unit in duration \"5\"")),
            ("1.2.3s", Err("time: missing unit in duration \"1.2.3s\"")),
            ("1d", Err("time: unknown unit \"d\" in duration \"1d\"")),
            ("9999999h", Err("time: invalid duration \"9999999h\"")),
        ];
        for (text, expected) in cases {
            let found = parse(text).map(|duration| format!("{}s", duration.as_secs_f64()));
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn days_are_parsed_on_request() {
        assert_eq!(parse_with_days("12h1.5d"), Ok(SignedDuration::from_hours(48)));
        assert!(parse_with_days("1w").is_err());
    }
}
