//! Reports the capacity of the member to the control plane: nodes with labels, taints and free resources, and quotas.
//!
//! Only shards that have changed are sent. A first change is sent at once; while changes go on, the interval grows, so that
//! a busy member costs the control plane one small write every ten seconds.

use std::time::Duration;

use api::capacity::{ClusterNodes, REPORT_PATH};
use bytes::Bytes;
use cluster_client::ClusterClient;
use http::{Method, Request, header};
use object::Status;
use plane_state::MemberCapacity;
use plane_state::capacity_report::{self, ReportError};
use reconcile::backoff::Backoff;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const INTERVAL_MIN: Duration = Duration::from_secs(1);
const INTERVAL_MAX: Duration = Duration::from_secs(10);
/// A report is repeated this often without a change: the control plane forgets capacity that no agent confirms.
const RENEW_INTERVAL: Duration = Duration::from_secs(120);
const BACKOFF: Backoff = Backoff { base: Duration::from_millis(500), max: Duration::from_secs(30) };
/// Retry interval with a control plane that takes no reports (Karmada's): it may be replaced by one that does.
const UNSUPPORTED_RETRY: Duration = Duration::from_secs(600);

/// Reports until cancelled.
pub async fn keep(plane: ClusterClient, cluster: String, capacity: MemberCapacity, cancel: CancellationToken) {
    let mut published = capacity.published();
    let mut reporter = Reporter { plane, cluster, sent: Vec::new() };
    let mut pace = Pace::default();
    let mut failures = 0;
    loop {
        let known = capacity.get(&reporter.cluster);
        published.mark_unchanged();
        let sent = match &known {
            None => Ok(0),
            Some(known) => tokio::select! {
                () = cancel.cancelled() => return,
                sent = reporter.report(known) => sent,
            },
        };
        let wait = match sent {
            Ok(shards) => {
                failures = 0;
                pace.next(shards > 0)
            }
            Err(SendError::Unsupported(status)) => {
                tracing::info!(%status, "the control plane takes no capacity reports; it uses the summary in the status");
                reporter.sent.clear();
                UNSUPPORTED_RETRY
            }
            Err(SendError::TooLarge(error)) => {
                tracing::warn!(%error, "the capacity of the member is not reported");
                UNSUPPORTED_RETRY
            }
            Err(SendError::Failed(status)) => {
                failures += 1;
                let wait = BACKOFF.jittered(failures);
                tracing::debug!(%status, ?wait, "cannot report the capacity of the member, will retry");
                wait
            }
        };
        let earliest = Instant::now() + wait;
        let renewal = tokio::time::sleep(RENEW_INTERVAL.max(wait));
        tokio::select! {
            () = cancel.cancelled() => return,
            () = renewal => reporter.renew(),
            // The sender is part of `capacity`, so this waits for a publication.
            _ = published.changed(), if failures == 0 => {}
            () = tokio::time::sleep(wait), if failures > 0 => {}
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep_until(earliest) => {}
        }
    }
}

/// The interval between reports: short after a pause, longer while every report has news.
#[derive(Debug, Default)]
struct Pace {
    last: Duration,
}

impl Pace {
    fn next(&mut self, has_news: bool) -> Duration {
        self.last = match has_news {
            true => (self.last * 2).clamp(INTERVAL_MIN, INTERVAL_MAX),
            false => Duration::ZERO,
        };
        self.last.max(INTERVAL_MIN)
    }
}

enum SendError {
    Unsupported(Status),
    TooLarge(ReportError),
    Failed(Status),
}

struct Reporter {
    plane: ClusterClient,
    cluster: String,
    /// The shards that the control plane has.
    sent: Vec<Vec<u8>>,
}

impl Reporter {
    /// Sends what has changed and returns the number of shards sent.
    async fn report(&mut self, capacity: &ClusterNodes) -> Result<usize, SendError> {
        let shards = capacity_report::divide(capacity).map_err(SendError::TooLarge)?;
        if shards.len() != self.sent.len() {
            self.sent = vec![Vec::new(); shards.len()];
        }
        let (mut count, total) = (0, shards.len());
        // The first shard last: it makes a new division valid.
        for (number, shard) in shards.into_iter().enumerate().rev() {
            if self.sent[number] != shard {
                let held = self.send(&shard).await?;
                self.sent[number] = shard;
                count += 1;
                if number == 0 && held != total {
                    // It was restored from a backup, or has removed the report in the meantime.
                    self.sent.clear();
                    return Err(SendError::Failed(Status::unavailable(format!("{held} of {total} shards are known"))));
                }
            }
        }
        Ok(count)
    }

    /// Lets the next report include the first shard.
    fn renew(&mut self) {
        if let Some(first) = self.sent.first_mut() {
            first.clear();
        }
    }

    /// Returns the number of shards that the control plane has.
    async fn send(&self, shard: &[u8]) -> Result<usize, SendError> {
        let body = Bytes::from(capacity_report::compress(shard).map_err(SendError::TooLarge)?);
        let request = Request::builder()
            .method(Method::PUT)
            .uri(format!("{REPORT_PATH}{}", self.cluster))
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .body(body)
            .map_err(|error| SendError::Failed(Status::bad_request(error.to_string())))?;
        let response = self.plane.raw(request).await.map_err(SendError::Failed)?;
        match response.status().as_u16() {
            200..=299 => {
                let answer: Value = serde_json::from_slice(response.body()).unwrap_or_default();
                Ok(answer["shards"].as_u64().and_then(|held| usize::try_from(held).ok()).unwrap_or_default())
            }
            // A path that the control plane does not have, or does not let agents use.
            code @ (403..=405 | 415 | 501) => Err(SendError::Unsupported(Status::from_response(code, response.body()))),
            code => Err(SendError::Failed(Status::from_response(code, response.body()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::capacity::NodeCapacity;
    use async_trait::async_trait;
    use cluster_client::{ApiCall, Backend, Endpoint, Identity, Reply, WatchCall, WatchEvents};
    use parking_lot::Mutex;
    use plane_state::capacity_report::ReportedShards;

    use super::*;

    #[derive(Default)]
    struct Plane {
        code: Mutex<u16>,
        received: Mutex<ReportedShards>,
        requests: Mutex<Vec<String>>,
    }

    #[async_trait]
    impl Backend for Plane {
        async fn call(&self, _: &Identity, _: ApiCall) -> Result<Reply, Status> {
            Err(Status::internal("not used"))
        }

        async fn watch(&self, _: &Identity, _: WatchCall) -> Result<WatchEvents, Status> {
            Err(Status::internal("not used"))
        }

        async fn raw(&self, _: &Identity, request: Request<Bytes>) -> Result<http::Response<Bytes>, Status> {
            self.requests.lock().push(format!("{} {}", request.method(), request.uri()));
            let code = *self.code.lock();
            let mut held = 0;
            if code == 200 {
                let shard = capacity_report::read(request.body()).expect("a shard");
                held = shard.shards;
                self.received.lock().put(shard);
            }
            let answer = serde_json::json!({"shards": held}).to_string();
            let response = http::Response::builder().status(code).body(Bytes::from(answer));
            response.map_err(|error| Status::internal(error.to_string()))
        }
    }

    fn nodes(count: usize) -> ClusterNodes {
        let node = |number: usize| NodeCapacity { name: format!("n{number:03}"), ..NodeCapacity::default() };
        ClusterNodes { nodes: (0..count).map(node).collect(), ..ClusterNodes::default() }
    }

    struct Running {
        plane: Arc<Plane>,
        capacity: MemberCapacity,
        _cancel: tokio_util::sync::DropGuard,
    }

    fn start(code: u16) -> Running {
        let plane = Arc::new(Plane::default());
        *plane.code.lock() = code;
        let server: Arc<dyn Backend> = Arc::<Plane>::clone(&plane);
        let client = ClusterClient::connect(Endpoint::Direct { server, identity: Identity::default() });
        let (capacity, cancel) = (MemberCapacity::default(), CancellationToken::new());
        tokio::spawn(keep(client.expect("connects"), "m1".to_owned(), capacity.clone(), cancel.clone()));
        Running { plane, capacity, _cancel: cancel.drop_guard() }
    }

    #[tokio::test(start_paused = true)]
    async fn changes_are_sent_and_steady_changes_are_grouped() {
        let Running { plane, capacity, _cancel } = start(200);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(plane.requests.lock().is_empty(), "nothing is known yet");
        capacity.publish("m1", nodes(3));
        tokio::time::sleep(Duration::from_millis(1100)).await;
        assert_eq!(*plane.requests.lock(), ["PUT /flotilla/v1alpha1/capacity/m1"]);
        assert_eq!(plane.received.lock().whole(), Some(nodes(3)));
        capacity.publish("m1", nodes(3));
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(plane.requests.lock().len(), 1, "nothing new");
        for second in 0..60 {
            capacity.publish("m1", nodes(10 + second));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let sent = plane.requests.lock().len() - 1;
        assert!((6..=10).contains(&sent), "{sent} reports in a minute");
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert_eq!(plane.received.lock().whole(), Some(nodes(69)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_report_is_renewed_and_a_failed_one_is_repeated() {
        let Running { plane, capacity, _cancel } = start(503);
        capacity.publish("m1", nodes(1));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(plane.requests.lock().len() > 2, "tried again");
        *plane.code.lock() = 200;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(plane.received.lock().whole(), Some(nodes(1)));
        let before = plane.requests.lock().len();
        tokio::time::sleep(RENEW_INTERVAL * 3).await;
        let renewed = plane.requests.lock().len() - before;
        assert!((2..=3).contains(&renewed), "{renewed}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_control_plane_without_reports_is_asked_rarely() {
        let Running { plane, capacity, _cancel } = start(404);
        for second in 0..300 {
            capacity.publish("m1", nodes(second));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(plane.requests.lock().len(), 1);
    }
}
