//! `xtask` prints violations of the source rules; `xtask tests` builds and runs every test.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    match std::env::args().nth(1).as_deref() {
        None => check_sources(&root),
        Some("tests") => match xtask::tests_runner::run(&root) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("{error:#}");
                ExitCode::FAILURE
            }
        },
        Some(other) => {
            eprintln!("xtask: unknown command {other:?}; use `tests`, or no command to check the source rules");
            ExitCode::FAILURE
        }
    }
}

fn check_sources(root: &Path) -> ExitCode {
    let mut violations = xtask::tidy::complaints(root);
    match xtask::layers::complaints(root) {
        Ok(found) => violations.extend(found),
        Err(error) => violations.push(format!("{error:#}")),
    }
    for violation in &violations {
        eprintln!("{violation}");
    }
    if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
