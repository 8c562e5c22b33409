//! One run: creates Deployments on the control plane and watches when each is in every member and ready on its
//! template.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, mpsc};

use crate::fleet::plane::{BenchPlane, Which};
use crate::fleet::real_member::Member;
use crate::fleet::watch::{Watches, name_of};
use crate::load::Percentiles;
use crate::process::{self, Memory};
use crate::propagation::costs::{Costs, Counters};
use crate::propagation::objects::{self, deployments};
use crate::wire::{Call, ServerTarget};

const CLIENTS: usize = 16;
const STATUS_WRITERS: usize = 4;
/// Pause of the other client between two creates.
const OTHER_EVERY: Duration = Duration::from_millis(50);

/// The parameters of a run.
#[derive(Clone)]
pub struct PropagationTask {
    pub namespace: String,
    pub count: usize,
    /// Creations per second; unlimited if unset.
    pub pace: Option<f64>,
    pub replicas: u32,
    /// True if members run real controllers; otherwise the benchmark marks Deployments as ready.
    pub real_workloads: bool,
    /// Time limit of a run.
    pub limit: Duration,
    /// Maximum time without an event.
    pub silence: Duration,
    /// Records rate, CPU time and memory after each block. At most one block is in flight, so that the control plane
    /// has about as many objects as have arrived.
    pub block: Option<usize>,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct PropagationMeasured {
    pub plane: Which,
    /// With settings other than the defaults.
    pub raised: bool,
    pub count: usize,
    pub pace: Option<f64>,
    /// Number that were in all members at the end; fewer than `count` after a timeout.
    pub arrived: usize,
    pub seconds: f64,
    /// Deployments per second until the last was in all members.
    pub present_per_second: f64,
    /// Since the creation on the control plane, of those that arrived.
    pub present: Percentiles,
    /// Templates that reported all replicas as ready.
    pub ready_count: usize,
    pub ready_per_second: f64,
    pub ready: Percentiles,
    pub cpu_ms_per_object: f64,
    /// Of all members together, and of this program: they share the processors with the control plane.
    pub members_cpu_ms_per_object: f64,
    pub client_cpu_ms_per_object: f64,
    pub idle: Memory,
    pub after: Memory,
    pub blocks: Vec<Block>,
    /// Of flotilla alone.
    #[serde(default)]
    pub costs: Costs,
    /// Creates of ConfigMaps by another client meanwhile, one after the other.
    #[serde(default)]
    pub other_creates: Percentiles,
}

/// A point of the growth curve.
#[derive(Clone, Serialize, Deserialize)]
pub struct Block {
    pub until: usize,
    pub per_second: f64,
    pub cpu_ms_per_object: f64,
    pub members_cpu_ms_per_object: f64,
    pub memory: Memory,
}

impl PropagationMeasured {
    pub fn is_complete(&self) -> bool {
        self.arrived == self.count
    }

    /// Reports whether it kept up: all arrived, the last within two seconds of its creation.
    pub fn holds_pace(&self) -> Option<bool> {
        let pace = self.pace?;
        Some(self.is_complete() && self.seconds <= self.count as f64 / pace + 2.0)
    }
}

enum PropagationEvent {
    In { name: String, member: usize },
    Ready { name: String },
}

/// Creation times.
type Created = Arc<Mutex<HashMap<String, Instant>>>;
type Sender = mpsc::UnboundedSender<(PropagationEvent, Instant)>;

pub async fn measure(
    plane: &BenchPlane,
    members: &[Member],
    task: &PropagationTask,
) -> anyhow::Result<PropagationMeasured> {
    objects::prepare(plane, members, &task.namespace).await?;
    let (sender, receiver) = mpsc::unbounded_channel();
    let mut watches = Watches::default();
    watch_all(&mut watches, plane, members, task, &sender);
    let counters = Counters::read(plane).await?;
    let meter = Meter::new(plane, members)?;
    let mut collected = Collected::new(members.len(), task);
    let start = Instant::now();
    let created = Created::default();
    let in_flight = Arc::new(Semaphore::new(task.block.unwrap_or(task.count)));
    let creating = create_all(plane.target().clone(), task.clone(), created.clone(), Arc::clone(&in_flight));
    let creating = tokio::spawn(creating);
    let latencies = Arc::<Mutex<Vec<Duration>>>::default();
    watches.spawn(create_others(plane.target().clone(), task.namespace.clone(), Arc::clone(&latencies)));
    collect(receiver, task, &mut collected, &meter, &in_flight).await?;
    let taken = meter.read()?;
    if creating.is_finished() {
        creating.await.context("the load failed")??;
    } else {
        creating.abort();
    }
    let after = process::memory(&meter.plane)?;
    let costs = Counters::read(plane).await?.since(&counters, collected.present.len());
    let created = std::mem::take(&mut *created.lock());
    let other_creates = Percentiles::of(std::mem::take(&mut *latencies.lock()));
    let rate = |times: &HashMap<String, Instant>| {
        let last = times.values().max().map_or(Duration::ZERO, |last| last.duration_since(start));
        times.len() as f64 / last.as_secs_f64().max(f64::EPSILON)
    };
    let per_object = |seconds: f64| seconds * 1000.0 / collected.present.len().max(1) as f64;
    let last = collected.present.values().max().map_or(Duration::ZERO, |last| last.duration_since(start));
    Ok(PropagationMeasured {
        plane: plane.which(),
        raised: false,
        count: task.count,
        pace: task.pace,
        arrived: collected.present.len(),
        seconds: last.as_secs_f64(),
        present_per_second: rate(&collected.present),
        present: latency(&created, &collected.present),
        ready_count: collected.ready.len(),
        ready_per_second: rate(&collected.ready),
        ready: latency(&created, &collected.ready),
        cpu_ms_per_object: per_object(taken.plane),
        members_cpu_ms_per_object: per_object(taken.members),
        client_cpu_ms_per_object: per_object(taken.client),
        idle: meter.idle,
        after,
        blocks: collected.blocks,
        costs,
        other_creates,
    })
}

fn watch_all(watches: &mut Watches, plane: &BenchPlane, members: &[Member], task: &PropagationTask, sender: &Sender) {
    let path = format!("{}?watch=true", deployments(&task.namespace));
    for (index, member) in members.iter().enumerate() {
        let (arrived, arrivals) = mpsc::unbounded_channel();
        if !task.real_workloads {
            mark_ready(watches, member.target(), &task.namespace, task.replicas, arrivals);
        }
        let sender = sender.clone();
        watches.follow(member.target().clone(), path.clone(), move |event| {
            if event["type"] == "ADDED" {
                let name = name_of(event);
                if event["object"]["status"]["readyReplicas"].is_null() {
                    // There is no receiver with real controllers.
                    let _ = arrived.send(name.clone());
                }
                let _ = sender.send((PropagationEvent::In { name, member: index }, Instant::now()));
            }
        });
    }
    let wanted = u64::from(task.replicas) * members.len() as u64;
    let sender = sender.clone();
    watches.follow(plane.target().clone(), path, move |event| {
        if event["object"]["status"]["readyReplicas"].as_u64() == Some(wanted) {
            let _ = sender.send((PropagationEvent::Ready { name: name_of(event) }, Instant::now()));
        }
    });
}

/// Each client creates its next Deployment after the last response; with a pace, not before its time.
async fn create_all(
    target: ServerTarget,
    task: PropagationTask,
    created: Created,
    in_flight: Arc<Semaphore>,
) -> anyhow::Result<()> {
    let task = Arc::new(task);
    let start = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        let (target, task, created) = (target.clone(), Arc::clone(&task), created.clone());
        let in_flight = Arc::clone(&in_flight);
        clients.spawn(async move {
            let mut connection = target.connect().await?;
            for number in (client..task.count).step_by(CLIENTS) {
                if let Some(pace) = task.pace {
                    let due = start + Duration::from_secs_f64(number as f64 / pace);
                    tokio::time::sleep_until(due.into()).await;
                }
                // Released on arrival.
                in_flight.acquire().await.context("the semaphore is never closed")?.forget();
                let name = format!("web-{number:05}");
                created.lock().insert(name.clone(), Instant::now());
                let body = objects::deployment(&name, task.replicas).to_string();
                connection.read(Call::create(deployments(&task.namespace), body.into())).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(client) = clients.join_next().await {
        client.context("a client failed")??;
    }
    Ok(())
}

/// Another client of the control plane: creates small objects that are not propagated and measures how long each takes.
async fn create_others(target: ServerTarget, namespace: String, latencies: Arc<Mutex<Vec<Duration>>>) {
    let Ok(mut connection) = target.connect().await else { return };
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    for number in 0.. {
        let body = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("other-{number}")}, "data": {"a": "b"}});
        let start = Instant::now();
        if connection.read(Call::create(path.clone(), body.to_string().into())).await.is_err() {
            return;
        }
        latencies.lock().push(start.elapsed());
        tokio::time::sleep(OTHER_EVERY).await;
    }
}

/// Acts as the controllers of a member: marks every Deployment as ready on arrival.
pub fn mark_ready(
    watches: &mut Watches,
    target: &ServerTarget,
    namespace: &str,
    replicas: u32,
    arrivals: mpsc::UnboundedReceiver<String>,
) {
    let arrivals = Arc::new(tokio::sync::Mutex::new(arrivals));
    let status = serde_json::json!({"status": {"observedGeneration": 1, "replicas": replicas,
        "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas}});
    let body = bytes::Bytes::from(status.to_string());
    for _ in 0..STATUS_WRITERS {
        let (target, arrivals) = (target.clone(), Arc::clone(&arrivals));
        let (collection, body) = (deployments(namespace), body.clone());
        watches.spawn(async move {
            let mut connection = None;
            loop {
                let Some(name) = arrivals.lock().await.recv().await else { return };
                let path = format!("{collection}/{name}/status");
                // A writer that gave up at its first error would silently leave its share to the others.
                while !wrote(&target, &mut connection, &path, &body).await {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        });
    }
}

async fn wrote(
    target: &ServerTarget,
    connection: &mut Option<crate::wire::Connection>,
    path: &str,
    body: &bytes::Bytes,
) -> bool {
    if connection.is_none() {
        *connection = target.connect().await.ok();
    }
    let Some(open) = connection else { return false };
    match open.call(Call::merge_patch(path.to_owned(), body.clone())).await {
        // A deleted object needs no status.
        Ok(answer) => answer.status.is_success() || answer.status == http::StatusCode::NOT_FOUND,
        Err(_) => {
            *connection = None;
            false
        }
    }
}

/// CPU seconds of all sides since its creation.
struct Meter {
    plane: Vec<u32>,
    members: Vec<u32>,
    before: [Duration; 3],
    idle: Memory,
}

#[derive(Clone, Copy, Default)]
struct Taken {
    plane: f64,
    members: f64,
    client: f64,
}

impl Meter {
    fn new(plane: &BenchPlane, members: &[Member]) -> anyhow::Result<Self> {
        let plane = plane.pids();
        let members: Vec<u32> = members.iter().flat_map(Member::pids).collect();
        let before = [process::cpu(&plane)?, process::cpu(&members)?, process::cpu(&[std::process::id()])?];
        let idle = process::memory(&plane)?;
        Ok(Self { plane, members, before, idle })
    }

    fn read(&self) -> anyhow::Result<Taken> {
        let since = |pids: &[u32], before: Duration| -> anyhow::Result<f64> {
            Ok(process::cpu(pids)?.saturating_sub(before).as_secs_f64())
        };
        Ok(Taken {
            plane: since(&self.plane, self.before[0])?,
            members: since(&self.members, self.before[1])?,
            client: since(&[std::process::id()], self.before[2])?,
        })
    }
}

struct Collected {
    members: usize,
    /// The members in which each was seen, as bits.
    arrivals: HashMap<String, u64>,
    present: HashMap<String, Instant>,
    ready: HashMap<String, Instant>,
    blocks: Vec<Block>,
    block_began: (Instant, Taken),
}

impl Collected {
    fn new(members: usize, task: &PropagationTask) -> Self {
        Self {
            members,
            arrivals: HashMap::with_capacity(task.count),
            present: HashMap::with_capacity(task.count),
            ready: HashMap::with_capacity(task.count),
            blocks: Vec::new(),
            block_began: (Instant::now(), Taken::default()),
        }
    }

    fn add(&mut self, seen: PropagationEvent, at: Instant) -> bool {
        match seen {
            PropagationEvent::Ready { name } => {
                self.ready.entry(name).or_insert(at);
                false
            }
            PropagationEvent::In { name, member } => {
                let arrived = self.arrivals.entry(name.clone()).or_default();
                *arrived |= 1 << member;
                let is_new = arrived.count_ones() as usize == self.members && !self.present.contains_key(&name);
                if is_new {
                    self.present.insert(name, at);
                }
                is_new
            }
        }
    }

    fn end_block(&mut self, size: usize, meter: &Meter) -> anyhow::Result<()> {
        let (began, before) = self.block_began;
        let (now, taken) = (Instant::now(), meter.read()?);
        self.blocks.push(Block {
            until: self.present.len(),
            per_second: size as f64 / (now - began).as_secs_f64().max(f64::EPSILON),
            cpu_ms_per_object: (taken.plane - before.plane) * 1000.0 / size as f64,
            members_cpu_ms_per_object: (taken.members - before.members) * 1000.0 / size as f64,
            memory: process::memory(&meter.plane)?,
        });
        self.block_began = (now, taken);
        eprintln!("  {}: {:.1} per second", self.present.len(), self.blocks.last().map_or(0.0, |b| b.per_second));
        Ok(())
    }
}

/// Records when each Deployment was in the last member, and when its template was first ready. Ends when all are, or
/// at the limit.
async fn collect(
    mut receiver: mpsc::UnboundedReceiver<(PropagationEvent, Instant)>,
    task: &PropagationTask,
    collected: &mut Collected,
    meter: &Meter,
    in_flight: &Semaphore,
) -> anyhow::Result<()> {
    let end = Instant::now() + task.limit;
    collected.block_began = (Instant::now(), Taken::default());
    let wants_ready = task.replicas > 0;
    while collected.present.len() < task.count || (wants_ready && collected.ready.len() < task.count) {
        let patience = task.silence.min(end.saturating_duration_since(Instant::now()));
        let Ok(Some((seen, at))) = tokio::time::timeout(patience, receiver.recv()).await else {
            let (arrived, ready) = (collected.present.len(), collected.ready.len());
            eprintln!("  timed out: {arrived} of {} arrived, {ready} are ready", task.count);
            return Ok(());
        };
        if collected.add(seen, at)
            && let Some(block) = task.block
        {
            in_flight.add_permits(1);
            if collected.present.len().is_multiple_of(block) {
                collected.end_block(block, meter)?;
            }
        }
    }
    Ok(())
}

fn latency(created: &HashMap<String, Instant>, seen: &HashMap<String, Instant>) -> Percentiles {
    let times = seen
        .iter()
        .filter_map(|(name, at)| Some(at.saturating_duration_since(*created.get(name)?)))
        .collect::<Vec<_>>();
    Percentiles::of(times)
}
