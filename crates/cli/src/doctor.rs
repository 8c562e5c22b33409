//! `doctor`: diagnoses a testbed or a control plane, and prints the commands that fix it.

use std::path::PathBuf;

use ::karmadactl::Exit;
use ::karmadactl::console::Console;
use ::testbed::doctor::{Patient, examine, print};
use ::testbed::place::TestbedDir;
use clap::Args;

use crate::testbed::TestbedArgs;

#[derive(Args, Debug)]
#[command(after_help = "\
The exit code is 0 if no problem was found, else 1.

Examples:
  # The testbed, from the host to the pods
  flotilla doctor

  # Any control plane and its members
  flotilla doctor --kubeconfig /etc/karmada/karmada-apiserver.config

  # For scripts
  flotilla doctor --json")]
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
}

pub async fn run(console: &Console, args: &DoctorArgs) -> anyhow::Result<()> {
    let patient = match &args.kubeconfig {
        Some(kubeconfig) => Patient::plane(kubeconfig, args.context.as_deref())?,
        None => find_patient(&args.place.place()?)?,
    };
    let report = examine(&patient).await;
    if args.json {
        console.line(serde_json::to_string_pretty(&report)?)?;
    } else {
        print(console, &report)?;
    }
    if report.healthy { Ok(()) } else { Err(Exit(1).into()) }
}

/// Selects the testbed or, if there is none, the control plane in the same directory.
fn find_patient(place: &TestbedDir) -> anyhow::Result<Patient> {
    let plane = place.home().join("karmada-apiserver.config");
    if !place.spec_file().exists() && plane.exists() {
        return Patient::plane(&plane, None);
    }
    Patient::testbed(place)
}
