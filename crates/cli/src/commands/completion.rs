//! `flotilla completion`: scripts for the shells people use.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

#[derive(Args)]
pub struct CompletionArgs {
    /// The shell to complete in, as in `source <(flotilla completion bash)`.
    shell: Shell,
}

pub fn run(args: &CompletionArgs) -> anyhow::Result<()> {
    clap_complete::generate(args.shell, &mut super::Cli::command(), "flotilla", &mut std::io::stdout());
    Ok(())
}
