//! The parts of its process that a script can observe.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;

/// Passed in by the program: this crate reads no clock, no time zone and writes no log.
#[derive(Clone)]
pub struct ScriptEnvironment {
    /// The zone of `os.date` and `os.time`.
    pub zone: TimeZone,
    /// Time since a fixed moment, for the time limit of scripts.
    pub stopwatch: Arc<dyn Fn() -> Duration + Send + Sync>,
    /// Receives the lines of `print`.
    pub print: Arc<dyn Fn(&str) + Send + Sync>,
}

impl ScriptEnvironment {
    /// For scripts that are loaded and not run: without a stopwatch there is no time limit.
    pub(crate) fn for_loading() -> Self {
        Self { zone: TimeZone::UTC, stopwatch: Arc::new(|| Duration::ZERO), print: Arc::new(|_| {}) }
    }
}

#[cfg(test)]
mod tests;
