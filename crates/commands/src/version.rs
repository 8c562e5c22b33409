//! `version`: what this program is, and which Karmada it speaks.

use clap::Args;

use crate::console::Console;

/// The release of Karmada whose API and behaviour this program has.
const KARMADA_VERSION: &str = "v1.18.2";

/// Print the version information.
#[derive(Args, Debug)]
pub struct VersionArgs {}

pub fn run(console: &Console, _: &VersionArgs) -> anyhow::Result<()> {
    let program = &console.program;
    let own = env!("CARGO_PKG_VERSION");
    // Scripts that look for Karmada's version find it where karmadactl has it.
    console.line(format!(
        "{program} version: version.Info{{GitVersion:\"{KARMADA_VERSION}\", GitCommit:\"\", GitShortCommit:\"\", \
         GitTreeState:\"\", BuildDate:\"\", GoVersion:\"\", Compiler:\"rustc\", Platform:\"{}/{}\", Flotilla:\"{own}\"}}",
        std::env::consts::OS,
        std::env::consts::ARCH
    ))?;
    Ok(())
}
