//! Detects that Services of a member cannot be resolved by name, and reports it as a condition of its Cluster.
//!
//! One detector runs on each node and publishes what it sees as a condition of the Node. One of them leads and derives the condition
//! of the Cluster, which ClusterTaintPolicies and Remedies act on. Types, reasons and rules are those of Karmada's
//! service-name-resolution-detector-example.

mod verdict;

use std::sync::Arc;
use std::time::Duration;

use api::Resource;
use api::cluster::CLUSTERS;
use api::core::{Condition, find_condition, set_condition};
use async_trait::async_trait;
use cluster_client::{ClusterClient, Patch, ResourceRef, Subresource, WriteOptions};
use member_sync::Threshold;
use object::time::format_seconds;
use object::{Object, Status};
use reconcile::{Clock, LeaderElection, LeaderElector, Mirror, MirrorSpec};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use verdict::MemberResolution;

const NODES: Resource = Resource::cluster("", "v1", "Node", "nodes");

/// Type of the condition of Nodes and Clusters.
const CONDITION: &str = "ServiceDomainNameResolutionReady";
const REASON_READY: &str = "ServiceDomainNameResolutionReady";
const REASON_FAILED: &str = "ServiceDomainNameResolutionFailed";

const FIELD_MANAGER: &str = "service-name-resolution-detector";
/// A lookup that takes longer has failed; a client would not wait longer either.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);
/// Messages of resolvers are cut after this many bytes.
const MESSAGE_BYTES_MAX: usize = 1024;
/// Others write the same objects; a conflict is repeated at once this many times.
const WRITES_MAX: usize = 5;

/// Resolves names as the pods of the node do.
#[async_trait]
pub trait Lookup: Send + Sync {
    async fn lookup(&self, name: &str) -> Result<(), String>;
}

/// The resolver of the system, which reads `/etc/resolv.conf` of the pod.
pub struct SystemLookup;

#[async_trait]
impl Lookup for SystemLookup {
    async fn lookup(&self, name: &str) -> Result<(), String> {
        let mut found = tokio::net::lookup_host((name, 0)).await.map_err(|error| error.to_string())?;
        found.next().map(|_| ()).ok_or_else(|| format!("lookup {name}: no address"))
    }
}

/// Everything a detector needs to run.
pub struct DetectorDeps {
    pub plane: ClusterClient,
    pub member: ClusterClient,
    pub lookup: Arc<dyn Lookup>,
    pub clock: Arc<dyn Clock>,
    pub settings: DetectorSettings,
}

pub struct DetectorSettings {
    pub cluster: String,
    /// The node this runs on.
    pub node: String,
    /// The name that is looked up.
    pub service: String,
    /// Interval of lookups and reports.
    pub period: Duration,
    pub success_threshold: Duration,
    pub failure_threshold: Duration,
    /// A condition of a Node that is older counts as unknown.
    pub stale_threshold: Duration,
    /// Elects the detector that reports the condition of the Cluster; `None` if this is the only one.
    pub election: Option<LeaderElection>,
}

/// Runs until cancelled.
pub async fn run(deps: DetectorDeps, cancel: CancellationToken) {
    tokio::join!(detect(&deps, &cancel), lead(&deps, &cancel));
}

/// Looks the name up and publishes the result on the Node, every period.
async fn detect(deps: &DetectorDeps, cancel: &CancellationToken) {
    let DetectorSettings { success_threshold, failure_threshold, period, .. } = deps.settings;
    let mut threshold = Threshold::new(success_threshold, failure_threshold);
    while !cancel.is_cancelled() {
        if let Err(status) = deps.detect_once(&mut threshold).await {
            tracing::warn!(%status, node = deps.settings.node, "cannot publish the condition of the node, will retry");
        }
        let _ = cancel.run_until_cancelled(tokio::time::sleep(period)).await;
    }
}

async fn lead(deps: &DetectorDeps, cancel: &CancellationToken) {
    let Some(election) = &deps.settings.election else { return report(deps, cancel.clone()).await };
    let elector = LeaderElector::new(election.clone(), deps.member.clone(), Arc::clone(&deps.clock));
    elector.run(cancel.clone(), |term| report(deps, term)).await;
}

/// Derives the condition of the Cluster from those of its Nodes, every period.
async fn report(deps: &DetectorDeps, cancel: CancellationToken) {
    let spec = MirrorSpec::new(&NODES.gvr()).trim(keep_conditions);
    let nodes = Mirror::start(deps.member.clone(), spec, cancel.clone());
    let _ = cancel.run_until_cancelled(nodes.synced()).await;
    while !cancel.is_cancelled() {
        if let Err(status) = deps.report_once(&nodes.list()).await {
            tracing::warn!(%status, cluster = deps.settings.cluster, "cannot report the condition of the cluster, will retry");
        }
        let _ = cancel.run_until_cancelled(tokio::time::sleep(deps.settings.period)).await;
    }
}

/// Large members have large Nodes; only conditions are read.
fn keep_conditions(node: &mut Object) {
    let conditions = node.get(&["status", "conditions"]).cloned().unwrap_or_default();
    node.set(&["status"], json!({"conditions": conditions}));
}

impl DetectorDeps {
    async fn detect_once(&self, threshold: &mut Threshold) -> Result<(), Status> {
        let began = self.clock.now();
        let looked_up = tokio::time::timeout(LOOKUP_TIMEOUT, self.lookup.lookup(&self.settings.service)).await;
        let looked_up = looked_up.unwrap_or_else(|_| Err(format!("no answer within {LOOKUP_TIMEOUT:?}")));
        let now = self.clock.now();
        let observed = match looked_up {
            Ok(()) => condition(true, "", now),
            Err(error) => {
                tracing::debug!(error, name = self.settings.service, "lookup failed");
                condition(false, &error, now)
            }
        };
        let target = ResourceRef::cluster(&NODES.gvr(), &self.settings.node);
        let node = self.member.get(target.clone()).await?;
        let conditions: Vec<Condition> = api::read_at(&node, &["status", "conditions"])?;
        let published = find_condition(&conditions, CONDITION);
        let new = threshold.adjust(published, observed, began, now);
        // Each write reaches every client that watches Nodes, so an unchanged condition is written only to stay fresh.
        let refresh = self.settings.stale_threshold / 3;
        write(&self.member, target, node, |node| Ok(verdict::node_conditions(node, &new, now, refresh))).await
    }

    async fn report_once(&self, nodes: &[Arc<Object>]) -> Result<(), Status> {
        let now = self.clock.now();
        let new = match verdict::of(nodes, now, self.settings.stale_threshold) {
            MemberResolution::Unknown => return Ok(()),
            MemberResolution::Ready => condition(true, "service domain name resolution is ready", now),
            MemberResolution::Failed => condition(false, "service domain name resolution is unready", now),
        };
        let target = ResourceRef::cluster(&CLUSTERS.gvr(), &self.settings.cluster);
        // A cluster that is leaving or not registered yet has no condition.
        let Some(cluster) = self.plane.find(target.clone()).await? else { return Ok(()) };
        if cluster.deletion_timestamp().is_some() {
            return Ok(());
        }
        write(&self.plane, target, cluster, |cluster| {
            let mut conditions: Vec<Condition> = api::read_at(cluster, &["status", "conditions"])?;
            let is_changed = set_condition(&mut conditions, new.clone());
            if is_changed { serde_json::to_value(conditions).map(Some).map_err(Status::internal) } else { Ok(None) }
        })
        .await
    }
}

fn condition(is_ready: bool, message: &str, now: jiff::Timestamp) -> Condition {
    let (status, reason) = if is_ready { ("True", REASON_READY) } else { ("False", REASON_FAILED) };
    let mut message = message.to_owned();
    message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
    Condition {
        kind: CONDITION.to_owned(),
        status: status.to_owned(),
        last_transition_time: format_seconds(now),
        reason: reason.to_owned(),
        message,
        observed_generation: None,
    }
}

/// Replaces the conditions of an object with those that `change` returns, unless it returns `None`.
async fn write(
    client: &ClusterClient,
    target: ResourceRef,
    mut object: Arc<Object>,
    change: impl Fn(&Object) -> Result<Option<Value>, Status>,
) -> Result<(), Status> {
    let mut conflict = None;
    for _ in 0..WRITES_MAX {
        let Some(conditions) = change(&object)? else { return Ok(()) };
        let body = json!({"metadata": {"uid": object.uid(), "resourceVersion": object.resource_version()},
            "status": {"conditions": conditions}});
        let options = WriteOptions::managed_by(FIELD_MANAGER);
        match client.patch(target.clone().subresource(Subresource::Status), Patch::merge(body), options).await {
            Ok(_) => return Ok(()),
            Err(status) if status.is_conflict() => conflict = Some(status),
            Err(status) => return Err(status),
        }
        object = client.get(target.clone()).await?;
    }
    conflict.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests;
