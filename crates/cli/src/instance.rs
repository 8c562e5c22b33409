//! `flotilla instance`: instances of a manager.

mod connection;
mod insight;
pub mod login;
mod registration;

use std::path::PathBuf;
use std::time::Duration;

use ::karmadactl::console::Console;
use anyhow::{Context, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{Args, Subcommand};
use cluster_client::{ApiRequest, ClusterClient, DeleteOptions, ListOptions, Patch, ResourceRef, WriteOptions};
use manager_kinds::annotations::{IMPORT_KUBECONFIG, MODE, RESTARTED_AT};
use manager_kinds::instance::LABEL_KEEP;
use manager_kinds::{INSTANCE_NAMESPACE, KARMADAS};
use object::builtin;
use object::{GroupVersionKind, Object, conditions};
use serde_json::{Value, json};

use connection::ConnectionArgs;

const FIELD_MANAGER: &str = "flotilla";
const POLL: Duration = Duration::from_millis(50);
const KUBECONFIGS: &str = "/flotilla/manager/kubeconfigs";

/// List, create, import and operate the instances of a manager.
#[derive(Args)]
pub struct InstanceArgs {
    #[command(subcommand)]
    command: InstanceCommand,
    #[command(flatten)]
    connection: ConnectionArgs,
}

#[derive(Subcommand)]
enum InstanceCommand {
    /// List instances with their mode, phase and endpoint.
    List,
    /// Create an instance.
    Create(CreateArgs),
    /// Import a running Karmada or Flotilla control plane by its kubeconfig.
    Import(ImportArgs),
    /// Print an instance as YAML.
    Get(NameArgs),
    /// Issue, list or revoke kubeconfigs with your own rights on an instance.
    Kubeconfig(KubeconfigArgs),
    /// Pause the life cycle of an instance; its control plane is left as it is.
    Suspend(NameArgs),
    /// Resume the life cycle of an instance.
    Resume(NameArgs),
    /// Restart the control plane of an instance.
    Restart(NameArgs),
    /// Stop the control plane of an instance without clusters; a request to it starts it again.
    Hibernate(NameArgs),
    /// Start a hibernating instance.
    Wake(NameArgs),
    /// Print the problems of an instance, each with a step that helps.
    Diagnose(insight::DiagnoseArgs),
    /// List the checks and controllers of a control plane.
    Components(NameArgs),
    /// Print metrics of an instance or of one of its clusters, or the answer of its Prometheus to a query.
    Metrics(insight::MetricsArgs),
    /// Create, list or delete tokens with which clusters register themselves in pull mode.
    Token(registration::TokenArgs),
    /// List agents that wait for the approval of their certificate, or approve one.
    Agents(registration::AgentsArgs),
    /// Back up the control plane of an instance into one file; runs on the machine of the manager.
    Backup(BackupArgs),
    /// Delete an instance; its data is kept for 7 days.
    Delete(DeleteArgs),
}

#[derive(Args)]
struct NameArgs {
    /// Name of the instance
    name: String,
}

#[derive(Args)]
struct CreateArgs {
    /// Name of the instance
    name: String,
    /// Run the control plane in the process of the manager or in one of its own.
    #[arg(long, value_parser = ["in-process", "process"], default_value = "in-process", value_name = "MODE")]
    mode: String,
    /// File with the spec of the instance (YAML), as in `operator.karmada.io/v1alpha1 Karmada`.
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// Maximum time to wait until the instance is ready; 0 does not wait.
    #[arg(long, default_value = "60s", value_parser = duration, value_name = "DURATION")]
    wait: Duration,
}

#[derive(Args)]
struct ImportArgs {
    /// Name of the instance
    name: String,
    /// Kubeconfig of the control plane, with embedded credentials.
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// Maximum time to wait until the instance is ready; 0 does not wait.
    #[arg(long, default_value = "60s", value_parser = duration, value_name = "DURATION")]
    wait: Duration,
}

#[derive(Args)]
struct KubeconfigArgs {
    /// Name of the instance
    name: String,
    /// Validity of the kubeconfig.
    #[arg(long, default_value = "8h", value_parser = duration, value_name = "DURATION")]
    expires: Duration,
    /// Address the instance by the path on the manager, by a host name of its own, or by the manager's URL with that name in the
    /// TLS handshake. The last two need `--instances-domain` of the manager.
    #[arg(long, value_parser = ["path", "host", "server-name"], default_value = "path", value_name = "FORM")]
    address: String,
    /// File to write instead of the standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// List your kubeconfigs that have not expired; platform administrators see those of all users.
    #[arg(long, conflicts_with_all = ["revoke", "output"])]
    list: bool,
    /// Revoke the kubeconfig with this id.
    #[arg(long, value_name = "ID", conflicts_with = "output")]
    revoke: Option<String>,
}

#[derive(Args)]
struct BackupArgs {
    /// Name of the instance
    name: String,
    /// File to write
    file: PathBuf,
    /// Overwrite FILE if it exists.
    #[arg(long)]
    force: bool,
}

#[derive(Args)]
struct DeleteArgs {
    /// Name of the instance
    name: String,
    /// Remove the instance from the manager and keep its control plane.
    #[arg(long)]
    keep: bool,
    /// Remove the joined clusters first, which ends what the instance runs in them.
    #[arg(long, conflicts_with = "keep")]
    force: bool,
    /// Maximum time to wait until the instance is gone; 0 does not wait.
    #[arg(long, default_value = "60s", value_parser = duration, value_name = "DURATION")]
    wait: Duration,
}

fn duration(text: &str) -> Result<Duration, String> {
    karmadactl::durations::parse(text)
}

pub async fn run(console: &Console, args: InstanceArgs) -> anyhow::Result<()> {
    let client = args.connection.connect()?;
    match args.command {
        InstanceCommand::List => list(console, &client).await,
        InstanceCommand::Create(args) => create(console, &client, args).await,
        InstanceCommand::Import(args) => import(console, &client, args).await,
        InstanceCommand::Get(args) => {
            let instance = client.get(target(&args.name)).await?;
            Ok(console.print(&object::yaml::to_string(&instance.unmanaged().into_value()))?)
        }
        InstanceCommand::Kubeconfig(args) => kubeconfig(console, &client, args).await,
        InstanceCommand::Suspend(args) => {
            patch(&client, &args.name, json!({"spec": {"suspend": true}})).await?;
            Ok(console.line(format_args!("instance {} is suspended", args.name))?)
        }
        InstanceCommand::Resume(args) => {
            patch(&client, &args.name, json!({"spec": {"suspend": false}})).await?;
            Ok(console.line(format_args!("instance {} is resumed", args.name))?)
        }
        InstanceCommand::Restart(args) => {
            let now = object::time::format_micros(jiff::Timestamp::now());
            patch(&client, &args.name, json!({"metadata": {"annotations": {RESTARTED_AT: now}}})).await?;
            Ok(console.line(format_args!("instance {} restarts", args.name))?)
        }
        InstanceCommand::Hibernate(args) => {
            call(&client, &args.name, "hibernate").await?;
            Ok(console.line(format_args!("instance {} hibernates; a request to it starts it again", args.name))?)
        }
        InstanceCommand::Wake(args) => {
            call(&client, &args.name, "wake").await?;
            Ok(console.line(format_args!("instance {} is awake", args.name))?)
        }
        InstanceCommand::Diagnose(args) => insight::diagnose(console, &client, args).await,
        InstanceCommand::Components(args) => insight::components(console, &client, &args.name).await,
        InstanceCommand::Metrics(args) => insight::metrics(console, &client, args).await,
        InstanceCommand::Token(args) => registration::token(console, &client, args).await,
        InstanceCommand::Agents(args) => registration::agents(console, &client, args).await,
        InstanceCommand::Backup(args) => backup(console, &client, args).await,
        InstanceCommand::Delete(args) => delete(console, &client, args).await,
    }
}

/// An instance of the default namespace, or `NAMESPACE~NAME`.
fn target(name: &str) -> ResourceRef {
    let (namespace, name) = name.split_once('~').unwrap_or((INSTANCE_NAMESPACE, name));
    ResourceRef::namespaced(&KARMADAS.gvr(), namespace, name)
}

/// The path of an instance in the manager's API.
fn path_of(name: &str) -> String {
    format!("/flotilla/manager/v1alpha1/instances/{}", cluster_client::escape(name))
}

/// The path and query of a deletion that removes the joined clusters first.
fn forced_deletion(name: &str) -> String {
    format!("{}?force=true&confirmName={}", path_of(name), cluster_client::escape(name))
}

/// Calls a verb of the manager's API on an instance.
async fn call(client: &ClusterClient, name: &str, verb: &str) -> anyhow::Result<()> {
    let path = format!("{}:{verb}", path_of(name));
    connection::send(client, http::Method::POST, &path, Some(json!({}))).await?;
    Ok(())
}

async fn patch(client: &ClusterClient, name: &str, patch: Value) -> anyhow::Result<()> {
    client.patch(target(name), Patch::merge(patch), WriteOptions::managed_by(FIELD_MANAGER)).await?;
    Ok(())
}

async fn list(console: &Console, client: &ClusterClient) -> anyhow::Result<()> {
    let list = client.list_all(ResourceRef::all(&KARMADAS.gvr()), ListOptions::default()).await?;
    let mut rows = vec![["NAME", "MODE", "PHASE", "READY", "ENDPOINT"].map(str::to_owned)];
    for instance in &list.items {
        let name = match instance.namespace() {
            INSTANCE_NAMESPACE => instance.name().to_owned(),
            namespace => format!("{namespace}~{}", instance.name()),
        };
        let status = |field: &str| instance.str_at(&["status", field]).to_owned();
        let ready = conditions::find(instance, "Ready").map_or("Unknown", |ready| ready.status()).to_owned();
        rows.push([name, status("mode"), status("phase"), ready, status("endpoint")]);
    }
    print_columns(console, &rows)
}

/// Prints rows in columns that are as wide as needed.
fn print_columns<const N: usize>(console: &Console, rows: &[[String; N]]) -> anyhow::Result<()> {
    let widths: Vec<usize> = (0..N).map(|at| rows.iter().map(|row| row[at].len()).max().unwrap_or(0)).collect();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        console.line(cells.join("   ").trim_end())?;
    }
    Ok(())
}

async fn create(console: &Console, client: &ClusterClient, args: CreateArgs) -> anyhow::Result<()> {
    let spec: Value = match &args.spec {
        None => json!({}),
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            serde_saphyr::from_str(&text).with_context(|| format!("{} is not valid YAML", path.display()))?
        }
    };
    let mut instance = KARMADAS.object(INSTANCE_NAMESPACE, &args.name);
    if args.mode != "in-process" {
        instance.set_annotation(MODE, &args.mode);
    }
    instance.set(&["spec"], spec);
    create_and_wait(console, client, instance, args.wait).await
}

async fn import(console: &Console, client: &ClusterClient, args: ImportArgs) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(&args.from).with_context(|| format!("cannot read {}", args.from.display()))?;
    let secret_name = format!("{}-import", args.name);
    let mut secret = Object::new(&GroupVersionKind::new("", "v1", "Secret"), Some(INSTANCE_NAMESPACE), &secret_name);
    secret.set(&["data", "kubeconfig"], STANDARD.encode(text));
    let secrets = ResourceRef::within(&builtin::secrets(), INSTANCE_NAMESPACE);
    client.create(secrets, secret, WriteOptions::managed_by(FIELD_MANAGER)).await?;
    let mut instance = KARMADAS.object(INSTANCE_NAMESPACE, &args.name);
    instance.set_annotation(MODE, "imported");
    instance.set_annotation(IMPORT_KUBECONFIG, &format!("{secret_name}/kubeconfig"));
    instance.set(&["spec"], json!({}));
    create_and_wait(console, client, instance, args.wait).await
}

async fn create_and_wait(
    console: &Console,
    client: &ClusterClient,
    instance: Object,
    wait: Duration,
) -> anyhow::Result<()> {
    let name = instance.name().to_owned();
    let collection = ResourceRef::within(&KARMADAS.gvr(), INSTANCE_NAMESPACE);
    let create = ApiRequest::Create { object: instance, options: WriteOptions::managed_by(FIELD_MANAGER) };
    let reply = client.call(collection, create).await?;
    reply.warnings.iter().for_each(|warning| console.warn(warning));
    if wait.is_zero() {
        return Ok(console.line(format_args!("instance {name} is created"))?);
    }
    let deadline = tokio::time::Instant::now() + wait;
    loop {
        let instance = client.get(target(&name)).await?;
        if conditions::is_true(&instance, "Ready") {
            return Ok(console.line(format_args!("instance {name} is ready"))?);
        }
        if tokio::time::Instant::now() >= deadline {
            let ready = conditions::find(&instance, "Ready");
            bail!("instance {name} is not ready: {}", ready.map_or("no status yet", |ready| ready.message()));
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn kubeconfig(console: &Console, client: &ClusterClient, args: KubeconfigArgs) -> anyhow::Result<()> {
    if let Some(id) = &args.revoke {
        connection::send(client, http::Method::DELETE, &format!("{KUBECONFIGS}/{id}"), None).await?;
        return Ok(console.line(format_args!("kubeconfig {id} is revoked"))?);
    }
    if args.list {
        let path = format!("{KUBECONFIGS}?instance={}", cluster_client::escape(&args.name));
        let found = connection::send(client, http::Method::GET, &path, None).await?;
        for item in found["items"].as_array().into_iter().flatten() {
            let text = |field: &str| item[field].as_str().unwrap_or_default().to_owned();
            console.line(format_args!("{}  {}  expires {}", text("id"), text("user"), text("expiresAt")))?;
        }
        return Ok(());
    }
    let body = json!({"instance": args.name, "expirationSeconds": args.expires.as_secs(), "address": args.address});
    let issued = connection::send(client, http::Method::POST, KUBECONFIGS, Some(body)).await?;
    let text = issued["kubeconfig"].as_str().context("the manager returned no kubeconfig")?;
    match &args.output {
        None => Ok(console.print(text)?),
        Some(path) => {
            pki::key_dir::write_atomic(path, text.as_bytes(), pki::key_dir::PRIVATE)?;
            let id = issued["id"].as_str().unwrap_or_default();
            Ok(console.line(format_args!("{}: kubeconfig {id}, valid for {:?}", path.display(), args.expires))?)
        }
    }
}

async fn backup(console: &Console, client: &ClusterClient, args: BackupArgs) -> anyhow::Result<()> {
    let instance = client.get(target(&args.name)).await?;
    let directory = instance.str_at(&["status", "directory"]);
    ensure!(!directory.is_empty(), "instance {} has no data directory: back it up where it runs", args.name);
    let directory = PathBuf::from(directory);
    ensure!(
        directory.is_dir(),
        "{} is not on this machine: run this on the machine of the manager",
        directory.display()
    );
    crate::backup::back_up_directory(console, directory, &args.file, args.force).await
}

async fn delete(console: &Console, client: &ClusterClient, args: DeleteArgs) -> anyhow::Result<()> {
    if args.keep {
        patch(client, &args.name, json!({"metadata": {"labels": {LABEL_KEEP: "true"}}})).await?;
    }
    if args.force {
        connection::send(client, http::Method::DELETE, &forced_deletion(&args.name), None).await?;
    } else {
        client.delete(target(&args.name), DeleteOptions::default()).await?;
    }
    let deadline = tokio::time::Instant::now() + args.wait;
    while let Some(instance) = client.find(target(&args.name)).await? {
        if tokio::time::Instant::now() >= deadline {
            let ready = conditions::find(&instance, "Ready").map_or("", |ready| ready.message()).to_owned();
            if args.wait.is_zero() {
                return Ok(console.line(format_args!("instance {} is being deleted", args.name))?);
            }
            bail!("instance {} still exists: {ready}", args.name);
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(console.line(format_args!("instance {} is deleted", args.name))?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flotilla {
        #[command(flatten)]
        instance: InstanceArgs,
    }

    fn parse(words: &str) -> Result<InstanceCommand, clap::error::ErrorKind> {
        let parsed = Flotilla::try_parse_from(words.split(' ')).map_err(|error| error.kind())?;
        Ok(parsed.instance.command)
    }

    #[test]
    fn a_deletion_is_forced_only_on_request_and_never_keeps_the_control_plane() {
        let is_forced = |words| matches!(parse(words), Ok(InstanceCommand::Delete(DeleteArgs { force: true, .. })));
        assert!(is_forced("flotilla delete east --force"));
        assert!(!is_forced("flotilla delete east"));
        let refused = parse("flotilla delete east --force --keep").err();
        assert_eq!(refused, Some(clap::error::ErrorKind::ArgumentConflict));
    }

    #[test]
    fn a_forced_deletion_repeats_the_name() {
        let expected = "/flotilla/manager/v1alpha1/instances/east?force=true&confirmName=east";
        assert_eq!(forced_deletion("east"), expected);
    }
}
