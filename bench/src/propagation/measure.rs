//! One run: Deployments are created on the plane, watches tell when each is in every member and ready on its template.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::{Buf, BytesMut};
use futures::StreamExt;
use http_body_util::BodyExt;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::process::{self, Memory};
use crate::propagation::PropagationOptions;
use crate::propagation::members::Member;
use crate::propagation::planes::{Plane, Which};
use crate::wire::{Call, Target};

const CLIENTS: usize = 16;
const STATUS_WRITERS: usize = 4;
/// Nothing new for this long is the end of a run that will not end by itself.
const SILENCE_MAX: Duration = Duration::from_secs(180);

#[derive(Clone, Serialize)]
pub struct Measured {
    pub plane: Which,
    pub count: usize,
    /// Deployments per second until the last was in all members.
    pub present_per_second: f64,
    pub present: Latency,
    /// Until the last template said that all its replicas are ready; none when members run nothing.
    pub ready_per_second: Option<f64>,
    pub ready: Option<Latency>,
    pub cpu_ms_per_object: f64,
    pub idle: Memory,
    pub after: Memory,
}

/// From the create on the plane.
#[derive(Clone, Copy, Serialize)]
pub struct Latency {
    pub p50_ms: f64,
    pub p99_ms: f64,
}

enum Seen {
    In { name: String },
    Ready { name: String },
}

pub async fn measure(
    plane: &Plane,
    members: &[Member],
    count: usize,
    own: &PropagationOptions,
) -> anyhow::Result<Measured> {
    let namespace = format!("bench-{count}");
    prepare(plane, members, &namespace).await?;
    let (sender, receiver) = mpsc::unbounded_channel();
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments?watch=true");
    for member in members {
        let sender = sender.clone();
        let (arrived, arrivals) = mpsc::unbounded_channel();
        if !own.real_workloads {
            tokio::spawn(say_ready(member.target().clone(), namespace.clone(), own.replicas, arrivals));
        }
        tokio::spawn(follow(member.target().clone(), path.clone(), move |event| {
            if event["type"] == "ADDED" {
                let name = name_of(event);
                // Nobody listens where real controllers run.
                let _ = arrived.send(name.clone());
                let _ = sender.send((Seen::In { name }, Instant::now()));
            }
        }));
    }
    let wanted = u64::from(own.replicas) * members.len() as u64;
    tokio::spawn(follow(plane.target.clone(), path, move |event| {
        if event["object"]["status"]["readyReplicas"].as_u64() == Some(wanted) {
            let _ = sender.send((Seen::Ready { name: name_of(event) }, Instant::now()));
        }
    }));
    let idle = process::memory(&plane.pids)?;
    let cpu_before = process::cpu(&plane.pids)?;
    let start = Instant::now();
    let created = tokio::spawn(create_all(plane.target.clone(), namespace, count, own.replicas));
    let collected = collect(receiver, members.len(), count, own.replicas > 0).await?;
    let created = created.await.context("the load ended badly")??;
    let cpu = process::cpu(&plane.pids)?.saturating_sub(cpu_before);
    let after = process::memory(&plane.pids)?;
    let finish = |times: &HashMap<String, Instant>| {
        let last = times.values().max().map_or(Duration::ZERO, |last| last.duration_since(start));
        count as f64 / last.as_secs_f64().max(f64::EPSILON)
    };
    let ready = (!collected.ready.is_empty()).then_some(&collected.ready);
    Ok(Measured {
        plane: plane.which,
        count,
        present_per_second: finish(&collected.present),
        present: latency(&created, &collected.present),
        ready_per_second: ready.map(finish),
        ready: ready.map(|ready| latency(&created, ready)),
        cpu_ms_per_object: cpu.as_secs_f64() * 1000.0 / count as f64,
        idle,
        after,
    })
}

/// A namespace that is everywhere, and a policy that sends its Deployments everywhere.
async fn prepare(plane: &Plane, members: &[Member], namespace: &str) -> anyhow::Result<()> {
    let mut connection = plane.target.connect().await?;
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    connection.read(Call::create("/api/v1/namespaces".to_owned(), body.to_string().into())).await?;
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "everywhere", "namespace": namespace},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "placement": {"clusterAffinity": {"clusterNames": members.iter().map(|m| &m.name).collect::<Vec<_>>()}},
        },
    });
    let path = format!("/apis/policy.karmada.io/v1alpha1/namespaces/{namespace}/propagationpolicies");
    connection.read(Call::create(path, policy.to_string().into())).await?;
    let start = Instant::now();
    for member in members {
        let mut connection = member.target().connect().await?;
        while connection.read(Call::get(format!("/api/v1/namespaces/{namespace}"))).await.is_err() {
            if start.elapsed() > Duration::from_secs(60) {
                bail!("the namespace did not reach {}", member.name);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}

async fn create_all(
    target: Target,
    namespace: String,
    count: usize,
    replicas: u32,
) -> anyhow::Result<HashMap<String, Instant>> {
    let namespace = Arc::new(namespace);
    let tasks = (0..CLIENTS).map(|client| {
        let (target, namespace) = (target.clone(), Arc::clone(&namespace));
        tokio::spawn(async move {
            let mut connection = target.connect().await?;
            let mut created = Vec::new();
            for number in (client..count).step_by(CLIENTS) {
                let name = format!("web-{number:05}");
                let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
                created.push((name.clone(), Instant::now()));
                connection.read(Call::create(path, deployment(&name, replicas).to_string().into())).await?;
            }
            anyhow::Ok(created)
        })
    });
    let mut created = HashMap::new();
    for task in tasks.collect::<Vec<_>>() {
        created.extend(task.await.context("a client ended badly")??);
    }
    Ok(created)
}

pub fn deployment(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{
                    "name": "nginx", "image": "nginx:1.27", "ports": [{"containerPort": 80}],
                    "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}},
                }]},
            },
        },
    })
}

/// Plays the controllers of a member: every Deployment that arrives is ready at once.
pub async fn say_ready(
    target: Target,
    namespace: String,
    replicas: u32,
    arrivals: mpsc::UnboundedReceiver<String>,
) -> anyhow::Result<()> {
    let arrivals = Arc::new(tokio::sync::Mutex::new(arrivals));
    let status = json!({"status": {"observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas,
        "readyReplicas": replicas, "availableReplicas": replicas}});
    let body = bytes::Bytes::from(status.to_string());
    for _ in 0..STATUS_WRITERS {
        let (mut connection, arrivals) = (target.connect().await?, Arc::clone(&arrivals));
        let (namespace, body) = (namespace.clone(), body.clone());
        tokio::spawn(async move {
            loop {
                let Some(name) = arrivals.lock().await.recv().await else { return anyhow::Ok(()) };
                let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}/status");
                connection.read(Call::merge_patch(path, body.clone())).await?;
            }
        });
    }
    Ok(())
}

struct Collected {
    present: HashMap<String, Instant>,
    ready: HashMap<String, Instant>,
}

/// When each Deployment was in the last member, and when its template was ready first.
async fn collect(
    mut receiver: mpsc::UnboundedReceiver<(Seen, Instant)>,
    members: usize,
    count: usize,
    wants_ready: bool,
) -> anyhow::Result<Collected> {
    let mut arrivals: HashMap<String, usize> = HashMap::new();
    let mut collected = Collected { present: HashMap::new(), ready: HashMap::new() };
    while collected.present.len() < count || (wants_ready && collected.ready.len() < count) {
        let seen = tokio::time::timeout(SILENCE_MAX, receiver.recv()).await;
        let Ok(Some((seen, at))) = seen else {
            bail!(
                "{} of {count} arrived, {} are ready, and nothing more",
                collected.present.len(),
                collected.ready.len()
            );
        };
        match seen {
            Seen::Ready { name } => drop(collected.ready.entry(name).or_insert(at)),
            Seen::In { name } => {
                let arrived = arrivals.entry(name.clone()).or_default();
                *arrived += 1;
                if *arrived == members {
                    collected.present.insert(name, at);
                }
            }
        }
    }
    Ok(collected)
}

/// Calls with every event of a watch. A listener that is gone is no reason to go on or to fail.
pub async fn follow(target: Target, path: String, mut tell: impl FnMut(&Value)) -> anyhow::Result<()> {
    let mut connection = target.connect().await?;
    let (_, body) = connection.open(Call::get(path)).await?;
    let mut frames = body.into_data_stream();
    let mut buffer = BytesMut::new();
    while let Some(frame) = frames.next().await {
        buffer.extend_from_slice(&frame?);
        while let Some(end) = memchr::memchr(b'\n', &buffer) {
            let event: Value = serde_json::from_slice(&buffer[..end])?;
            buffer.advance(end + 1);
            tell(&event);
        }
    }
    Ok(())
}

pub fn name_of(event: &Value) -> String {
    event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn latency(created: &HashMap<String, Instant>, seen: &HashMap<String, Instant>) -> Latency {
    let mut times: Vec<f64> = seen
        .iter()
        .filter_map(|(name, at)| Some(at.duration_since(*created.get(name)?).as_secs_f64() * 1000.0))
        .collect();
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times.get(((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1)));
    Latency { p50_ms: at(0.5).copied().unwrap_or(0.0), p99_ms: at(0.99).copied().unwrap_or(0.0) }
}
