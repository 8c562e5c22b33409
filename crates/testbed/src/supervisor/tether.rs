//! Programs of a testbed do not outlive their supervisor, however it ends.

use provisioners::process::TETHER;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// Asks the kernel for an end together with the supervisor, where this is one of its programs.
pub fn tether() {
    let Some(supervisor) = std::env::var(TETHER).ok().and_then(|text| text.parse::<i32>().ok()) else { return };
    // What the program itself starts inherits the variable, but has another parent.
    if getppid().is_some_and(|parent| parent.as_raw_nonzero().get() == supervisor) {
        // Without it the program would only be ended by the next supervisor.
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
    }
}
