//! Output of commands: results on standard output, progress and warnings on standard error.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

/// The two output streams of a command: results for scripts, notes for people.
pub struct Console {
    out: Mutex<Box<dyn Write + Send>>,
    err: Mutex<Box<dyn Write + Send>>,
    /// The name the program was called by, for hints such as `flotilla unjoin m1 --force`.
    pub program: String,
    /// The results go to a terminal that shows colors.
    has_colors: bool,
}

/// Returns true if a stream is a terminal that shows colors, and the user did not turn them off with NO_COLOR.
pub fn shows_colors(stream: &impl IsTerminal) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stream.is_terminal() && !is_dumb && !is_set("NO_COLOR")
}

/// Returns the text in red.
pub fn in_red(text: &str) -> String {
    format!("\x1b[31m{text}\x1b[0m")
}

impl Console {
    pub fn new(program: &str, out: Box<dyn Write + Send>, err: Box<dyn Write + Send>) -> Self {
        Self { out: Mutex::new(out), err: Mutex::new(err), program: program.to_owned(), has_colors: false }
    }

    /// Standard output and standard error.
    pub fn standard(program: &str) -> Self {
        let console = Self::new(program, Box::new(std::io::stdout()), Box::new(std::io::stderr()));
        Self { has_colors: shows_colors(&std::io::stdout()), ..console }
    }

    /// Returns a failure as it is printed in a result: in red on a terminal.
    pub fn failure(&self, text: &str) -> String {
        if self.has_colors { in_red(text) } else { text.to_owned() }
    }

    /// Prints a part of the result.
    pub fn print(&self, text: &str) -> std::io::Result<()> {
        self.print_bytes(text.as_bytes())
    }

    /// Prints bytes as they are, such as logs.
    pub fn print_bytes(&self, bytes: &[u8]) -> std::io::Result<()> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(bytes)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_red_on_a_terminal_only() {
        let mut console = Console::new("flotilla", Box::new(std::io::sink()), Box::new(std::io::sink()));
        assert_eq!(console.failure("✗"), "✗");
        console.has_colors = true;
        assert_eq!(console.failure("✗"), "\x1b[31m✗\x1b[0m");
        let file = tempfile::tempfile().unwrap();
        assert!(!shows_colors(&file));
    }
}
