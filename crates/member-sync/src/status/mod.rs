//! The heartbeat of a member: is it well, what does it serve, what can it take. Writes the status of its Cluster.

mod capacity;
mod capacity_watch;
mod probe;
mod quotas;
pub mod threshold;
pub mod unschedulable;

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::cluster::{CLUSTERS, CONDITION_READY, FINALIZER};
use api::core::{Condition, find_condition, set_condition};
use cluster_client::{ApiResources, DiscoveryTags, Patch, ResourceRef, WriteOptions};
use object::request::Subresource;
use object::time::format_seconds;
use object::{Object, Status};
use reconcile::backoff::jittered;
use reconcile::commit::merge_difference;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::member::{FIELD_MANAGER, Member};
use crate::status::capacity_watch::CapacityWatch;
use crate::status::probe::Health;

/// Maximum retries of a status write after a conflict.
const WRITES_MAX: usize = 3;
/// The version of a member is asked for every so many beats.
const BEATS_PER_VERSION: u64 = 6;
/// Number of heartbeats between cleanups of unused watches.
const BEATS_PER_SWEEP: u64 = 30;

/// Beats until cancelled.
pub async fn run(member: Arc<Member>, cancel: CancellationToken) {
    let mut heart = Heart::new(Arc::clone(&member), cancel.clone());
    let usability_changed = Arc::clone(&heart.usability_changed);
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            result = timed(&member, heart.beat()) => {
                if let Err(error) = result {
                    tracing::warn!(cluster = member.cluster, %error, "the status of a member could not be written");
                }
            }
        }
        // Spread, so that a thousand members do not beat at once.
        let settings = &member.plane.settings;
        let interval = threshold::interval(settings.heartbeat, settings.failure_threshold);
        let wait = jittered(interval.mul_f64(0.95), 0.1);
        // A change that waits for its threshold is published in time.
        let wait = heart.pending.map_or(wait, |pending| wait.min(pending));
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
            () = member.heartbeat_now.notified() => {}
            // That nothing can run there any more should not wait for the next beat.
            () = usability_changed.notified() => {}
        }
    }
}

async fn timed<T>(member: &Member, beat: impl Future<Output = T>) -> T {
    let started = Instant::now();
    let result = beat.await;
    member.plane.metrics.members.status_synced(&member.cluster, started.elapsed());
    result
}

struct Heart {
    member: Arc<Member>,
    cancel: CancellationToken,
    beats: u64,
    was_online: bool,
    capacity_watch: Option<CapacityWatch>,
    /// The last collected values, by field of the status.
    known: Known,
    tags: DiscoveryTags,
    /// Hears when the nodes come to be of another use.
    usability_changed: Arc<Notify>,
    /// Time until an observed change of readiness may be published.
    pending: Option<Duration>,
}

#[derive(Default)]
struct Known {
    version: Option<Value>,
    enablements: Option<Value>,
    enablements_count: usize,
    is_complete: bool,
    summary: Option<(Value, Value)>,
    /// Of what the summary was made.
    summary_of: Option<(u64, i64)>,
}

impl Heart {
    fn new(member: Arc<Member>, cancel: CancellationToken) -> Self {
        let (known, tags) = (Known::default(), DiscoveryTags::default());
        Self {
            member,
            cancel,
            beats: 0,
            was_online: false,
            capacity_watch: None,
            known,
            tags,
            usability_changed: Arc::default(),
            pending: None,
        }
    }

    async fn beat(&mut self) -> Result<(), Status> {
        let member = Arc::clone(&self.member);
        let Some(cluster) = member.cluster_object() else { return Ok(()) };
        // The cluster controller comes first.
        if !cluster.has_finalizer(FINALIZER) {
            return Ok(());
        }
        let began = member.plane.clock.now();
        let health = match &member.link_problem {
            Some(problem) => Health::Unconnected(problem.clone()),
            None => {
                let timeout = probe::health_timeout(member.plane.settings.failure_threshold);
                probe::health(&member.client, timeout).await
            }
        };
        let now = member.plane.clock.now();
        let observed = probe::ready_condition(&health, &format_seconds(now));
        let published = ready_of(&cluster)?;
        let ready = {
            let mut threshold = member.threshold.lock();
            let ready = threshold.adjust(published.as_ref(), observed, began, now);
            self.pending = threshold.pending(&ready, now);
            ready
        };
        let is_online = health == Health::Healthy;
        if is_online && !self.was_online {
            // Changes during the outage were missed, so the watches start again.
            self.capacity_watch = None;
        }
        self.was_online = is_online;
        let mut report = Report { conditions: vec![], fields: vec![] };
        if is_online && ready.is_true() {
            self.collect(&cluster).await;
            let known = &self.known;
            let now = format_seconds(now);
            report.conditions.push(probe::apis_condition(known.enablements_count, known.is_complete, &now));
            let nodes = self.capacity_watch.as_ref().and_then(CapacityWatch::nodes);
            if let Some(nodes) = nodes.filter(|_| member.plane.features.resilient_failover) {
                report.conditions.push(probe::nodes_condition(nodes, &now));
            }
            report.fields = known.fields();
        }
        report.conditions.push(ready);
        self.beats += 1;
        self.write(cluster, &report).await
    }

    /// Asks for what may have changed. What does not answer stays as it was known.
    async fn collect(&mut self, cluster: &Object) {
        let member = Arc::clone(&self.member);
        match ApiResources::discover_changed(&member.client, &mut self.tags).await {
            Ok(Some(served)) => {
                let enablements = probe::enablements(&served);
                self.known.is_complete = served.incomplete.is_empty();
                self.known.enablements_count = enablements.len();
                self.known.enablements = serde_json::to_value(enablements).ok();
                self.known.version = None;
            }
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(cluster = member.cluster, %error, "what a member serves could not be asked");
                self.known.is_complete = false;
                self.tags = DiscoveryTags::default();
            }
        }
        if self.known.version.is_none() || self.beats.is_multiple_of(BEATS_PER_VERSION) {
            match probe::version(&member.client).await {
                Ok(version) => self.known.version = Some(version.into()),
                Err(error) => tracing::debug!(cluster = member.cluster, %error, "no version"),
            }
        }
        if member.plane.settings.resource_modeling {
            self.measure(cluster).await;
        }
        if self.beats % BEATS_PER_SWEEP == BEATS_PER_SWEEP - 1 {
            member.close_unused_watches().await;
        }
    }

    async fn measure(&mut self, cluster: &Object) {
        let plane = &self.member.plane;
        let capacity_watch = match &self.capacity_watch {
            Some(capacity_watch) => capacity_watch,
            None => {
                let capacity_watch =
                    CapacityWatch::watch(&self.member, Arc::clone(&self.usability_changed), &self.cancel);
                // A cluster that is ready but seems to have no free capacity would get nothing.
                capacity_watch.known_within(plane.settings.sync_wait).await;
                self.capacity_watch.insert(capacity_watch)
            }
        };
        let made_of = Some((capacity_watch.version(), cluster.generation()));
        if !capacity_watch.is_known() || self.known.summary_of == made_of {
            return;
        }
        let models = match plane.features.resource_modeling {
            true => self.member.spec().resource_models,
            false => Vec::new(),
        };
        let (nodes, resources) = capacity_watch.summary(&models);
        if let (Ok(nodes), Ok(resources)) = (serde_json::to_value(nodes), serde_json::to_value(resources)) {
            self.known.summary = Some((nodes, resources));
            self.known.summary_of = made_of;
        }
    }

    async fn write(&self, mut cluster: Arc<Object>, report: &Report<'_>) -> Result<(), Status> {
        let plane = &self.member.plane.client;
        let target = || ResourceRef::cluster(&CLUSTERS.gvr(), &self.member.cluster);
        for _ in 0..WRITES_MAX {
            let Some(difference) = report.difference(&cluster)? else { return Ok(()) };
            let body = json!({"metadata": {"uid": cluster.uid(), "resourceVersion": cluster.resource_version()},
                "status": difference});
            let options = WriteOptions::managed_by(FIELD_MANAGER);
            match plane.patch(target().subresource(Subresource::Status), Patch::merge(body), options).await {
                Ok(_) => return Ok(()),
                Err(status) if status.is_not_found() => return Ok(()),
                // The other conditions are others' to write.
                Err(status) if status.is_conflict() => match plane.find(target()).await? {
                    Some(newest) if newest.uid() == cluster.uid() => cluster = newest,
                    _ => return Ok(()),
                },
                Err(status) => return Err(status),
            }
        }
        Ok(())
    }
}

fn ready_of(cluster: &Object) -> Result<Option<Condition>, Status> {
    let conditions: Vec<Condition> = api::read_at(cluster, &["status", "conditions"])?;
    Ok(find_condition(&conditions, CONDITION_READY).cloned())
}

impl Known {
    fn fields(&self) -> Vec<(&'static str, &Value)> {
        let (nodes, resources) = self.summary.as_ref().map(|(n, r)| (n, r)).unzip();
        let all = [
            ("kubernetesVersion", self.version.as_ref()),
            ("apiEnablements", self.enablements.as_ref()),
            ("nodeSummary", nodes),
            ("resourceSummary", resources),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// The result of one status collection: conditions and fields to set.
struct Report<'a> {
    conditions: Vec<Condition>,
    fields: Vec<(&'static str, &'a Value)>,
}

impl Report<'_> {
    /// The merge patch of the status; `None` when it says all this already.
    fn difference(&self, cluster: &Object) -> Result<Option<Value>, Status> {
        let mut patch = Map::new();
        for (name, value) in &self.fields {
            let current = cluster.get(&["status", name]).unwrap_or(&Value::Null);
            if let Some(difference) = merge_difference(current, value) {
                patch.insert((*name).to_owned(), difference);
            }
        }
        let mut conditions: Vec<Condition> = api::read_at(cluster, &["status", "conditions"])?;
        let changes = self.conditions.iter().filter(|new| set_condition(&mut conditions, (*new).clone())).count();
        if changes > 0 {
            patch.insert("conditions".to_owned(), serde_json::to_value(conditions).map_err(Status::internal)?);
        }
        Ok((!patch.is_empty()).then_some(Value::Object(patch)))
    }
}
