//! `promote`: copies an object of a member to the control plane as a template, without changing it in the member.

mod dependencies;

use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use api::names::policy_name;
use api::policy::{CLUSTER_PROPAGATION_POLICIES, PROPAGATION_POLICIES};
use api::work::ANNOTATION_CONFLICT_RESOLUTION;
use clap::Args;
use cluster_client::{
    ApiResource, ApiResources, ClusterClient, Endpoint, ListOptions, ResourceRef, RestMapper, WriteOptions,
};
use object::{GroupVersionKind, GroupVersionResource, Object};
use serde_json::json;

use crate::console::Console;
use crate::output::Format;
use crate::plane::{NamespaceArgs, PlaneArgs, PlaneClient, open_kubeconfig};
use crate::resources;

/// Promote resources from legacy clusters to Karmada control plane.
///
/// The object becomes a template in the control plane, with a policy that propagates it to its cluster. An object that
/// already exists in the control plane is not changed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Promote deployment default/nginx from cluster1
  flotilla promote deployment nginx -n default -C cluster1

  # Promote all config maps of a namespace with a label
  flotilla promote configmaps -l app=web -n default -C cluster1

  # Only show the template and the policy
  flotilla promote deployment nginx -n default -C cluster1 -o yaml

  # Promote it with the config maps, secrets and whatever else it needs
  flotilla promote deployment nginx -n default -C cluster1 -d

  # Read the object with a kubeconfig of the cluster instead of through the control plane
  flotilla promote deployment nginx -n default -C cluster1 --cluster-kubeconfig=FILE --cluster-context=cluster1")]
pub struct PromoteArgs {
    /// TYPE[.VERSION][.GROUP] NAME..., or TYPE with --all or -l
    #[arg(value_name = "TYPE NAME")]
    arguments: Vec<String>,
    /// Promote all objects of the type that are not managed yet
    #[arg(long, conflicts_with = "selector")]
    all: bool,
    /// Promote the objects with these labels that are not managed yet
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    #[command(flatten)]
    plane: PlaneArgs,
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// Cluster of the object
    #[arg(short = 'C', long, value_name = "NAME")]
    cluster: Option<String>,
    /// Path of that cluster's kubeconfig [default: through the control plane]
    #[arg(long, value_name = "FILE")]
    cluster_kubeconfig: Option<PathBuf>,
    /// Context in that kubeconfig [default: the name of the cluster]
    #[arg(long, value_name = "CONTEXT")]
    cluster_context: Option<String>,
    /// Create a PropagationPolicy or ClusterPropagationPolicy for the cluster of the object
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL")]
    auto_create_policy: bool,
    /// Name of that policy [default: the object's name and a hash]
    #[arg(long, value_name = "NAME")]
    policy_name: Option<String>,
    /// Also promote the dependencies of the object
    #[arg(short, long)]
    dependencies: bool,
    /// Only print the objects that would be created: json or yaml
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
    /// Run all checks without changing anything
    #[arg(long)]
    dry_run: bool,
}

/// A promotion.
struct Promotion {
    kind: String,
    name: String,
    namespace: String,
    cluster: String,
    with_policy: bool,
    policy_name: Option<String>,
    with_dependencies: bool,
    output: Option<Format>,
    dry_run: bool,
}

pub async fn run(console: &Console, args: PromoteArgs) -> anyhow::Result<()> {
    let (kind, names) = args.objects()?;
    let Some(cluster) = args.cluster.clone().filter(|cluster| !cluster.is_empty()) else {
        bail!("the cluster cannot be empty; use -C CLUSTER");
    };
    if !matches!(args.output, None | Some(Format::Json | Format::Yaml)) {
        bail!("invalid output format: supported formats are json and yaml");
    }
    let plane = PlaneClient::open(&args.plane)?;
    let mut promotion = Promotion {
        kind,
        name: String::new(),
        namespace: plane.namespace(&args.namespace),
        cluster,
        with_policy: args.auto_create_policy,
        policy_name: args.policy_name.clone().filter(|name| !name.is_empty()),
        with_dependencies: args.dependencies,
        output: args.output.clone(),
        dry_run: args.dry_run,
    };
    let promoted = async {
        let member = args.open_member(&plane, &promotion.cluster).await?;
        let names = match args.selects() {
            true => args.list(&member, &promotion).await?,
            false => names,
        };
        if names.len() > 1 && promotion.policy_name.is_some() {
            bail!("--policy-name is for one object; {} are selected", names.len());
        }
        if names.is_empty() {
            console.note(format!("No resources found in cluster({}).", promotion.cluster));
        }
        for name in names {
            promotion.name = name;
            promote(console, &plane.client, &member, &promotion).await?;
        }
        Ok(())
    };
    promoted.await.map_err(|error| plane.explain(error))
}

impl PromoteArgs {
    /// Reads `TYPE NAME…`, `TYPE/NAME`, or `TYPE` with --all or a selector.
    fn objects(&self) -> anyhow::Result<(String, Vec<String>)> {
        let (kind, names) = match &self.arguments[..] {
            [one] if one.contains('/') => one.split_once('/').map(|(kind, name)| (kind, vec![name.to_owned()])),
            [kind, names @ ..] => Some((kind.as_str(), names.to_vec())),
            [] => None,
        }
        .unwrap_or_default();
        if kind.is_empty() || names.iter().any(String::is_empty) || names.is_empty() != self.selects() {
            bail!(
                "incorrect command format, please use correct command format: promote TYPE NAME... -n NAMESPACE -C CLUSTER, \
                 or promote TYPE with --all or -l SELECTOR"
            );
        }
        Ok((kind.to_owned(), names))
    }

    fn selects(&self) -> bool {
        self.all || self.selector.is_some()
    }

    /// Returns the names of the selected objects in the member that the control plane does not manage yet.
    async fn list(&self, member: &ClusterClient, promotion: &Promotion) -> anyhow::Result<Vec<String>> {
        let known = ApiResources::discover(member).await?;
        let Some(resource) = resources::find(&promotion.kind, &known) else {
            bail!("the server doesn't have a resource type {:?}", promotion.kind);
        };
        let place = match resource.namespaced {
            true => ResourceRef::within(&resource.gvr, &promotion.namespace),
            false => ResourceRef::all(&resource.gvr),
        };
        let options = ListOptions { label_selector: self.selector.clone(), ..ListOptions::default() };
        let list = member.list_all(place, options).await?;
        let is_new = |object: &Object| object.label(api::cluster::LABEL_MANAGED) != Some("true");
        Ok(list.items.iter().filter(|object| is_new(object)).map(|object| object.name().to_owned()).collect())
    }

    async fn open_member(&self, plane: &PlaneClient, cluster: &str) -> anyhow::Result<ClusterClient> {
        let Some(path) = &self.cluster_kubeconfig else {
            return plane.existing_member(cluster).await.context("failed to get the member cluster");
        };
        let context = self.cluster_context.as_deref().filter(|context| !context.is_empty()).unwrap_or(cluster);
        let (_, remote) = open_kubeconfig(Some(path), Some(context))?;
        Ok(ClusterClient::connect(Endpoint::Remote(remote))?)
    }
}

async fn promote(
    console: &Console,
    plane: &ClusterClient,
    member: &ClusterClient,
    promotion: &Promotion,
) -> anyhow::Result<()> {
    let cluster = &promotion.cluster;
    let source = find(member, promotion, &promotion.kind, &promotion.name).await;
    let source = source.map_err(|error| anyhow!("failed to get resource in cluster({cluster}). err: {error:#}"))?;
    let mapper = RestMapper::new(plane.clone());
    let gvk = source.gvk();
    let resource = mapper.resource_of(&gvk).await;
    let resource = resource.with_context(|| format!("the control plane does not serve {gvk}; create its CRD first"))?;
    let template = as_template(source.clone());
    let policy = promotion.with_policy.then(|| promotion.policy(&template, &resource.gvr, &gvk));
    if let Some(format) = &promotion.output {
        return show(console, format, template, policy);
    }
    if promotion.dry_run {
        return Ok(());
    }
    if promotion.with_dependencies {
        let done = dependencies::promote(console, plane, member, &mapper, promotion, &source).await;
        done.with_context(|| {
            let (namespace, name) = (&promotion.namespace, &promotion.name);
            format!(
                "failed to promote dependencies of resource {}({namespace}/{name}) automatically",
                quoted(&resource.gvr)
            )
        })?;
    }
    create(console, plane, promotion, &resource, template, policy).await
}

/// Reads the object in the member.
async fn find(member: &ClusterClient, promotion: &Promotion, kind: &str, name: &str) -> anyhow::Result<Object> {
    let known = ApiResources::discover(member).await?;
    let Some(resource) = resources::find(kind, &known) else {
        bail!("the server doesn't have a resource type {kind:?}");
    };
    match member.find(place_of(resource, &promotion.namespace, name)).await? {
        Some(object) => Ok(Object::clone(&object)),
        None => bail!("the {kind} or {name} don't exist in cluster({})", promotion.cluster),
    }
}

fn place_of(resource: &ApiResource, namespace: &str, name: &str) -> ResourceRef {
    match resource.namespaced {
        true => ResourceRef::namespaced(&resource.gvr, namespace, name),
        false => ResourceRef::cluster(&resource.gvr, name),
    }
}

/// Builds the template: removes server-specific fields, and allows it to adopt the object in the member.
fn as_template(mut object: Object) -> Object {
    propagation::works::prune_server_fields(&mut object);
    if object.annotation(ANNOTATION_CONFLICT_RESOLUTION).is_none() {
        object.set_annotation(ANNOTATION_CONFLICT_RESOLUTION, "overwrite");
    }
    object
}

/// Quotes text as Go does.
fn quoted(gvr: &GroupVersionResource) -> String {
    format!("\"{gvr}\"")
}

/// Returns `namespace/name`, or the name of a cluster-scoped object.
fn full_name(object: &Object) -> String {
    match object.namespace() {
        "" => object.name().to_owned(),
        namespace => format!("{namespace}/{}", object.name()),
    }
}

impl Promotion {
    fn policy(&self, template: &Object, gvr: &GroupVersionResource, gvk: &GroupVersionKind) -> Object {
        let namespace = template.namespace();
        let name = self.policy_name.clone().unwrap_or_else(|| policy_name(namespace, &self.name, &gvk.to_string()));
        let kind = if namespace.is_empty() { &CLUSTER_PROPAGATION_POLICIES } else { &PROPAGATION_POLICIES };
        let mut policy = kind.object(namespace, &name);
        policy.set(
            &["spec"],
            json!({
                "conflictResolution": "Overwrite",
                "placement": {"clusterAffinity": {"clusterNames": [self.cluster]}},
                "preserveResourcesOnDeletion": true,
                "resourceSelectors": [
                    {"apiVersion": gvr.group_version().to_string(), "kind": gvk.kind, "name": self.name},
                ],
            }),
        );
        if self.with_dependencies {
            policy.set(&["spec", "propagateDeps"], true);
        }
        policy
    }
}

fn show(console: &Console, format: &Format, template: Object, policy: Option<Object>) -> anyhow::Result<()> {
    let mut documents = vec![format.print(&template.into_value())?];
    if let Some(policy) = policy {
        documents.push(format.print(&policy.into_value())?);
    }
    let separator = if *format == Format::Yaml { "---\n" } else { "" };
    console.print(&documents.join(separator))?;
    Ok(())
}

async fn create(
    console: &Console,
    plane: &ClusterClient,
    promotion: &Promotion,
    resource: &ApiResource,
    template: Object,
    policy: Option<Object>,
) -> anyhow::Result<()> {
    let (gvr, full) = (quoted(&resource.gvr), full_name(&template));
    if plane.find(place_of(resource, template.namespace(), template.name())).await?.is_some() {
        console.warn(format!(
            "Resource {gvr}({full}) already exist in karmada control plane, you can edit PropagationPolicy and \
             OverridePolicy to propagate it"
        ));
        return Ok(());
    }
    if let Some(policy) = &policy {
        refuse_taken_policy(plane, policy).await?;
    }
    create_template(console, plane, resource, template).await?;
    console.line(format!("ResourceTemplate ({}/{}) is created successfully", promotion.namespace, promotion.name))?;
    if let Some(policy) = policy {
        let (kind, name) = (policy.kind().to_owned(), full_name(&policy));
        plane.create(policies_of(&policy), policy, WriteOptions::default()).await?;
        console.line(match kind.as_str() {
            "PropagationPolicy" => format!("PropagationPolicy ({name}) is created successfully"),
            kind => format!("{kind} {name} is created successfully"),
        })?;
    }
    console.line(format!("Resource {gvr}({full}) is promoted successfully"))?;
    Ok(())
}

fn policies_of(policy: &Object) -> ResourceRef {
    match policy.namespace() {
        "" => ResourceRef::all(&CLUSTER_PROPAGATION_POLICIES.gvr()),
        namespace => ResourceRef::within(&PROPAGATION_POLICIES.gvr(), namespace),
    }
}

/// Checked before anything is created: a template must not be created without its policy.
async fn refuse_taken_policy(plane: &ClusterClient, policy: &Object) -> anyhow::Result<()> {
    let target = ResourceRef { name: Some(policy.name().to_owned()), ..policies_of(policy) };
    if plane.find(target).await?.is_some() {
        bail!("the {}({}) already exist, please edit it to propagate resource", policy.kind(), full_name(policy));
    }
    Ok(())
}

async fn create_template(
    console: &Console,
    plane: &ClusterClient,
    resource: &ApiResource,
    template: Object,
) -> anyhow::Result<()> {
    let (gvr, full, namespace) = (quoted(&resource.gvr), full_name(&template), template.namespace().to_owned());
    let target = match namespace.as_str() {
        "" => ResourceRef::all(&resource.gvr),
        namespace => ResourceRef::within(&resource.gvr, namespace),
    };
    let created = plane.create(target, template, WriteOptions::default()).await;
    created.map(drop).map_err(|status| {
        let is_namespace =
            status.is_not_found() && status.details.as_ref().is_some_and(|details| details.kind == "namespaces");
        let hint = match is_namespace {
            true => format!("; create it first, as with `{} create namespace {namespace}`", console.program),
            false => String::new(),
        };
        anyhow!("failed to create resource {gvr}({full}) in control plane: {status}{hint}")
    })
}

#[cfg(test)]
mod tests;
