//! `get`: lists objects of the control plane and of members in one table, with their cluster.

mod gather;
mod sorting;
mod watch;

use anyhow::{anyhow, bail};
use clap::Args;
use cluster_client::ClusterClient;
use futures::StreamExt;
use futures::stream;
use object::Object;
use object::jsonpath::JsonPath;
use serde_json::Value;

use crate::console::Console;
use crate::output::{self, Format};
use crate::plane::{NamespaceArgs, PlaneArgs, PlaneClient};
use crate::resources;
use crate::scope::{self, CONTROL_PLANE, Scope};
use crate::table::{Look, Table};

pub use gather::{Gathered, Query, ask};

/// Maximum number of clusters queried concurrently.
const CLUSTERS_AT_ONCE_MAX: usize = 16;

/// Display one or many resources in Karmada control plane and member clusters.
///
/// The table shows the cluster of every row. The column ADOPTION shows whether an object in a member is managed by the
/// control plane (Y) or not (N).
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # List all pods in the control plane
  flotilla get pods

  # List all pods of member1, with the node they run on
  flotilla get pods -s members -C member1 -o wide

  # List deployments of the control plane and of all members
  flotilla get deployments -s all -A

  # One object as YAML, in the version asked for
  flotilla get deployments.v1.apps nginx -o yaml

  # Only the replicas of an object
  flotilla get deployment/nginx -o jsonpath='{.spec.replicas}'

  # Follow changes in all members
  flotilla get deployments -s members -w")]
pub struct GetArgs {
    /// TYPE[.VERSION][.GROUP] [NAME...], or TYPE/NAME...
    #[arg(value_name = "TYPE")]
    resources: Vec<String>,
    #[command(flatten)]
    plane: PlaneArgs,
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// Scope: karmada, members, or all
    #[arg(short = 's', long, default_value = "karmada", value_parser = scope::parse, value_name = "SCOPE")]
    operation_scope: Scope,
    /// Members, with -s members or all [default: all members]
    #[arg(short = 'C', long, value_delimiter = ',', value_name = "NAME")]
    clusters: Vec<String>,
    /// Output format: json, yaml, name, wide, custom-columns=..., custom-columns-file=..., jsonpath=..., jsonpath-as-json=..., jsonpath-file=..., go-template=..., go-template-file=...
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
    /// Template string, or path to a template file, with -o=go-template, -o=go-template-file
    #[arg(long, value_name = "TEMPLATE")]
    template: Option<String>,
    /// Selector (label query) to filter on
    #[arg(short = 'l', long, visible_alias = "selector", value_name = "SELECTOR")]
    labels: Option<String>,
    /// Selector (field query) to filter on, such as metadata.name=web
    #[arg(long, value_name = "SELECTOR")]
    field_selector: Option<String>,
    /// List across all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Do not fail if an object does not exist
    #[arg(long)]
    ignore_not_found: bool,
    /// After listing, watch for changes
    #[arg(short, long)]
    watch: bool,
    /// Watch for changes without listing first
    #[arg(long)]
    watch_only: bool,
    /// Show the type of every change; needs --watch or --watch-only
    #[arg(long)]
    output_watch_events: bool,
    /// Do not print headers
    #[arg(long)]
    no_headers: bool,
    /// Prefix names with their kind
    #[arg(long)]
    show_kind: bool,
    /// Show all labels in the last column
    #[arg(long)]
    show_labels: bool,
    /// Labels to show as columns
    #[arg(short = 'L', long, value_delimiter = ',', value_name = "LABEL")]
    label_columns: Vec<String>,
    /// Keep metadata.managedFields in JSON and YAML
    #[arg(long)]
    show_managed_fields: bool,
    /// Sort rows by a field, given as a JSONPath such as {.metadata.name}
    #[arg(long, value_name = "PATH")]
    sort_by: Option<String>,
    /// Page size of list requests; 0 disables paging
    #[arg(long, default_value_t = 500, value_name = "N")]
    chunk_size: u64,
}

pub async fn run(console: &Console, mut args: GetArgs) -> anyhow::Result<()> {
    args.output = Format::with_template(args.output.take(), args.template.as_deref())?;
    args.check()?;
    let plane = PlaneClient::open(&args.plane)?;
    get(console, &plane, &args).await.map_err(|error| plane.explain(error))
}

impl GetArgs {
    fn check(&self) -> anyhow::Result<()> {
        if self.show_labels && !Format::is_table(self.output.as_ref()) {
            bail!("--show-labels option can only be used with tables");
        }
        if self.output_watch_events && !self.watch && !self.watch_only {
            bail!("--output-watch-events option can only be used with --watch or --watch-only");
        }
        if !self.operation_scope.has_members() && !self.clusters.is_empty() {
            bail!("-C/--clusters needs --operation-scope members or all: the control plane is not a member");
        }
        Ok(())
    }

    fn query(&self, plane: &PlaneClient) -> anyhow::Result<Query> {
        Ok(Query {
            typed: resources::parse(&self.resources)?,
            namespace: plane.namespace(&self.namespace),
            all_namespaces: self.all_namespaces,
            label_selector: self.labels.clone(),
            field_selector: self.field_selector.clone(),
            chunk_size: self.chunk_size,
            ignore_not_found: self.ignore_not_found,
            as_table: Format::is_table(self.output.as_ref()),
            include_objects: self.sort_by.is_some() && Format::is_table(self.output.as_ref()),
        })
    }

    fn look(&self, kind: Option<String>, is_namespaced: bool) -> Look {
        Look {
            wide: self.output == Some(Format::Wide),
            no_headers: self.no_headers,
            with_namespace: self.all_namespaces && is_namespaced,
            kind,
            show_labels: self.show_labels,
            label_columns: self.label_columns.clone(),
        }
    }
}

/// A cluster to query.
pub struct Target {
    pub cluster: String,
    pub is_plane: bool,
    pub client: ClusterClient,
}

async fn get(console: &Console, plane: &PlaneClient, args: &GetArgs) -> anyhow::Result<()> {
    let query = args.query(plane)?;
    let mut targets: Vec<Target> = Vec::new();
    if args.operation_scope.has_plane() {
        targets.push(Target { cluster: CONTROL_PLANE.into(), is_plane: true, client: plane.client.clone() });
    }
    for cluster in scope::members(plane, args.operation_scope, &args.clusters).await? {
        targets.push(Target { client: plane.member(&cluster)?, cluster, is_plane: false });
    }
    if targets.is_empty() {
        console.note("No member Clusters found in Karmada control plane");
        return Ok(());
    }
    if args.watch || args.watch_only {
        return watch::watch(console, args, &query, targets).await;
    }
    let ask = |target: Target| {
        let query = &query;
        async move { gather::gather(query, &target.cluster, target.is_plane, &target.client).await }
    };
    let answers: Vec<Gathered> = stream::iter(targets).map(ask).buffered(CLUSTERS_AT_ONCE_MAX).collect().await;
    show(console, args, &query, answers)
}

fn show(console: &Console, args: &GetArgs, query: &Query, mut answers: Vec<Gathered>) -> anyhow::Result<()> {
    let mut errors: Vec<String> = answers.iter_mut().flat_map(|answer| std::mem::take(&mut answer.errors)).collect();
    let printed = match &args.output {
        Some(format) if *format != Format::Wide => print_objects(args, format, answers, &mut errors)?,
        _ => {
            let all_namespaced = answers.iter().flat_map(|a| &a.parts).all(|part| part.resource.namespaced);
            let text = print_tables(args, answers, jiff::Timestamp::now())?;
            if text.is_empty() && errors.is_empty() && !args.ignore_not_found {
                console.note(match all_namespaced && !args.all_namespaces {
                    true => format!("No resources found in {} namespace.", query.namespace),
                    false => "No resources found".to_owned(),
                });
            }
            text
        }
    };
    console.print(&printed)?;
    aggregate(errors)
}

/// Combines several errors.
fn aggregate(mut errors: Vec<String>) -> anyhow::Result<()> {
    errors.dedup();
    match &errors[..] {
        [] => Ok(()),
        [one] => Err(anyhow!("{one}")),
        many => Err(anyhow!("[{}]", many.join(", "))),
    }
}

/// Prints one document per cluster.
fn print_objects(
    args: &GetArgs,
    format: &Format,
    answers: Vec<Gathered>,
    errors: &mut Vec<String>,
) -> anyhow::Result<String> {
    let mut documents: Vec<String> = Vec::new();
    for answer in answers {
        let is_single = answer.parts.iter().any(|part| part.is_single);
        let mut items: Vec<Value> = Vec::new();
        for part in answer.parts {
            let gvk = part.resource.gvk();
            for object in part.answers.into_iter().flat_map(objects_in) {
                let mut object = if args.show_managed_fields { object } else { output::without_managed_fields(object) };
                if object.kind().is_empty() {
                    object.set_gvk(&gvk);
                }
                items.push(object.into_value());
            }
        }
        if let Some(sort) = &args.sort_by {
            let path = sort_path(sort, items.iter())?;
            items.sort_by(|a, b| sorting::compare(&path, a, b));
        }
        let value = match (is_single, &items[..]) {
            (true, [one]) => one.clone(),
            (true, []) => continue,
            _ => output::as_list(items),
        };
        match format.print(&value) {
            Ok(text) => documents.push(text),
            Err(error) => errors.push(format!("cluster({}): {error:#}", answer.cluster)),
        }
    }
    let separator = if *format == Format::Yaml { "---\n" } else { "" };
    Ok(documents.join(separator))
}

/// Returns the objects of a response: the items of a list, or the object itself.
fn objects_in(mut answer: Value) -> Vec<Object> {
    let is_list = answer["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) && answer["items"].is_array();
    if !is_list {
        return Object::from_value(answer).into_iter().collect();
    }
    let kind = answer["kind"].as_str().unwrap_or_default().trim_end_matches("List").to_owned();
    let api_version = answer["apiVersion"].clone();
    let items = match answer["items"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    };
    let with_kind = |mut object: Object| {
        // Items of a typed list have no apiVersion and kind.
        if object.kind().is_empty() {
            object.set(&["kind"], kind.clone());
            object.set(&["apiVersion"], api_version.clone());
        }
        object
    };
    items.into_iter().filter_map(Object::from_value).map(with_kind).collect()
}

/// Prints one table per type, with the rows of all clusters.
fn print_tables(args: &GetArgs, answers: Vec<Gathered>, now: jiff::Timestamp) -> anyhow::Result<String> {
    let mut kinds: Vec<(cluster_client::ApiResource, Table)> = Vec::new();
    for answer in answers {
        for part in answer.parts {
            let mut table = Table::default();
            for page in part.answers {
                table.extend(Table::read(page, now).unwrap_or_default());
            }
            add_clusters(&mut table, &answer.cluster, answer.is_plane, &part.resource.gvr.resource);
            match kinds.iter_mut().find(|(resource, _)| resource.gvr == part.resource.gvr) {
                Some((_, existing)) => existing.extend(table),
                None => kinds.push((part.resource, table)),
            }
        }
    }
    kinds.retain(|(_, table)| !table.rows.is_empty());
    kinds.sort_by_key(|(resource, _)| resource.gvr.to_string());
    let with_kind = args.show_kind || kinds.len() > 1;
    let mut texts: Vec<String> = Vec::new();
    for (resource, mut table) in kinds {
        if let Some(sort) = &args.sort_by {
            let objects: Vec<Value> = table.rows.iter().map(|row| row.object.to_value()).collect();
            let path = sort_path(sort, objects.iter())?;
            table.rows.sort_by(|a, b| sorting::compare(&path, &a.object.to_value(), &b.object.to_value()));
        }
        let kind = with_kind.then(|| resource.gvk().group_kind().to_string().to_lowercase());
        texts.push(table.print(&args.look(kind, resource.namespaced)));
    }
    let separator = if args.no_headers { "" } else { "\n" };
    Ok(texts.join(separator))
}

/// Parses the path of --sort-by, and rejects one that none of the objects has.
fn sort_path<'a>(text: &str, mut objects: impl ExactSizeIterator<Item = &'a Value>) -> anyhow::Result<JsonPath> {
    let path = JsonPath::parse_relaxed(text)?;
    // A wrong type on the way is a missing field.
    let has_field = |object| path.find(object).is_ok_and(|found| !found.is_empty());
    if objects.len() > 0 && !objects.any(has_field) {
        bail!("--sort-by: couldn't find any field with path {text:?} in the list of objects");
    }
    Ok(path)
}

/// Adds the columns CLUSTER and ADOPTION. Pods have many columns, so ADOPTION is shown only with -o wide.
fn add_clusters(table: &mut Table, cluster: &str, is_plane: bool, plural: &str) {
    if table.columns.is_empty() {
        return;
    }
    table.insert_second("CLUSTER", |_| cluster.to_owned());
    let priority = i64::from(plural == "pods");
    table.push("ADOPTION", priority, |object| {
        let is_managed = object.label(api::cluster::LABEL_MANAGED) == Some("true");
        match (is_plane, is_managed) {
            (true, _) => "-".to_owned(),
            (false, true) => "Y".to_owned(),
            (false, false) => "N".to_owned(),
        }
    });
}

#[cfg(test)]
mod tests;
