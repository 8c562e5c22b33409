//! The names of the program, which change help, examples and hints.

use clap::{Arg, ArgAction, Command};

/// Returns the name of the program from its first argument. `karmadactl` and the kubectl plugin keep their names in the
/// help.
pub fn name_of(first_argument: Option<&std::ffi::OsStr>) -> &'static str {
    let path = first_argument.map(std::path::Path::new);
    match path.and_then(|path| path.file_stem()).and_then(|stem| stem.to_str()) {
        Some("karmadactl") => "karmadactl",
        Some("kubectl-karmada") => "kubectl karmada",
        _ => "flotilla",
    }
}

/// Adapts the command to its name: examples use the name, and switches accept values.
pub fn adapt(command: Command, name: &'static str) -> Command {
    let command = command.name(name).bin_name(name);
    rename(command, name)
}

fn rename(command: Command, name: &str) -> Command {
    let after = command.get_after_help().map(|help| help.to_string().replace("flotilla ", &format!("{name} ")));
    let command = match after {
        Some(text) => command.after_help(text),
        None => command,
    };
    command.mut_args(accept_values).mut_subcommands(|sub| rename(sub, name))
}

/// Lets switches accept values, such as `--dry-run=true`.
fn accept_values(arg: Arg) -> Arg {
    if !matches!(arg.get_action(), ArgAction::SetTrue) {
        return arg;
    }
    arg.action(ArgAction::Set)
        .num_args(0..=1)
        .require_equals(true)
        .default_value("false")
        .default_missing_value("true")
        .value_parser(clap::value_parser!(bool))
        .value_name("BOOL")
        .hide_default_value(true)
        .hide_possible_values(true)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use clap::Subcommand;

    use super::*;

    fn command(name: &'static str) -> Command {
        adapt(crate::Command::augment_subcommands(Command::new("flotilla")), name)
    }

    #[test]
    fn the_program_has_three_names() {
        for (called, name) in [
            ("/usr/bin/karmadactl", "karmadactl"),
            ("kubectl-karmada", "kubectl karmada"),
            ("./flotilla", "flotilla"),
            ("anything", "flotilla"),
        ] {
            assert_eq!(name_of(Some(OsStr::new(called))), name);
        }
        assert_eq!(name_of(None), "flotilla");
    }

    #[test]
    fn examples_use_the_name_it_was_called_by() {
        let mut command = command("karmadactl");
        let join = command.find_subcommand_mut("join").expect("there is a join");
        let help = join.render_long_help().to_string();
        assert!(help.contains("karmadactl join member1 --cluster-kubeconfig"), "{help}");
        assert!(!help.contains("flotilla join"), "{help}");
    }

    #[test]
    fn boolean_flags_accept_values() {
        for (line, expected) in [
            ("join m1 --dry-run", true),
            ("join m1 --dry-run=true", true),
            ("join m1 --dry-run=false", false),
            ("join m1", false),
            ("join --dry-run m1", true),
        ] {
            let words = ["flotilla"].into_iter().chain(line.split(' '));
            let matches = command("flotilla").try_get_matches_from(words).unwrap_or_else(|e| panic!("{line}: {e}"));
            let (_, join) = matches.subcommand().expect("a subcommand");
            assert_eq!(join.get_one::<bool>("dry_run"), Some(&expected), "{line}");
            assert_eq!(join.get_one::<String>("name").map(String::as_str), Some("m1"), "{line}");
        }
    }

    #[test]
    fn the_commands_are_consistent() {
        command("flotilla").debug_assert();
    }
}
