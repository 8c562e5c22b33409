//! `version`: the version of this program, the commit it was built from, and the version of the Karmada API.

use clap::Args;

use crate::console::Console;

/// The Karmada release this program is compatible with.
const KARMADA_VERSION: &str = "v1.18.2";

/// Print the version information.
#[derive(Args, Debug)]
pub struct VersionArgs {}

/// The source that a program was built from, as `tools/commit` sets it for the build.
struct BuildInfo<'a> {
    commit: Option<&'a str>,
    tree_state: Option<&'a str>,
    /// Date of the commit: the date of the build would make every build different.
    date: Option<&'a str>,
}

const BUILD: BuildInfo<'static> = BuildInfo {
    commit: option_env!("FLOTILLA_COMMIT"),
    tree_state: option_env!("FLOTILLA_TREE_STATE"),
    date: option_env!("FLOTILLA_COMMIT_DATE"),
};

pub fn run(console: &Console, _: &VersionArgs) -> anyhow::Result<()> {
    console.line(describe(&console.program, &BUILD))?;
    Ok(())
}

/// Scripts find Karmada's version where karmadactl prints it.
fn describe(program: &str, build: &BuildInfo<'_>) -> String {
    let own = env!("CARGO_PKG_VERSION");
    let unknown = "unknown";
    let commit = build.commit.unwrap_or(unknown);
    let short = commit.get(..12).unwrap_or(commit);
    let (state, date) = (build.tree_state.unwrap_or(unknown), build.date.unwrap_or(unknown));
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!(
        "{program} version: version.Info{{GitVersion:\"{KARMADA_VERSION}\", GitCommit:\"{commit}\", \
         GitShortCommit:\"{short}\", GitTreeState:\"{state}\", BuildDate:\"{date}\", GoVersion:\"none\", \
         Compiler:\"rustc\", Platform:\"{}/{architecture}\", Flotilla:\"{own}\", Build:\"{profile}\"}}",
        std::env::consts::OS
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commit_is_shown_where_karmadactl_shows_it() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let build = BuildInfo { commit: Some(commit), tree_state: Some("clean"), date: Some("2026-01-02T03:04:05Z") };
        let text = describe("flotilla", &build);
        for part in [
            "GitVersion:\"v1.18.2\"",
            "GitCommit:\"0123456789abcdef0123456789abcdef01234567\"",
            "GitShortCommit:\"0123456789ab\"",
            "GitTreeState:\"clean\"",
            "BuildDate:\"2026-01-02T03:04:05Z\"",
            "Build:\"debug\"",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let unknown = describe("flotilla", &BuildInfo { commit: None, tree_state: None, date: None });
        assert!(unknown.contains("GitCommit:\"unknown\", GitShortCommit:\"unknown\""), "{unknown}");
    }
}
