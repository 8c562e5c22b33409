//! `flotilla man`: writes man pages, or the reference of all commands as Markdown.

use std::path::PathBuf;

use ::karmadactl::console::Console;
use anyhow::Context;
use clap::{Args, CommandFactory};

/// Width of the texts in the reference.
const MARKDOWN_WIDTH: usize = 120;

#[derive(Args)]
#[command(after_help = "\
Examples:
  flotilla man ~/.local/share/man/man1
  man flotilla-up")]
pub struct ManArgs {
    /// Directory to write the pages to, created if missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Write one page cli.md instead, with all commands
    #[arg(long)]
    markdown: bool,
}

pub fn run(console: &Console, args: &ManArgs) -> anyhow::Result<()> {
    let cannot = || format!("cannot write pages to {}", args.directory.display());
    std::fs::create_dir_all(&args.directory).with_context(cannot)?;
    if args.markdown {
        std::fs::write(args.directory.join("cli.md"), markdown()).with_context(cannot)?;
        return Ok(());
    }
    let command = crate::dispatch::Cli::command();
    clap_mangen::generate_to(command.clone(), &args.directory).with_context(cannot)?;
    let count = std::fs::read_dir(&args.directory).with_context(cannot)?.count();
    console.line(format!("{count} man pages in {}", args.directory.display()))?;
    Ok(())
}

/// Returns the help of all visible commands.
fn markdown() -> String {
    let mut text = String::from(
        "# Commands\n\nGenerated from the definitions with `flotilla man --markdown docs/reference`; a test compares it. The binary \
         also answers to the name `karmadactl`.\n",
    );
    let mut command = plain(crate::dispatch::Cli::command());
    command.build();
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        describe("flotilla", sub, &mut text);
    }
    text
}

fn describe(parent: &str, command: &clap::Command, text: &mut String) {
    let name = format!("{parent} {}", command.get_name());
    let help = command.clone().bin_name(name.clone()).term_width(MARKDOWN_WIDTH).render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    *text += &format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        describe(&name, sub, text);
    }
}

/// Hides the values of variables on this machine, and global options, which are the same everywhere.
fn plain(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| arg.hide_env_values(true)).mut_subcommands(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_command_has_a_page() {
        let directory = tempfile::tempdir().expect("a directory");
        let console = Console::new("flotilla", Box::new(std::io::sink()), Box::new(std::io::sink()));
        run(&console, &ManArgs { directory: directory.path().join("man1"), markdown: false }).expect("pages");
        let page = |name: &str| std::fs::read_to_string(directory.path().join("man1").join(name)).unwrap_or_default();
        for sub in crate::dispatch::Cli::command().get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let name = format!("flotilla-{}.1", sub.get_name());
            assert!(page(&name).contains(".SH SYNOPSIS"), "{name}");
        }
        assert!(page("flotilla-up.1").contains("runtime"), "options are described");
        assert!(page("flotilla-supervise.1").is_empty(), "hidden commands have no page");
    }

    /// `UPDATE=1 cargo test -p cli the_reference` writes the page.
    #[test]
    fn the_reference_of_commands_is_current() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
        let current = markdown();
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &current).expect("written");
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        let first = written.lines().zip(current.lines()).find(|(written, current)| written != current);
        assert!(
            written == current,
            "docs/reference/cli.md is outdated at {first:?}; run `cargo run -p cli -- man --markdown docs/reference`"
        );
    }
}
