//! Instants and durations with CEL's ranges and Go's notations.

use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::fmt;

const NANOS_PER_SECOND: i128 = 1_000_000_000;
/// 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z, the range of CEL timestamps.
const SECONDS_MIN: i64 = -62_135_596_800;
const SECONDS_MAX: i64 = 253_402_300_799;

/// Nanoseconds, about 292 years either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(pub i64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    seconds: i64,
    nanos: u32,
}

impl Duration {
    /// Go's notation: a sequence of decimal numbers with units, such as `1h30m` or `-1.5s`.
    pub fn parse(text: &str) -> Option<Self> {
        object::duration::parse(text).ok().and_then(|length| i64::try_from(length.as_nanos()).ok()).map(Self)
    }

    /// The values of OpenAPI's `duration` format: Go's notation, or a number and a unit in words.
    pub fn parse_lenient(text: &str) -> Option<Self> {
        if let Some(duration) = Self::parse(text) {
            return Some(duration);
        }
        let mut total: i128 = 0;
        let mut rest = text.trim();
        if rest.is_empty() {
            return None;
        }
        while !rest.is_empty() {
            let (digits, after) = split_digits(rest);
            let after = after.trim_start();
            let end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
            total += i128::from(digits.parse::<i64>().ok()?) * word_nanos(&after[..end])?;
            rest = after[end..].trim_start();
        }
        i64::try_from(total).ok().map(Self)
    }

    pub(crate) fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    pub(crate) fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }
}

/// Seconds as the shortest decimal, as in `string(duration)`.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        write!(f, "{}s", seconds as f64 + nanos as f64 / 1e9)
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn word_nanos(unit: &str) -> Option<i128> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
        "us" | "µs" | "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
        "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
        "s" | "sec" | "secs" | "second" | "seconds" => NANOS_PER_SECOND,
        "m" | "min" | "mins" | "minute" | "minutes" => 60 * NANOS_PER_SECOND,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600 * NANOS_PER_SECOND,
        "d" | "day" | "days" => 86_400 * NANOS_PER_SECOND,
        "w" | "wk" | "wks" | "week" | "weeks" => 604_800 * NANOS_PER_SECOND,
        _ => return None,
    })
}

impl Timestamp {
    pub fn from_seconds(seconds: i64) -> Option<Self> {
        Self::new(seconds, 0)
    }

    fn new(seconds: i64, nanos: u32) -> Option<Self> {
        (SECONDS_MIN..=SECONDS_MAX).contains(&seconds).then_some(Self { seconds, nanos })
    }

    /// RFC 3339, as parsed by `timestamp()`.
    pub fn parse(text: &str) -> Option<Self> {
        let (local, offset) = match text.strip_suffix('Z') {
            Some(local) => (local, 0),
            None => {
                let at = text.len().checked_sub(6)?;
                let (local, offset) = (text.get(..at)?, text.get(at..)?);
                if !offset.starts_with(['+', '-']) {
                    return None;
                }
                (local, fixed_offset(offset)?)
            }
        };
        let civil = read_local(local)?;
        Self::from_nanos(since_epoch(civil) - i128::from(offset) * NANOS_PER_SECOND)
    }

    /// RFC 3339 with the extensions of OpenAPI's `date-time` format.
    pub fn parse_datetime(text: &str) -> Option<Self> {
        Self::parse(text).or_else(|| Self::from_nanos(since_epoch(read_local(text)?)))
    }

    /// `YYYY-MM-DD`, at midnight UTC.
    pub fn parse_date(text: &str) -> Option<Self> {
        if text.len() != 10 {
            return None;
        }
        let date = text.parse::<jiff::civil::Date>().ok()?;
        Self::from_nanos(since_epoch(date.at(0, 0, 0, 0)))
    }

    fn nanos(self) -> i128 {
        i128::from(self.seconds) * NANOS_PER_SECOND + i128::from(self.nanos)
    }

    fn from_nanos(nanos: i128) -> Option<Self> {
        let seconds = i64::try_from(nanos.div_euclid(NANOS_PER_SECOND)).ok()?;
        Self::new(seconds, u32::try_from(nanos.rem_euclid(NANOS_PER_SECOND)).ok()?)
    }

    pub fn seconds(self) -> i64 {
        self.seconds
    }

    pub(crate) fn checked_add(self, duration: Duration) -> Option<Self> {
        Self::from_nanos(self.nanos() + i128::from(duration.0))
    }

    pub(crate) fn checked_sub(self, duration: Duration) -> Option<Self> {
        Self::from_nanos(self.nanos() - i128::from(duration.0))
    }

    pub(crate) fn since(self, earlier: Self) -> Option<Duration> {
        i64::try_from(self.nanos() - earlier.nanos()).ok().map(Duration)
    }

    /// The civil time in a time zone: an offset such as `+02:00`, or a name such as `Europe/Berlin`.
    pub(crate) fn civil(self, zone: Option<&str>) -> Option<DateTime> {
        let offset = match zone {
            None | Some("" | "UTC") => 0,
            Some(zone) => match fixed_offset(zone) {
                Some(offset) => offset,
                None => self.offset_in(&TimeZone::get(zone).ok()?),
            },
        };
        let seconds = SignedDuration::new(self.seconds + i64::from(offset), i32::try_from(self.nanos).ok()?);
        EPOCH.checked_add(seconds).ok()
    }

    fn offset_in(self, zone: &TimeZone) -> i32 {
        // Zone rules end a day before CEL's last timestamp; the last known offset applies.
        let time = jiff::Timestamp::new(self.seconds, 0).unwrap_or(jiff::Timestamp::MAX);
        zone.to_offset(time).seconds()
    }
}

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

fn since_epoch(civil: DateTime) -> i128 {
    civil.duration_since(EPOCH).as_nanos()
}

/// `YYYY-MM-DDTHH:MM:SS` with an optional fraction.
fn read_local(text: &str) -> Option<DateTime> {
    let bytes = text.as_bytes();
    let shaped = bytes.len() >= 19 && bytes[10] == b'T' && bytes[4] == b'-' && bytes[13] == b':' && bytes[16] == b':';
    let plain = bytes.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b':' | b'T' | b'.'));
    // CEL has no leap seconds.
    if !shaped || !plain || &bytes[17..19] == b"60" {
        return None;
    }
    text.parse().ok()
}

/// Seconds east of Greenwich.
fn fixed_offset(zone: &str) -> Option<i32> {
    let (hours, minutes) = zone.split_once(':')?;
    let negative = hours.starts_with('-');
    let hours: i32 = hours.trim_start_matches(['+', '-']).parse().ok()?;
    let minutes: i32 = minutes.parse().ok()?;
    if !(0..24).contains(&hours) || !(0..60).contains(&minutes) {
        return None;
    }
    let seconds = hours * 3_600 + minutes * 60;
    Some(if negative { -seconds } else { seconds })
}

/// RFC 3339 in UTC with as many fraction digits as needed.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(time) = self.civil(None) else { return write!(f, "{}", self.seconds) };
        let (date, clock) = (time.date(), time.time());
        write!(f, "{:04}-{:02}-{:02}", date.year(), date.month(), date.day())?;
        write!(f, "T{:02}:{:02}:{:02}", clock.hour(), clock.minute(), clock.second())?;
        if self.nanos > 0 {
            write!(f, ".{}", format!("{:09}", self.nanos).trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}
