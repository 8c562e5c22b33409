//! `create`: creates objects of the control plane from manifests or from arguments.

mod data;
mod generators;
mod network;
mod rights;
mod workloads;

use anyhow::bail;
use clap::Args;
use cluster_client::{ApiRequest, ApiResources, ClusterClient, ResourceRef, Subresource};
use object::Object;
use serde_json::json;

use crate::apply::with_last_applied;
use crate::console::Console;
use crate::create::generators::{Generated, Generator};
use crate::files::{FileArgs, FileObject};
use crate::outcome::{self, DryRun, OutcomeArgs, Printer, when};
use crate::plane::{NamespaceArgs, PlaneArgs, PlaneClient};
use crate::selection::{self, Namespace, Selected};

const FIELD_MANAGER: &str = "kubectl-create";

/// Create a resource of the control plane from a file or from stdin, or by a subcommand for its kind.
#[derive(Args, Debug)]
#[command(
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  # Create the objects in a file
  flotilla create -f web.yaml

  # Create a deployment
  flotilla create deployment web --image=nginx --replicas=2

  # Print a config map instead of creating it
  flotilla create configmap settings --from-literal=mode=fast --dry-run=client -o yaml"
)]
pub struct CreateArgs {
    #[command(subcommand)]
    generator: Option<Generator>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    common: CreateOptions,
}

/// Options of `create` and of each of its subcommands.
#[derive(Args, Clone, Debug, Default)]
pub struct CreateOptions {
    #[command(flatten)]
    pub plane: PlaneArgs,
    #[command(flatten)]
    pub namespace: NamespaceArgs,
    /// Store the manifest in an annotation, for `apply` later
    #[arg(long)]
    pub save_config: bool,
    /// Name of the owner of the fields
    #[arg(long, default_value = FIELD_MANAGER, value_name = "NAME")]
    pub field_manager: String,
    /// Accepted for compatibility: the server always validates
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "strict", hide = true)]
    pub validate: Option<String>,
    #[command(flatten)]
    pub outcome: OutcomeArgs,
}

pub async fn run(console: &Console, args: CreateArgs) -> anyhow::Result<()> {
    let Some(generator) = args.generator else {
        if args.files.is_empty() {
            bail!("must specify one of -f and -k, or a subcommand such as `{} create deployment`", console.program);
        }
        let files = args.files.read(&console.program, "create").await?;
        let plane = PlaneClient::open(&args.common.plane)?;
        return create(console, &plane, &args.common, files).await.map_err(|error| plane.explain(error));
    };
    let (generated, options) = generator.generate(console)?;
    match generated {
        Generated::Object(object) => {
            // An object that is only printed needs no server.
            if options.outcome.dry_run == DryRun::Client && options.plane_is_optional() {
                return print_only(console, &options, *object);
            }
            let plane = PlaneClient::open(&options.plane)?;
            let files = vec![FileObject { source: String::new(), object: *object }];
            create(console, &plane, &options, files).await.map_err(|error| plane.explain(error))
        }
        Generated::JobFrom { cron_job, name } => {
            let plane = PlaneClient::open(&options.plane)?;
            let namespace = plane.namespace(&options.namespace);
            let work = async {
                let object = workloads::job_from(&plane.client, &namespace, &cron_job, &name).await?;
                create(console, &plane, &options, vec![FileObject { source: String::new(), object }]).await
            };
            work.await.map_err(|error| plane.explain(error))
        }
        Generated::Token { account, audiences, seconds } => {
            let plane = PlaneClient::open(&options.plane)?;
            let namespace = plane.namespace(&options.namespace);
            let token = request_token(&plane.client, &namespace, &account, audiences, seconds).await;
            console.line(token.map_err(|error| plane.explain(error))?)?;
            Ok(())
        }
    }
}

impl CreateOptions {
    /// Returns true if the namespace does not depend on a kubeconfig.
    fn plane_is_optional(&self) -> bool {
        self.plane.kubeconfig.is_none() && self.plane.testbed.is_none() && self.plane.karmada_context.is_none()
    }
}

fn print_only(console: &Console, options: &CreateOptions, mut object: Object) -> anyhow::Result<()> {
    if let Some(namespace) = options.namespace.namespace.as_deref().filter(|_| !generators::is_cluster_scoped(&object))
    {
        object.set_namespace(namespace);
    }
    let object = if options.save_config { with_last_applied(&object) } else { object };
    Printer::new(console, &options.outcome)?.print(&object, "created")
}

async fn create(
    console: &Console,
    plane: &PlaneClient,
    options: &CreateOptions,
    files: Vec<FileObject>,
) -> anyhow::Result<()> {
    let namespace = plane.namespace(&options.namespace);
    let namespace = Namespace { name: &namespace, is_given: options.namespace.namespace.is_some() };
    let known = ApiResources::discover(&plane.client).await?;
    let objects = selection::from_files(files, &known, namespace)?;
    if objects.is_empty() {
        bail!("no objects passed to create");
    }
    let mut printer = Printer::new(console, &options.outcome)?;
    let mut errors: Vec<anyhow::Error> = Vec::new();
    for one in objects {
        match create_one(console, &plane.client, options, one).await {
            Ok(created) => printer.print(&created, "created")?,
            Err(error) => errors.push(error),
        }
    }
    match &mut errors[..] {
        [] => Ok(()),
        [_] => Err(errors.remove(0)),
        _ => outcome::finish(console, &errors),
    }
}

async fn create_one(
    console: &Console,
    client: &ClusterClient,
    options: &CreateOptions,
    one: Selected,
) -> anyhow::Result<Object> {
    let object = if options.save_config { with_last_applied(&one.object) } else { one.object.clone() };
    if options.outcome.dry_run == DryRun::Client {
        return Ok(object);
    }
    let write = options.outcome.dry_run.write_options(&options.field_manager);
    let request = ApiRequest::Create { object, options: write };
    let reply = outcome::send(console, client, one.collection(), request).await;
    let reply = reply.map_err(|status| match one.source.is_empty() {
        true => object::Status {
            message: format!("failed to create {}: {}", one.resource.singular, status.message),
            ..status
        },
        false => when(status, "creating", &one.source),
    })?;
    Ok(Object::clone(&*reply.into_object()?))
}

async fn request_token(
    client: &ClusterClient,
    namespace: &str,
    account: &str,
    audiences: Vec<String>,
    seconds: Option<u64>,
) -> anyhow::Result<String> {
    let accounts = api::Resource::namespaced("", "v1", "ServiceAccount", "serviceaccounts");
    let mut spec = json!({"audiences": audiences});
    if let Some(seconds) = seconds {
        spec["expirationSeconds"] = seconds.into();
    }
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {}, "spec": spec});
    let object = Object::from_value(request).unwrap_or_default();
    let target = ResourceRef::namespaced(&accounts.gvr(), namespace, account).subresource(Subresource::Token);
    let answer = client.create(target, object, DryRun::None.write_options(FIELD_MANAGER)).await?;
    match answer.str_at(&["status", "token"]) {
        "" => bail!("failed to create token: no token in the response"),
        token => Ok(token.to_owned()),
    }
}
