//! `os.time` and `os.date`, the only functions of `os` available to scripts, with Karmada's formats.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};
use mlua::{Error, Lua, Result, Table, Value};

/// The time of a call, in seconds since 1970; the same during the whole call.
#[derive(Clone, Default)]
pub struct CallTime(Arc<AtomicI64>);

impl CallTime {
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_second(), Ordering::Relaxed);
    }

    fn seconds(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub fn functions(lua: &Lua, zone: &TimeZone, now: &CallTime) -> Result<Table> {
    let table = lua.create_table()?;
    let (local, clock) = (zone.clone(), now.clone());
    let time = move |_: &Lua, fields: Option<Table>| match fields {
        Some(fields) => time(&fields, &local),
        None => Ok(clock.seconds()),
    };
    table.raw_set("time", lua.create_function(time)?)?;
    let (local, clock) = (zone.clone(), now.clone());
    let date = move |lua: &Lua, (format, seconds): (Option<String>, Option<f64>)| {
        date(lua, format, seconds.map_or_else(|| clock.seconds(), |seconds| seconds as i64), &local)
    };
    table.raw_set("date", lua.create_function(date)?)?;
    Ok(table)
}

fn time(date: &Table, zone: &TimeZone) -> Result<i64> {
    let field = |key: &str, default: i64| match date.raw_get::<Value>(key) {
        Ok(Value::Integer(number)) => number,
        Ok(Value::Number(number)) => number as i64,
        _ => default,
    };
    // Fields out of range carry over to the next larger one, as in Go and C.
    let months = field("month", -1) - 1;
    let year = field("year", -1).saturating_add(months.div_euclid(12));
    let month = months.rem_euclid(12) + 1;
    let out_of_range = || Error::runtime("time is out of range");
    let first = DateTime::new(
        i16::try_from(year).map_err(|_| out_of_range())?,
        i8::try_from(month).map_err(|_| out_of_range())?,
        1,
        0,
        0,
        0,
        0,
    )
    .map_err(|_| out_of_range())?;
    let days = (field("day", -1) - 1).saturating_mul(86_400);
    let seconds = days
        .saturating_add(field("hour", 12).saturating_mul(3_600))
        .saturating_add(field("min", 0).saturating_mul(60))
        .saturating_add(field("sec", 0));
    let date = first.checked_add(SignedDuration::from_secs(seconds)).map_err(|_| out_of_range())?;
    let zoned = date.to_zoned(zone.clone()).map_err(|_| out_of_range())?;
    Ok(zoned.timestamp().as_second())
}

fn date(lua: &Lua, format: Option<String>, seconds: i64, local: &TimeZone) -> Result<Value> {
    let format = format.as_deref().unwrap_or("%c");
    let (zone, format) = match format.strip_prefix('!') {
        Some(rest) => (TimeZone::UTC, rest.trim_start_matches('!')),
        None => (local.clone(), format),
    };
    let time = Timestamp::from_second(seconds).map_err(|_| Error::runtime("time is out of range"))?.to_zoned(zone);
    if format.starts_with("*t") {
        return parts(lua, &time).map(Value::Table);
    }
    lua.create_string(strftime(&time, format)).map(Value::String)
}

fn parts(lua: &Lua, time: &Zoned) -> Result<Table> {
    let table = lua.create_table()?;
    let numbers = [
        ("year", i64::from(time.year())),
        ("month", i64::from(time.month())),
        ("day", i64::from(time.day())),
        ("hour", i64::from(time.hour())),
        ("min", i64::from(time.minute())),
        ("sec", i64::from(time.second())),
        ("wday", i64::from(time.weekday().to_sunday_one_offset())),
        // Karmada does not set the last two.
        ("yday", 0),
    ];
    for (key, number) in numbers {
        table.raw_set(key, number)?;
    }
    table.raw_set("isdst", false)?;
    Ok(table)
}

fn strftime(time: &Zoned, format: &str) -> String {
    let mut out = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        let Some(flag) = characters.next() else {
            out.push('%');
            break;
        };
        let text = |format: &str| time.strftime(format).to_string();
        match flag {
            '%' => out.push('%'),
            // Karmada's layout for this flag is not a layout, so the literal word is printed.
            'a' => out.push_str("mon"),
            'A' | 'b' | 'B' | 'd' | 'F' | 'H' | 'I' | 'm' | 'M' | 'p' | 'P' | 'S' | 'y' | 'Y' | 'z' | 'Z' => {
                out.push_str(&text(&format!("%{flag}")));
            }
            'c' => out.push_str(&text("%d %b %y %H:%M %Z")),
            'x' => out.push_str(&text("%H/%M/%S")),
            'X' => out.push_str(&text("%H:%M:%S")),
            'w' => out.push_str(&time.weekday().to_sunday_zero_offset().to_string()),
            other => {
                out.push('%');
                out.push(other);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_formatted_with_karmadas_flags() {
        let time = "2024-03-14T15:30:45Z".parse::<Timestamp>().expect("a time").to_zoned(TimeZone::UTC);
        let cases = [
            ("%Y-%m-%d %H:%M:%S", "2024-03-14 15:30:45"),
            ("%%Y", "%Y"),
            ("%w", "4"),
            ("%B %b %A", "March Mar Thursday"),
            ("%I %p %P", "03 PM pm"),
            ("%z %Z", "+0000 UTC"),
            ("%F %y", "2024-03-14 24"),
            ("%c", "14 Mar 24 15:30 UTC"),
            ("%x %X", "15/30/45 15:30:45"),
            ("%a %q", "mon %q"),
        ];
        for (format, expected) in cases {
            assert_eq!(strftime(&time, format), expected, "{format}");
        }
    }
}
