//! `top`: resource usage of pods, nodes and clusters across members.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use cluster_client::{ClusterClient, ListOptions, ResourceRef};
use futures::stream::{self, StreamExt};
use object::builtin;
use object::quantity::Quantity;
use object::{GroupVersionResource, Object, Status};

use crate::console::Console;
use crate::plane::{NamespaceArgs, PlaneArgs, PlaneClient};
use crate::scope::{self, Scope};
use crate::tabs;

/// Maximum number of clusters queried concurrently.
const CLUSTERS_AT_ONCE_MAX: usize = 16;

/// Display resource (CPU/memory) usage of member clusters.
///
/// Members must have a metrics server; `flotilla member` has one.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Pods of all members
  flotilla top pods -A

  # Nodes of two members, the busiest first
  flotilla top nodes --clusters=member1,member2 --sort-by=cpu

  # What every member has, and how much of it is asked for and used
  flotilla top clusters")]
pub struct TopArgs {
    #[command(subcommand)]
    what: TopCommand,
}

#[derive(Subcommand, Debug)]
enum TopCommand {
    /// Display resource (CPU/memory) usage of pods of member clusters
    #[command(visible_aliases = ["pod", "po"])]
    Pods(PodsArgs),
    /// Display resource (CPU/memory) usage of nodes of member clusters
    #[command(visible_aliases = ["node", "no"])]
    Nodes(NodesArgs),
    /// Display resource usage of member clusters
    #[command(visible_alias = "cluster")]
    Clusters(ClustersArgs),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SortBy {
    Cpu,
    Memory,
}

#[derive(Args, Debug)]
struct PodsArgs {
    /// Name of the pod
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    plane: PlaneArgs,
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// Members [default: all members]
    #[arg(short = 'C', long, value_delimiter = ',', value_name = "NAME")]
    clusters: Vec<String>,
    /// Selector (label query) to filter on
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// Selector (field query) to filter on
    #[arg(long, value_name = "SELECTOR")]
    field_selector: Option<String>,
    /// Sort by this resource, largest first
    #[arg(long, value_enum, value_name = "cpu|memory")]
    sort_by: Option<SortBy>,
    /// Show usage per container
    #[arg(long)]
    containers: bool,
    /// List across all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Do not print headers
    #[arg(long)]
    no_headers: bool,
    /// Also print the sum
    #[arg(long)]
    sum: bool,
    /// Accepted for compatibility
    #[arg(long, hide = true)]
    use_protocol_buffers: bool,
}

#[derive(Args, Debug)]
struct NodesArgs {
    /// Name of the node
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    plane: PlaneArgs,
    /// Members [default: all members]
    #[arg(short = 'C', long, value_delimiter = ',', value_name = "NAME")]
    clusters: Vec<String>,
    /// Selector (label query) to filter on
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// Sort by this resource, largest first
    #[arg(long, value_enum, value_name = "cpu|memory")]
    sort_by: Option<SortBy>,
    /// Do not print headers
    #[arg(long)]
    no_headers: bool,
    /// Show percentages of capacity instead of allocatable
    #[arg(long)]
    show_capacity: bool,
    /// Accepted for compatibility
    #[arg(long, hide = true)]
    use_protocol_buffers: bool,
}

#[derive(Args, Debug)]
struct ClustersArgs {
    #[command(flatten)]
    plane: PlaneArgs,
    /// Members [default: all members]
    #[arg(short = 'C', long, value_delimiter = ',', value_name = "NAME")]
    clusters: Vec<String>,
    /// Do not print headers
    #[arg(long)]
    no_headers: bool,
}

/// CPU in millicores, memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    cpu: i64,
    memory: i64,
}

pub async fn run(console: &Console, args: TopArgs) -> anyhow::Result<()> {
    let plane_args = match &args.what {
        TopCommand::Pods(args) => &args.plane,
        TopCommand::Nodes(args) => &args.plane,
        TopCommand::Clusters(args) => &args.plane,
    };
    let plane = PlaneClient::open(plane_args)?;
    let result = match &args.what {
        TopCommand::Pods(args) => top_pods(console, &plane, args).await,
        TopCommand::Nodes(args) => top_nodes(console, &plane, args).await,
        TopCommand::Clusters(args) => top_clusters(console, &plane, args).await,
    };
    result.map_err(|error| plane.explain(error))
}

async fn top_pods(console: &Console, plane: &PlaneClient, args: &PodsArgs) -> anyhow::Result<()> {
    if args.name.is_some() && (args.selector.is_some() || args.field_selector.is_some()) {
        bail!("only one of NAME or selector can be provided");
    }
    let namespace = plane.namespace(&args.namespace);
    let gvr = metrics("pods");
    let target = || match (args.all_namespaces, &args.name) {
        (false, Some(name)) => ResourceRef::namespaced(&gvr, &namespace, name),
        (false, None) => ResourceRef::within(&gvr, &namespace),
        (true, _) => ResourceRef::all(&gvr),
    };
    let options = ListOptions {
        label_selector: args.selector.clone(),
        field_selector: args.field_selector.clone(),
        ..ListOptions::default()
    };
    let is_single = args.name.is_some() && !args.all_namespaces;
    let ask = |client: ClusterClient| {
        let (target, options) = (target(), options.clone());
        async move { read(&client, target, options, is_single).await }
    };
    let (mut rows, errors) = gather(plane, &args.clusters, ask).await?;
    if let (true, Some(name)) = (args.all_namespaces, &args.name) {
        rows.retain(|(_, pod)| pod.name() == name);
    }
    if rows.is_empty() && errors.is_empty() {
        console.note(match args.all_namespaces {
            true => "No resources found".to_owned(),
            false => format!("No resources found in {namespace} namespace."),
        });
    }
    console.print(&pods_table(&mut rows, args))?;
    fail_with(errors)
}

fn pods_table(rows: &mut [(String, Arc<Object>)], args: &PodsArgs) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let usage =
        |row: &(String, Arc<Object>)| row.1.items(&["containers"]).iter().map(usage_of).fold(Usage::default(), plus);
    match args.sort_by {
        Some(SortBy::Cpu) => rows.sort_by_cached_key(|row| Reverse(usage(row).cpu)),
        Some(SortBy::Memory) => rows.sort_by_cached_key(|row| Reverse(usage(row).memory)),
        None => rows.sort_by(|a, b| {
            let key =
                |row: &(String, Arc<Object>)| (row.0.clone(), row.1.namespace().to_owned(), row.1.name().to_owned());
            key(a).cmp(&key(b))
        }),
    }
    let mut lines = Vec::new();
    let lead = |namespace: &str, pod: &str| {
        let namespace = if args.all_namespaces { format!("{namespace}\t") } else { String::new() };
        let pod = if args.containers { format!("{pod}\t") } else { String::new() };
        format!("{namespace}{pod}")
    };
    if !args.no_headers {
        lines.push(format!("{}NAME\tCLUSTER\tCPU(cores)\tMEMORY(bytes)\t", lead("NAMESPACE", "POD")));
    }
    let mut sum = Usage::default();
    for row in rows.iter() {
        let (cluster, pod) = row;
        sum = plus(sum, usage(row));
        let lead = lead(pod.namespace(), pod.name());
        if args.containers {
            for container in pod.items(&["containers"]) {
                let name = container["name"].as_str().unwrap_or_default();
                lines.push(format!("{lead}{name}\t{cluster}\t{}", cells(usage_of(container), None)));
            }
        } else {
            lines.push(format!("{lead}{}\t{cluster}\t{}", pod.name(), cells(usage(row), None)));
        }
    }
    if args.sum {
        let empty = "\t".repeat(2 + usize::from(args.all_namespaces) + usize::from(args.containers));
        lines.push(format!("{empty}________\t________\t"));
        lines.push(format!("{empty}{}", cells(sum, None)));
    }
    tabs::align(&(lines.join("\n") + "\n"), tabs::TABLE)
}

async fn top_nodes(console: &Console, plane: &PlaneClient, args: &NodesArgs) -> anyhow::Result<()> {
    if args.name.is_some() && args.selector.is_some() {
        bail!("only one of NAME or --selector can be provided");
    }
    let options = ListOptions { label_selector: args.selector.clone(), ..ListOptions::default() };
    let ask = |client: ClusterClient| {
        let options = options.clone();
        async move {
            let target = |gvr: &GroupVersionResource| match &args.name {
                Some(name) => ResourceRef::cluster(gvr, name),
                None => ResourceRef::all(gvr),
            };
            let is_single = args.name.is_some();
            let used = read(&client, target(&metrics("nodes")), options.clone(), is_single).await?;
            let nodes = builtin::nodes();
            let known = read(&client, target(&nodes), options, is_single).await?;
            let all: Vec<Arc<Object>> = known.into_iter().chain(used).collect();
            Answer::Ok(all)
        }
    };
    let (rows, errors) = gather(plane, &args.clusters, ask).await?;
    if rows.is_empty() && errors.is_empty() {
        console.note("No resources found");
    }
    console.print(&nodes_table(rows, args))?;
    fail_with(errors)
}

fn nodes_table(rows: Vec<(String, Arc<Object>)>, args: &NodesArgs) -> String {
    let mut nodes: BTreeMap<(String, String), (Option<Usage>, Option<Usage>)> = BTreeMap::new();
    for (cluster, object) in rows {
        let entry = nodes.entry((cluster, object.name().to_owned())).or_default();
        if object.kind() == "NodeMetrics" {
            entry.0 = Some(usage_at(&object, &["usage"]));
        } else {
            let field = if args.show_capacity { "capacity" } else { "allocatable" };
            entry.1 = Some(usage_at(&object, &["status", field]));
        }
    }
    if nodes.is_empty() {
        return String::new();
    }
    let mut nodes: Vec<_> = nodes.into_iter().collect();
    let used = |entry: &(Option<Usage>, Option<Usage>)| entry.0.unwrap_or_default();
    match args.sort_by {
        Some(SortBy::Cpu) => nodes.sort_by_key(|(_, entry)| Reverse(used(entry).cpu)),
        Some(SortBy::Memory) => nodes.sort_by_key(|(_, entry)| Reverse(used(entry).memory)),
        None => {}
    }
    let mut lines = Vec::new();
    if !args.no_headers {
        lines.push("NAME\tCLUSTER\tCPU(cores)\tCPU%\tMEMORY(bytes)\tMEMORY%\t".to_owned());
    }
    for ((cluster, name), (used, available)) in nodes {
        let cells = match used {
            Some(used) => cells(used, Some(available.unwrap_or_default())),
            None => "<unknown>\t<unknown>\t<unknown>\t<unknown>\t".to_owned(),
        };
        lines.push(format!("{name}\t{cluster}\t{cells}"));
    }
    tabs::align(&(lines.join("\n") + "\n"), tabs::TABLE)
}

/// Uses the status of clusters; no member is contacted.
async fn top_clusters(console: &Console, plane: &PlaneClient, args: &ClustersArgs) -> anyhow::Result<()> {
    let wanted = scope::members(plane, Scope::Members, &args.clusters).await?;
    let mut clusters = plane.clusters().await?;
    clusters.retain(|cluster| wanted.iter().any(|name| name == cluster.name()));
    if clusters.is_empty() {
        console.note("No resources found");
        return Ok(());
    }
    let mut lines = Vec::new();
    if !args.no_headers {
        lines.push("NAME\tNODES\tCPU(requested)\tCPU%\tMEMORY(requested)\tMEMORY%\tPODS\tPODS%\t".to_owned());
    }
    for cluster in clusters {
        let nodes = |field: &str| cluster.i64_at(&["status", "nodeSummary", field]);
        let nodes = match (nodes("readyNum"), nodes("totalNum")) {
            (Some(ready), Some(total)) => format!("{ready}/{total}"),
            (None, Some(total)) => format!("0/{total}"),
            _ => "<unknown>".to_owned(),
        };
        let summary = |field: &str| usage_at(&cluster, &["status", "resourceSummary", field]);
        let pods = |field: &str| amount(cluster.str_at(&["status", "resourceSummary", field, "pods"])).value();
        let cells = match cluster.get(&["status", "resourceSummary", "allocatable"]) {
            Some(_) => {
                let share = percent(pods("allocated"), pods("allocatable"));
                let usage = cells(summary("allocated"), Some(summary("allocatable")));
                format!("{usage}{}\t{share}\t", pods("allocated"))
            }
            None => "<unknown>\t".repeat(6),
        };
        lines.push(format!("{}\t{nodes}\t{cells}", cluster.name()));
    }
    console.print(&tabs::align(&(lines.join("\n") + "\n"), tabs::TABLE))?;
    Ok(())
}

type Answer = Result<Vec<Arc<Object>>, Status>;

/// Asks all members; one that does not answer hides no other.
async fn gather<F, R>(
    plane: &PlaneClient,
    clusters: &[String],
    ask: F,
) -> anyhow::Result<(Vec<(String, Arc<Object>)>, Vec<String>)>
where
    F: Fn(ClusterClient) -> R,
    R: Future<Output = Answer>,
{
    let clusters = scope::members(plane, Scope::Members, clusters).await?;
    let mut asking = Vec::new();
    for cluster in clusters {
        let answer = ask(plane.member(&cluster)?);
        asking.push(async move { (cluster, answer.await) });
    }
    let answers: Vec<(String, Answer)> = stream::iter(asking).buffered(CLUSTERS_AT_ONCE_MAX).collect().await;
    let (mut rows, mut errors) = (Vec::new(), Vec::new());
    for (cluster, answer) in answers {
        match answer {
            Ok(objects) => rows.extend(objects.into_iter().map(|object| (cluster.clone(), object))),
            Err(status) => errors.push(format!("cluster({cluster}): {}", worded(&status))),
        }
    }
    Ok((rows, errors))
}

/// Explains the 404 of a member without a metrics server.
fn worded(status: &Status) -> String {
    match status.is_not_served() {
        true => "Metrics API not available: the member has no metrics server".to_owned(),
        false => status.to_string(),
    }
}

async fn read(client: &ClusterClient, target: ResourceRef, options: ListOptions, is_single: bool) -> Answer {
    match is_single {
        true => Ok(vec![client.get(target).await?]),
        false => Ok(client.list_all(target, options).await?.items),
    }
}

fn fail_with(errors: Vec<String>) -> anyhow::Result<()> {
    match &errors[..] {
        [] => Ok(()),
        [one] => Err(anyhow!("{one}")),
        many => Err(anyhow!("[{}]", many.join(", "))),
    }
}

fn metrics(resource: &str) -> GroupVersionResource {
    GroupVersionResource::new("metrics.k8s.io", "v1beta1", resource)
}

fn usage_of(container: &serde_json::Value) -> Usage {
    let text = |name: &str| container["usage"][name].as_str().unwrap_or_default();
    Usage { cpu: amount(text("cpu")).milli_value(), memory: amount(text("memory")).value() }
}

fn usage_at(object: &Object, path: &[&str]) -> Usage {
    let text = |name: &str| object.str_at(&[path, &[name]].concat());
    Usage { cpu: amount(text("cpu")).milli_value(), memory: amount(text("memory")).value() }
}

fn amount(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_default()
}

fn plus(a: Usage, b: Usage) -> Usage {
    Usage { cpu: a.cpu.saturating_add(b.cpu), memory: a.memory.saturating_add(b.memory) }
}

/// `100m`, `12Mi`, each with its share where that is asked for.
fn cells(used: Usage, available: Option<Usage>) -> String {
    let memory = used.memory / (1024 * 1024);
    match available {
        None => format!("{}m\t{memory}Mi\t", used.cpu),
        Some(all) => {
            let (cpu_share, memory_share) = (percent(used.cpu, all.cpu), percent(used.memory, all.memory));
            format!("{}m\t{cpu_share}\t{memory}Mi\t{memory_share}\t", used.cpu)
        }
    }
}

fn percent(part: i64, whole: i64) -> String {
    if whole <= 0 { "<unknown>".to_owned() } else { format!("{}%", part.saturating_mul(100) / whole) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: TopArgs,
    }

    fn parsed(line: &str) -> TopCommand {
        Line::parse_from(["top"].into_iter().chain(line.split_whitespace())).args.what
    }

    fn pod(name: &str, cpu: &str, memory: &str) -> Arc<Object> {
        let containers = json!([{"name": "c", "usage": {"cpu": cpu, "memory": memory}},
            {"name": "d", "usage": {"cpu": "1m", "memory": "1Mi"}}]);
        let value =
            json!({"kind": "PodMetrics", "metadata": {"name": name, "namespace": "x"}, "containers": containers});
        Arc::new(Object::from_value(value).unwrap())
    }

    #[test]
    fn pods_are_summed_over_containers_and_show_their_cluster() {
        let rows = || vec![("m2".to_owned(), pod("b", "9m", "20Mi")), ("m1".to_owned(), pod("a", "5500000n", "2Mi"))];
        let check = |line: &str, expected: &[&str]| {
            let TopCommand::Pods(args) = parsed(line) else { panic!("{line}") };
            let text = pods_table(&mut rows(), &args);
            let lines: Vec<String> =
                text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
            assert_eq!(lines, expected, "{line}");
        };
        check("pods", &["NAME CLUSTER CPU(cores) MEMORY(bytes)", "a m1 7m 3Mi", "b m2 10m 21Mi"]);
        check("pods --sort-by cpu --no-headers", &["b m2 10m 21Mi", "a m1 7m 3Mi"]);
        check(
            "po -A --containers --sum --no-headers",
            &[
                "x a c m1 6m 2Mi",
                "x a d m1 1m 1Mi",
                "x b c m2 9m 20Mi",
                "x b d m2 1m 1Mi",
                "________ ________",
                "17m 24Mi",
            ],
        );
    }

    #[test]
    fn nodes_show_percentages_and_missing_metrics() {
        let object = |value| Arc::new(Object::from_value(value).unwrap());
        let rows = || {
            let node = |name: &str| {
                json!({"kind": "Node", "metadata": {"name": name},
                "status": {"allocatable": {"cpu": "2", "memory": "4Gi"}, "capacity": {"cpu": "4", "memory": "8Gi"}}})
            };
            let usage =
                json!({"kind": "NodeMetrics", "metadata": {"name": "n1"}, "usage": {"cpu": "500m", "memory": "1Gi"}});
            ["m1", "m1", "m1"].map(str::to_owned).into_iter().zip([node("n1"), node("n2"), usage].map(object)).collect()
        };
        let check = |line: &str, expected: &[&str]| {
            let TopCommand::Nodes(args) = parsed(line) else { panic!("{line}") };
            let text = nodes_table(rows(), &args);
            let lines: Vec<String> =
                text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
            assert_eq!(lines, expected, "{line}");
        };
        let header = "NAME CLUSTER CPU(cores) CPU% MEMORY(bytes) MEMORY%";
        let unknown = "n2 m1 <unknown> <unknown> <unknown> <unknown>";
        check("nodes", &[header, "n1 m1 500m 25% 1024Mi 25%", unknown]);
        check("node --show-capacity --no-headers", &["n1 m1 500m 12% 1024Mi 12%", unknown]);
    }
}
