//! `cargo xtask` checks the repository rules; `cargo xtask lower` updates the ratchet files; `cargo xtask tests` runs every test.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let result = match std::env::args().nth(1).as_deref() {
        None => check(&root),
        Some("lower") => lower(&root),
        Some("tests") => xtask::tests_runner::run(&root),
        Some(other) => Err(anyhow::anyhow!("unknown command {other:?}; use `lower`, `tests`, or none for the rules")),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn check(root: &Path) -> anyhow::Result<bool> {
    let mut errors = xtask::tidy::complaints(root);
    errors.extend(xtask::layers::complaints(root)?);
    let files = xtask::source::read_all(root)?;
    for name in xtask::ratchet::names() {
        let outcome = xtask::ratchet::compare(root, &files, name)?;
        errors.extend(outcome.errors);
        outcome.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    }
    errors.iter().for_each(|error| eprintln!("{error}"));
    Ok(errors.is_empty())
}

fn lower(root: &Path) -> anyhow::Result<bool> {
    xtask::ratchet::lower(root, &xtask::source::read_all(root)?)?;
    Ok(true)
}
