//! The environment of scripts in this process.

use std::sync::Arc;
use std::time::Instant;

use interpreter::ScriptEnvironment;
use jiff::tz::TimeZone;

/// The zone and the monotonic clock of this machine; `print` writes to the log.
pub fn system() -> ScriptEnvironment {
    let start = Instant::now();
    ScriptEnvironment {
        zone: TimeZone::system(),
        stopwatch: Arc::new(move || start.elapsed()),
        print: Arc::new(|line| tracing::debug!(target: "interpreter::lua", "{line}")),
    }
}
