//! `doctor`: diagnoses a testbed or a control plane, and prints the commands that fix it.

use std::path::PathBuf;

use ::karmadactl::Exit;
use ::karmadactl::console::Console;
use ::testbed::doctor::{DoctorSubject, examine, print};
use ::testbed::place::TestbedDir;
use clap::Args;

use crate::testbed::{Format, TestbedArgs};

#[derive(Args, Debug)]
#[command(after_help = "\
The exit code is 0 if no problem was found, else 1.

Examples:
  # The testbed, from the host to the pods
  flotilla doctor

  # Any control plane and its members
  flotilla doctor --kubeconfig /etc/karmada/karmada-apiserver.config

  # For scripts
  flotilla doctor -o json")]
pub struct DoctorArgs {
    #[command(flatten)]
    place: TestbedArgs,
    /// Check this control plane instead of a testbed
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context in the kubeconfig
    #[arg(long, alias = "karmada-context", value_name = "CONTEXT", requires = "kubeconfig")]
    context: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Format::Table)]
    output: Format,
}

pub async fn run(console: &Console, args: &DoctorArgs) -> anyhow::Result<()> {
    let subject = match &args.kubeconfig {
        Some(kubeconfig) => DoctorSubject::plane(kubeconfig, args.context.as_deref())?,
        None => find_subject(&args.place.place()?)?,
    };
    let report = examine(&subject).await;
    if args.json || args.output == Format::Json {
        console.line(serde_json::to_string_pretty(&report)?)?;
    } else {
        print(console, &report)?;
    }
    if report.healthy { Ok(()) } else { Err(Exit(1).into()) }
}

/// Selects the testbed or, if there is none, the control plane in the same directory.
fn find_subject(place: &TestbedDir) -> anyhow::Result<DoctorSubject> {
    let plane = place.home().join("karmada-apiserver.config");
    if !place.spec_file().exists() && plane.exists() {
        return DoctorSubject::plane(&plane, None);
    }
    DoctorSubject::testbed(place)
}
