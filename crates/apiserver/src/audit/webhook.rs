//! The audit webhook: events are sent in batches, from a bounded buffer, with retries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::auth::webhook::WebhookEndpoint;
use crate::outgoing::OutgoingError;

const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Events with bodies can be large, so the buffer has a limit in bytes too.
const BUFFER_BYTES_MAX: usize = 64 << 20;
/// Attempts for one batch, each after a longer pause.
const ATTEMPTS_MAX: u32 = 5;
const PAUSE_FACTOR: f64 = 1.5;
/// Lost events are logged once in this time.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Sizes and times of the batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSettings {
    /// Events that wait to be sent; more are dropped.
    pub buffer_max: usize,
    /// Events in one request.
    pub batch_max: usize,
    /// Time after which a batch is sent that is not full.
    pub wait_max: Duration,
    /// Pause before the first retry.
    pub retry_after: Duration,
}

impl Default for BatchSettings {
    /// The defaults of kube-apiserver.
    fn default() -> Self {
        Self {
            buffer_max: 10_000,
            batch_max: 400,
            wait_max: Duration::from_secs(30),
            retry_after: Duration::from_secs(10),
        }
    }
}

enum Queued {
    Event(Bytes),
    /// Send what waits, then answer.
    Flush(oneshot::Sender<()>),
}

pub struct AuditWebhook {
    queue: mpsc::Sender<Queued>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    bytes_waiting: AtomicUsize,
    dropped: AtomicU64,
}

impl AuditWebhook {
    /// Starts the task that sends; it ends with the last reference to this.
    pub fn start(endpoint: WebhookEndpoint, settings: BatchSettings) -> Self {
        let (queue, waiting) = mpsc::channel(settings.buffer_max.max(1));
        let counts = Arc::new(Counts::default());
        let sender = BatchSender { endpoint, settings, waiting, counts: counts.clone(), logged_at: None };
        tokio::spawn(sender.run());
        Self { queue, counts }
    }

    /// Queues an event without waiting; drops it when the buffer is full.
    pub(super) fn send(&self, event: &[u8]) {
        let size = event.len();
        let waiting = self.counts.bytes_waiting.fetch_add(size, Ordering::AcqRel);
        let has_space = waiting + size <= BUFFER_BYTES_MAX;
        if !has_space || self.queue.try_send(Queued::Event(Bytes::copy_from_slice(event))).is_err() {
            self.counts.bytes_waiting.fetch_sub(size, Ordering::AcqRel);
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Events that could not be sent since the start.
    pub fn dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::Relaxed)
    }

    /// Returns when the events queued so far were sent or dropped, or after `limit`.
    pub async fn flush(&self, limit: Duration) {
        let (done, waiting) = oneshot::channel();
        let flushing = async {
            if self.queue.send(Queued::Flush(done)).await.is_ok() {
                let _ = waiting.await;
            }
        };
        if tokio::time::timeout(limit, flushing).await.is_err() {
            tracing::warn!("audit events were not sent to the webhook within {limit:?} and are lost");
        }
    }
}

struct BatchSender {
    endpoint: WebhookEndpoint,
    settings: BatchSettings,
    waiting: mpsc::Receiver<Queued>,
    counts: Arc<Counts>,
    logged_at: Option<Instant>,
}

impl BatchSender {
    async fn run(mut self) {
        let mut batch: Vec<Bytes> = Vec::new();
        let mut send_at = Instant::now();
        loop {
            let next = match batch.is_empty() {
                true => self.waiting.recv().await.map(Some),
                false => match tokio::time::timeout_at(send_at, self.waiting.recv()).await {
                    Ok(received) => received.map(Some),
                    Err(_) => Some(None),
                },
            };
            let flushed = match next {
                // The server is gone, and no event can come any more.
                None => return self.deliver(std::mem::take(&mut batch)).await,
                Some(Some(Queued::Event(event))) => {
                    if batch.is_empty() {
                        send_at = Instant::now() + self.settings.wait_max;
                    }
                    batch.push(event);
                    if batch.len() < self.settings.batch_max {
                        continue;
                    }
                    None
                }
                Some(Some(Queued::Flush(done))) => Some(done),
                Some(None) => None,
            };
            self.deliver(std::mem::take(&mut batch)).await;
            if let Some(done) = flushed {
                let _ = done.send(());
            }
        }
    }

    async fn deliver(&mut self, batch: Vec<Bytes>) {
        if batch.is_empty() {
            return;
        }
        let (count, size) = (batch.len(), batch.iter().map(Bytes::len).sum());
        let sent = self.send(event_list(&batch)).await;
        drop(batch);
        self.counts.bytes_waiting.fetch_sub(size, Ordering::AcqRel);
        if let Err(problem) = sent {
            self.counts.dropped.fetch_add(count as u64, Ordering::Relaxed);
            self.report(&problem);
        }
    }

    async fn send(&self, body: Bytes) -> Result<(), String> {
        let mut pause = self.settings.retry_after;
        let mut attempt = 1;
        loop {
            let problem = match self.endpoint.deliver(body.clone(), CALL_TIMEOUT).await {
                Ok(()) => return Ok(()),
                Err(problem) => problem,
            };
            // A batch that the webhook refuses as such is refused again.
            let is_final = matches!(problem, OutgoingError::Refused { code, .. } if code < 500 && code != 429);
            if is_final || attempt == ATTEMPTS_MAX {
                return Err(problem.to_string());
            }
            tokio::time::sleep(pause).await;
            pause = pause.mul_f64(PAUSE_FACTOR);
            attempt += 1;
        }
    }

    fn report(&mut self, problem: &str) {
        let now = Instant::now();
        if self.logged_at.is_none_or(|at| now.duration_since(at) >= LOG_EVERY) {
            let dropped = self.counts.dropped.load(Ordering::Relaxed);
            tracing::error!(problem, dropped, "the audit webhook does not accept events; some are lost");
            self.logged_at = Some(now);
        }
    }
}

fn event_list(events: &[Bytes]) -> Bytes {
    let mut body = BytesMut::new();
    body.put_slice(br#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#);
    for (index, event) in events.iter().enumerate() {
        if index > 0 {
            body.put_u8(b',');
        }
        body.put_slice(event);
    }
    body.put_slice(b"]}");
    body.freeze()
}
