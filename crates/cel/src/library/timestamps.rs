//! Components of timestamps and durations.

use super::{CallContext, Function, fail, no_overload_for};
use crate::value::time::Duration;
use crate::value::{Evaluated, Value};
use jiff::civil::DateTime;

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "getFullYear" => |context, args| part(context, args, |time| i64::from(time.year())),
        "getMonth" => |context, args| part(context, args, |time| i64::from(time.month()) - 1),
        "getDayOfYear" => |context, args| part(context, args, |time| i64::from(time.day_of_year()) - 1),
        "getDayOfMonth" => |context, args| part(context, args, |time| i64::from(time.day()) - 1),
        "getDate" => |context, args| part(context, args, |time| i64::from(time.day())),
        "getDayOfWeek" => |context, args| part(context, args, |time| i64::from(time.weekday().to_sunday_zero_offset())),
        "getHours" => |context, args| clock(context, args, 3_600_000_000_000, |time| i64::from(time.hour())),
        "getMinutes" => |context, args| clock(context, args, 60_000_000_000, |time| i64::from(time.minute())),
        "getSeconds" => |context, args| clock(context, args, 1_000_000_000, |time| i64::from(time.second())),
        "getMilliseconds" => |context, args| clock(context, args, 1_000_000, |time| i64::from(time.millisecond())),
        _ => return None,
    })
}

fn part<'a>(context: &CallContext, args: &[Value<'a>], read: fn(&DateTime) -> i64) -> Evaluated<'a> {
    let (time, zone) = match args {
        [Value::Timestamp(time)] => (time, None),
        [Value::Timestamp(time), Value::String(zone)] => (time, Some(&**zone)),
        _ => return no_overload_for(context, args),
    };
    match time.civil(zone) {
        Some(civil) => Ok(Value::Int(read(&civil))),
        None => fail(format!("unknown time zone {}", zone.unwrap_or_default())),
    }
}

/// A part of the time of day of an instant, or a whole duration in units of `nanos`.
fn clock<'a>(context: &CallContext, args: &[Value<'a>], nanos: i64, read: fn(&DateTime) -> i64) -> Evaluated<'a> {
    match args {
        [Value::Duration(Duration(total))] => Ok(Value::Int(total / nanos)),
        _ => part(context, args, read),
    }
}
