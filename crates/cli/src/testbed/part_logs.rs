//! `logs --part`: the logs of the processes of a testbed, as opposed to those of pods.

use std::ffi::OsString;

use ::karmadactl::console::Console;
use ::testbed::logs::{LogOptions, print};
use clap::Parser;

use super::TestbedArgs;

/// Print the log of a process of the testbed.
#[derive(Parser, Debug)]
#[command(
    name = "flotilla logs --part",
    after_help = "\
Examples:
  # The control plane: API server, scheduler, controllers and webhooks are one process
  flotilla logs --part karmada -f

  # The agent of member3
  flotilla logs --part member3-agent --tail 20

Commands compared with Karmada's guides: docs/from-karmada.md"
)]
struct PartLogsArgs {
    /// Process: supervisor, karmada, registry, the name of a member, or MEMBER-agent
    #[arg(long, value_name = "PART")]
    part: String,
    /// Continue until interrupted
    #[arg(short, long)]
    follow: bool,
    /// Number of lines from the end [default: all]
    #[arg(long, value_name = "N")]
    tail: Option<usize>,
    #[command(flatten)]
    place: TestbedArgs,
}

/// Reports whether the arguments of `logs` ask for a process of the testbed.
pub fn is_asked_for(arguments: &[OsString]) -> bool {
    let before_command = arguments.iter().take_while(|argument| *argument != "--");
    before_command.filter_map(|argument| argument.to_str()).any(|text| text == "--part" || text.starts_with("--part="))
}

pub async fn run(console: &Console, arguments: &[OsString]) -> anyhow::Result<()> {
    let name = OsString::from("logs");
    let args = match PartLogsArgs::try_parse_from(std::iter::once(&name).chain(arguments)) {
        Ok(args) => args,
        Err(error) => return crate::dispatch::print_clap_error(&error),
    };
    let options = LogOptions { tail: args.tail, follow: args.follow };
    print(console, &args.place.place()?, &args.part, options).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_of_parts_and_of_pods_are_told_apart() {
        let is_part = |line: &str| is_asked_for(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(is_part("--part karmada"));
        assert!(is_part("-f --part=member3-agent --name x"));
        assert!(!is_part("deploy/web -C member1"));
        assert!(!is_part("web -- --part"));
    }
}
