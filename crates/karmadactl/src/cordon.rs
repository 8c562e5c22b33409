//! `cordon` and `uncordon`: exclude a member from scheduling, or include it again.

use anyhow::bail;
use api::Resource;
use api::cluster::{ClusterSpec, TAINT_UNSCHEDULABLE};
use clap::Args;
use cluster_client::{ClusterClient, ListOptions, Patch, ResourceRef, WriteOptions};
use object::Object;
use object::taints::Taint;
use serde_json::{Value, json};

use crate::cluster_taints;
use crate::console::Console;
use crate::outcome::DryRun;
use crate::plane::{PlaneArgs, PlaneClient};

const NODES: Resource = Resource::cluster("", "v1", "Node", "nodes");

/// Mark cluster as unschedulable.
///
/// New workloads are not scheduled to it; running workloads are not affected.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Mark cluster \"foo\" as unschedulable
  flotilla cordon foo

  # All clusters
  flotilla cordon --all

  # All nodes of cluster \"foo\": its workloads move to other clusters if their policy has failover
  flotilla cordon --all -C foo")]
pub struct CordonArgs {
    #[command(flatten)]
    common: CommonArgs,
}

/// Mark cluster as schedulable.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Mark cluster \"foo\" as schedulable
  flotilla uncordon foo

  # All nodes of cluster \"foo\"
  flotilla uncordon --all -C foo")]
pub struct UncordonArgs {
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Args, Debug)]
struct CommonArgs {
    /// Name of the cluster
    #[arg(value_name = "CLUSTER", conflicts_with = "all")]
    clusters: Vec<String>,
    /// Select all clusters; with -C, all nodes of that cluster
    #[arg(long)]
    all: bool,
    /// Cluster whose nodes are selected, with --all
    #[arg(short = 'C', long, value_name = "CLUSTER", requires = "all")]
    cluster: Option<String>,
    #[command(flatten)]
    plane: PlaneArgs,
    /// `client` prints what would be done, `server` sends it without storing it
    #[arg(long, value_enum, default_value_t = DryRun::None, num_args = 0..=1, require_equals = true,
          default_missing_value = "client", value_name = "MODE")]
    dry_run: DryRun,
}

pub async fn cordon(console: &Console, args: CordonArgs) -> anyhow::Result<()> {
    run(console, args.common, true).await
}

pub async fn uncordon(console: &Console, args: UncordonArgs) -> anyhow::Result<()> {
    run(console, args.common, false).await
}

async fn run(console: &Console, args: CommonArgs, cordoned: bool) -> anyhow::Result<()> {
    match &args.clusters[..] {
        [] if !args.all => bail!("cluster name is required"),
        [] | [_] => {}
        _ => bail!("more than one cluster name is not supported"),
    }
    let plane = PlaneClient::open(&args.plane)?;
    let done = cordon_selected(console, &plane, &args, cordoned).await;
    done.map_err(|error| plane.explain(error))
}

async fn cordon_selected(
    console: &Console,
    plane: &PlaneClient,
    args: &CommonArgs,
    cordoned: bool,
) -> anyhow::Result<()> {
    if let Some(cluster) = &args.cluster {
        let member = plane.existing_member(cluster).await?;
        return set_nodes_cordoned(console, &member, cordoned, args.dry_run).await;
    }
    let names: Vec<String> = match args.all {
        true => plane.clusters().await?.iter().map(|cluster| cluster.name().to_owned()).collect(),
        false => args.clusters.clone(),
    };
    for name in &names {
        set_cordoned(console, &plane.client, name, cordoned, args.dry_run).await?;
    }
    Ok(())
}

/// Cordons or uncordons all nodes of a member, and reports each as `kubectl cordon` does.
async fn set_nodes_cordoned(
    console: &Console,
    member: &ClusterClient,
    cordoned: bool,
    dry_run: DryRun,
) -> anyhow::Result<()> {
    let done = if cordoned { "cordoned" } else { "uncordoned" };
    let suffix = dry_run.suffix();
    let options = WriteOptions { dry_run: dry_run == DryRun::Server, ..WriteOptions::default() };
    for node in member.list_all(ResourceRef::all(&NODES.gvr()), ListOptions::default()).await?.items {
        let name = node.name();
        if node.bool_at(&["spec", "unschedulable"]).unwrap_or(false) == cordoned {
            console.line(format!("node/{name} already {done}"))?;
            continue;
        }
        if dry_run != DryRun::Client {
            let unschedulable = if cordoned { Value::Bool(true) } else { Value::Null };
            let patch = Patch::merge(json!({"spec": {"unschedulable": unschedulable}}));
            member.patch(ResourceRef::cluster(&NODES.gvr(), name), patch, options.clone()).await?;
        }
        console.line(format!("node/{name} {done}{suffix}"))?;
    }
    Ok(())
}

async fn set_cordoned(
    console: &Console,
    client: &ClusterClient,
    name: &str,
    cordoned: bool,
    dry_run: DryRun,
) -> anyhow::Result<()> {
    let done = if cordoned { "cordoned" } else { "uncordoned" };
    let already = cluster_taints::change(client, name, dry_run, |cluster| {
        let taints = plan_taints(cluster, cordoned)?;
        Ok((taints.is_none(), taints))
    })
    .await?;
    let (before, after) = if already { ("already ", "") } else { ("", dry_run.suffix()) };
    console.line(format!("{name} cluster {before}{done}{after}"))?;
    Ok(())
}

/// Returns the desired taints of a cluster; `None` if nothing has to change.
fn plan_taints(cluster: &Object, cordoned: bool) -> anyhow::Result<Option<Vec<Value>>> {
    let spec: ClusterSpec = api::read(cluster)?;
    let is_mark = |taint: &Taint| taint.key == TAINT_UNSCHEDULABLE && taint.effect == "NoSchedule";
    if spec.taints.iter().any(is_mark) == cordoned {
        return Ok(None);
    }
    let mut taints = cluster.items(&["spec", "taints"]).to_vec();
    if cordoned {
        taints.push(json!({"key": TAINT_UNSCHEDULABLE, "effect": "NoSchedule"}));
    } else {
        taints.retain(|taint| taint["key"] != TAINT_UNSCHEDULABLE || taint["effect"] != "NoSchedule");
    }
    Ok(Some(taints))
}

#[cfg(test)]
mod tests {
    use api::cluster::CLUSTERS;
    use cluster_client::testing::MemoryApi;

    use super::*;
    use crate::console::testing;

    fn with_cluster(taints: Value) -> MemoryApi {
        let api = MemoryApi::default();
        let mut cluster = CLUSTERS.object("", "m1");
        cluster.set(&["spec"], json!({"syncMode": "Push", "taints": taints}));
        api.seed(&CLUSTERS.gvr(), cluster);
        api
    }

    async fn check(taints: Value, cordoned: bool, said: &str, then: Value) {
        let api = with_cluster(taints);
        let (console, out, _) = testing::console();
        set_cordoned(&console, &api.client(), "m1", cordoned, DryRun::None).await.unwrap();
        assert_eq!(out.text(), said);
        let cluster = api.client().get(ResourceRef::cluster(&CLUSTERS.gvr(), "m1")).await.unwrap();
        assert_eq!(cluster.get(&["spec", "taints"]).cloned().unwrap_or(json!([])), then);
    }

    #[tokio::test]
    async fn a_cluster_is_cordoned_once_and_keeps_its_other_taints() {
        let mark = json!({"key": TAINT_UNSCHEDULABLE, "effect": "NoSchedule"});
        let other = json!({"key": "gpu", "value": "yes", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"});
        check(json!([other]), true, "m1 cluster cordoned\n", json!([other, mark])).await;
        check(json!([other, mark]), true, "m1 cluster already cordoned\n", json!([other, mark])).await;
        check(json!([mark, other]), false, "m1 cluster uncordoned\n", json!([other])).await;
        check(json!([mark]), false, "m1 cluster uncordoned\n", json!([])).await;
        check(json!([other]), false, "m1 cluster already uncordoned\n", json!([other])).await;
    }

    #[tokio::test]
    async fn a_dry_run_changes_nothing() {
        let api = with_cluster(json!([]));
        let (console, out, _) = testing::console();
        set_cordoned(&console, &api.client(), "m1", true, DryRun::Client).await.unwrap();
        assert_eq!(out.text(), "m1 cluster cordoned (dry run)\n");
        assert_eq!(api.calls(), ["get clusters /m1"]);
    }

    #[tokio::test]
    async fn all_clusters_or_all_nodes_of_one_are_cordoned() {
        use clap::Parser;

        #[derive(Debug, Parser)]
        struct Line {
            #[command(flatten)]
            args: CommonArgs,
        }
        let (plane_api, member_api) = (with_cluster(json!([])), MemoryApi::default());
        plane_api.seed(&CLUSTERS.gvr(), CLUSTERS.object("", "m2"));
        for (name, unschedulable) in [("n1", false), ("n2", true)] {
            let mut node = NODES.object("", name);
            node.set(&["spec"], json!({"unschedulable": unschedulable}));
            member_api.seed(&NODES.gvr(), node);
        }
        let plane = PlaneClient::given(plane_api.client(), [("m1", member_api.client())]);
        for (line, cordoned, expected) in [
            ("--all", true, "m1 cluster cordoned\nm2 cluster cordoned\n"),
            ("--all", false, "m1 cluster uncordoned\nm2 cluster uncordoned\n"),
            ("--all -C m1", true, "node/n1 cordoned\nnode/n2 already cordoned\n"),
            ("--all -C m1", false, "node/n1 uncordoned\nnode/n2 uncordoned\n"),
        ] {
            let (console, out, _) = testing::console();
            let args = Line::parse_from(std::iter::once("cordon").chain(line.split(' '))).args;
            cordon_selected(&console, &plane, &args, cordoned).await.unwrap();
            assert_eq!(out.text(), expected, "{line}");
        }
        for line in ["m1 --all", "-C m1"] {
            assert!(Line::try_parse_from(std::iter::once("cordon").chain(line.split(' '))).is_err(), "{line}");
        }
    }
}
