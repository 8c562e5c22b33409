//! A hundred large simulated members: memory and CPU of the control plane, and how fast a policy change reaches all
//! of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::fleet::light_member::LightMember;
use crate::fleet::plane::{BenchPlane, Which};
use crate::fleet::watch::Watches;
use crate::fleet::{create, eventually, get, make_namespace};
use crate::idle::IdleOptions;
use crate::options::BenchOptions;
use crate::process::{self, Memory};
use crate::programs;
use crate::propagation::objects::{deployment, deployments, policies};
use crate::report::rows::{Better, Row, grouped};
use crate::wire::Call;
use crate::{machine, process::Sample};

/// Options of the scale benchmark.
#[derive(Clone, Default, Args)]
pub struct ScaleOptions {
    /// Members [default: 100; --quick 5].
    #[arg(long, value_name = "N")]
    clusters: Option<usize>,
    /// Simulated nodes of each [default: 500; --quick 50].
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
    /// Pods in each [default: 2000; --quick 200].
    #[arg(long, value_name = "N")]
    pods: Option<usize>,
    #[command(flatten)]
    idle: IdleOptions,
}

#[derive(Default, Serialize, Deserialize)]
pub struct Results {
    pub clusters: usize,
    pub nodes: usize,
    pub pods: usize,
    /// Pods in all members when the control plane was measured.
    pub pods_in_all: usize,
    pub member_memory_mib: f64,
    pub members_cpu_percent: f64,
    pub join_seconds: f64,
    pub empty: Memory,
    pub samples: Vec<Sample>,
    /// From the change to the last member.
    pub widened_seconds: Option<f64>,
    pub overridden_seconds: Option<f64>,
}

const NAMESPACE: &str = "everywhere";
const STARTED_AT_ONCE: usize = 4;
const FILLED_AT_ONCE: usize = 4;
const FILL_MAX: Duration = Duration::from_secs(420);
const JOIN_MAX: Duration = Duration::from_secs(120);
const CHANGE_MAX: Duration = Duration::from_secs(60);
const SETTLE: Duration = Duration::from_secs(10);
/// Memory left to the control plane, this program and the system.
const SPARE_MIB: f64 = 3000.0;

pub async fn run(
    options: &BenchOptions,
    own: &ScaleOptions,
    results: &mut Results,
    notes: &mut Vec<String>,
) -> anyhow::Result<()> {
    results.clusters = options.size(own.clusters, 5, 100);
    results.nodes = options.size(own.nodes, 50, 500);
    results.pods = options.size(own.pods, 200, 2000);
    let first = start_member(0, options, results.nodes).await?;
    fill(&first, results).await?;
    let one = process::memory(&first.pids())?.anonymous_mib;
    let needed = one * 1.2 * results.clusters as f64 + SPARE_MIB;
    let available = machine::available_mib() + one;
    eprintln!("one member with {} nodes and {} pods uses {one:.0} MiB", results.nodes, results.pods);
    ensure!(needed < available, "requires {needed:.0} MiB, {available:.0} MiB are available");
    let members = start_all(first, options, results, notes).await?;
    let plane = BenchPlane::start(Which::Flotilla, options).await?;
    results.empty = process::memory(&plane.pids())?;
    results.join_seconds = join_all(&plane, &members, options).await?;
    eprintln!("{} members joined in {:.1} s", members.len(), results.join_seconds);
    tokio::time::sleep(SETTLE).await;
    results.pods_in_all = count_pods(&members).await;
    let pids: Vec<u32> = members.iter().flat_map(LightMember::pids).collect();
    results.member_memory_mib = process::memory(&pids)?.anonymous_mib / members.len() as f64;
    let (before, begin) = (process::cpu(&pids)?, Instant::now());
    own.idle.sample(options, (8, 20), &plane.pids(), &mut results.samples).await?;
    let used = process::cpu(&pids)?.saturating_sub(before);
    results.members_cpu_percent = used.as_secs_f64() / begin.elapsed().as_secs_f64() * 100.0;
    change_policies(&plane, &members, results).await
}

async fn start_member(number: usize, options: &BenchOptions, nodes: usize) -> anyhow::Result<LightMember> {
    let arguments = ["--nodes".to_owned(), nodes.to_string()];
    LightMember::start(&member_name(number), options, &arguments).await
}

fn member_name(number: usize) -> String {
    format!("member{number:03}")
}

async fn start_all(
    first: LightMember,
    options: &BenchOptions,
    results: &Results,
    notes: &mut Vec<String>,
) -> anyhow::Result<Vec<LightMember>> {
    let others = futures::stream::iter(1..results.clusters).map(|number| start_member(number, options, results.nodes));
    let others: Vec<_> = others.buffer_unordered(STARTED_AT_ONCE).collect().await;
    let mut members = vec![first];
    for member in others {
        members.push(member?);
    }
    let begin = Instant::now();
    let filling = async {
        let mut filling = futures::stream::iter(members.iter().skip(1))
            .map(|member| fill(member, results))
            .buffer_unordered(FILLED_AT_ONCE);
        let mut filled = 1;
        while let Some(ended) = filling.next().await {
            ended?;
            filled += 1;
            if filled % 10 == 0 {
                eprintln!(
                    "  {filled} of {} members are full after {:.0} s",
                    members.len(),
                    begin.elapsed().as_secs_f64()
                );
            }
        }
        anyhow::Ok(())
    };
    match tokio::time::timeout(FILL_MAX, filling).await {
        Ok(filled) => filled?,
        Err(_) => notes.push(format!("filling the members timed out after {} s", FILL_MAX.as_secs())),
    }
    Ok(members)
}

/// Pods are bound at creation, since scheduling in members is not measured.
async fn fill(member: &LightMember, results: &Results) -> anyhow::Result<()> {
    let mut connection = member.target.connect().await?;
    for number in 0..results.pods {
        let node = format!("{}-node-{}", member.name, number % results.nodes + 1);
        let container = json!({"name": "main", "image": "nginx",
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("filler-{number}"), "labels": {"app": "filler"}},
            "spec": {"nodeName": node, "containers": [container]}});
        let call = Call::create("/api/v1/namespaces/default/pods".to_owned(), pod.to_string().into());
        connection.read(call).await.context("a pod")?;
    }
    Ok(())
}

async fn count_pods(members: &[LightMember]) -> usize {
    let mut count = 0;
    for member in members {
        let list = get(&member.target, "/api/v1/namespaces/default/pods?limit=1").await.unwrap_or_default();
        let listed = list["items"].as_array().map_or(0, Vec::len);
        count += listed + list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0) as usize;
    }
    count
}

pub async fn join_all(plane: &BenchPlane, members: &[LightMember], options: &BenchOptions) -> anyhow::Result<f64> {
    let start = Instant::now();
    let program = programs::flotilla(options)?;
    let join = |member: &LightMember| {
        let mut command = tokio::process::Command::new(program);
        command.args(["join", &member.name, "--kubeconfig"]).arg(plane.kubeconfig());
        command.arg("--cluster-kubeconfig").arg(&member.kubeconfig).kill_on_drop(true);
        async move {
            let output = command.output().await.context("cannot run flotilla join")?;
            ensure!(output.status.success(), "flotilla join: {}", String::from_utf8_lossy(&output.stderr));
            Ok(())
        }
    };
    let mut joining = futures::stream::iter(members).map(join).buffer_unordered(STARTED_AT_ONCE);
    while let Some(joined) = joining.next().await {
        joined?;
    }
    ensure!(all_ready(plane, members.len(), JOIN_MAX).await, "not all clusters are ready");
    Ok(start.elapsed().as_secs_f64())
}

/// Waits until this many clusters are ready.
pub async fn all_ready(plane: &BenchPlane, count: usize, limit: Duration) -> bool {
    eventually(limit, async || {
        let list = get(plane.target(), "/apis/cluster.karmada.io/v1alpha1/clusters").await.unwrap_or_default();
        let clusters = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        clusters.iter().filter(|cluster| crate::fleet::has_condition(cluster, "Ready")).count() == count
    })
    .await
}

/// First a placement that grows from one cluster to all, then an override that changes the image in all of them.
async fn change_policies(plane: &BenchPlane, members: &[LightMember], results: &mut Results) -> anyhow::Result<()> {
    make_namespace(plane.target(), NAMESPACE).await?;
    let (sender, mut arrivals) = mpsc::unbounded_channel();
    let mut watches = Watches::default();
    let sender = Arc::new(sender);
    for (index, member) in members.iter().enumerate() {
        let sender = Arc::clone(&sender);
        watches.follow(member.target.clone(), format!("{}?watch=true", deployments(NAMESPACE)), move |event| {
            let image = event["object"]["spec"]["template"]["spec"]["containers"][0]["image"].as_str();
            // The measurement may have ended.
            let _ = sender.send((index, image.unwrap_or_default().to_owned(), Instant::now()));
        });
    }
    let placement = |names: &[&LightMember]| json!({"clusterAffinity": {"clusterNames": names.iter().map(|m| &m.name).collect::<Vec<_>>()}});
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "everywhere", "namespace": NAMESPACE},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "placement": placement(&[&members[0]])},
    });
    create(plane.target(), &policies(NAMESPACE), &policy).await.context("a policy")?;
    create(plane.target(), &deployments(NAMESPACE), &deployment("web", 1)).await.context("a Deployment")?;
    all_arrived(&mut arrivals, 1, "nginx:1.27").await.context("the first cluster has nothing")?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let all: Vec<&LightMember> = members.iter().collect();
    let start = Instant::now();
    let body = json!({"spec": {"placement": placement(&all)}});
    patch(plane, &format!("{}/everywhere", policies(NAMESPACE)), &body).await?;
    let last = all_arrived(&mut arrivals, members.len() - 1, "nginx:1.27").await;
    results.widened_seconds = last.map(|last| last.saturating_duration_since(start).as_secs_f64());
    eprintln!("  a wider policy reached all after {:?} s", results.widened_seconds);
    let image = json!({"component": "Tag", "operator": "replace", "value": "1.28"});
    let over = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": "newer", "namespace": NAMESPACE},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "overrideRules": [{"overriders": {"imageOverrider": [image]}}]},
    });
    let start = Instant::now();
    let path = format!("/apis/policy.karmada.io/v1alpha1/namespaces/{NAMESPACE}/overridepolicies");
    create(plane.target(), &path, &over).await.context("an override")?;
    let last = all_arrived(&mut arrivals, members.len(), "nginx:1.28").await;
    results.overridden_seconds = last.map(|last| last.saturating_duration_since(start).as_secs_f64());
    eprintln!("  an override reached all after {:?} s", results.overridden_seconds);
    Ok(())
}

async fn patch(plane: &BenchPlane, path: &str, body: &Value) -> anyhow::Result<()> {
    let mut connection = plane.target().connect().await?;
    connection.read(Call::merge_patch(path.to_owned(), body.to_string().into())).await?;
    Ok(())
}

/// Waits until this many more members have a Deployment with this image.
async fn all_arrived(
    arrivals: &mut mpsc::UnboundedReceiver<(usize, String, Instant)>,
    count: usize,
    wanted: &str,
) -> Option<Instant> {
    let mut seen = std::collections::HashSet::new();
    let end = tokio::time::Instant::now() + CHANGE_MAX;
    loop {
        let (member, image, at) = tokio::time::timeout_at(end, arrivals.recv()).await.ok().flatten()?;
        if image == wanted && seen.insert(member) && seen.len() == count {
            return Some(at);
        }
    }
}

pub fn rows(results: &Results) -> Vec<Row> {
    let mut rows = Vec::new();
    let clusters = results.clusters;
    if let Some(last) = results.samples.last() {
        let what = format!("plane with {clusters} clusters, memory");
        rows.push(Row::new(what, "MiB", Better::Lower, last.memory.resident_mib, None, None));
        let mean = results.samples.iter().map(|s| s.cpu_percent).sum::<f64>() / results.samples.len() as f64;
        let what = format!("plane with {clusters} clusters, processor time at rest");
        rows.push(Row::new(what, "% of a core", Better::Lower, mean, None, None));
    }
    for (what, seconds) in [("a wider policy", results.widened_seconds), ("an override", results.overridden_seconds)] {
        if let Some(seconds) = seconds {
            rows.push(Row::new(
                format!("{what} reaches all {clusters} clusters"),
                "s",
                Better::Lower,
                seconds,
                None,
                None,
            ));
        }
    }
    rows
}

pub fn details(results: &Results) -> String {
    let missing = |what: &str| format!("\n**{what} did not reach all clusters within {} s.**\n", CHANGE_MAX.as_secs());
    let mut text = format!(
        "{} clusters, each a `flotilla member` process with {} simulated nodes and {} pods ({} pods in all), joined in push mode \
         in {:.1} s. A member holds {:.0} MiB; all of them together take {:.0} % of a core. The plane alone held {:.0} MiB before. No \
         comparison: Karmada was not run at this size.\n",
        results.clusters,
        grouped(results.nodes),
        grouped(results.pods),
        grouped(results.pods_in_all),
        results.join_seconds,
        results.member_memory_mib,
        results.members_cpu_percent,
        results.empty.resident_mib
    );
    text += &process::samples_table(&results.samples, None);
    if !results.samples.is_empty() && results.widened_seconds.is_none() {
        text += &missing("The wider policy");
    }
    if !results.samples.is_empty() && results.overridden_seconds.is_none() {
        text += &missing("The override");
    }
    text
}
