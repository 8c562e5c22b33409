//! `xtask` prints violations of the source rules; `xtask tests` builds and runs every test.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    match std::env::args().nth(1).as_deref() {
        None => house_rules(&root),
        Some("tests") => match xtask::tests_runner::run(&root) {
            Ok(()) => ExitCode::SUCCESS,
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

fn house_rules(root: &Path) -> ExitCode {
    let mut complaints = xtask::tidy::complaints(root);
    match xtask::layers::complaints(root) {
        Ok(found) => complaints.extend(found),
        Err(error) => complaints.push(format!("{error:#}")),
    }
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
