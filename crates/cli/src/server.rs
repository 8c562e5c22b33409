//! `flotilla server`: runs a control plane until it is terminated.

use clap::{Args, Parser};
use control_plane::{ControlPlane, Options};

use crate::host::HostArgs;
use crate::termination::Termination;

#[derive(Args)]
pub struct ServerArgs {
    #[command(flatten)]
    host: HostArgs,
    /// Admission plugins to enable that are off by default: ServiceAccount (mounts tokens of this control plane into pods).
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    enable_admission_plugins: Vec<String>,
    #[command(flatten)]
    propagation: crate::propagation::PropagationArgs,
    #[command(flatten)]
    unused: crate::karmada_flags::UnusedFlags<crate::karmada_flags::OfServer>,
}

/// The flags alone, for control planes that the manager runs.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct ServerLine {
    #[command(flatten)]
    args: ServerArgs,
}

pub async fn run(args: ServerArgs) -> anyhow::Result<()> {
    args.unused.warn();
    let options = args.into_options()?;
    let mut termination = Termination::listen()?;
    let started = std::time::Instant::now();
    let plane = ControlPlane::start(options).await?;
    tracing::info!(
        address = %plane.address,
        kubeconfig = %plane.kubeconfig.display(),
        took = ?started.elapsed(),
        "the control plane is ready"
    );
    let ending = termination.asked_unless(plane.broken()).await;
    tracing::info!("shutting down, waiting for requests in flight");
    plane.stop().await;
    ending
}

/// Returns the options of a control plane from flags of this command.
pub fn options_of(flags: ::manager::PlaneFlags) -> anyhow::Result<Options> {
    let mut line = vec![format!("--data-dir={}", flags.data_dir.display()), format!("--bind={}", flags.bind)];
    line.extend(flags.flags);
    // The text of a usage error has several lines; the first says what is wrong.
    let parsed = ServerLine::try_parse_from(line).map_err(|error| {
        let text = error.to_string();
        anyhow::anyhow!("{}", text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned())
    })?;
    parsed.args.into_options()
}

impl ServerArgs {
    fn into_options(self) -> anyhow::Result<Options> {
        let mut options = Options::new(self.host.data_dir(".flotilla")?, self.host.bind);
        options.host.admission_off.retain(|step| !self.enable_admission_plugins.contains(step));
        self.host.apply(&mut options.host)?;
        options.propagation = self.propagation.read()?;
        Ok(options)
    }
}
