//! `version`: the version of this program and of the Karmada API.

use clap::Args;

use crate::console::Console;

/// The Karmada release this program is compatible with.
const KARMADA_VERSION: &str = "v1.18.2";

/// Print the version information.
#[derive(Args, Debug)]
pub struct VersionArgs {}

pub fn run(console: &Console, _: &VersionArgs) -> anyhow::Result<()> {
    let program = &console.program;
    let own = env!("CARGO_PKG_VERSION");
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    // Scripts find Karmada's version where karmadactl prints it.
    console.line(format!(
        "{program} version: version.Info{{GitVersion:\"{KARMADA_VERSION}\", GitCommit:\"unknown\", \
         GitShortCommit:\"unknown\", GitTreeState:\"unknown\", BuildDate:\"unknown\", GoVersion:\"none\", \
         Compiler:\"rustc\", Platform:\"{}/{architecture}\", Flotilla:\"{own}\"}}",
        std::env::consts::OS
    ))?;
    Ok(())
}
