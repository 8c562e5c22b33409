//! `flotilla server`: runs a control plane until it is terminated.

use clap::{ArgAction, Args, Parser};
use control_plane::{ControlPlane, Options};

use crate::agent::listen_address;
use crate::background::Background;
use crate::host::HostArgs;
use crate::pod::PodArgs;
use crate::termination::Termination;

#[derive(Args)]
pub struct ServerArgs {
    #[command(flatten)]
    host: HostArgs,
    /// Admission plugins to enable that are off by default: ServiceAccount (mounts tokens of this control plane into pods),
    /// Priority, DefaultTolerationSeconds, DefaultStorageClass, PersistentVolumeClaimResize.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    enable_admission_plugins: Vec<String>,
    #[command(flatten)]
    pod: PodArgs,
    /// Refuse to start on a storage without a control plane, instead of creating one with new keys. Protects an existing
    /// control plane from a missing disk or a wrong --etcd-prefix.
    #[arg(long)]
    require_existing_data: bool,
    /// Address for /metrics over plain HTTP, without credentials; 0 disables it.
    #[arg(long, default_value = "0", value_name = "HOST:PORT")]
    metrics_bind_address: String,
    /// Address for /healthz, /livez and /readyz over plain HTTP, without credentials; 0 disables it.
    #[arg(long, default_value = "0", value_name = "HOST:PORT")]
    health_probe_bind_address: String,
    /// Serve CPU profiles at /debug/pprof/ of the API, to callers with `get` on that path.
    #[arg(long, alias = "enable-pprof", default_value_t = false, action = ArgAction::Set, num_args = 0..=1,
        default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    profiling: bool,
    #[command(flatten)]
    propagation: crate::propagation::PropagationArgs,
    #[command(flatten)]
    autoscaling: crate::autoscaling::AutoscalingArgs,
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
    let (pod, profiling) = (args.pod.clone(), args.profiling);
    let mut options = args.into_options()?;
    // Not part of `into_options`: a profile of an instance in a manager would show the other instances.
    options.profiling = profiling;
    let background = Background::start()?;
    options.propagation.background = background.handle();
    pod.import_keys(&options.host.data_dir)?;
    let mut termination = Termination::listen()?;
    let started = std::time::Instant::now();
    let plane = ControlPlane::start(options).await?;
    tracing::info!(
        address = %plane.address,
        kubeconfig = %plane.kubeconfig.display(),
        took = ?started.elapsed(),
        "the control plane is ready"
    );
    let publishing = pod.publish(plane.kubeconfig.clone())?;
    let ending = termination.asked_unless(plane.broken()).await;
    drop(publishing);
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
        options.host.admission_on = self.enable_admission_plugins;
        options.host.requires_existing_data = self.require_existing_data;
        let plain = &mut options.host.plain_listeners;
        if let Some(address) = listen_address("--metrics-bind-address", &self.metrics_bind_address)? {
            plain.entry(address).or_default().metrics = true;
        }
        if let Some(address) = listen_address("--health-probe-bind-address", &self.health_probe_bind_address)? {
            plain.entry(address).or_default().health = true;
        }
        self.host.apply(&mut options.host)?;
        options.propagation = self.propagation.read()?;
        options.propagation.autoscaling = self.autoscaling.read()?;
        Ok(options)
    }
}
