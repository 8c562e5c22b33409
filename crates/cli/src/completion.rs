//! `flotilla completion`: scripts for the shells people use.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

#[derive(Args)]
pub struct CompletionArgs {
    /// The shell to complete in, as in `source <(flotilla completion bash)`.
    shell: Shell,
}

pub fn run(args: &CompletionArgs, name: &'static str) -> anyhow::Result<()> {
    let mut command = ::karmadactl::program::adapt(crate::dispatch::Cli::command(), name);
    // Shells complete the name of the program's file.
    let file = if name == "kubectl karmada" { "kubectl-karmada" } else { name };
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, file, &mut script);
    // Written here, so that a reader who goes away is no panic.
    std::io::stdout().write_all(&script)?;
    Ok(())
}
