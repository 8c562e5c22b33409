//! `cargo xtask` checks the repository rules; `lower` updates the ratchet files; `tests` runs every test; `licences` and `sbom DATE`
//! print the licences of dependencies and the bill of materials of a release; `codegen` generates code from the proto files.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let result = match std::env::args().nth(1).as_deref() {
        None => check(&root),
        Some("lower") => lower(&root),
        Some("tests") => xtask::tests_runner::run(&root),
        Some("codegen") => xtask::codegen::run(&root),
        Some("licences") => licences(&root),
        Some("sbom") => sbom(&root),
        Some(other) => Err(anyhow::anyhow!(
            "unknown command {other:?}; use `lower`, `tests`, `licences`, `sbom`, `codegen`, or none for the rules"
        )),
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

fn licences(root: &Path) -> anyhow::Result<bool> {
    writeln!(std::io::stdout(), "{}", xtask::inventory::licences(&xtask::inventory::components(root)?)?)?;
    Ok(true)
}

fn sbom(root: &Path) -> anyhow::Result<bool> {
    let date = std::env::args().nth(2).unwrap_or_else(|| "1970-01-01T00:00:00Z".to_owned());
    let components = xtask::inventory::components(root)?;
    let bill = xtask::inventory::bill_of_materials(&components, &xtask::inventory::version(root)?, &date);
    writeln!(std::io::stdout(), "{bill:#}")?;
    Ok(true)
}
