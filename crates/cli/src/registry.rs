//! `flotilla registry`: serves images to clusters and clients, and collects unused blobs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ::karmadactl::durations;
use ::oci_registry::server::{self, RegistryConfig};
use ::oci_registry::store::{GcOptions, StoreLimits};
use anyhow::Context;
use clap::{ArgAction, Args, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct RegistryArgs {
    #[command(subcommand)]
    command: Option<RegistryCommand>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Subcommand)]
enum RegistryCommand {
    /// Remove unused blobs; safe while the registry is running.
    Gc(GcArgs),
}

#[derive(Args)]
struct ServeArgs {
    /// Directory for images [default: registry in $FLOTILLA_HOME or ~/.flotilla].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Address to listen on; port 0 picks a free port.
    #[arg(long, default_value = "127.0.0.1:32000", value_name = "HOST:PORT")]
    bind: SocketAddr,
    /// Serve HTTPS with this certificate instead of HTTP.
    #[arg(long, value_name = "FILE", requires = "tls_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Key of the certificate.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    tls_key_file: Option<PathBuf>,
    /// Maximum size of a blob, in bytes.
    #[arg(long, default_value_t = StoreLimits::default().blob_len_max, value_name = "BYTES")]
    max_blob_size: u64,
    /// Maximum number of concurrent uploads.
    #[arg(long, default_value_t = StoreLimits::default().uploads_max, value_name = "N")]
    max_uploads: usize,
    /// Maximum number of concurrent uploads from one client address.
    #[arg(long, default_value_t = StoreLimits::default().uploads_per_client_max, value_name = "N")]
    max_uploads_per_client: usize,
    /// Maximum number of open connections; half as many from one client address.
    #[arg(long, default_value_t = 1_024, value_name = "N")]
    max_connections: usize,
    /// Host name clients may use for a registry on loopback, besides addresses and localhost; may be given several
    /// times.
    #[arg(long = "allowed-host", value_name = "NAME")]
    allowed_hosts: Vec<String>,
    /// Time after which idle uploads expire; uploads without any data expire after a minute.
    #[arg(long, default_value = "1h", value_parser = durations::parse, value_name = "DURATION")]
    upload_expiry: Duration,
    /// Interval of garbage collection; 0 disables it.
    #[arg(long, default_value = "1h", value_parser = durations::parse, value_name = "DURATION")]
    gc_interval: Duration,
    /// Keep blobs that were pushed or requested within this time.
    #[arg(long, default_value = "1h", value_parser = durations::parse, value_name = "DURATION")]
    gc_grace: Duration,
    /// Also collect untagged manifests.
    #[arg(long)]
    gc_untagged: bool,
    /// Allow clients to delete tags, manifests and blobs.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    allow_deletes: bool,
}

#[derive(Args)]
struct GcArgs {
    /// Directory of the images [default: registry in $FLOTILLA_HOME or ~/.flotilla].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Keep blobs that were pushed or requested within this time.
    #[arg(long, default_value = "1h", value_parser = durations::parse, value_name = "DURATION")]
    grace: Duration,
    /// Also remove untagged manifests, unless a remaining index or referrer needs them.
    #[arg(long)]
    untagged: bool,
    /// Print what would be removed, without removing it.
    #[arg(long)]
    dry_run: bool,
}

pub async fn run(args: RegistryArgs) -> anyhow::Result<()> {
    match args.command {
        Some(RegistryCommand::Gc(args)) => gc(args).await,
        None => serve(args.serve).await,
    }
}

async fn serve(args: ServeArgs) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let mut settings = RegistryConfig::new(&data_dir(args.data_dir)?, args.bind);
    settings.tls = args.tls_cert_file.zip(args.tls_key_file);
    settings.limits.blob_len_max = args.max_blob_size;
    settings.limits.uploads_max = args.max_uploads;
    settings.limits.uploads_per_client_max = args.max_uploads_per_client;
    settings.connections.connections_max = args.max_connections;
    settings.connections.per_address_max = 0;
    settings.allowed_hosts = args.allowed_hosts;
    settings.limits.upload_idle_max = args.upload_expiry;
    settings.gc_every = args.gc_interval;
    settings.gc.grace = args.gc_grace;
    settings.gc.untagged = args.gc_untagged;
    settings.deletes = args.allow_deletes;
    let data_dir = settings.data_dir.clone();
    let cancel = CancellationToken::new();
    let running = server::start(settings, cancel.clone()).await?;
    tracing::info!(address = %running.address, data = %data_dir.display(), "the registry is ready");
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
    tracing::info!("shutting down, waiting for requests in flight");
    cancel.cancel();
    running.stopped().await;
    Ok(())
}

async fn gc(args: GcArgs) -> anyhow::Result<()> {
    let data_dir = data_dir(args.data_dir)?;
    anyhow::ensure!(data_dir.join("blobs").is_dir(), "no registry found in {}", data_dir.display());
    let options = GcOptions { grace: args.grace, untagged: args.untagged, dry_run: args.dry_run };
    let report = server::collect(&data_dir, &options).await?;
    let verb = if args.dry_run { "would remove" } else { "removed" };
    let text = format!(
        "{verb} {} blobs ({} bytes) and {} manifests; {} blobs kept, {} uploads expired\n",
        report.blobs_removed, report.bytes_freed, report.manifests_removed, report.blobs_kept, report.uploads_expired,
    );
    std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes())?;
    Ok(())
}

/// Returns the default directory of a registry.
fn data_dir(said: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(said) = said {
        return Ok(said);
    }
    let home = match std::env::var_os("FLOTILLA_HOME").filter(|home| !home.is_empty()) {
        Some(home) => PathBuf::from(home),
        None => {
            PathBuf::from(std::env::var_os("HOME").context("HOME is not set: use --data-dir DIR")?).join(".flotilla")
        }
    };
    Ok(home.join("registry"))
}
