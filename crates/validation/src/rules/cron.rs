//! Schedules in the dialect CronFederatedHPA understands: five to seven segments, names, steps, `L`, `W` and `#`.

const TAGS: [&str; 12] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@hourly",
    "@always",
    "@5minutes",
    "@10minutes",
    "@15minutes",
    "@30minutes",
    "@everysecond",
];
const NAMES: [(&str, &str); 19] = [
    ("SUN", "0"),
    ("MON", "1"),
    ("TUE", "2"),
    ("WED", "3"),
    ("THU", "4"),
    ("FRI", "5"),
    ("SAT", "6"),
    ("JAN", "1"),
    ("FEB", "2"),
    ("MAR", "3"),
    ("APR", "4"),
    ("MAY", "5"),
    ("JUN", "6"),
    ("JUL", "7"),
    ("AUG", "8"),
    ("SEP", "9"),
    ("OCT", "10"),
    ("NOV", "11"),
    ("DEC", "12"),
];
/// Second, minute, hour, day of the month, month, day of the week, year.
const BOUNDS: [(i64, i64); 7] = [(0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7), (1, 9999)];
const DAY: usize = 3;
const WEEKDAY: usize = 5;

/// Can the schedule be followed? Karmada's parser stops at the first part that is due at the moment it looks, so it may
/// let a bad part behind it pass; here every part is read, whatever the time.
pub fn is_valid(schedule: &str) -> bool {
    let schedule = schedule.trim_matches([' ', '\t']);
    if TAGS.contains(&schedule.to_lowercase().as_str()) {
        return true;
    }
    let mut text = schedule.to_uppercase();
    for (name, number) in NAMES {
        text = text.replace(name, number);
    }
    let segments: Vec<&str> = text.split_whitespace().collect();
    let has_year = |segment: &str| segment.as_bytes().windows(4).any(|window| window.iter().all(u8::is_ascii_digit));
    let first = match segments.len() {
        5 => 1,
        6 if has_year(segments[5]) => 1,
        6 | 7 => 0,
        _ => return false,
    };
    segments.iter().enumerate().all(|(index, segment)| segment.split(',').all(|part| is_part(part, first + index)))
}

fn is_part(part: &str, position: usize) -> bool {
    if part == "*" || part == "?" {
        return true;
    }
    let bounds = BOUNDS[position];
    if position == DAY && part.contains(['L', 'W']) {
        return part == "L" || part.split_once('W').is_some_and(|(day, _)| number(day).is_some());
    }
    if position == WEEKDAY && part.contains('L') {
        return part.split_once('L').is_some_and(|(day, _)| number(day).is_some());
    }
    if position == WEEKDAY && part.contains('#') {
        return part.split_once('#').is_some_and(|(day, nth)| number(day).is_some() && number(nth).is_some());
    }
    if let Some((range, step)) = part.split_once('/') {
        let stepped = number(step).is_some_and(|step| step != 0);
        return stepped && (range == "*" || range == "0" || is_range(range, bounds));
    }
    is_range(part, bounds) || (position != WEEKDAY && part == "0")
}

/// A number, or two with a dash between them.
fn is_range(range: &str, (min, max): (i64, i64)) -> bool {
    let (start, end) = range.split_once('-').unwrap_or((range, range));
    match (number(start), number(end)) {
        (Some(start), Some(end)) => start <= end && start >= min && end <= max,
        _ => false,
    }
}

fn number(text: &str) -> Option<i64> {
    text.parse().ok()
}

/// Is there a time zone of this name? Go knows `Local`, and takes nothing for UTC.
pub fn is_zone(name: &str) -> bool {
    matches!(name, "" | "Local") || jiff::tz::TimeZone::get(name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_karmada_reads_them() {
        let valid = [
            "*/1 * * * *",
            "0 0 1 1 *",
            "@hourly",
            "30 08 * * MON-FRI",
            "0 0 L * *",
            "0 0 * * 5#2",
            "* * * * * * 2030",
        ];
        for schedule in valid {
            assert!(is_valid(schedule), "{schedule}");
        }
        for schedule in ["", "* * * *", "60 * * * *", "* * * 13 *", "*/0 * * * *", "a * * * *", "@never"] {
            assert!(!is_valid(schedule), "{schedule}");
        }
    }

    #[test]
    fn zones_are_those_of_the_database() {
        assert!(is_zone("Asia/Shanghai") && is_zone("UTC") && !is_zone("Moon/Base"));
    }
}
