//! Guarded writes on etcd, and finding out what became of one that was never answered.
//!
//! An unanswered transaction may have happened, and may yet happen. Its guard helps: once the key has moved on from the
//! version the guard names, the transaction can no longer take effect, and the history of the key shows whether it did.
//!
//! A key that does not exist may be created and deleted, and the guard of a lost create would hold once more. So creates have a
//! second guard: the epoch, a key of which all writers know the version. Who loses a create moves the epoch on; after that
//! the lost one can no longer take effect, and may be tried again.

use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::etcd::client::{Client, Failure, answered};
use crate::etcd::messages::{
    Answer, Compare, CompareTarget, CompareValue, DeleteRangeRequest, KeyValue, Operation, PutRequest, PutResponse,
    RangeRequest, RangeResponse, RequestOp, TxnRequest, TxnResponse,
};

/// Versions of a key looked through to find out whether one of them is ours.
const HISTORY_MAX: usize = 32;
/// Tries of a transaction that is known not to have happened yet.
const ATTEMPTS_MAX: usize = 5;

/// What a transaction with a guard came to.
pub(crate) enum Outcome {
    Done {
        revision: i64,
        prev: Option<KeyValue>,
    },
    /// The guard did not hold; what is there instead.
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

/// What creates are guarded by beside their own key.
pub(crate) struct Epoch {
    key: Bytes,
    /// The version of the key that this writer knows of; others may have moved it on.
    version: AtomicI64,
}

impl Epoch {
    pub fn new(key: Bytes) -> Self {
        // Nobody has moved it yet, for all we know: then the key does not exist.
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

    /// From now on no create that was sent before takes effect. It does no harm to move it twice.
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
    pub async fn run(&self) -> Result<Outcome> {
        let mut unanswered: Option<String> = None;
        for _ in 0..ATTEMPTS_MAX {
            let response = match (self.transact().await, unanswered.as_deref()) {
                (Ok(response), _) => response,
                (Err(Failure::Ambiguous(reason)), _) => {
                    tracing::debug!(reason, "a write on etcd was not answered; reading to find out what became of it");
                    if self.expected == 0 {
                        let moved = self.epoch.move_on(self.client).await;
                        moved.map_err(|_| unknown(&reason, "and it cannot be ruled out that it takes effect later"))?;
                    }
                    let current = self.look(0).await.map_err(|_| unknown(&reason, "and the key cannot be read"))?;
                    if let Some(outcome) = self.settle(&reason, current).await? {
                        return Ok(outcome);
                    }
                    // A create can no longer happen; anything else still may.
                    unanswered = (self.expected != 0).then_some(reason);
                    continue;
                }
                // What is true of this try need not be true of the one before.
                (Err(_), Some(reason)) => return Err(unknown(reason, "and it cannot be tried again")),
                (Err(Failure::Answered(status)), None) => return Err(self.refusal(&status)),
                (Err(Failure::Unsent(reason)), None) => return Err(Error::Unavailable(format!("etcd: {reason}"))),
            };
            let outcome = match self.outcome(response)? {
                // Only the epoch stood in the way, and its version is known now.
                Outcome::Refused(None) if self.expected == 0 => continue,
                outcome => outcome,
            };
            return match (outcome, unanswered) {
                // The try before may be the very thing that stands in the way of this one.
                (Outcome::Refused(current), Some(reason)) => self
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

    fn outcome(&self, response: TxnResponse) -> Result<Outcome> {
        let revision = response.header.map_or(0, |header| header.revision);
        let mut answers = response.responses.into_iter().filter_map(|response| response.response);
        let answer = answers.next();
        if let Some(Answer::Range(epoch)) = answers.next() {
            self.epoch.learn(epoch.kvs.first().map_or(0, |kv| kv.mod_revision));
        }
        match answer {
            Some(Answer::Put(_)) if response.succeeded => Ok(Outcome::Done { revision, prev: None }),
            Some(Answer::DeleteRange(deleted)) if response.succeeded => {
                Ok(Outcome::Done { revision, prev: deleted.prev_kvs.into_iter().next() })
            }
            Some(Answer::Range(found)) if !response.succeeded => Ok(Outcome::Refused(found.kvs.into_iter().next())),
            other => Err(Error::Unknown(format!("etcd answered a transaction with something else: {other:?}"))),
        }
    }

    fn refusal(&self, status: &tonic::Status) -> Error {
        match (&self.change, status.code()) {
            (Change::Put { lease, .. }, tonic::Code::NotFound) => Error::LeaseNotFound(*lease),
            _ => answered(status),
        }
    }

    /// What became of an unanswered transaction; `None` when it has not happened and may be tried again.
    async fn settle(&self, reason: &str, current: Option<KeyValue>) -> Result<Option<Outcome>> {
        let unknown = |why: &str| unknown(reason, why);
        let Some(current) = current else {
            return match (&self.change, self.expected) {
                // The epoch has moved on, so it has not happened and will not.
                (_, 0) => Ok(None),
                (Change::Delete, _) => self.settle_delete(&unknown).await.map(Some),
                (Change::Put { .. }, _) => Err(unknown("the key does not exist now")),
            };
        };
        if self.expected == 0 {
            return self.settle_create(current, &unknown).await.map(Some);
        }
        if current.mod_revision == self.expected {
            // Trying again is safe: only one of the two can find the guard fulfilled.
            return Ok(None);
        }
        if current.create_revision > self.expected {
            return Err(unknown("the key was deleted and created anew meanwhile"));
        }
        let Change::Put { value, .. } = &self.change else {
            // It lived through: the delete did not happen, and its guard no longer holds.
            return Ok(Some(Outcome::Refused(Some(current))));
        };
        let mut next = current.clone();
        for _ in 0..HISTORY_MAX {
            let before = self.look(next.mod_revision - 1).await.map_err(|_| unknown("and its history is gone"))?;
            match before {
                Some(before) if before.mod_revision > self.expected => next = before,
                Some(_) if next.value == *value => {
                    return Ok(Some(Outcome::Done { revision: next.mod_revision, prev: None }));
                }
                Some(_) => return Ok(Some(Outcome::Refused(Some(current)))),
                None => break,
            }
        }
        Err(unknown("and its history is too long to tell"))
    }

    /// Deleted by this write or by another at the same time: it is gone, which is what was asked for.
    async fn settle_delete(&self, unknown: &impl Fn(&str) -> Error) -> Result<Outcome> {
        let before = self.read(self.expected).await.map_err(|_| unknown("and its history is gone"))?;
        let revision = before.header.map_or(0, |header| header.revision);
        Ok(Outcome::Done { revision, prev: before.kvs.into_iter().next() })
    }

    async fn settle_create(&self, current: KeyValue, unknown: &impl Fn(&str) -> Error) -> Result<Outcome> {
        let Change::Put { value, .. } = &self.change else { return Ok(Outcome::Refused(Some(current))) };
        let first = match current.mod_revision == current.create_revision {
            true => Some(current.clone()),
            false => self.look(current.create_revision).await.map_err(|_| unknown("and its history is gone"))?,
        };
        match first {
            // Objects differ at least in their uid, so equal bytes are the same write.
            Some(first) if first.value == *value => Ok(Outcome::Done { revision: first.mod_revision, prev: None }),
            _ => Ok(Outcome::Refused(Some(current))),
        }
    }

    /// The key at a revision, 0 for now.
    async fn look(&self, revision: i64) -> Result<Option<KeyValue>, Failure> {
        Ok(self.read(revision).await?.kvs.into_iter().next())
    }

    async fn read(&self, revision: i64) -> Result<RangeResponse, Failure> {
        let request = RangeRequest { key: self.key.clone(), revision, ..RangeRequest::default() };
        self.client.read("/etcdserverpb.KV/Range", request).await
    }
}
