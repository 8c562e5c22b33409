//! Limits on requests in flight and on the memory they hold, in total and per user.
//!
//! A request takes a slot after its body has arrived, and gives it back when its response is ready. Bytes that wait for
//! a client, in either direction, are counted apart: a client that does not read or write costs memory but no slot.

mod backlog;
mod memory;
mod slots;

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use listener::ConnectionLimits;
use object::Status;
use object::query::Query;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::request::RequestInfo;

pub use backlog::{Backlog, Backlogs};
pub use memory::Reservation;
pub use slots::Slot;

/// Requests may not take longer than this unless they are watches and the like.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);
/// Large lists that are encoded as a whole at a time: other requests keep the rest of the processors.
const ENCODED_LISTS_MAX: usize = 1;

#[derive(Clone, Copy, Debug)]
pub struct LimitsConfig {
    pub reads_max: usize,
    pub writes_max: usize,
    /// Slots on top of these for `reserved_groups`, so that heartbeats get through while others flood the server.
    pub reserved_max: usize,
    /// Slots one user may hold. A user also gets no further slot while it holds as many as are free, so that another
    /// user finds one.
    pub per_user_max: usize,
    /// Watches and other requests that stay open, per user. A client with many informers holds some hundreds.
    pub long_running_per_user_max: usize,
    /// Bytes of requests and responses in memory.
    pub memory_max: usize,
    pub memory_per_user_max: usize,
    /// Groups whose requests may use the reserved slots: nodes, agents and the control plane's own components.
    pub reserved_groups: &'static [&'static str],
    pub connections: ConnectionLimits,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            reads_max: 400,
            writes_max: 200,
            reserved_max: 100,
            per_user_max: 150,
            long_running_per_user_max: 1_000,
            memory_max: 512 << 20,
            memory_per_user_max: 64 << 20,
            reserved_groups: &["system:nodes", "system:serviceaccounts:kube-system"],
            connections: ConnectionLimits::default(),
        }
    }
}

pub struct Limits {
    config: LimitsConfig,
    counts: Arc<Mutex<slots::Counts>>,
    /// Held while a large list is encoded as a whole, which keeps a processor busy.
    encoding: Arc<Semaphore>,
    pub backlogs: Backlogs,
}

impl Limits {
    pub fn new(config: LimitsConfig) -> Self {
        let encoding = Arc::new(Semaphore::new(ENCODED_LISTS_MAX));
        Self { config, counts: Arc::default(), encoding, backlogs: Backlogs::default() }
    }

    /// Waits until this list may be encoded as a whole; the permit is held meanwhile.
    pub async fn encoding_turn(&self) -> OwnedSemaphorePermit {
        Arc::clone(&self.encoding).acquire_owned().await.expect("the semaphore is never closed")
    }

    pub fn connections(&self) -> ConnectionLimits {
        self.config.connections
    }

    /// Returns the time this request may take: the client's wish, within the server's own limit.
    pub fn request_time(&self, info: &RequestInfo, query: &Query) -> Result<Option<Duration>, Status> {
        if info.is_long_running() {
            return Ok(None);
        }
        let Some(text) = query.get("timeout") else { return Ok(Some(REQUEST_TIME_MAX)) };
        let asked = parse_duration(text)
            .ok_or_else(|| Status::bad_request(format!("invalid timeout specified in the request URL: {text:?}")))?;
        Ok(Some(if asked.is_zero() { REQUEST_TIME_MAX } else { asked.min(REQUEST_TIME_MAX) }))
    }
}

fn too_many_requests() -> Status {
    Status::too_many_requests("Too many requests, please try again later.", 1)
}

/// Reads `30s`, `1m30s`, `500ms` as Go writes durations; a bare number is seconds. Negative and empty mean none.
fn parse_duration(text: &str) -> Option<Duration> {
    let asked = match text.parse::<i64>() {
        Ok(seconds) => SignedDuration::from_secs(seconds),
        Err(_) if text.is_empty() => SignedDuration::ZERO,
        Err(_) => object::duration::parse(text).ok()?,
    };
    Some(Duration::try_from(asked).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, expected) in
            [("30s", Some(30_000)), ("1m30s", Some(90_000)), ("500ms", Some(500)), ("-5s", Some(0)), ("x", None)]
        {
            assert_eq!(parse_duration(text).map(|d| d.as_millis()), expected, "{text}");
        }
    }
}
