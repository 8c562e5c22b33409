//! `logs --part`: the logs of the processes of a testbed, as opposed to those of pods.

use ::karmadactl::console::Console;
use ::karmadactl::logs::LogsArgs;
use ::testbed::logs::{LogOptions, print};
use ::testbed::place::{DEFAULT_NAME, TestbedDir};

pub async fn run(console: &Console, args: &LogsArgs, part: &str) -> anyhow::Result<()> {
    let place = TestbedDir::find(args.home.clone(), args.testbed().unwrap_or(DEFAULT_NAME))?;
    let options = LogOptions { tail: args.tail.and_then(|tail| usize::try_from(tail).ok()), follow: args.follow };
    print(console, &place, part, options).await
}
