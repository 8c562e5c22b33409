//! Guarded writes on etcd, and resolving writes that were not answered.
//!
//! An unanswered transaction may have happened, or may still happen. Its guard helps: once the key has a newer
//! version than the guard names, the transaction can no longer take effect, and the history of the key shows whether
//! it did.
//!
//! A missing key can be created and deleted again, and then the guard of a lost create would hold once more. So
//! creates have a second guard: the epoch, a key whose version all writers know. A writer that loses a create
//! advances the epoch; after that the lost create can no longer take effect and can be retried.

use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::etcd::client::{Client, Failure, answered};
use crate::etcd::messages::{
    Compare, CompareTarget, CompareValue, DeleteRangeRequest, KeyValue, Operation, PutRequest, PutResponse,
    RangeRequest, RangeResponse, RequestOp, ResponseVariant, TxnRequest, TxnResponse,
};

/// Versions of a key searched for our own write.
const HISTORY_MAX: usize = 32;
/// Attempts of a transaction that is known not to have happened yet.
const ATTEMPTS_MAX: usize = 5;

/// The result of a guarded transaction.
pub(crate) enum GuardedResult {
    Done {
        revision: i64,
        prev: Option<KeyValue>,
    },
    /// The guard failed; the current value, if any.
    Refused(Option<KeyValue>),
}

pub(crate) enum Change {
    Put { value: Bytes, lease: i64 },
    Delete,
}

/// A write of `key` on condition that it was last modified at `expected`, where 0 means that it does not exist.
pub(crate) struct Guarded<'a> {
    pub client: &'a Client,
    pub key: Bytes,
    pub expected: i64,
    pub change: Change,
    pub epoch: &'a Epoch,
}

/// The second guard of creates, in addition to their own key.
pub(crate) struct Epoch {
    key: Bytes,
    /// The version known to this writer; others may have advanced it.
    version: AtomicI64,
}

impl Epoch {
    pub fn new(key: Bytes) -> Self {
        // Assumes that the epoch was never advanced, so its key does not exist.
        Epoch { key, version: AtomicI64::new(0) }
    }

    fn guard(&self) -> Compare {
        let version = CompareValue::ModRevision(self.version.load(Ordering::Acquire));
        Compare { result: 0, target: CompareTarget::Mod as i32, key: self.key.clone(), value: Some(version) }
    }

    fn look(&self) -> RequestOp {
        let look = RangeRequest { key: self.key.clone(), ..RangeRequest::default() };
        RequestOp { request: Some(Operation::Range(look)) }
    }

    /// From now on no earlier create takes effect. Advancing it twice is harmless.
    async fn move_on(&self, client: &Client) -> Result<(), Failure> {
        let put = PutRequest { key: self.key.clone(), value: Bytes::from_static(b"moved on"), lease: 0 };
        let moved: PutResponse = client.read("/etcdserverpb.KV/Put", put).await?;
        self.learn(moved.header.map_or(0, |header| header.revision));
        Ok(())
    }

    fn learn(&self, version: i64) {
        self.version.fetch_max(version, Ordering::AcqRel);
    }
}

fn unknown(reason: &str, why: &str) -> Error {
    Error::Unknown(format!("etcd: {reason}; {why}"))
}

impl Guarded<'_> {
    pub async fn run(&self) -> Result<GuardedResult> {
        let mut unanswered: Option<String> = None;
        for _ in 0..ATTEMPTS_MAX {
            let response = match (self.transact().await, unanswered.as_deref()) {
                (Ok(response), _) => response,
                (Err(Failure::Ambiguous(reason)), _) => {
                    tracing::debug!(
                        reason,
                        "etcd did not answer a write; reading the key to learn whether it took effect"
                    );
                    if self.expected == 0 {
                        let moved = self.epoch.move_on(self.client).await;
                        moved.map_err(|_| unknown(&reason, "and it cannot be ruled out that it takes effect later"))?;
                    }
                    let current = self.look(0).await.map_err(|_| unknown(&reason, "and the key cannot be read"))?;
                    if let Some(outcome) = self.settle(&reason, current).await? {
                        return Ok(outcome);
                    }
                    // A create can no longer happen; any other write still may.
                    unanswered = (self.expected != 0).then_some(reason);
                    continue;
                }
                // The result of this attempt proves nothing about the previous one.
                (Err(_), Some(reason)) => return Err(unknown(reason, "and it cannot be tried again")),
                (Err(Failure::Answered(status)), None) => return Err(self.refusal(&status)),
                (Err(Failure::Unsent(reason)), None) => return Err(Error::Unavailable(format!("etcd: {reason}"))),
            };
            let outcome = match self.outcome(response)? {
                // Only the epoch guard failed, and its version is known now.
                GuardedResult::Refused(None) if self.expected == 0 => continue,
                outcome => outcome,
            };
            return match (outcome, unanswered) {
                // The previous attempt may be the write that makes this one fail.
                (GuardedResult::Refused(current), Some(reason)) => self
                    .settle(&reason, current)
                    .await?
                    .ok_or_else(|| unknown(&reason, "and etcd refused a guard that holds")),
                (outcome, _) => Ok(outcome),
            };
        }
        Err(Error::Unknown(format!("etcd did not answer {ATTEMPTS_MAX} times")))
    }

    async fn transact(&self) -> Result<TxnResponse, Failure> {
        let (target, value) = match self.expected {
            0 => (CompareTarget::Create, CompareValue::CreateRevision(0)),
            expected => (CompareTarget::Mod, CompareValue::ModRevision(expected)),
        };
        let change = match &self.change {
            Change::Put { value, lease } => {
                Operation::Put(PutRequest { key: self.key.clone(), value: value.clone(), lease: *lease })
            }
            Change::Delete => Operation::DeleteRange(DeleteRangeRequest {
                key: self.key.clone(),
                prev_kv: true,
                ..DeleteRangeRequest::default()
            }),
        };
        let look = Operation::Range(RangeRequest { key: self.key.clone(), ..RangeRequest::default() });
        let mut transaction = TxnRequest {
            compare: vec![Compare { result: 0, target: target as i32, key: self.key.clone(), value: Some(value) }],
            success: vec![RequestOp { request: Some(change) }],
            failure: vec![RequestOp { request: Some(look) }],
        };
        if self.expected == 0 {
            transaction.compare.push(self.epoch.guard());
            transaction.failure.push(self.epoch.look());
        }
        self.client.write("/etcdserverpb.KV/Txn", transaction).await
    }

    fn outcome(&self, response: TxnResponse) -> Result<GuardedResult> {
        let revision = response.header.map_or(0, |header| header.revision);
        let mut answers = response.responses.into_iter().filter_map(|response| response.response);
        let answer = answers.next();
        if let Some(ResponseVariant::Range(epoch)) = answers.next() {
            self.epoch.learn(epoch.kvs.first().map_or(0, |kv| kv.mod_revision));
        }
        match answer {
            Some(ResponseVariant::Put(_)) if response.succeeded => Ok(GuardedResult::Done { revision, prev: None }),
            Some(ResponseVariant::DeleteRange(deleted)) if response.succeeded => {
                Ok(GuardedResult::Done { revision, prev: deleted.prev_kvs.into_iter().next() })
            }
            Some(ResponseVariant::Range(found)) if !response.succeeded => {
                Ok(GuardedResult::Refused(found.kvs.into_iter().next()))
            }
            other => Err(Error::Unknown(format!("etcd answered a transaction with something else: {other:?}"))),
        }
    }

    fn refusal(&self, status: &tonic::Status) -> Error {
        match (&self.change, status.code()) {
            (Change::Put { lease, .. }, tonic::Code::NotFound) => Error::LeaseNotFound(*lease),
            _ => answered(status),
        }
    }

    /// Resolves an unanswered transaction; `None` if it has not happened and can be retried.
    async fn settle(&self, reason: &str, current: Option<KeyValue>) -> Result<Option<GuardedResult>> {
        let unknown = |why: &str| unknown(reason, why);
        let Some(current) = current else {
            return match (&self.change, self.expected) {
                // The epoch has advanced, so it has not happened and will not.
                (_, 0) => Ok(None),
                (Change::Delete, _) => self.settle_delete(&unknown).await.map(Some),
                (Change::Put { .. }, _) => Err(unknown("the key does not exist now")),
            };
        };
        if self.expected == 0 {
            return self.settle_create(current, &unknown).await.map(Some);
        }
        if current.mod_revision == self.expected {
            // A retry is safe: only one of the two can pass the guard.
            return Ok(None);
        }
        if current.create_revision > self.expected {
            return Err(unknown("the key was deleted and created again meanwhile"));
        }
        let Change::Put { value, .. } = &self.change else {
            // The key survived: the delete did not happen, and its guard no longer holds.
            return Ok(Some(GuardedResult::Refused(Some(current))));
        };
        let mut next = current.clone();
        for _ in 0..HISTORY_MAX {
            let before = self.look(next.mod_revision - 1).await.map_err(|_| unknown("and its history is gone"))?;
            match before {
                Some(before) if before.mod_revision > self.expected => next = before,
                Some(_) if next.value == *value => {
                    return Ok(Some(GuardedResult::Done { revision: next.mod_revision, prev: None }));
                }
                Some(_) => return Ok(Some(GuardedResult::Refused(Some(current)))),
                None => break,
            }
        }
        Err(unknown("and its history is too long to search"))
    }

    /// Deleted by this write or concurrently by another: the key is gone, as requested.
    async fn settle_delete(&self, unknown: &impl Fn(&str) -> Error) -> Result<GuardedResult> {
        let before = self.read(self.expected).await.map_err(|_| unknown("and its history is gone"))?;
        let revision = before.header.map_or(0, |header| header.revision);
        Ok(GuardedResult::Done { revision, prev: before.kvs.into_iter().next() })
    }

    async fn settle_create(&self, current: KeyValue, unknown: &impl Fn(&str) -> Error) -> Result<GuardedResult> {
        let Change::Put { value, .. } = &self.change else { return Ok(GuardedResult::Refused(Some(current))) };
        let first = match current.mod_revision == current.create_revision {
            true => Some(current.clone()),
            false => self.look(current.create_revision).await.map_err(|_| unknown("and its history is gone"))?,
        };
        match first {
            // Objects differ at least in their uid, so equal bytes are the same write.
            Some(first) if first.value == *value => {
                Ok(GuardedResult::Done { revision: first.mod_revision, prev: None })
            }
            _ => Ok(GuardedResult::Refused(Some(current))),
        }
    }

    /// The key at a revision, 0 for the latest.
    async fn look(&self, revision: i64) -> Result<Option<KeyValue>, Failure> {
        Ok(self.read(revision).await?.kvs.into_iter().next())
    }

    async fn read(&self, revision: i64) -> Result<RangeResponse, Failure> {
        let request = RangeRequest { key: self.key.clone(), revision, ..RangeRequest::default() };
        self.client.read("/etcdserverpb.KV/Range", request).await
    }
}
