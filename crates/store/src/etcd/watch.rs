//! Watches on etcd: one stream per watch, resumed at the same revision after a lost connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::error::{Error, Result};
use crate::etcd::client::{Client, Failure};
use crate::etcd::keys::Keys;
use crate::etcd::messages::{WatchCreateRequest, WatchOrder, WatchProgressRequest, WatchRequest, WatchResponse};
use crate::kv::{Event, Revision};
use crate::watch::WatchBatch;

/// Batches waiting for the reader; beyond that etcd buffers events.
const BATCHES_MAX: usize = 64;
/// etcd ignores a progress request while the watch is behind, so it is repeated as long as a caller waits.
const PROGRESS_AGAIN: Duration = Duration::from_millis(100);
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The reading end behind [`crate::WatchStream`].
pub(crate) struct RemoteWatch {
    batches: mpsc::Receiver<Result<WatchBatch>>,
    progress: Arc<WatchProgress>,
    in_hand: Option<Revision>,
}

struct WatchProgress {
    applied: AtomicU64,
    ended: AtomicBool,
    moved: Notify,
    requested: Notify,
}

impl RemoteWatch {
    pub fn progress(&self) -> RemoteProgress {
        RemoteProgress { progress: self.progress.clone() }
    }

    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<WatchBatch>>> {
        if let Some(done) = self.in_hand.take() {
            self.progress.applied.fetch_max(done, Ordering::AcqRel);
            self.progress.moved.notify_waiters();
        }
        let next = self.batches.poll_recv(cx);
        match &next {
            Poll::Ready(Some(Ok(batch))) => self.in_hand = Some(batch.revision),
            Poll::Ready(_) => self.progress.end(),
            Poll::Pending => {}
        }
        next
    }
}

impl Drop for RemoteWatch {
    fn drop(&mut self) {
        self.progress.end();
    }
}

impl WatchProgress {
    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.moved.notify_waiters();
    }
}

#[derive(Clone)]
pub(crate) struct RemoteProgress {
    progress: Arc<WatchProgress>,
}

impl RemoteProgress {
    pub fn applied(&self) -> Revision {
        self.progress.applied.load(Ordering::Acquire)
    }

    pub fn request(&self) {
        self.progress.requested.notify_one();
    }

    pub async fn wait(&self, revision: Revision) -> Result<()> {
        loop {
            let moved = self.progress.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if self.applied() >= revision {
                return Ok(());
            }
            if self.progress.ended.load(Ordering::Acquire) {
                return Err(Error::Closed);
            }
            self.request();
            // Either progress was made or the request is due again.
            tokio::time::timeout(PROGRESS_AGAIN, moved).await.ok();
        }
    }
}

/// State of the task behind a watch.
struct WatchTask {
    client: Arc<Client>,
    keys: Arc<Keys>,
    key: Bytes,
    range_end: Bytes,
    /// The first revision not yet delivered.
    next: Revision,
    batches: mpsc::Sender<Result<WatchBatch>>,
    progress: Arc<WatchProgress>,
    /// Events of a response that arrives in fragments.
    pieces: Vec<Event>,
}

/// The reason why reading from one connection ended.
enum Ended {
    /// Resume from the last revision.
    Lost(String),
    /// The reader is gone, or the final error was delivered.
    Over,
}

pub(crate) async fn start(
    client: Arc<Client>,
    keys: Arc<Keys>,
    prefix: &str,
    from: Revision,
    mut closed: watch::Receiver<bool>,
) -> Result<RemoteWatch> {
    let (key, range_end) = keys.prefix(prefix)?;
    let (batches, receiver) = mpsc::channel(BATCHES_MAX);
    let progress = Arc::new(WatchProgress {
        applied: AtomicU64::new(from.saturating_sub(1)),
        ended: AtomicBool::new(false),
        moved: Notify::new(),
        requested: Notify::new(),
    });
    let mut pump =
        WatchTask { client, keys, key, range_end, next: from, batches, progress: progress.clone(), pieces: Vec::new() };
    let first = pump.connect().await.map_err(Failure::into_error)?;
    tokio::spawn(async move {
        tokio::select! {
            () = pump.run(first) => {}
            _ = closed.wait_for(|closed| *closed) => {}
        }
    });
    Ok(RemoteWatch { batches: receiver, progress, in_hand: None })
}

struct Connection {
    endpoint: usize,
    orders: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl WatchTask {
    async fn run(&mut self, first: Connection) {
        let mut connection = Some(first);
        let mut pause = PAUSE_MIN;
        loop {
            if let Some(Connection { endpoint, orders, responses }) = connection.take() {
                let before = self.next;
                match self.read(&orders, responses).await {
                    Ended::Over => return,
                    Ended::Lost(reason) => tracing::debug!(reason, "watch on etcd lost, reconnecting"),
                }
                self.client.leave(endpoint);
                if self.next > before {
                    pause = PAUSE_MIN;
                }
            }
            self.pieces.clear();
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.batches.closed() => return,
            }
            pause = (2 * pause).min(PAUSE_MAX);
            match self.connect().await {
                Ok(new) => connection = Some(new),
                Err(failure) => tracing::warn!(error = %failure.into_error(), "watch on etcd cannot be resumed yet"),
            }
        }
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        let (orders, outgoing) = mpsc::channel(4);
        let create = WatchCreateRequest {
            key: self.key.clone(),
            range_end: self.range_end.clone(),
            start_revision: self.next as i64,
            progress_notify: true,
            prev_kv: true,
            fragment: true,
        };
        // Cannot be full: the channel is new.
        orders.try_send(WatchRequest { request: Some(WatchOrder::Create(create)) }).ok();
        let path = "/etcdserverpb.Watch/Watch";
        let (endpoint, responses) = self.client.stream(path, ReceiverStream::new(outgoing)).await?;
        Ok(Connection { endpoint, orders, responses })
    }

    async fn read(&mut self, orders: &mpsc::Sender<WatchRequest>, mut responses: Streaming<WatchResponse>) -> Ended {
        let progress = self.progress.clone();
        loop {
            tokio::select! {
                response = responses.message() => match response {
                    Ok(Some(response)) => match self.take(response).await {
                        Ok(()) => {}
                        Err(ended) => return ended,
                    },
                    Ok(None) => return Ended::Lost("etcd ended the stream".into()),
                    Err(status) => return Ended::Lost(status.to_string()),
                },
                () = progress.requested.notified() => {
                    // A full channel already contains such a request.
                    let order = WatchOrder::Progress(WatchProgressRequest {});
                    orders.try_send(WatchRequest { request: Some(order) }).ok();
                }
                () = self.batches.closed() => return Ended::Over,
            }
        }
    }

    async fn take(&mut self, response: WatchResponse) -> Result<(), Ended> {
        if response.compact_revision > 0 {
            let error = Error::Compacted { requested: self.next, compacted: response.compact_revision as u64 };
            self.batches.send(Err(error)).await.ok();
            return Err(Ended::Over);
        }
        if response.canceled {
            return Err(Ended::Lost(response.cancel_reason));
        }
        if response.created {
            return Ok(());
        }
        let quiet = response.events.is_empty() && self.pieces.is_empty();
        for event in response.events {
            match self.keys.event(event) {
                Some(event) => self.pieces.push(event),
                None => tracing::warn!("ignoring a key from etcd that is not UTF-8"),
            }
        }
        if response.fragment {
            return Ok(());
        }
        // Only in a progress notification does the header's revision prove that nothing older is missing.
        let header = response.header.map_or(0, |header| header.revision as u64);
        let events = std::mem::take(&mut self.pieces);
        let revision = if quiet { header } else { events.last().map_or(0, |event| event.kv.mod_revision) };
        if revision + 1 < self.next || (quiet && revision == 0) {
            return Ok(());
        }
        self.next = revision + 1;
        self.batches.send(Ok(WatchBatch { events, revision })).await.map_err(|_| Ended::Over)
    }
}
