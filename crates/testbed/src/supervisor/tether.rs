//! Ties the processes of a testbed to their supervisor: they are terminated when it exits.

use provisioners::process::TETHER;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// Requests SIGTERM on the supervisor's exit, if this process was started by it.
pub fn tether() {
    let Some(supervisor) = std::env::var(TETHER).ok().and_then(|text| text.parse::<i32>().ok()) else { return };
    // Child processes inherit the variable, but have another parent.
    if getppid().is_some_and(|parent| parent.as_raw_nonzero().get() == supervisor) {
        // If this fails, the next supervisor stops the process.
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
    }
}
