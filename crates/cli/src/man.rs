//! `flotilla man`: writes man pages.

use std::path::PathBuf;

use ::karmadactl::console::Console;
use anyhow::Context;
use clap::{Args, CommandFactory};

#[derive(Args)]
#[command(after_help = "\
Examples:
  flotilla man ~/.local/share/man/man1
  man flotilla-up")]
pub struct ManArgs {
    /// Directory to write the pages to, created if missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub fn run(console: &Console, args: &ManArgs) -> anyhow::Result<()> {
    let cannot = || format!("cannot write man pages to {}", args.directory.display());
    std::fs::create_dir_all(&args.directory).with_context(cannot)?;
    let command = crate::dispatch::Cli::command();
    clap_mangen::generate_to(command.clone(), &args.directory).with_context(cannot)?;
    let count = std::fs::read_dir(&args.directory).with_context(cannot)?.count();
    console.line(format!("{count} man pages in {}", args.directory.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_command_has_a_page() {
        let directory = tempfile::tempdir().expect("a directory");
        let console = Console::new("flotilla", Box::new(std::io::sink()), Box::new(std::io::sink()));
        run(&console, &ManArgs { directory: directory.path().join("man1") }).expect("pages");
        let page = |name: &str| std::fs::read_to_string(directory.path().join("man1").join(name)).unwrap_or_default();
        for sub in crate::dispatch::Cli::command().get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let name = format!("flotilla-{}.1", sub.get_name());
            assert!(page(&name).contains(".SH SYNOPSIS"), "{name}");
        }
        assert!(page("flotilla-up.1").contains("runtime"), "options are described");
        assert!(page("flotilla-supervise.1").is_empty(), "hidden commands have no page");
    }
}
