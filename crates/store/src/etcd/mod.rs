//! The engine for several servers on one etcd cluster (v3.5 or later): they see each other's writes through watches.

mod client;
mod guarded;
mod keys;
mod messages;
pub(crate) mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tonic::Code;

use crate::error::{Error, Result};
use crate::etcd::client::{Client, Failure, is_compacted, is_future};
use crate::etcd::guarded::{Change, Epoch, Guarded, GuardedResult};
use crate::etcd::keys::Keys;
use crate::kv::{KeyValue, LeaseId, RangeEnd, RangeRequest, RangeResult, Revision};
use crate::{Store, WatchStream};

/// Keys fetched by one call; larger ranges are paged at one revision.
const PAGE_KEYS: usize = 5000;
/// Attempts of an unguarded delete that conflicts with other writers.
const DELETE_ATTEMPTS_MAX: usize = 16;
/// The oldest etcd whose watches report progress reliably.
const VERSION_MIN: (u32, u32) = (3, 5);

#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// Such as `https://10.0.0.1:2379`; tried in turn.
    pub endpoints: Vec<String>,
    /// Prepended to every key in etcd.
    pub prefix: String,
    pub tls: Option<Tls>,
    /// Timeout of one call, over all endpoints.
    pub timeout: Duration,
}

#[derive(Clone)]
pub struct Tls {
    pub ca_pem: Vec<u8>,
    /// Client certificate and key.
    pub identity_pem: Option<(Vec<u8>, Vec<u8>)>,
}

impl std::fmt::Debug for Tls {
    /// Omits the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("identity", &self.identity_pem.is_some()).finish_non_exhaustive()
    }
}

impl EtcdOptions {
    pub fn new(endpoints: impl IntoIterator<Item = impl Into<String>>) -> Self {
        EtcdOptions {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            prefix: "/registry".into(),
            tls: None,
            timeout: Duration::from_secs(8),
        }
    }
}

pub struct Etcd {
    client: Arc<Client>,
    keys: Arc<Keys>,
    epoch: Epoch,
    /// The newest known compaction.
    compacted: AtomicU64,
    closed: tokio::sync::watch::Sender<bool>,
}

impl Etcd {
    /// Connects and checks that the cluster responds and is recent enough.
    pub async fn connect(options: &EtcdOptions) -> Result<Etcd> {
        let client = Client::new(options)?;
        let status = client.status().await.map_err(Failure::into_error)?;
        let mut parts = status.version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        if (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) < VERSION_MIN {
            let (major, minor) = VERSION_MIN;
            return Err(Error::Invalid(format!("etcd {} is too old: {major}.{minor} is needed", status.version)));
        }
        let keys = Arc::new(Keys::new(&options.prefix));
        Ok(Etcd {
            client: Arc::new(client),
            epoch: Epoch::new(keys.epoch()),
            keys,
            compacted: AtomicU64::new(0),
            closed: tokio::sync::watch::Sender::new(false),
        })
    }

    fn open(&self) -> Result<()> {
        if *self.closed.borrow() { Err(Error::Closed) } else { Ok(()) }
    }

    async fn page(&self, request: messages::RangeRequest) -> Result<messages::RangeResponse, Failure> {
        self.client.read("/etcdserverpb.KV/Range", request).await
    }

    /// The error of a read at a revision, with the revisions that etcd omits.
    async fn explain(&self, failure: Failure, requested: Revision) -> Error {
        match failure {
            Failure::Answered(status) if is_compacted(&status) => {
                Error::Compacted { requested, compacted: self.compacted().await }
            }
            Failure::Answered(status) if is_future(&status) => {
                Error::FutureRevision { requested, current: self.revision().await.unwrap_or(0) }
            }
            failure => failure.into_error(),
        }
    }

    async fn guarded(&self, key: &str, expected: Revision, change: Change) -> Result<GuardedResult> {
        self.open()?;
        let (client, epoch, key) = (&*self.client, &self.epoch, self.keys.key(key)?);
        Guarded { client, key, expected: expected as i64, change, epoch }.run().await
    }

    fn lease_error(lease: LeaseId) -> impl Fn(Failure) -> Error {
        move |failure| match failure {
            Failure::Answered(status) if status.code() == Code::NotFound => Error::LeaseNotFound(lease),
            failure => failure.into_error(),
        }
    }

    /// Starts a watch from the beginning; etcd rejects it with the compacted revision.
    async fn ask_compacted(&self) -> Option<Revision> {
        let create = messages::WatchCreateRequest {
            key: Bytes::from_static(&[0]),
            start_revision: 1,
            ..messages::WatchCreateRequest::default()
        };
        let create = messages::WatchRequest { request: Some(messages::WatchOrder::Create(create)) };
        // The request stream stays open: closing it would end the watch.
        let orders = futures::stream::StreamExt::chain(
            futures::stream::iter([create]),
            futures::stream::pending::<messages::WatchRequest>(),
        );
        let ask = async {
            let path = "/etcdserverpb.Watch/Watch";
            let (_, mut responses) = self.client.stream::<_, messages::WatchResponse>(path, orders).await.ok()?;
            while let Some(response) = responses.message().await.ok()? {
                if response.compact_revision > 0 {
                    return Some(response.compact_revision as u64);
                }
            }
            None
        };
        // Without a compaction there is no rejection to wait for.
        tokio::time::timeout(Duration::from_millis(500), ask).await.ok().flatten()
    }
}

#[async_trait]
impl Store for Etcd {
    async fn get(&self, key: &str) -> Result<(Option<KeyValue>, Revision)> {
        let request = RangeRequest { start: key, end: RangeEnd::Key, limit: 1, revision: None };
        let found = self.range(request).await?;
        Ok((found.kvs.into_iter().next(), found.revision))
    }

    async fn range(&self, request: RangeRequest<'_>) -> Result<RangeResult> {
        self.open()?;
        let (mut key, range_end) = self.keys.range(request.start, &request.end)?;
        let limit = if request.limit == 0 { usize::MAX } else { request.limit };
        let mut result = RangeResult::default();
        let mut at = request.revision.unwrap_or(0);
        // etcd reads 0 as the latest, the store as older than anything.
        if request.revision == Some(0) {
            return Err(Error::Compacted { requested: 0, compacted: self.compacted().await });
        }
        loop {
            let wanted = (limit - result.kvs.len()).min(PAGE_KEYS);
            let page = messages::RangeRequest {
                key: key.clone(),
                range_end: range_end.clone(),
                limit: wanted as i64,
                revision: at as i64,
                count_only: false,
            };
            let page = match self.page(page).await {
                Ok(page) => page,
                Err(failure) => return Err(self.explain(failure, at).await),
            };
            let header = page.header.map_or(0, |header| header.revision as u64);
            if result.revision == 0 {
                result.revision = header;
                at = request.revision.unwrap_or(header);
            }
            result.remaining = (page.count as u64).saturating_sub(page.kvs.len() as u64);
            let last = page.kvs.last().map(|kv| kv.key.clone());
            result.kvs.extend(page.kvs.into_iter().filter_map(|kv| self.keys.kv(kv)));
            match last {
                Some(last) if page.more && result.kvs.len() < limit => key = [&last[..], &[0]].concat().into(),
                _ => break,
            }
        }
        result.more = result.remaining > 0;
        Ok(result)
    }

    async fn count(&self, prefix: &str) -> Result<u64> {
        self.open()?;
        let (key, range_end) = self.keys.prefix(prefix)?;
        let request = messages::RangeRequest { key, range_end, count_only: true, ..messages::RangeRequest::default() };
        Ok(self.page(request).await.map_err(Failure::into_error)?.count as u64)
    }

    async fn create(&self, key: &str, value: Bytes, lease: Option<LeaseId>) -> Result<Revision> {
        match self.guarded(key, 0, Change::Put { value, lease: lease.unwrap_or(0) }).await? {
            GuardedResult::Done { revision, .. } => Ok(revision as u64),
            GuardedResult::Refused(current) => match current.and_then(|current| self.keys.kv(current)) {
                Some(current) => Err(Error::Exists { current }),
                None => Err(Error::Unavailable("etcd: refused to create a key it says does not exist".into())),
            },
        }
    }

    async fn update(&self, key: &str, value: Bytes, expected: Revision, lease: Option<LeaseId>) -> Result<Revision> {
        if expected == 0 {
            // To etcd this would be a create.
            return Err(Error::Conflict { current: self.get(key).await?.0 });
        }
        match self.guarded(key, expected, Change::Put { value, lease: lease.unwrap_or(0) }).await? {
            GuardedResult::Done { revision, .. } => Ok(revision as u64),
            GuardedResult::Refused(current) => {
                Err(Error::Conflict { current: current.and_then(|current| self.keys.kv(current)) })
            }
        }
    }

    async fn delete(&self, key: &str, expected: Option<Revision>) -> Result<(Revision, KeyValue)> {
        let mut conflict = None;
        for _ in 0..DELETE_ATTEMPTS_MAX {
            let guard = match expected {
                Some(0) | None => match self.get(key).await?.0 {
                    None => return Err(Error::NotFound),
                    Some(current) if expected.is_some() => return Err(Error::Conflict { current: Some(current) }),
                    Some(current) => current.mod_revision,
                },
                Some(expected) => expected,
            };
            let current = match self.guarded(key, guard, Change::Delete).await? {
                GuardedResult::Done { revision, prev } => {
                    let prev = prev.and_then(|prev| self.keys.kv(prev)).ok_or(Error::NotFound)?;
                    return Ok((revision as u64, prev));
                }
                GuardedResult::Refused(None) => return Err(Error::NotFound),
                GuardedResult::Refused(Some(current)) => self.keys.kv(current),
            };
            if expected.is_some() {
                return Err(Error::Conflict { current });
            }
            conflict = current;
        }
        Err(Error::Conflict { current: conflict })
    }

    async fn watch(&self, prefix: &str, from: Revision) -> Result<WatchStream> {
        self.open()?;
        // etcd reports a compacted start only some time after the watch has begun; a read at that revision fails at
        // once.
        let probe = messages::RangeRequest {
            key: self.keys.key("/")?,
            revision: from.max(1) as i64,
            count_only: true,
            ..messages::RangeRequest::default()
        };
        match self.page(probe).await {
            Ok(_) => {}
            Err(Failure::Answered(status)) if is_future(&status) => {}
            Err(failure) => return Err(self.explain(failure, from).await),
        }
        let closed = self.closed.subscribe();
        let watch = watch::start(self.client.clone(), self.keys.clone(), prefix, from.max(1), closed).await?;
        Ok(WatchStream::remote(watch))
    }

    async fn compact(&self, revision: Revision) -> Result<()> {
        self.open()?;
        let request = messages::CompactionRequest { revision: revision as i64 };
        let done: Result<messages::CompactionResponse, _> = self.client.read("/etcdserverpb.KV/Compact", request).await;
        match done {
            Ok(_) => {
                self.compacted.fetch_max(revision, Ordering::AcqRel);
                Ok(())
            }
            Err(failure) => Err(self.explain(failure, revision).await),
        }
    }

    async fn revision(&self) -> Result<Revision> {
        self.open()?;
        let request = messages::RangeRequest { key: self.keys.key("/")?, count_only: true, ..Default::default() };
        let found = self.page(request).await.map_err(Failure::into_error)?;
        found.header.map(|header| header.revision as u64).ok_or_else(|| Error::Unavailable("etcd: no revision".into()))
    }

    async fn compacted(&self) -> Revision {
        match self.ask_compacted().await {
            Some(compacted) => self.compacted.fetch_max(compacted, Ordering::AcqRel).max(compacted),
            None => self.compacted.load(Ordering::Acquire),
        }
    }

    async fn grant(&self, ttl_seconds: i64) -> Result<LeaseId> {
        self.open()?;
        if ttl_seconds < 1 {
            return Err(Error::Invalid(format!("a lease of {ttl_seconds} seconds")));
        }
        // A retry may leave a lease without keys behind, which expires.
        let request = messages::LeaseGrantRequest { ttl: ttl_seconds, id: 0 };
        let granted: messages::LeaseGrantResponse =
            self.client.read("/etcdserverpb.Lease/LeaseGrant", request).await.map_err(Failure::into_error)?;
        Ok(granted.id)
    }

    async fn keep_alive(&self, lease: LeaseId) -> Result<()> {
        self.open()?;
        let once = futures::stream::iter([messages::LeaseKeepAliveRequest { id: lease }]);
        let kept = async {
            let path = "/etcdserverpb.Lease/LeaseKeepAlive";
            let (_, mut answers) = self.client.stream::<_, messages::LeaseKeepAliveResponse>(path, once).await?;
            answers.message().await.map_err(client::classify)
        };
        match kept.await.map_err(Self::lease_error(lease))? {
            Some(kept) if kept.ttl > 0 => Ok(()),
            Some(_) => Err(Error::LeaseNotFound(lease)),
            None => Err(Error::Unavailable("etcd: no answer to a keep-alive".into())),
        }
    }

    async fn revoke(&self, lease: LeaseId) -> Result<()> {
        self.open()?;
        let request = messages::LeaseRevokeRequest { id: lease };
        let revoked: Result<messages::LeaseRevokeResponse, _> =
            self.client.read("/etcdserverpb.Lease/LeaseRevoke", request).await;
        revoked.map(drop).map_err(Self::lease_error(lease))
    }

    async fn lease_ttl(&self, lease: LeaseId) -> Result<i64> {
        self.open()?;
        let request = messages::LeaseTimeToLiveRequest { id: lease };
        let found: messages::LeaseTimeToLiveResponse =
            self.client.read("/etcdserverpb.Lease/LeaseTimeToLive", request).await.map_err(Self::lease_error(lease))?;
        // etcd reports a negative TTL for an expired lease.
        if found.ttl < 0 || found.granted_ttl <= 0 { Err(Error::LeaseNotFound(lease)) } else { Ok(found.granted_ttl) }
    }

    async fn health(&self) -> Result<()> {
        // A linearizable read proves a quorum; alarms reveal a full database.
        self.revision().await?;
        let status = self.client.status().await.map_err(Failure::into_error)?;
        match status.errors.iter().find(|error| error.contains("NOSPACE")) {
            Some(error) => Err(Error::NoSpace(format!("etcd: {error}"))),
            None => Ok(()),
        }
    }

    fn engine(&self) -> &'static str {
        "etcd"
    }

    async fn size_bytes(&self) -> Result<u64> {
        self.open()?;
        Ok(self.client.status().await.map_err(Failure::into_error)?.db_size as u64)
    }

    async fn close(&self) {
        self.closed.send_replace(true);
    }
}
