//! Decides a batch of requests against memory before any of it is written, so that every result is definite.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::error::{Error, Result};
use crate::kv::{KeyValue, LeaseId, Revision};
use crate::local::Local;
use crate::local::chain::Version;
use crate::local::change::Write;
use crate::local::lease::{Lease, Leases};
use crate::quota::Quota;

/// A request to the writer thread.
pub(crate) enum Request {
    Write {
        write: Write,
        reply: oneshot::Sender<Result<Written>>,
    },
    Grant {
        ttl_seconds: i64,
        reply: oneshot::Sender<Result<LeaseId>>,
    },
    Revoke {
        lease: LeaseId,
        reply: oneshot::Sender<Result<()>>,
    },
    Compact {
        revision: Revision,
        reply: oneshot::Sender<Result<()>>,
    },
    /// Begin a transaction for the writes that wait for one.
    Flush,
    /// Remove unreadable rows, and probe whether the disk accepts writes again.
    Sweep,
    /// Remove unreadable rows and rewrite the files, so that no byte of them remains.
    Scrub {
        reply: oneshot::Sender<Result<()>>,
    },
    Close,
}

impl Request {
    pub fn bytes(&self) -> usize {
        match self {
            Request::Write { write: Write::Create { key, value, .. } | Write::Update { key, value, .. }, .. } => {
                key.len() + value.len()
            }
            _ => 0,
        }
    }
}

pub(crate) type Written = (Revision, Option<KeyValue>);

/// A reply held back until the transaction is on disk. A refusal waits too: it may depend on a write of the same
/// batch.
pub(crate) enum Reply {
    Write(oneshot::Sender<Result<Written>>, Result<Written>),
    Grant(oneshot::Sender<Result<LeaseId>>, Lease),
    Done(oneshot::Sender<Result<()>>, Result<()>),
}

impl Reply {
    /// The caller may be gone; the write still counts.
    pub fn send(self) {
        match self {
            Reply::Write(reply, result) => drop(reply.send(result)),
            Reply::Grant(reply, lease) => drop(reply.send(Ok(lease.id))),
            Reply::Done(reply, result) => drop(reply.send(result)),
        }
    }

    pub fn fail(self, error: &Error) {
        match self {
            Reply::Write(reply, _) => drop(reply.send(Err(error.clone()))),
            Reply::Grant(reply, _) => drop(reply.send(Err(error.clone()))),
            Reply::Done(reply, _) => drop(reply.send(Err(error.clone()))),
        }
    }
}

/// The changes of one transaction.
pub(crate) struct Batch {
    pub versions: Vec<(Arc<str>, Version)>,
    pub granted: Vec<Lease>,
    pub revoked: Vec<Lease>,
    pub compact: Option<Revision>,
    pub sweep: bool,
    pub scrubs: Vec<oneshot::Sender<Result<()>>>,
    pub close: bool,
    pub answers: Vec<Reply>,
    pub revision: Revision,
    pub bytes: usize,
    /// The size limit, with the writes of this batch.
    quota: Option<Quota>,
    /// Keys as of the end of this batch.
    pending: HashMap<Arc<str>, Option<KeyValue>>,
}

impl Batch {
    pub fn plan(
        requests: impl Iterator<Item = Request>,
        local: &Local,
        leases: &Leases,
        quota: Option<Quota>,
    ) -> Batch {
        let mut batch = Batch {
            versions: Vec::new(),
            granted: Vec::new(),
            revoked: Vec::new(),
            compact: None,
            sweep: false,
            scrubs: Vec::new(),
            close: false,
            answers: Vec::new(),
            revision: local.revision(),
            bytes: 0,
            quota,
            pending: HashMap::new(),
        };
        for request in requests {
            batch.add(request, local, leases);
        }
        batch
    }

    /// Reports whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.versions.is_empty()
            && self.granted.is_empty()
            && self.revoked.is_empty()
            && self.compact.is_none()
            && !self.sweep
    }

    fn add(&mut self, request: Request, local: &Local, leases: &Leases) {
        self.bytes += request.bytes();
        match request {
            Request::Write { write, reply } => {
                let result = self.write(&write, local, leases);
                self.answers.push(Reply::Write(reply, result));
            }
            Request::Grant { ttl_seconds, reply } => match self.grant(ttl_seconds, leases) {
                Ok(lease) => {
                    self.granted.push(lease);
                    self.answers.push(Reply::Grant(reply, lease));
                }
                Err(error) => drop(reply.send(Err(error))),
            },
            Request::Revoke { lease, reply } => {
                let result = self.revoke(lease, local, leases);
                self.answers.push(Reply::Done(reply, result));
            }
            Request::Compact { revision, reply } => {
                let result = self.compact(revision, local);
                self.answers.push(Reply::Done(reply, result));
            }
            Request::Flush => {}
            Request::Sweep => self.sweep = true,
            Request::Scrub { reply } => self.scrubs.push(reply),
            Request::Close => self.close = true,
        }
    }

    fn current(&self, key: &str, local: &Local) -> Option<KeyValue> {
        match self.pending.get(key) {
            Some(pending) => pending.clone(),
            None => local.get(key).0,
        }
    }

    fn write(&mut self, write: &Write, local: &Local, leases: &Leases) -> Result<Written> {
        if let Some(lease) = write.lease()
            && (!leases.contains(lease) || self.revoked.iter().any(|revoked| revoked.id == lease))
        {
            return Err(Error::LeaseNotFound(lease));
        }
        let current = self.current(write.key(), local);
        let version = write.decide(current.as_ref(), self.revision + 1)?;
        if let Some(quota) = &mut self.quota {
            quota.admit(write, current.as_ref())?;
        }
        self.revision += 1;
        self.pending.insert(write.key().clone(), version.to_kv(write.key()));
        self.versions.push((write.key().clone(), version));
        Ok((self.revision, current))
    }

    fn grant(&mut self, ttl_seconds: i64, leases: &Leases) -> Result<Lease> {
        if let Some(quota) = &mut self.quota {
            quota.admit_lease()?;
        }
        leases.prepare(ttl_seconds)
    }

    fn revoke(&mut self, id: LeaseId, local: &Local, leases: &Leases) -> Result<()> {
        let lease = leases.find(id).filter(|lease| !self.revoked.contains(lease)).ok_or(Error::LeaseNotFound(id))?;
        let mut keys = local.read(|index| index.lease_keys(id));
        keys.extend(self.pending.keys().cloned());
        keys.sort();
        keys.dedup();
        for key in keys {
            if self.current(&key, local).is_some_and(|kv| kv.lease == Some(id)) {
                self.write(&Write::Delete { key, expected: None }, local, leases)?;
            }
        }
        self.revoked.push(lease);
        Ok(())
    }

    fn compact(&mut self, revision: Revision, local: &Local) -> Result<()> {
        let compacted = self.compact.unwrap_or_default().max(local.compacted());
        if revision > local.revision() {
            return Err(Error::FutureRevision { requested: revision, current: local.revision() });
        }
        if revision <= compacted {
            return Err(Error::Compacted { requested: revision, compacted });
        }
        self.compact = Some(revision);
        Ok(())
    }
}
