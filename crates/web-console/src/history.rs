//! The server's own metrics over time, for charts that need no other program.

use std::sync::{Arc, Weak};
use std::time::Duration;

use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::request::RequestInfo;
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use async_trait::async_trait;
use http::{Method, Response};
use jiff::Timestamp;
use object::Status;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::samples::{STEP_SECONDS, Samples};

const PATH: &str = "/flotilla/v1alpha1/metrics/history";
/// The longest window that is kept, in seconds.
const WINDOW_MAX: i64 = 86_400;

/// Serves samples to callers with access to `/metrics`.
pub struct MetricsHistory {
    samples: Arc<Mutex<Samples>>,
}

impl MetricsHistory {
    /// Samples the metrics of `server` until it stops.
    pub fn start(server: &Arc<Server>) -> Self {
        let samples = Arc::new(Mutex::new(Samples::default()));
        tokio::spawn(run(Arc::downgrade(server), Arc::clone(&samples), server.stop.clone()));
        Self { samples }
    }
}

async fn run(server: Weak<Server>, samples: Arc<Mutex<Samples>>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(Duration::from_secs(STEP_SECONDS.unsigned_abs()));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let Some(server) = server.upgrade() else { return };
        let text = server.metrics.render(server.resources()).await;
        samples.lock().take(Timestamp::now().as_second(), &text);
    }
}

#[async_trait]
impl Extension for MetricsHistory {
    fn handles(&self, path: &str) -> bool {
        path == PATH
    }

    fn judges_callers(&self) -> bool {
        true
    }

    async fn serve(&self, server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        request.check_method(&Method::GET, "read the history with GET")?;
        server.authorize(&request.user, &RequestInfo::parse(&Method::GET, "/metrics", "")).await?;
        let seconds = match request.incoming.query.get("seconds").unwrap_or_default() {
            "" => 3_600,
            text => text.parse().ok().filter(|seconds| (1..=WINDOW_MAX).contains(seconds)).ok_or_else(|| {
                Status::bad_request(format!("seconds must be a number from 1 to {WINDOW_MAX}, not {text:?}"))
            })?,
        };
        let wanted: Vec<&str> = request.incoming.query.all("metric").collect();
        let window = self.samples.lock().window(Timestamp::now().as_second(), seconds, &wanted);
        let json = serde_json::to_vec(&window).map_err(Status::internal)?;
        Ok(respond::json(200, json))
    }
}
