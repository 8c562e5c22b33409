//! Reports tests that are skipped because a program or a permission is missing.

use std::fmt::Display;
use std::io::Write;

/// The start of every report. The test runner counts programs with such a line as skipped.
pub const PREFIX: &str = "SKIPPED: ";

/// Reports the current test as skipped.
///
/// Writes to stderr directly, because the test harness hides the output of `eprintln!` in tests that pass.
pub fn skip(reason: impl Display) {
    let thread = std::thread::current();
    let line = format!("{PREFIX}{}: {reason}\n", thread.name().unwrap_or("a test"));
    // A closed stderr must not fail the test.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs this test program again with one test that calls `skip`, as the runner would.
    #[test]
    fn a_skipped_test_is_reported_although_it_passes() {
        let program = std::env::current_exe().expect("this test has a path");
        let output = std::process::Command::new(program)
            .args(["--exact", "tests::skips_when_asked"])
            .env("TEST_SKIP_NOW", "1")
            .output()
            .expect("the test program runs");
        assert!(output.status.success());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.lines().any(|line| line == "SKIPPED: tests::skips_when_asked: no reason"), "{stderr}");
    }

    #[test]
    fn skips_when_asked() {
        if std::env::var_os("TEST_SKIP_NOW").is_some() {
            skip("no reason");
        }
    }
}
