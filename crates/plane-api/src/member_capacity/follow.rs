//! Publishes the reported capacity of pull members on this replica, and removes reports of clusters that are gone.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::cluster::{ClusterSpec, SyncMode};
use apiserver::server::Server;
use object::Object;
use plane_state::MemberCapacity;
use plane_state::capacity_report::{self, ReportedShards};
use reconcile::{Mirror, ObjectKey};
use store::{Event, EventKind, KeyValue, RangeRequest, Store};
use tokio::time::Instant;

use super::{PREFIX, parse_key, remove_from};

/// A report that its agent does not renew for this long is not used any more: another agent may have taken over that
/// reports only the summary. Agents renew every two minutes.
const EXPIRY: Duration = Duration::from_secs(600);
/// A Cluster may become known here after the first report of its agent.
const UNKNOWN_GRACE: Duration = Duration::from_secs(60);
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

pub fn sync_mode(cluster: &Object) -> SyncMode {
    api::read::<ClusterSpec>(cluster).map(|spec| spec.sync_mode).unwrap_or_default()
}

/// Runs until the server stops.
pub async fn follow(server: Arc<Server>, clusters: Mirror, capacity: MemberCapacity) {
    let stop = server.stop.clone();
    let mut reports = Reports { clusters, capacity, known: HashMap::new() };
    let store = Arc::clone(server.objects.store());
    // This loop must not keep the server alive.
    drop(server);
    tokio::select! {
        () = stop.cancelled() => return,
        () = reports.clusters.synced() => {}
    }
    while !stop.is_cancelled() {
        tokio::select! {
            () = stop.cancelled() => return,
            ended = reports.watch(&*store) => match ended {
                Ok(()) => tracing::debug!("the watch of capacity reports ended; will start again"),
                Err(error) => tracing::warn!(%error, "cannot read the capacity reports of agents; will retry"),
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(RETRY_INTERVAL) => {}
        }
    }
}

struct Reports {
    clusters: Mirror,
    capacity: MemberCapacity,
    known: HashMap<String, Reported>,
}

struct Reported {
    shards: ReportedShards,
    /// When this replica last read a part of it.
    renewed: Instant,
    is_published: bool,
}

impl Reports {
    async fn watch(&mut self, store: &dyn Store) -> store::Result<()> {
        let all = store.range(RangeRequest::prefix(PREFIX)).await?;
        self.restart();
        for kv in &all.kvs {
            self.put(kv);
        }
        self.publish_all();
        let mut changes = store.watch(PREFIX, all.revision + 1).await?;
        let mut check = tokio::time::interval(CHECK_INTERVAL);
        loop {
            tokio::select! {
                batch = changes.next() => match batch {
                    None => return Ok(()),
                    Some(batch) => self.apply(&batch?.events),
                },
                _ = check.tick() => self.sweep(store).await?,
            }
        }
    }

    /// Forgets the shards but not the times: a report does not become younger by a new watch.
    fn restart(&mut self) {
        for reported in self.known.values_mut() {
            reported.shards = ReportedShards::default();
        }
    }

    fn apply(&mut self, events: &[Event]) {
        let mut changed: Vec<String> = Vec::new();
        for event in events {
            let Some((cluster, shard)) = parse_key(&event.kv.key) else { continue };
            match event.kind {
                EventKind::Put => self.put(&event.kv),
                EventKind::Delete => {
                    if let Some(reported) = self.known.get_mut(cluster) {
                        reported.shards.remove(shard);
                    }
                }
            }
            changed.push(cluster.to_owned());
        }
        changed.dedup();
        for cluster in changed {
            self.publish(&cluster);
        }
    }

    fn put(&mut self, kv: &KeyValue) {
        let Some((cluster, _)) = parse_key(&kv.key) else { return };
        let shard = match capacity_report::read(&kv.value) {
            Ok(shard) => shard,
            // Written by another version.
            Err(error) => return tracing::warn!(cluster, %error, "a capacity report cannot be read"),
        };
        let new = || Reported { shards: ReportedShards::default(), renewed: Instant::now(), is_published: false };
        let reported = self.known.entry(cluster.to_owned()).or_insert_with(new);
        reported.shards.put(shard);
        reported.renewed = Instant::now();
    }

    fn publish_all(&mut self) {
        let names: Vec<String> = self.known.keys().cloned().collect();
        for name in names {
            self.publish(&name);
        }
    }

    /// An incomplete report leaves the last complete one in use.
    fn publish(&mut self, cluster: &str) {
        if self.mode_of(cluster) != Some(SyncMode::Pull) {
            return;
        }
        let Some(reported) = self.known.get_mut(cluster) else { return };
        if let Some(whole) = reported.shards.whole() {
            reported.is_published = true;
            if self.capacity.get(cluster).as_deref() != Some(&whole) {
                self.capacity.publish(cluster, whole);
            }
        } else if reported.shards.is_empty() {
            self.forget(cluster);
        }
    }

    fn mode_of(&self, cluster: &str) -> Option<SyncMode> {
        self.clusters.get(&ObjectKey::new("", cluster)).as_deref().map(sync_mode)
    }

    fn forget(&mut self, cluster: &str) {
        // The capacity of a push member is published by the controller that watches its nodes.
        if self.known.remove(cluster).is_some_and(|known| known.is_published)
            && self.mode_of(cluster) != Some(SyncMode::Push)
        {
            self.capacity.forget(cluster);
        }
    }

    /// Removes reports that are no longer renewed or whose cluster is no longer a pull member.
    async fn sweep(&mut self, store: &dyn Store) -> store::Result<()> {
        let is_over = |(cluster, reported): (&String, &Reported)| {
            let kept_for = match self.mode_of(cluster) {
                Some(SyncMode::Pull) => EXPIRY,
                Some(SyncMode::Push) => Duration::ZERO,
                None => UNKNOWN_GRACE,
            };
            (reported.renewed.elapsed() > kept_for).then(|| cluster.clone())
        };
        let over: Vec<String> = self.known.iter().filter_map(is_over).collect();
        for cluster in over {
            self.forget(&cluster);
            remove_from(store, &cluster, 0).await?;
        }
        // A Cluster may have been unknown here when its report arrived.
        self.publish_all();
        Ok(())
    }
}
