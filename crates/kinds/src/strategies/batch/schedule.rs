//! Validation of cron schedules and time zones, and its messages.

use jiff::tz::TimeZone;
use object::field::go_quote;

struct Bounds {
    min: u64,
    max: u64,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Bounds; 5] = [
    Bounds { min: 0, max: 59, names: &[] },
    Bounds { min: 0, max: 23, names: &[] },
    Bounds { min: 1, max: 31, names: &[] },
    Bounds { min: 1, max: 12, names: &MONTHS },
    Bounds { min: 0, max: 6, names: &DAYS },
];

/// The error of a schedule; `None` if it is valid.
pub fn problem(schedule: &str) -> Option<String> {
    check(schedule).err()
}

fn check(schedule: &str) -> Result<(), String> {
    if schedule.is_empty() {
        return Err("empty spec string".to_owned());
    }
    let mut rest = schedule;
    if let Some(zone) = schedule.strip_prefix("TZ=").or_else(|| schedule.strip_prefix("CRON_TZ=")) {
        let Some((zone, after)) = zone.split_once(' ') else {
            return Err("invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned());
        };
        if let Some(problem) = load_problem(zone) {
            return Err(format!("provided bad location {zone}: {problem}"));
        }
        rest = after.trim();
    }
    if rest.starts_with('@') {
        return check_descriptor(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    fields.iter().zip(&FIELDS).try_for_each(|(field, bounds)| {
        field.split(',').filter(|part| !part.is_empty()).try_for_each(|part| check_range(part, bounds))
    })
}

fn check_range(expression: &str, bounds: &Bounds) -> Result<(), String> {
    let parts: Vec<&str> = expression.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let (start, mut end) = match ends[..] {
        ["*" | "?", ..] => (bounds.min, bounds.max),
        [one] => {
            let number = number_or_name(one, bounds)?;
            (number, number)
        }
        [low, high] => (number_or_name(low, bounds)?, number_or_name(high, bounds)?),
        [low, ..] => {
            number_or_name(low, bounds)?;
            return Err(format!("too many hyphens: {expression}"));
        }
        [] => (bounds.min, bounds.max),
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            if ends.len() == 1 {
                end = bounds.max;
            }
            step
        }
        _ => return Err(format!("too many slashes: {expression}")),
    };
    if start < bounds.min {
        return Err(format!("beginning of range ({start}) below minimum ({}): {expression}", bounds.min));
    }
    if end > bounds.max {
        return Err(format!("end of range ({end}) above maximum ({}): {expression}", bounds.max));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {expression}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {expression}"));
    }
    Ok(())
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let lowered = text.to_lowercase();
    match bounds.names.iter().position(|name| *name == lowered) {
        Some(index) => Ok(index as u64 + bounds.min),
        None => number(text),
    }
}

/// Messages as in Go's `strconv`.
fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let reason = match text.parse::<i64>() {
        Ok(number) if number < 0 => return Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => return Ok(number.unsigned_abs()),
        Err(_) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => "value out of range",
        Err(_) => "invalid syntax",
    };
    Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {}: {reason}", go_quote(text)))
}

fn check_descriptor(descriptor: &str) -> Result<(), String> {
    if matches!(descriptor, "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly") {
        return Ok(());
    }
    match descriptor.strip_prefix("@every ") {
        Some(every) => match object::duration::parse(every) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("failed to parse duration {descriptor}: {error}")),
        },
        None => Err(format!("unrecognized descriptor: {descriptor}")),
    }
}

/// The errors of a time zone name; empty if it exists.
pub fn zone_problems(zone: &str) -> Vec<String> {
    if zone.is_empty() {
        return vec!["timeZone must be nil or non-empty string".to_owned()];
    }
    let plain = |part: &str| {
        let characters = part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'+'));
        characters && (1..=14).contains(&part.len()) && !matches!(part, "." | "..") && !part.starts_with('-')
    };
    if !zone.split('/').all(plain) {
        return vec![format!("unknown time zone {zone}")];
    }
    let mut problems = Vec::new();
    if zone.eq_ignore_ascii_case("Local") {
        problems
            .push("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones".to_owned());
    }
    problems.extend(load_problem(zone));
    problems
}

fn load_problem(zone: &str) -> Option<String> {
    let known = matches!(zone, "" | "UTC" | "Local") || TimeZone::get(zone).is_ok();
    (!known).then(|| format!("unknown time zone {zone}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_schedules_have_no_error() {
        for schedule in [
            "* * * * *",
            "*/5 * * * *",
            "0 0 1 jan mon",
            "1,2,3 0-5/2 ? * 0",
            "@daily",
            "@every 1h30m",
            "@every 1.5s",
            "TZ=Europe/Berlin 0 0 * * *",
        ] {
            assert_eq!(problem(schedule), None, "{schedule}");
        }
    }

    #[test]
    fn time_zones_are_known_by_name() {
        assert_eq!(zone_problems("Europe/Berlin"), Vec::<String>::new());
        assert_eq!(zone_problems("Etc/UTC"), Vec::<String>::new());
        assert_eq!(zone_problems("Mars/Olympus"), ["unknown time zone Mars/Olympus"]);
        assert_eq!(zone_problems("../x"), ["unknown time zone ../x"]);
    }
}
