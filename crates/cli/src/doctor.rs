//! `doctor`: what is wrong with a testbed or a control plane, why, and the command that repairs it.

use std::path::PathBuf;

use ::karmadactl::Exit;
use ::karmadactl::console::Console;
use ::testbed::doctor::{Patient, examine, print};
use ::testbed::place::Place;
use clap::Args;

use crate::testbed::PlaceArgs;

#[derive(Args, Debug)]
#[command(after_help = "\
Ends with code 0 when all is well, and with 1 when something is not.

Examples:
  # The testbed, from the host down to the pods
  flotilla doctor

  # Any control plane and its members
  flotilla doctor --kubeconfig /etc/karmada/karmada-apiserver.config

  # For scripts
  flotilla doctor --json")]
pub struct DoctorArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Examine this control plane instead of a testbed
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig
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

/// The testbed; where there is none, the control plane whose state is in the same directory.
fn find_patient(place: &Place) -> anyhow::Result<Patient> {
    let plane = place.home().join("karmada-apiserver.config");
    if !place.spec_file().exists() && plane.exists() {
        return Patient::plane(&plane, None);
    }
    Patient::testbed(place)
}
