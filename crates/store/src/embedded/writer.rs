//! The writer thread: commits waiting requests as one transaction, and answers once it is on disk.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::mpsc;

use crate::embedded::ack::AckFile;
use crate::embedded::batch::{Batch, Reply, Request};
use crate::embedded::deferred::DeferredWrites;
use crate::embedded::fault::{Aftermath, aftermath, explain};
use crate::embedded::housekeeper::Shared;
use crate::embedded::lock::DirLock;
use crate::embedded::table::{self, Ledger};
use crate::error::Error;
use crate::kv::Revision;
use crate::local::Local;
use crate::local::lease::Leases;
use crate::quota::SizeLimit;

/// Bounds of one transaction: large enough to share a flush, small enough for low latency.
const BATCH_REQUESTS_MAX: usize = 1024;
const BATCH_BYTES_MAX: usize = 8 << 20;
/// Rows removed along with other work, plus two for each row added, so that removal keeps up with writes.
const SWEEP_ROWS: usize = 128;
/// Rows removed by a transaction without other work.
const SWEEP_ROWS_IDLE: usize = 2048;
/// Log bytes of a transaction in addition to its rows: the pages of the ledger and the inner nodes.
const BATCH_OVERHEAD_BYTES: usize = 24 << 10;

/// A row to remove: its revision, and its checksum to subtract from the ledger.
pub(crate) type ObsoleteRow = (Revision, u32);

pub(crate) struct Writer {
    pub connection: Connection,
    pub path: PathBuf,
    pub local: Arc<Local>,
    pub leases: Arc<Leases>,
    pub shared: Arc<Shared>,
    pub size_limit: SizeLimit,
    pub ack: Arc<AckFile>,
    pub ledger: Ledger,
    /// Oldest first, so that a deletion marker is never removed before the versions it deletes.
    pub doomed: VecDeque<ObsoleteRow>,
    pub requests: mpsc::Receiver<Request>,
    pub deferred: Arc<DeferredWrites>,
    pub housekeeper: JoinHandle<()>,
    pub lock: DirLock,
}

/// The point at which a transaction failed; it determines the error for its writers.
enum Failure {
    /// Nothing of it is on disk.
    Before(rusqlite::Error),
    /// The commit itself was being written.
    During(rusqlite::Error),
}

impl Writer {
    /// Runs until the last sender is gone or a close is requested, then checkpoints everything into the database
    /// file.
    pub fn run(mut self) {
        let mut waiting = Vec::new();
        let mut backlog = VecDeque::new();
        loop {
            if backlog.is_empty() && self.requests.blocking_recv_many(&mut waiting, BATCH_REQUESTS_MAX) == 0 {
                // Their callers wait for an answer too.
                backlog.extend(self.deferred.take());
                if backlog.is_empty() {
                    break;
                }
            }
            backlog.extend(waiting.drain(..));
            backlog.extend(self.deferred.take());
            let mut batch = self.plan(&mut backlog);
            let scrubs = std::mem::take(&mut batch.scrubs);
            if batch.close {
                // Requests sent before or during the close are still served.
                self.requests.close();
            }
            self.process(batch);
            if !scrubs.is_empty() {
                let scrubbed = self.scrub();
                scrubs.into_iter().for_each(|reply| drop(reply.send(scrubbed.clone())));
            }
        }
        self.finish();
    }

    /// Removes every compacted row, then rewrites the database and empties the log: deleted rows stay readable in free
    /// pages otherwise. Writers wait meanwhile.
    fn scrub(&mut self) -> Result<(), Error> {
        while !self.doomed.is_empty() {
            let left = self.doomed.len();
            self.process(Batch::plan(std::iter::once(Request::Sweep), &self.local, &self.leases, None));
            if self.doomed.len() == left {
                self.shared.health()?;
                return Err(Error::Unavailable("compacted rows could not be removed".into()));
            }
        }
        let explained = |error: rusqlite::Error| explain(&self.path, &error);
        self.connection.execute_batch("VACUUM").map_err(explained)?;
        let truncate = "PRAGMA wal_checkpoint(TRUNCATE)";
        match self.connection.query_row(truncate, [], |row| row.get::<_, i64>(0)).map_err(explained)? {
            0 => Ok(()),
            _ => Err(Error::Unavailable("another process reads the database".into())),
        }
    }

    fn plan(&self, backlog: &mut VecDeque<Request>) -> Batch {
        let mut bytes = 0;
        let requests = std::iter::from_fn(|| {
            let next = backlog.front()?.bytes();
            if bytes > 0 && bytes + next > BATCH_BYTES_MAX {
                return None;
            }
            bytes += next;
            backlog.pop_front()
        });
        Batch::plan(requests, &self.local, &self.leases, self.shared.quota(&self.size_limit))
    }

    fn process(&mut self, batch: Batch) {
        if batch.is_empty() {
            return batch.answers.into_iter().for_each(Reply::send);
        }
        if let Some(error) = self.shared.stopped() {
            return batch.answers.into_iter().for_each(|answer| answer.fail(&error));
        }
        match self.commit(&batch) {
            Ok((ledger, used_bytes)) => {
                self.shared.measured(used_bytes, &self.size_limit);
                self.publish(batch, ledger);
            }
            Err(failure) => self.refuse(batch, failure),
        }
    }

    /// Returns the new ledger and the bytes in use.
    fn commit(&mut self, batch: &Batch) -> Result<(Ledger, u64), Failure> {
        let mut ledger = self.ledger;
        self.write_rows(batch, &mut ledger).map_err(Failure::Before)?;
        let used_bytes = table::used_bytes(&self.connection).map_err(Failure::Before)?;
        self.connection.execute_batch("COMMIT").map_err(Failure::During)?;
        Ok((ledger, used_bytes))
    }

    fn write_rows(&self, batch: &Batch, ledger: &mut Ledger) -> rusqlite::Result<()> {
        let connection = &self.connection;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        for (key, version) in &batch.versions {
            ledger.add(table::insert_version(connection, key, version)?);
        }
        for lease in &batch.granted {
            ledger.add(table::insert_lease(connection, lease)?);
        }
        for lease in &batch.revoked {
            ledger.remove(table::delete_lease(connection, lease)?);
        }
        for (revision, crc) in self.doomed.iter().take(self.sweep_rows(batch)) {
            table::delete_version(connection, *revision)?;
            ledger.remove(*crc);
        }
        ledger.sequence += 1;
        ledger.revision = batch.revision;
        ledger.compacted = batch.compact.unwrap_or(ledger.compacted);
        table::write_ledger(connection, ledger)
    }

    fn sweep_rows(&self, batch: &Batch) -> usize {
        let rows = if batch.versions.is_empty() { SWEEP_ROWS_IDLE } else { 2 * batch.versions.len() + SWEEP_ROWS };
        rows.min(self.doomed.len())
    }

    /// The transaction is on disk: record, publish, answer.
    fn publish(&mut self, batch: Batch, ledger: Ledger) {
        self.doomed.drain(..self.sweep_rows(&batch));
        self.ledger = ledger;
        if let Err(error) = self.ack.note(ledger.sequence) {
            tracing::warn!(%error, "cannot record the last acknowledged write");
        }
        for lease in &batch.granted {
            self.leases.start(*lease);
        }
        self.local.write(|applier| {
            for (key, version) in batch.versions {
                applier.apply(&key, version);
            }
            for lease in &batch.revoked {
                self.leases.remove(lease.id);
                applier.forget_lease(lease.id);
            }
        });
        // Writers do not wait for a compaction of the same batch; its caller is answered once its effect is visible.
        let (compactions, writes): (Vec<_>, Vec<_>) =
            batch.answers.into_iter().partition(|answer| batch.compact.is_some() && matches!(answer, Reply::Done(..)));
        writes.into_iter().for_each(Reply::send);
        if let Some(revision) = batch.compact {
            self.forget(revision);
        }
        compactions.into_iter().for_each(Reply::send);
        self.shared.committed(batch.bytes + BATCH_OVERHEAD_BYTES, self.doomed.len());
        if self.shared.take_checkpoint_duty() {
            crate::embedded::housekeeper::checkpoint(&self.connection, &self.shared);
        }
    }

    /// Drops compacted versions from memory; their rows are removed by later transactions.
    fn forget(&mut self, revision: Revision) {
        let doomed = &mut self.doomed;
        let forgotten = self.local.compact(revision, |key, version| {
            doomed.push_back((version.mod_revision, table::version_crc(key, &version)));
        });
        if let Err(error) = forgotten {
            tracing::warn!(%error, "compaction was overtaken");
        }
    }

    fn refuse(&mut self, batch: Batch, failure: Failure) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::debug!(%error, "rollback after a failed transaction");
        }
        let (cause, error) = match &failure {
            Failure::Before(cause) => (cause, explain(&self.path, cause)),
            Failure::During(cause) => match aftermath(cause) {
                Aftermath::Retry => (cause, explain(&self.path, cause)),
                // The flush failed: the transaction may or may not exist after a restart.
                Aftermath::Stop => (cause, Error::Unknown(explain(&self.path, cause).to_string())),
            },
        };
        self.shared.failed(explain(&self.path, cause), aftermath(cause));
        batch.answers.into_iter().for_each(|answer| answer.fail(&error));
    }

    fn finish(self) {
        self.deferred.close();
        self.leases.stop();
        self.local.close_watches();
        self.shared.stop();
        if self.housekeeper.join().is_err() {
            tracing::error!("the housekeeping thread of the store panicked");
        }
        let emptied = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        if let Err(error) = emptied {
            tracing::warn!(path = %self.path.display(), %error, "the write-ahead log stays for the next start");
        }
        if let Err(error) = self.ack.sync() {
            tracing::debug!(%error, "cannot flush the record of acknowledged writes");
        }
        if let Err((_, error)) = self.connection.close() {
            tracing::warn!(path = %self.path.display(), %error, "closing the database");
        }
        drop(self.lock);
    }
}
