//! Watches the nodes, pods and, where enabled, quotas of a member and reports its capacity.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::cluster::{NodeSummary, ResourceModel, ResourceSummary};
use object::Object;
use object::builtin;
use parking_lot::Mutex;
use reconcile::{Mirror, MirrorLimits, MirrorSpec, until};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::member::Member;
use crate::status::capacity::{self, Nodes, Usage};
use crate::status::quotas;
use crate::status::unschedulable::Waiting;

/// The estimator hears of changes at most this often.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);
/// And of quotas at most this often: they limit new replicas, and their usage by pods is reported nowhere else.
const PUBLISH_QUOTAS_EVERY: Duration = Duration::from_millis(100);

/// The free capacity of a member, kept current by watches that end with it.
pub struct CapacityWatch {
    nodes: Mirror,
    pods: Mirror,
    usage: Arc<Mutex<Usage>>,
    changes: Arc<AtomicU64>,
    _watching: DropGuard,
}

impl CapacityWatch {
    /// `usability_changed` hears when the member comes to have no node for new pods, or to have one again.
    pub fn watch(member: &Arc<Member>, usability_changed: Arc<Notify>, cancel: &CancellationToken) -> Self {
        let cancel = cancel.child_token();
        let core = builtin::core;
        let nodes = MirrorSpec::new(&core("nodes")).limits(MirrorLimits::MEMBER).trim(capacity::trim_node);
        let pods = MirrorSpec::new(&core("pods"))
            .packed()
            .limits(MirrorLimits::MEMBER)
            .fields("status.phase!=Succeeded,status.phase!=Failed")
            .trim(capacity::trim_pod);
        let must_have_quotas = member.plane.features.resource_quota_estimate;
        let quotas = (must_have_quotas || member.plane.settings.watch_quotas).then(|| {
            let quotas = MirrorSpec::new(&core("resourcequotas")).limits(MirrorLimits::MEMBER).trim(quotas::trim_quota);
            Mirror::start(member.client.clone(), quotas, cancel.clone())
        });
        let capacity_watch = Self {
            nodes: Mirror::start(member.client.clone(), nodes, cancel.clone()),
            pods: Mirror::start(member.client.clone(), pods, cancel.clone()),
            usage: Arc::default(),
            changes: Arc::default(),
            _watching: cancel.drop_guard(),
        };
        let reporter = CapacityReporter {
            member: Arc::clone(member),
            nodes: capacity_watch.nodes.clone(),
            pods: capacity_watch.pods.clone(),
            quotas,
            must_have_quotas,
            usage: Arc::clone(&capacity_watch.usage),
            changes: Arc::clone(&capacity_watch.changes),
            usability_changed,
        };
        tokio::spawn(reporter.run());
        capacity_watch
    }

    pub fn is_known(&self) -> bool {
        self.nodes.is_synced() && self.pods.is_synced()
    }

    /// Returns when nodes and pods are known, or after that time.
    pub async fn known_within(&self, wait: Duration) {
        let both = async {
            self.nodes.synced().await;
            self.pods.synced().await;
        };
        let _ = tokio::time::timeout(wait, both).await;
    }

    /// Grows with every change.
    pub fn version(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Returns whether its nodes are usable; `None` while they are not known.
    pub fn nodes(&self) -> Option<Nodes> {
        self.nodes.is_synced().then(|| Nodes::of(&self.nodes.list()))
    }

    pub fn summary(&self, models: &[ResourceModel]) -> (NodeSummary, ResourceSummary) {
        let nodes = self.nodes.list();
        let usage = self.usage.lock();
        (capacity::node_summary(&nodes), capacity::resource_summary(&nodes, &usage, models))
    }
}

struct CapacityReporter {
    member: Arc<Member>,
    nodes: Mirror,
    pods: Mirror,
    /// `None` where quotas are not watched.
    quotas: Option<Mirror>,
    /// The gate ResourceQuotaEstimate is on here: without quotas, nothing is published.
    must_have_quotas: bool,
    usage: Arc<Mutex<Usage>>,
    changes: Arc<AtomicU64>,
    usability_changed: Arc<Notify>,
}

impl CapacityReporter {
    /// Ends with the mirrors.
    async fn run(self) {
        // The previous state came from watches that have ended.
        *self.member.waiting.lock() = Waiting::default();
        let (mut nodes, mut pods) = (self.nodes.subscribe(), self.pods.subscribe());
        let mut quotas = self.quotas.as_ref().map(Mirror::subscribe);
        let mut publish_at: Option<Instant> = None;
        let mut published: Option<Instant> = None;
        let mut is_complete = false;
        let mut last: Option<Nodes> = None;
        loop {
            let quota = async {
                match &mut quotas {
                    Some(quotas) => quotas.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                change = pods.next() => {
                    let Some(change) = change else { return };
                    let (before, now) = (change.before.as_deref(), change.now.as_deref());
                    self.usage.lock().apply(before, now);
                    let affected = self.member.waiting.lock().apply(before, now);
                    if let Some(workload) = affected {
                        self.member.deployment_waits(&workload);
                    }
                }
                change = nodes.next() => {
                    let Some(change) = change else { return };
                    // Nodes report themselves all the time; few of these reports say anything new.
                    let use_of = |node: &Option<Arc<Object>>| node.as_ref().map(|n| Nodes::of(std::slice::from_ref(n)));
                    if use_of(&change.before) != use_of(&change.now) {
                        let now = Nodes::of(&self.nodes.list());
                        if last.replace(now).is_some_and(|last| last != now) {
                            self.usability_changed.notify_one();
                        }
                    }
                }
                change = quota => {
                    let Some(change) = change else { return };
                    let [before, now] = [&change.before, &change.now].map(|own| own.as_deref().and_then(quotas::limit_of));
                    if before != now {
                        let now = Instant::now();
                        let at = published.map_or(now, |last| (last + PUBLISH_QUOTAS_EVERY).max(now));
                        publish_at = Some(publish_at.map_or(at, |earlier| earlier.min(at)));
                    }
                    continue;
                }
                // A member without nodes is known to have no capacity, but no change would report it.
                () = self.complete(), if !is_complete => {
                    is_complete = true;
                    publish_at = Some(Instant::now());
                    continue;
                }
                () = until(publish_at) => {
                    publish_at = None;
                    published = Some(Instant::now());
                    self.publish(is_complete);
                    continue;
                }
            }
            self.changes.fetch_add(1, Ordering::AcqRel);
            publish_at.get_or_insert_with(|| Instant::now() + PUBLISH_EVERY);
        }
    }

    /// Returns when all there is to watch is known.
    async fn complete(&self) {
        self.nodes.synced().await;
        self.pods.synced().await;
        if let Some(quotas) = &self.quotas {
            match self.must_have_quotas {
                true => quotas.synced().await,
                false => drop(tokio::time::timeout(self.member.plane.settings.sync_wait, quotas.synced()).await),
            }
        }
    }

    /// Publishes the capacity once all mirrors are synced; a partial state would allow too much.
    fn publish(&self, has_waited: bool) {
        let has_quotas = self.quotas.as_ref().is_none_or(Mirror::is_synced) || (has_waited && !self.must_have_quotas);
        if self.nodes.is_synced() && self.pods.is_synced() && has_quotas {
            let mut nodes = capacity::cluster_nodes(&self.nodes.list(), &self.usage.lock());
            if let Some(quotas) = &self.quotas {
                nodes.quotas = quotas::by_namespace(&quotas.list());
            }
            self.member.plane.member_capacity.publish(&self.member.cluster, nodes);
        }
    }
}
