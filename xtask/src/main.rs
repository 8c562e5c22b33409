//! `cargo xtask`: prints what the house rules find, without running the rest of the tests.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut complaints = xtask::tidy::complaints(&root);
    match xtask::layers::complaints(&root) {
        Ok(found) => complaints.extend(found),
        Err(error) => complaints.push(format!("{error:#}")),
    }
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
