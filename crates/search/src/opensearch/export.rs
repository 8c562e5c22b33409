//! The tasks that write the changes of each copy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cluster_client::ClusterClient;
use cluster_client::remote::addresses::AddressPolicy;
use object::{GroupVersionResource, Object};
use reconcile::{Change, Subscription};
use tokio_util::sync::CancellationToken;

use super::Destination;
use super::client::OpenSearchClient;
use super::document::{DocumentWrite, WriteOutcome, outcomes};
use crate::cache::{Cache, View};
use crate::registries::Namespaces;

/// Documents and bytes in one request.
const BATCH_MAX: usize = 500;
const BATCH_BYTES_MAX: usize = 5 << 20;
/// Changes are collected for this long.
const COLLECT: Duration = Duration::from_millis(100);
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// A copy and the destination it is written to.
type ExportKey = (GroupVersionResource, String, Destination);

/// The running exports.
pub struct Exports {
    plane: ClusterClient,
    addresses: AddressPolicy,
    clients: BTreeMap<Destination, Arc<OpenSearchClient>>,
    running: BTreeMap<ExportKey, Running>,
}

struct Running {
    cache: Arc<Cache>,
    namespaces: Namespaces,
    stop: CancellationToken,
}

impl Exports {
    pub fn new(plane: ClusterClient, addresses: AddressPolicy) -> Self {
        Self { plane, addresses, clients: BTreeMap::new(), running: BTreeMap::new() }
    }

    /// Starts what is planned and does not run, for the copies of this view, and stops what is not planned any more.
    pub fn follow(&mut self, planned: BTreeMap<ExportKey, Namespaces>, view: &View, cancel: &CancellationToken) {
        let mut running = BTreeMap::new();
        for ((gvr, cluster, destination), namespaces) in planned {
            let Some(cache) = view.of(&gvr).find(|cache| cache.cluster == cluster).cloned() else { continue };
            let key = (gvr, cluster, destination);
            let is_same = |now: &Running| Arc::ptr_eq(&now.cache, &cache) && now.namespaces == namespaces;
            let now = match self.running.remove(&key) {
                Some(now) if is_same(&now) => now,
                before => {
                    before.inspect(|before| before.stop.cancel());
                    let client = self.client(&key.2);
                    Running::start(cache, namespaces, client, cancel)
                }
            };
            running.insert(key, now);
        }
        self.running.values().for_each(|ended| ended.stop.cancel());
        self.running = running;
        let used: BTreeSet<&Destination> = self.running.keys().map(|(_, _, destination)| destination).collect();
        self.clients.retain(|destination, _| used.contains(destination));
    }

    fn client(&mut self, destination: &Destination) -> Arc<OpenSearchClient> {
        let (plane, addresses) = (&self.plane, self.addresses);
        let client = self.clients.entry(destination.clone());
        let made = || Arc::new(OpenSearchClient::new(destination.clone(), plane.clone(), addresses));
        client.or_insert_with(made).clone()
    }
}

impl Running {
    fn start(
        cache: Arc<Cache>,
        namespaces: Namespaces,
        client: Arc<OpenSearchClient>,
        cancel: &CancellationToken,
    ) -> Self {
        let stop = cancel.child_token();
        let export =
            Export { cluster: cache.cluster.clone(), namespaces: namespaces.clone(), client, is_failing: false };
        let changes = cache.mirror.subscribe();
        let running = Self { cache, namespaces, stop: stop.clone() };
        tokio::spawn(async move {
            stop.run_until_cancelled(export.run(changes)).await;
        });
        running
    }
}

struct Export {
    cluster: String,
    namespaces: Namespaces,
    client: Arc<OpenSearchClient>,
    is_failing: bool,
}

impl Export {
    async fn run(mut self, mut changes: Subscription) {
        while let Some(first) = changes.next().await {
            let mut writes = Vec::new();
            let mut bytes = self.add(&first, &mut writes);
            let until = tokio::time::Instant::now() + COLLECT;
            while writes.len() < BATCH_MAX && bytes < BATCH_BYTES_MAX {
                match tokio::time::timeout_at(until, changes.next()).await {
                    Ok(Some(change)) => bytes += self.add(&change, &mut writes),
                    Ok(None) | Err(_) => break,
                }
            }
            self.deliver(writes).await;
        }
    }

    /// Adds the writes for a change and returns their size.
    fn add(&self, change: &Change, writes: &mut Vec<(DocumentWrite, String)>) -> usize {
        if !self.namespaces.contains(&change.key.namespace) {
            return 0;
        }
        let has_other_uid = |before: &&Arc<Object>| change.now.as_ref().is_none_or(|now| now.uid() != before.uid());
        let gone = change.before.as_ref().filter(has_other_uid).map(|before| DocumentWrite::delete(before));
        let now = change.now.as_ref().map(|now| DocumentWrite::put(now));
        let mut size = 0;
        for write in gone.into_iter().chain(now) {
            let mut lines = String::new();
            write.append_to(&mut lines);
            size += lines.len();
            writes.push((write, lines));
        }
        size
    }

    /// Sends until every document was written or refused. Changes that happen meanwhile wait in the subscription.
    async fn deliver(&mut self, mut writes: Vec<(DocumentWrite, String)>) {
        let mut pause = RETRY_FIRST;
        while !writes.is_empty() {
            match self.attempt(&mut writes).await {
                Ok(()) if writes.is_empty() => {}
                Ok(()) => tokio::time::sleep(pause).await,
                Err(problem) => {
                    if !std::mem::replace(&mut self.is_failing, true) {
                        tracing::warn!(cluster = self.cluster, problem, "cannot write to OpenSearch; will retry");
                    }
                    tokio::time::sleep(pause).await;
                }
            }
            pause = (pause * 2).min(RETRY_MAX);
        }
    }

    /// Leaves the writes that must be sent again.
    async fn attempt(&mut self, writes: &mut Vec<(DocumentWrite, String)>) -> Result<(), String> {
        let indices = writes.iter().map(|(write, _)| write.index.clone()).collect();
        let body = writes.iter().map(|(_, lines)| lines.as_str()).collect();
        let answer = self.client.bulk(indices, body).await?;
        let outcomes = outcomes(&answer, writes.len()).ok_or("the answer does not fit the bulk request")?;
        if std::mem::take(&mut self.is_failing) {
            tracing::info!(cluster = self.cluster, "writing to OpenSearch again");
        }
        let refused = outcomes.iter().find_map(|outcome| match outcome {
            WriteOutcome::Refused(status) => Some(*status),
            _ => None,
        });
        if let Some(status) = refused {
            tracing::warn!(cluster = self.cluster, status, "OpenSearch refused documents; they are not indexed");
        }
        let mut again = outcomes.into_iter().map(|outcome| outcome == WriteOutcome::Again);
        writes.retain(|_| again.next().unwrap_or(false));
        Ok(())
    }
}
