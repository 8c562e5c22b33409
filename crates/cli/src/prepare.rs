//! `prepare`: checks this host for a testbed, fixes what it can, and prints what the user must do.

use std::path::PathBuf;

use ::karmadactl::Exit;
use ::karmadactl::console::Console;
use anyhow::Context;
use clap::{Args, ValueEnum};
use provisioners::host::{Check, CheckStatus, HostUse, PORTS, Repair, apply, gather, judge};
use serde_json::json;

use crate::testbed::Format;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Can this host run a testbed? What would be changed?
  flotilla prepare --dry-run

  # Everything for members in system containers: packages, bridge, firewall, limits (as root)
  sudo flotilla prepare --provisioner lxd

  # And for pods that are real containers
  sudo flotilla prepare --runtime containerd")]
pub struct PrepareArgs {
    /// Provisioner of the members
    #[arg(long, value_enum, default_value_t = MemberProvisioner::Process)]
    provisioner: MemberProvisioner,
    /// Runtime of the pods
    #[arg(long, value_enum, default_value_t = Runtime::Simulated)]
    runtime: Runtime,
    /// Network bridge of the system containers [default: the first of lxdbr0, incusbr0, flotillabr0 that exists]
    #[arg(long, value_name = "NAME")]
    bridge: Option<String>,
    /// Ports that must be free or used by a testbed [default: 5443, 16441, 16442, 16444, 32000, if they are free]
    #[arg(long, value_delimiter = ',', value_name = "PORT,...")]
    ports: Option<Vec<u16>>,
    /// Directory of testbeds [default: ~/.flotilla]
    #[arg(long, env = "FLOTILLA_HOME", value_name = "DIR")]
    home: Option<PathBuf>,
    /// Print what would be done, without doing it
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MemberProvisioner {
    Process,
    Lxd,
    Kubeconfig,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Runtime {
    Simulated,
    Containerd,
}

/// The result of a fix.
enum Outcome {
    Done,
    Failed(String),
    /// Shown only.
    Would,
}

pub fn run(console: &Console, args: &PrepareArgs) -> anyhow::Result<()> {
    let home = match &args.home {
        Some(home) => home.clone(),
        None => std::env::home_dir().context("HOME is not set: use --home DIR")?.join(".flotilla"),
    };
    let wanted = HostUse {
        lxd: args.provisioner == MemberProvisioner::Lxd,
        containerd: args.runtime == Runtime::Containerd,
        bridge: args.bridge.clone(),
        ports: args.ports.clone().unwrap_or_else(|| PORTS.to_vec()),
        needs_ports: args.ports.is_some(),
        home,
    };
    let facts = gather(&wanted);
    let first = judge(&facts, &wanted);
    let mut outcomes = Vec::new();
    for check in first.iter().filter(|check| is_to_repair(check)) {
        let Some(repair) = &check.repair else { continue };
        let outcome = match args.dry_run || !facts.root {
            true => Outcome::Would,
            false => apply(repair).map_or_else(Outcome::Failed, |()| Outcome::Done),
        };
        outcomes.push((check.name.clone(), repair.to_string(), outcome));
    }
    let repaired = outcomes.iter().any(|(_, _, outcome)| matches!(outcome, Outcome::Done));
    let last = if repaired { judge(&gather(&wanted), &wanted) } else { first };
    let ready = last.iter().all(|check| check.standing != CheckStatus::Broken);
    if args.json || args.output == Format::Json {
        console.line(serde_json::to_string_pretty(&as_json(ready, &last, &outcomes))?)?;
    } else {
        print(console, ready, &last, &outcomes)?;
        if !args.dry_run && !facts.root && !outcomes.is_empty() {
            console.note("fixes need root: run the command again with sudo");
        }
    }
    if ready { Ok(()) } else { Err(Exit(1).into()) }
}

/// Returns the failed checks that a command can fix; firewall rules also when nothing blocks traffic yet.
fn is_to_repair(check: &Check) -> bool {
    let by_command = !matches!(check.repair, None | Some(Repair::Advice(_)));
    by_command && (check.standing == CheckStatus::Broken || check.area == "firewall")
}

fn print(
    console: &Console,
    ready: bool,
    checks: &[Check],
    outcomes: &[(String, String, Outcome)],
) -> anyhow::Result<()> {
    for check in checks {
        let mark = match check.standing {
            CheckStatus::Good => "✓".to_owned(),
            CheckStatus::Note => "·".to_owned(),
            CheckStatus::Broken => console.failure("✗"),
        };
        console.line(format!("{mark} {:<9} {:<32} {}", check.area, check.name, check.detail))?;
        if check.standing == CheckStatus::Broken {
            console.line(format!("              why: {}", check.why))?;
            if let Some(repair) = &check.repair {
                console.line(format!("              try: {repair}"))?;
            }
        }
    }
    for (name, repair, outcome) in outcomes {
        let line = match outcome {
            Outcome::Done => format!("fixed {name}: {repair}"),
            Outcome::Would => format!("would fix {name}: {repair}"),
            Outcome::Failed(why) => console.failure(&format!("could not fix {name}: {repair}: {why}")),
        };
        console.line(line)?;
    }
    if checks.iter().any(|check| check.standing == CheckStatus::Note) {
        console.line("(· optional: the testbed works without it)")?;
    }
    match ready {
        true => console.line("This host is ready.")?,
        false => console.line(console.failure("This host is not ready."))?,
    }
    Ok(())
}

fn as_json(ready: bool, checks: &[Check], outcomes: &[(String, String, Outcome)]) -> serde_json::Value {
    let repairs: Vec<_> = outcomes
        .iter()
        .map(|(name, repair, outcome)| match outcome {
            Outcome::Done => json!({"name": name, "command": repair, "outcome": "done"}),
            Outcome::Would => json!({"name": name, "command": repair, "outcome": "would"}),
            Outcome::Failed(why) => json!({"name": name, "command": repair, "outcome": "failed", "why": why}),
        })
        .collect();
    json!({"ready": ready, "checks": checks, "repairs": repairs})
}
