//! Progress reports of a running operation.

/// Receives progress and warnings of an operation.
pub trait Progress: Send + Sync {
    /// Reports a step, for the person waiting.
    fn note(&self, text: &str);

    /// Reports a problem that does not stop the operation.
    fn warn(&self, text: &str);
}

/// Discards all progress.
pub struct NoProgress;

impl Progress for NoProgress {
    fn note(&self, _: &str) {}

    fn warn(&self, _: &str) {}
}

#[cfg(test)]
pub mod testing {
    //! Progress a test can read.

    use std::sync::{Mutex, PoisonError};

    use super::Progress;

    /// Records notes and warnings, one per line.
    #[derive(Default)]
    pub struct RecordedProgress(Mutex<String>);

    impl RecordedProgress {
        pub fn text(&self) -> String {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
        }

        fn push(&self, line: String) {
            let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *text += &line;
        }
    }

    impl Progress for RecordedProgress {
        fn note(&self, text: &str) {
            self.push(format!("{text}\n"));
        }

        fn warn(&self, text: &str) {
            self.push(format!("Warning: {text}\n"));
        }
    }
}
