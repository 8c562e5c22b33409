//! The environment of tests.

use super::ScriptEnvironment;
use std::sync::Arc;
use std::time::Instant;

impl ScriptEnvironment {
    /// Has the real time limit of scripts.
    pub(crate) fn for_tests() -> Self {
        let start = Instant::now();
        Self { stopwatch: Arc::new(move || start.elapsed()), ..Self::for_loading() }
    }
}
