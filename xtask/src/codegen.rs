//! Generates the code of the manager's API from its proto files.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

const FOLDER: &str = "crates/manager-api/generated";

/// The generator is a test, so that one program both writes the files and finds them out of date.
pub fn run(root: &Path) -> anyhow::Result<bool> {
    for name in ["messages.rs", "services.rs"] {
        // The test links the crate; code of an older definition may not compile.
        std::fs::write(root.join(FOLDER).join(name), "").with_context(|| format!("cannot empty {name}"))?;
    }
    let mut command = Command::new("cargo");
    command.args(["test", "-p", "manager-api", "--test", "generated"]).env("FLOTILLA_CODEGEN", "write");
    Ok(command.current_dir(root).status().context("cannot run cargo")?.success())
}
