//! Progress of a long copy, printed at most once per second.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use ::karmadactl::console::Console;

const EVERY: Duration = Duration::from_secs(1);

pub struct BackupProgress<'c> {
    console: &'c Console,
    done: &'static str,
    total: u64,
    last_line: Mutex<Instant>,
}

impl<'c> BackupProgress<'c> {
    /// `done` is a participle: `read`, `written`. A total of 0 means unknown.
    pub fn new(console: &'c Console, done: &'static str, total: u64) -> Self {
        Self { console, done, total, last_line: Mutex::new(Instant::now()) }
    }

    pub fn at(&self, count: u64) {
        let mut last_line = self.last_line.lock().unwrap_or_else(PoisonError::into_inner);
        if last_line.elapsed() < EVERY {
            return;
        }
        *last_line = Instant::now();
        match self.total {
            0 => self.console.note(format_args!("{} objects {}", count, self.done)),
            total => self.console.note(format_args!("{count} of {total} objects {}", self.done)),
        }
    }
}
