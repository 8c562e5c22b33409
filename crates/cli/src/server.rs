//! `flotilla server`: runs a control plane until it is terminated.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{ArgAction, Args, Parser};
use control_plane::{ControlPlane, Options};

use crate::agent::listen_address;
use crate::background::Background;
use crate::host::HostArgs;
use crate::kubeconfig_secret::{self, SecretName};
use crate::termination::Termination;

#[derive(Args)]
pub struct ServerArgs {
    #[command(flatten)]
    host: HostArgs,
    /// Admission plugins to enable that are off by default: ServiceAccount (mounts tokens of this control plane into pods),
    /// Priority, DefaultTolerationSeconds, DefaultStorageClass, PersistentVolumeClaimResize.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    enable_admission_plugins: Vec<String>,
    /// Publish the administrator's kubeconfig in this Secret of the cluster this runs in as a pod.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = SecretName::parse)]
    kubeconfig_secret: Option<SecretName>,
    /// Directory with CA and keys to copy into DATA_DIR/pki before the first start; existing files are kept.
    #[arg(long, value_name = "DIR")]
    import_keys: Option<PathBuf>,
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
    let (secret, keys) = (args.kubeconfig_secret.clone(), args.import_keys.clone());
    let profiling = args.profiling;
    let mut options = args.into_options()?;
    // Not part of `into_options`: a profile of an instance in a manager would show the other instances.
    options.profiling = profiling;
    let background = Background::start()?;
    options.propagation.background = background.handle();
    if let Some(keys) = &keys {
        import_keys(keys, &options.host.data_dir.join("pki"))?;
    }
    let mut termination = Termination::listen()?;
    let started = std::time::Instant::now();
    let plane = ControlPlane::start(options).await?;
    tracing::info!(
        address = %plane.address,
        kubeconfig = %plane.kubeconfig.display(),
        took = ?started.elapsed(),
        "the control plane is ready"
    );
    let publishing = secret.map(|secret| kubeconfig_secret::publish(secret, plane.kubeconfig.clone())).transpose()?;
    let ending = termination.asked_unless(plane.broken()).await;
    if let Some(publishing) = publishing {
        publishing.abort();
    }
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

/// Copies keys, such as those of a mounted Secret, to where they are private and can be added to.
fn import_keys(from: &Path, to: &Path) -> anyhow::Result<()> {
    let cannot = || format!("--import-keys {}", from.display());
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(to);
    made.with_context(|| format!("cannot make {}", to.display()))?;
    for entry in std::fs::read_dir(from).with_context(cannot)? {
        let entry = entry.with_context(cannot)?;
        // A mounted Secret has links to files, and hidden directories.
        let is_file = std::fs::metadata(entry.path()).with_context(cannot)?.is_file();
        let target = to.join(entry.file_name());
        if is_file && !target.exists() {
            let content = std::fs::read(entry.path()).with_context(cannot)?;
            pki::key_dir::write_if_absent(&target, &content, 0o600)?;
        }
    }
    Ok(())
}

impl ServerArgs {
    fn into_options(self) -> anyhow::Result<Options> {
        let mut options = Options::new(self.host.data_dir(".flotilla")?, self.host.bind);
        options.host.admission_off.retain(|step| !self.enable_admission_plugins.contains(step));
        options.host.admission_on = self.enable_admission_plugins;
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn imported_keys_are_private_and_do_not_replace_existing_ones() {
        let directory = tempfile::tempdir().expect("a directory");
        let (from, to) = (directory.path().join("from"), directory.path().join("data/pki"));
        std::fs::create_dir_all(from.join("..data")).expect("made");
        for (name, text) in [("ca.crt", "new"), ("ca.key", "new")] {
            std::fs::write(from.join(name), text).expect("written");
        }
        std::fs::create_dir_all(&to).expect("made");
        std::fs::write(to.join("ca.crt"), "old").expect("written");
        import_keys(&from, &to).expect("imported");
        assert_eq!(std::fs::read_to_string(to.join("ca.crt")).ok().as_deref(), Some("old"));
        assert_eq!(std::fs::read_to_string(to.join("ca.key")).ok().as_deref(), Some("new"));
        let mode = std::fs::metadata(to.join("ca.key")).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!to.join("..data").exists());
        assert!(import_keys(&directory.path().join("missing"), &to).is_err());
    }
}
