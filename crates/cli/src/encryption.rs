//! `flotilla encryption`: the keys that encrypt stored values, their rotation, and the state of a running server.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ::karmadactl::console::Console;
use ::karmadactl::plane::{PlaneArgs, PlaneClient};
use anyhow::{Context, bail, ensure};
use api_host::{at_rest_path, create_encryption_file, default_encryption_file};
use bytes::Bytes;
use clap::{Args, Subcommand};
use encryption::config::EncryptionConfiguration;
use encryption::file;
use http::{Method, Request};
use object::Status;
use pki::key_dir;
use serde_json::Value;

/// Interval for reading the state of a server.
const POLL_EVERY: Duration = Duration::from_millis(300);

/// Flags of `flotilla server`.
#[derive(Args)]
pub struct EncryptionArgs {
    /// EncryptionConfiguration (apiserver.config.k8s.io/v1) for stored values [default: DATA_DIR/encryption/config.yaml, which
    /// embedded storage creates to encrypt Secrets]. Servers on one etcd need the same file.
    #[arg(long, value_name = "FILE")]
    encryption_provider_config: Option<PathBuf>,
    /// Apply changes of --encryption-provider-config without a restart.
    #[arg(
        long,
        default_value_t = false,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        action = clap::ArgAction::Set,
        value_name = "BOOL"
    )]
    encryption_provider_config_automatic_reload: bool,
}

impl EncryptionArgs {
    pub fn apply(self, options: &mut api_host::Options) -> anyhow::Result<()> {
        ensure!(
            self.encryption_provider_config.is_some() || !self.encryption_provider_config_automatic_reload,
            "--encryption-provider-config-automatic-reload requires --encryption-provider-config; the file in the data directory \
             is always reloaded"
        );
        options.encryption.provider_config = self.encryption_provider_config;
        options.encryption.automatic_reload = self.encryption_provider_config_automatic_reload;
        Ok(())
    }
}

/// Manage the keys that encrypt stored Secrets, and show how values are stored.
#[derive(Subcommand)]
#[command(after_help = "\
Examples:
  # Rotate the key of one server with embedded storage; it reloads the file and rewrites all values
  flotilla encryption rotate --data-dir /var/lib/flotilla
  flotilla encryption status
  flotilla encryption prune --data-dir /var/lib/flotilla

  # With several servers on one etcd, copy the file to all of them after each step
  flotilla encryption init encryption.yaml
  flotilla encryption rotate --config encryption.yaml --add-only
  flotilla encryption rotate --config encryption.yaml --use-added
  flotilla encryption prune --config encryption.yaml")]
pub enum EncryptionCommand {
    /// Create an EncryptionConfiguration with a new key, for servers that share an etcd.
    Init(InitArgs),
    /// Show the provider of each resource, the stored values by provider, and the progress of rewriting.
    Status(StatusArgs),
    /// Rewrite all values that are not sealed with the current key, such as after a rotation in a KMS.
    Migrate(MigrateArgs),
    /// Add a new key and use it for new values. The server rewrites existing ones in the background.
    Rotate(RotateArgs),
    /// Remove old keys from the file, when the server has no value left that needs them.
    Prune(PruneArgs),
    /// Copy the keys to another file. With it and a backup, all Secrets can be read.
    Export(ExportArgs),
}

#[derive(Args)]
pub struct InitArgs {
    /// File to write
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Succeed without a change if the file exists
    #[arg(long)]
    keep_existing: bool,
}

#[derive(Args)]
pub struct StatusArgs {
    #[command(flatten)]
    plane: PlaneArgs,
    /// Print the state as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct MigrateArgs {
    #[command(flatten)]
    plane: PlaneArgs,
    /// Time to wait for the end, in seconds; 0 returns at once
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    timeout: u64,
}

/// Selects the file with the keys.
#[derive(Args)]
struct FileArgs {
    /// EncryptionConfiguration of the server
    #[arg(long, value_name = "FILE", conflicts_with = "data_dir")]
    config: Option<PathBuf>,
    /// Data directory of the server, whose own file is used
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

#[derive(Args)]
pub struct RotateArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Only add the key: servers can read values of it, and do not use it yet
    #[arg(long, conflicts_with = "use_added")]
    add_only: bool,
    /// Only use the key that was added last
    #[arg(long)]
    use_added: bool,
}

#[derive(Args)]
pub struct PruneArgs {
    #[command(flatten)]
    file: FileArgs,
    #[command(flatten)]
    plane: PlaneArgs,
    /// Do not ask the server whether old keys are still needed
    #[arg(long)]
    force: bool,
}

#[derive(Args)]
pub struct ExportArgs {
    #[command(flatten)]
    file: FileArgs,
    /// File to write
    #[arg(value_name = "FILE")]
    target: PathBuf,
    /// Consent to a second copy of the keys
    #[arg(long)]
    yes: bool,
}

impl FileArgs {
    fn path(&self) -> anyhow::Result<PathBuf> {
        match (&self.config, &self.data_dir) {
            (Some(file), _) => Ok(file.clone()),
            (None, Some(directory)) => Ok(default_encryption_file(directory)),
            (None, None) => bail!("select the keys: --data-dir DIR, or --config FILE"),
        }
    }
}

pub async fn run(console: &Console, command: EncryptionCommand) -> anyhow::Result<()> {
    match command {
        EncryptionCommand::Init(args) => init(console, &args),
        EncryptionCommand::Status(args) => status(console, &args).await,
        EncryptionCommand::Migrate(args) => migrate(console, &args).await,
        EncryptionCommand::Rotate(args) => rotate(console, &args),
        EncryptionCommand::Prune(args) => prune(console, &args).await,
        EncryptionCommand::Export(args) => export(console, &args),
    }
}

fn init(console: &Console, args: &InitArgs) -> anyhow::Result<()> {
    let path = args.file.as_path();
    if args.keep_existing && path.exists() {
        return Ok(());
    }
    ensure!(!path.exists(), "{} exists: its keys are not replaced", path.display());
    create_encryption_file(path)?;
    console.line(format_args!(
        "{}: encrypts Secrets with a new key. Give it to every server with --encryption-provider-config, and keep a copy",
        path.display()
    ))?;
    Ok(())
}

async fn ask(plane: &PlaneClient, method: Method) -> anyhow::Result<Value> {
    let request = Request::builder().method(method).uri(at_rest_path()).body(Bytes::new())?;
    let response = plane.client.raw(request).await.map_err(|error| plane.explain(error.into()))?;
    let code = response.status().as_u16();
    if code >= 400 {
        let status = Status::from_response(code, response.body());
        return Err(plane.explain(anyhow::Error::from(status).context("cannot read the state of encryption")));
    }
    serde_json::from_slice(response.body()).context("the server's answer is not JSON")
}

async fn status(console: &Console, args: &StatusArgs) -> anyhow::Result<()> {
    let state = ask(&PlaneClient::open(&args.plane)?, Method::GET).await?;
    let text = if args.json { serde_json::to_string_pretty(&state)? + "\n" } else { described(&state) };
    Ok(console.print(&text)?)
}

fn described(state: &Value) -> String {
    if state["enabled"] != true {
        return "Values are stored without encryption.\n".to_owned();
    }
    let mut text = "RESOURCE  PROVIDER\n".to_owned();
    for entry in state["resources"].as_array().into_iter().flatten() {
        let (resource, provider) = (entry["resource"].as_str(), entry["provider"].as_str());
        text += &format!("{:<9} {}\n", resource.unwrap_or_default(), provider.unwrap_or_default());
    }
    text += "\nVALUES    PROVIDER\n";
    for (provider, count) in state["values"].as_object().into_iter().flatten() {
        text += &format!("{:<9} {provider}\n", count.as_u64().unwrap_or_default());
    }
    let rewriting = &state["rewriting"];
    let number = |field: &str| rewriting[field].as_u64().unwrap_or_default();
    text += &match (is_rewriting(state), number("failed"), rewriting["error"].as_str()) {
        (true, ..) => format!("\nRewriting: {} done, {} to go\n", number("rewritten"), number("remaining")),
        (false, _, Some(error)) => format!("\nRewriting failed and will be retried: {error}\n"),
        (false, 0, None) => format!("\nRewriting: complete, {} values since the start\n", number("rewritten")),
        (false, failed, None) => format!("\nRewriting: {failed} values cannot be decrypted, see the log\n"),
    };
    if let Some(kms) = state["kms"].as_str() {
        text += &format!("KMS: {kms}\n");
    }
    text
}

fn is_rewriting(state: &Value) -> bool {
    state["rewriting"]["running"] == true
}

async fn migrate(console: &Console, args: &MigrateArgs) -> anyhow::Result<()> {
    let plane = PlaneClient::open(&args.plane)?;
    let before = ask(&plane, Method::POST).await?;
    ensure!(before["enabled"] == true, "the server stores values without encryption");
    let passes = |state: &Value| state["rewriting"]["passes"].as_u64().unwrap_or_default();
    // A pass that was running when the request arrived may have read values before it.
    let wanted = passes(&before) + 1 + u64::from(is_rewriting(&before));
    let deadline = Instant::now() + Duration::from_secs(args.timeout);
    while Instant::now() < deadline {
        let state = ask(&plane, Method::GET).await?;
        if passes(&state) >= wanted && !is_rewriting(&state) {
            console.print(&described(&state))?;
            ensure!(state["rewriting"]["error"].is_null(), "rewriting failed");
            return Ok(());
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
    ensure!(
        args.timeout == 0,
        "not complete after {} s; the server goes on: see `flotilla encryption status`",
        args.timeout
    );
    console.line("the server rewrites values in the background: see `flotilla encryption status`")?;
    Ok(())
}

/// Writes the configuration in place of the file, readable by its owner only.
fn write(path: &Path, config: &EncryptionConfiguration) -> anyhow::Result<()> {
    Ok(key_dir::write_atomic(path, file::render(config)?.as_bytes(), key_dir::PRIVATE)?)
}

fn rotate(console: &Console, args: &RotateArgs) -> anyhow::Result<()> {
    let path = args.file.path()?;
    let mut config = file::read(&path)?;
    if !args.use_added {
        let added = file::add_key(&path, &mut config)?;
        console.line(format_args!("{}: added {added}", path.display()))?;
    }
    if !args.add_only {
        let used = file::use_last_key(&path, &mut config)?;
        console.line(format_args!("{}: new values are sealed with {used}", path.display()))?;
    }
    write(&path, &config)?;
    console.note(match args.add_only {
        true => "copy the file to every server, then run this again with --use-added",
        false => "servers rewrite existing values; when `flotilla encryption status` is complete, remove the old key with `prune`",
    });
    Ok(())
}

async fn prune(console: &Console, args: &PruneArgs) -> anyhow::Result<()> {
    let path = args.file.path()?;
    let mut config = file::read(&path)?;
    let old = file::old_sealings(&config);
    if old.is_empty() {
        console.line(format_args!("{} has no old keys", path.display()))?;
        return Ok(());
    }
    if !args.force {
        let state = ask(&PlaneClient::open(&args.plane)?, Method::GET).await?;
        let in_use = |sealing: &&String| state["values"][sealing.as_str()].as_u64().unwrap_or_default() > 0;
        let used: Vec<&String> = old.iter().filter(in_use).collect();
        ensure!(
            used.is_empty() && !is_rewriting(&state),
            "values still need {used:?}: run `flotilla encryption migrate` first"
        );
    }
    let removed = file::remove_old_keys(&mut config);
    write(&path, &config)?;
    console.line(format_args!(
        "{}: removed {}. Backups taken before need them: keep a copy",
        path.display(),
        removed.join(", ")
    ))?;
    Ok(())
}

fn export(console: &Console, args: &ExportArgs) -> anyhow::Result<()> {
    let path = args.file.path()?;
    let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(args.yes, "a second copy of the keys opens every backup: confirm with --yes");
    ensure!(!args.target.exists(), "{} exists", args.target.display());
    key_dir::write_atomic(&args.target, &text, key_dir::PRIVATE)?;
    console.line(format_args!("{}: a copy of {}", args.target.display(), path.display()))?;
    Ok(())
}
