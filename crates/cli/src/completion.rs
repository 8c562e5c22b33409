//! `flotilla completion`: completion scripts for shells.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

#[derive(Args)]
pub struct CompletionArgs {
    /// Shell to generate the script for, as in `source <(flotilla completion bash)`.
    shell: Shell,
}

pub fn run(args: &CompletionArgs, name: &'static str) -> anyhow::Result<()> {
    let mut command = ::karmadactl::program::adapt(crate::dispatch::Cli::command(), name);
    // Shells complete the name of the program's file.
    let file = if name == "kubectl karmada" { "kubectl-karmada" } else { name };
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, file, &mut script);
    // Written in one call, so that a closed pipe is an error and not a panic.
    std::io::stdout().write_all(&script)?;
    Ok(())
}
