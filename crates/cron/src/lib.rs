//! Cron schedules: five fields as robfig/cron reads them, in a time zone.

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan, Unit, Zoned};

/// A schedule with no match within this many years never matches.
const YEARS_MAX: i16 = 5;

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

#[derive(Clone, Copy)]
struct Bounds {
    min: u32,
    max: u32,
    names: &'static [&'static str],
    /// The value of the first name.
    first: u32,
}

const FIELDS: [Bounds; 5] = [
    Bounds { min: 0, max: 59, names: &[], first: 0 },
    Bounds { min: 0, max: 23, names: &[], first: 0 },
    Bounds { min: 1, max: 31, names: &[], first: 0 },
    Bounds { min: 1, max: 12, names: &MONTHS, first: 1 },
    Bounds { min: 0, max: 6, names: &DAYS, first: 0 },
];

const DESCRIPTORS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    #[error("expected exactly 5 fields, found {0}")]
    Fields(usize),
    #[error("invalid schedule field {0:?}")]
    Part(String),
    #[error("unknown time zone {0}")]
    Zone(String),
}

/// The values a field matches, as bits, and whether it was written as `*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    bits: u64,
    is_any: bool,
}

#[derive(Clone, Debug)]
pub struct Schedule {
    rule: Rule,
    zone: TimeZone,
}

#[derive(Clone, Copy, Debug)]
enum Rule {
    Fields([Field; 5]),
    /// `@every`: a fixed delay after the last time.
    Every(SignedDuration),
}

impl Schedule {
    /// Without a zone, the process's own zone applies.
    pub fn parse(text: &str, zone: Option<&str>) -> Result<Self, ScheduleError> {
        let text = text.trim();
        let (zone, text) = match text.strip_prefix("CRON_TZ=").or_else(|| text.strip_prefix("TZ=")) {
            Some(rest) => {
                let (own, rest) = rest.split_once(' ').ok_or_else(|| ScheduleError::Zone(rest.to_owned()))?;
                (Some(own), rest.trim())
            }
            None => (zone, text),
        };
        let zone = match zone {
            None => TimeZone::system(),
            Some(name) => TimeZone::get(name).map_err(|_| ScheduleError::Zone(name.to_owned()))?,
        };
        if let Some(every) = text.strip_prefix("@every ") {
            let length = object::duration::parse(every.trim()).map_err(|_| ScheduleError::Part(every.to_owned()))?;
            // Whole seconds, at least one.
            return Ok(Self { rule: Rule::Every(SignedDuration::from_secs(length.as_secs().max(1))), zone });
        }
        let described = DESCRIPTORS.iter().find(|(name, _)| *name == text).map(|(_, fields)| *fields);
        let parts: Vec<&str> = described.unwrap_or(text).split_whitespace().collect();
        let parts: [&str; 5] = parts.try_into().map_err(|parts: Vec<&str>| ScheduleError::Fields(parts.len()))?;
        let mut fields = [Field { bits: 0, is_any: false }; 5];
        for ((field, part), bounds) in fields.iter_mut().zip(parts).zip(FIELDS) {
            *field = parse_field(part, bounds)?;
        }
        Ok(Self { rule: Rule::Fields(fields), zone })
    }

    /// Returns the first time after `now`, or `None` if there is none.
    pub fn next_after(&self, now: Timestamp) -> Option<Timestamp> {
        let fields = match &self.rule {
            Rule::Fields(fields) => fields,
            Rule::Every(every) => return Timestamp::from_second(now.as_second()).ok()?.checked_add(*every).ok(),
        };
        let start = now.to_zoned(self.zone.clone());
        let mut date = start.date();
        let last = date.checked_add(YEARS_MAX.years()).ok()?;
        while date <= last {
            if is_day(fields, date)
                && let Some(found) = self.next_within(fields, date, &start)
            {
                return Some(found);
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// Steps through real minutes rather than wall-clock minutes: one skipped in spring never matches, one repeated
    /// in autumn matches twice, as in robfig/cron.
    fn next_within(&self, fields: &[Field; 5], date: Date, after: &Zoned) -> Option<Timestamp> {
        let midnight = date.to_zoned(self.zone.clone()).ok()?;
        let mut time = if midnight > *after {
            midnight
        } else {
            after
                .round(jiff::ZonedRound::new().smallest(Unit::Minute).mode(jiff::RoundMode::Trunc))
                .ok()?
                .checked_add(1.minute())
                .ok()?
        };
        let [minute, hour, ..] = fields;
        while time.date() == date {
            if hour.has(time.hour()) && minute.has(time.minute()) {
                return Some(time.timestamp());
            }
            time = time.checked_add(1.minute()).ok()?;
        }
        None
    }
}

impl Field {
    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.bits & (1 << value) != 0)
    }
}

/// Day of month and day of week: both must match if either is `*`, else one is enough.
fn is_day(fields: &[Field; 5], date: Date) -> bool {
    let [_, _, day, month, weekday] = fields;
    let is_day = day.has(date.day());
    let is_weekday = weekday.has(match date.weekday() {
        Weekday::Sunday => 0,
        other => other.to_monday_one_offset(),
    });
    let is_either = if day.is_any || weekday.is_any { is_day && is_weekday } else { is_day || is_weekday };
    month.has(date.month()) && is_either
}

fn parse_field(text: &str, bounds: Bounds) -> Result<Field, ScheduleError> {
    let mut field = Field { bits: 0, is_any: false };
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (bits, is_any) = parse_part(part, bounds).ok_or_else(|| ScheduleError::Part(part.to_owned()))?;
        field.bits |= bits;
        field.is_any |= is_any;
    }
    Ok(field)
}

/// `*`, `a`, `a-b`, each with a step; `a/n` runs from `a` to the end.
fn parse_part(text: &str, bounds: Bounds) -> Option<(u64, bool)> {
    let (range, step) = match text.split_once('/') {
        None => (text, None),
        Some((range, step)) => (range, Some(step.parse::<u32>().ok().filter(|step| *step > 0)?)),
    };
    let (start, end) = match range.split_once('-') {
        _ if range == "*" || range == "?" => (bounds.min, bounds.max),
        Some((start, end)) => (parse_value(start, bounds)?, parse_value(end, bounds)?),
        None => {
            let start = parse_value(range, bounds)?;
            (start, if step.is_some() { bounds.max } else { start })
        }
    };
    if start < bounds.min || end > bounds.max || start > end {
        return None;
    }
    let every = usize::try_from(step.unwrap_or(1)).ok()?;
    let bits = (start..=end).step_by(every).fold(0, |bits, value| bits | 1u64 << value);
    // `*/2` no longer counts as `*`.
    Some((bits, matches!(range, "*" | "?") && step.is_none_or(|step| step == 1)))
}

fn parse_value(text: &str, bounds: Bounds) -> Option<u32> {
    let name = bounds.names.iter().zip(bounds.first..).find(|(name, _)| name.eq_ignore_ascii_case(text));
    name.map(|(_, value)| value).or_else(|| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times like `2026-05-01T00:00:00Z`; empty if the schedule never matches.
    #[track_caller]
    fn check(schedule: &str, zone: &str, now: &str, expected: &str) {
        let schedule = Schedule::parse(schedule, Some(zone)).expect("a schedule");
        let next = schedule.next_after(now.parse().expect("a time"));
        assert_eq!(next.map(|next| next.to_string()).unwrap_or_default(), expected, "{schedule:?}");
    }

    #[test]
    fn the_next_time_is_the_first_that_fits_all_fields() {
        // A Friday.
        let now = "2026-05-01T10:20:30Z";
        check("* * * * *", "UTC", now, "2026-05-01T10:21:00Z");
        check("*/15 * * * *", "UTC", now, "2026-05-01T10:30:00Z");
        check("20 10 * * *", "UTC", now, "2026-05-02T10:20:00Z");
        check("0 8-18/4 * * *", "UTC", now, "2026-05-01T12:00:00Z");
        check("5/20 * * * *", "UTC", now, "2026-05-01T10:25:00Z");
        check("0 0 * * MON-fri", "UTC", "2026-05-01T00:00:00Z", "2026-05-04T00:00:00Z");
        check("0 0 31 * *", "UTC", "2026-06-01T00:00:00Z", "2026-07-31T00:00:00Z");
        check("0 0 1 jan ?", "UTC", now, "2027-01-01T00:00:00Z");
        check("@weekly", "UTC", now, "2026-05-03T00:00:00Z");
        check("30 9 * * *", "Asia/Shanghai", now, "2026-05-02T01:30:00Z");
        check("CRON_TZ=Asia/Shanghai 30 9 * * *", "UTC", now, "2026-05-02T01:30:00Z");
        check("@every 1h30m", "UTC", now, "2026-05-01T11:50:30Z");
        check("@every 10ms", "UTC", now, "2026-05-01T10:20:31Z");
        check("0 0 30 2 *", "UTC", now, "");
        check("0 0 29 2 *", "UTC", now, "2028-02-29T00:00:00Z");
    }

    #[test]
    fn a_day_of_the_month_or_of_the_week_is_enough_when_both_are_named() {
        let now = "2026-05-01T10:20:30Z";
        check("0 0 15 * SAT", "UTC", now, "2026-05-02T00:00:00Z");
        check("0 0 */2 * SAT", "UTC", now, "2026-05-02T00:00:00Z");
        check("0 0 3 * *", "UTC", now, "2026-05-03T00:00:00Z");
    }

    #[test]
    fn a_time_skipped_by_dst_never_matches_and_a_repeated_one_matches_twice() {
        let zone = "Europe/Berlin";
        check("30 2 * * *", zone, "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z");
        check("30 2 * * *", zone, "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z");
        check("30 2 * * *", zone, "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z");
    }

    #[test]
    fn malformed_schedules_are_rejected() {
        for text in [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* * 0 * *",
            "* * * * 7",
            "*/0 * * * *",
            "5-1 * * * *",
            "a * * * *",
            "@always",
            "@every ",
            "@every 5",
            "@every 5x",
            "TZ=Nowhere/Land * * * * *",
        ] {
            assert!(Schedule::parse(text, Some("UTC")).is_err(), "{text}");
        }
        assert!(Schedule::parse("* * * * *", Some("Nowhere/Land")).is_err());
    }
}
