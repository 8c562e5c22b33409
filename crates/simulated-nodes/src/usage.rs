//! Resource usage of a pod over time: constant, a ramp, a wave, or a share of a load divided among siblings.

use std::time::Duration;

use object::quantity::Quantity;

use crate::duration;

/// An amount over time, in thousandths of the unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Program {
    Fixed(i64),
    /// From one amount to another over some time, then constant.
    Ramp {
        from: i64,
        to: i64,
        over: Duration,
    },
    /// Oscillates between two amounts.
    Sine {
        low: i64,
        high: i64,
        period: Duration,
    },
    /// A total that is divided among the running pods of the same owner.
    Shared(i64),
}

/// The inputs of an amount.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Since the pod started.
    pub age: Duration,
    /// Since the epoch, so that pods of one workload oscillate in phase.
    pub time: Duration,
    /// Running pods of the same owner, this one included.
    pub siblings: u64,
}

impl Program {
    /// Parses `250m`, `ramp(100m,900m,5m)`, `sine(100m,900m,10m)` or `shared(2)`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let Some((name, rest)) = text.split_once('(') else { return amount(text).map(Self::Fixed) };
        let arguments: Vec<&str> = rest.strip_suffix(')')?.split(',').map(str::trim).collect();
        Some(match (name.trim(), arguments.as_slice()) {
            ("ramp", [from, to, over]) => {
                Self::Ramp { from: amount(from)?, to: amount(to)?, over: duration::parse(over)? }
            }
            ("sine", [low, high, period]) => {
                let period = duration::parse(period).filter(|period| !period.is_zero())?;
                Self::Sine { low: amount(low)?, high: amount(high)?, period }
            }
            ("shared", [total]) => Self::Shared(amount(total)?),
            _ => return None,
        })
    }

    pub fn milli(&self, at: Moment) -> i64 {
        match *self {
            Self::Fixed(amount) => amount,
            Self::Ramp { from, to, over } => {
                let done = if over.is_zero() { 1.0 } else { (at.age.as_secs_f64() / over.as_secs_f64()).min(1.0) };
                between(from, to, done)
            }
            Self::Sine { low, high, period } => {
                let turns = at.time.as_secs_f64() / period.as_secs_f64();
                between(low, high, (1.0 - (turns * std::f64::consts::TAU).cos()) / 2.0)
            }
            Self::Shared(total) => total / at.siblings.max(1).min(i64::MAX as u64) as i64,
        }
    }
}

fn between(from: i64, to: i64, part: f64) -> i64 {
    (from as f64 + (to as f64 - from as f64) * part).round() as i64
}

fn amount(text: &str) -> Option<i64> {
    Quantity::parse(text).ok().filter(|amount| !amount.is_negative()).map(|amount| amount.milli_value())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, seconds: u64, siblings: u64, expected: i64) {
        let program = Program::parse(text).expect("a program");
        let time = Duration::from_secs(seconds);
        assert_eq!(program.milli(Moment { age: time, time, siblings }), expected, "{text} after {seconds} s");
    }

    #[test]
    fn usage_follows_its_program() {
        check("250m", 1000, 1, 250);
        check("ramp(100m, 900m, 100s)", 0, 1, 100);
        check("ramp(100m, 900m, 100s)", 50, 1, 500);
        check("ramp(100m, 900m, 100s)", 5000, 1, 900);
        check("ramp(1,0,0s)", 0, 1, 0);
        check("sine(100m,900m,60s)", 0, 1, 100);
        check("sine(100m,900m,60s)", 30, 1, 900);
        check("sine(100m,900m,60s)", 60, 1, 100);
        check("shared(2)", 0, 4, 500);
        check("shared(2)", 0, 0, 2000);
        check("64Mi", 0, 1, 64 * 1024 * 1024 * 1000);
    }

    #[test]
    fn invalid_programs_are_rejected() {
        for text in ["", "fast", "ramp(1,2)", "sine(1,2,0s)", "-5", "shared()", "ramp(1,2,3s"] {
            assert_eq!(Program::parse(text), None, "{text:?}");
        }
    }
}
