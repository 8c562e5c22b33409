//! Output of commands: results on standard output, progress and warnings on standard error.

use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// The two output streams of a command: results for scripts, notes for people.
pub struct Console {
    out: Mutex<Box<dyn Write + Send>>,
    err: Mutex<Box<dyn Write + Send>>,
    /// The name the program was called by, for hints such as `flotilla unjoin m1 --force`.
    pub program: String,
}

impl Console {
    pub fn new(program: &str, out: Box<dyn Write + Send>, err: Box<dyn Write + Send>) -> Self {
        Self { out: Mutex::new(out), err: Mutex::new(err), program: program.to_owned() }
    }

    /// Standard output and standard error.
    pub fn standard(program: &str) -> Self {
        Self::new(program, Box::new(std::io::stdout()), Box::new(std::io::stderr()))
    }

    /// Prints a part of the result.
    pub fn print(&self, text: &str) -> std::io::Result<()> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Prints a line of the result.
    pub fn line(&self, text: impl std::fmt::Display) -> std::io::Result<()> {
        self.print(&format!("{text}\n"))
    }

    /// Prints progress or a hint; a write error is ignored.
    pub fn note(&self, text: impl std::fmt::Display) {
        let mut err = self.err.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(err, "{text}");
    }

    pub fn warn(&self, text: impl std::fmt::Display) {
        self.note(format_args!("Warning: {text}"));
    }
}

#[cfg(test)]
pub mod testing {
    //! A console whose streams a test can read.

    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::Console;

    #[derive(Clone, Default)]
    pub struct Captured(Arc<Mutex<Vec<u8>>>);

    impl Captured {
        pub fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Returns a console with its captured output and notes.
    pub fn console() -> (Console, Captured, Captured) {
        let (out, err) = (Captured::default(), Captured::default());
        (Console::new("flotilla", Box::new(out.clone()), Box::new(err.clone())), out, err)
    }
}
