//! Progress and errors of membership operations, shown as the other commands show theirs.

use membership::{MembershipError, Progress};

use crate::console::Console;

impl Progress for Console {
    fn note(&self, text: &str) {
        self.note(text);
    }

    fn warn(&self, text: &str) {
        self.warn(text);
    }
}

/// Converts an error so that a plain answer of the API server is printed as kubectl prints it.
pub fn to_anyhow(error: MembershipError) -> anyhow::Error {
    match error {
        MembershipError::ControlPlane(status) => status.into(),
        other => other.into(),
    }
}
