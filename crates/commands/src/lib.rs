//! The commands that talk to a control plane, as a library: what they accept, and what they do.

pub mod console;
pub mod cordon;
pub mod describe;
mod durations;
pub mod get;
pub mod join;
mod jsonpath;
mod output;
pub mod plane;
pub mod program;
mod resources;
mod scope;
mod table;
mod tabs;
pub mod taint;
pub mod unjoin;
pub mod version;
mod yaml;

use clap::Subcommand;

use crate::console::Console;

/// What users of a control plane can ask for.
#[derive(Subcommand, Debug)]
pub enum Command {
    Get(Box<get::GetArgs>),
    Describe(Box<describe::DescribeArgs>),
    Join(Box<join::JoinArgs>),
    Unjoin(Box<unjoin::UnjoinArgs>),
    Cordon(cordon::CordonArgs),
    Uncordon(cordon::UncordonArgs),
    Taint(taint::TaintArgs),
    Version(version::VersionArgs),
}

pub async fn run(console: &Console, command: Command) -> anyhow::Result<()> {
    match command {
        Command::Get(args) => get::run(console, *args).await,
        Command::Describe(args) => describe::run(console, *args).await,
        Command::Join(args) => join::run(console, *args).await,
        Command::Unjoin(args) => unjoin::run(console, *args).await,
        Command::Cordon(args) => cordon::cordon(console, args).await,
        Command::Uncordon(args) => cordon::uncordon(console, args).await,
        Command::Taint(args) => taint::run(console, args).await,
        Command::Version(args) => version::run(console, &args),
    }
}

/// An end that needs no further words: the command has said what is wrong, or another program has.
#[derive(Debug, thiserror::Error)]
#[error("exit code {0}")]
pub struct Exit(pub u8);

/// The code to end with, when an error is only that.
pub fn exit_code(error: &anyhow::Error) -> Option<u8> {
    error.downcast_ref::<Exit>().map(|exit| exit.0)
}
