//! The requests of one connection over time, and the decision when to close it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::ConnectionLimits;

/// A connection is looked at least this often, so that a stall is found while requests are open.
const CHECK_MAX: Duration = Duration::from_secs(30);
/// Time an idle client has to confirm a graceful shutdown.
const CLOSE_GRACE: Duration = Duration::from_secs(5);

/// Shared by a connection, its stream and its requests.
pub struct Activity {
    state: Mutex<State>,
}

struct State {
    requests_open: usize,
    has_served: bool,
    idle_since: Instant,
    /// The first write the client's socket did not accept, when none was accepted since.
    write_blocked_since: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityVerdict {
    /// Look again after this time.
    Keep(Duration),
    /// No request for too long: finish gracefully.
    Idle,
    /// The client does not read.
    Stalled,
}

impl Activity {
    pub fn new(now: Instant) -> Arc<Self> {
        let state = State { requests_open: 0, has_served: false, idle_since: now, write_blocked_since: None };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// Counts a request until the guard is dropped.
    pub fn begin_request(self: &Arc<Self>) -> OpenRequest {
        let mut state = self.state.lock();
        state.requests_open += 1;
        state.has_served = true;
        OpenRequest { activity: self.clone(), is_alone: state.requests_open == 1 }
    }

    pub fn write_accepted(&self) {
        self.state.lock().write_blocked_since = None;
    }

    pub fn write_blocked(&self) {
        let mut state = self.state.lock();
        if state.write_blocked_since.is_none() {
            state.write_blocked_since = Some(Instant::now());
        }
    }

    pub fn judge(&self, limits: &ConnectionLimits, now: Instant) -> ActivityVerdict {
        self.state.lock().judge(limits, now)
    }

    /// The same for a connection that was asked to finish.
    pub fn judge_closing(&self, limits: &ConnectionLimits, now: Instant) -> ActivityVerdict {
        let limits = ConnectionLimits {
            first_request_max: limits.first_request_max.min(CLOSE_GRACE),
            idle_max: limits.idle_max.min(CLOSE_GRACE),
            ..*limits
        };
        self.state.lock().judge(&limits, now)
    }

    /// Starts the grace of a connection that is asked to finish now.
    pub fn begin_closing(&self, now: Instant) {
        self.state.lock().idle_since = now;
    }
}

impl State {
    fn judge(&self, limits: &ConnectionLimits, now: Instant) -> ActivityVerdict {
        if self.write_blocked_since.is_some_and(|since| now.duration_since(since) >= limits.write_stall_max) {
            return ActivityVerdict::Stalled;
        }
        if self.requests_open > 0 {
            return ActivityVerdict::Keep(CHECK_MAX.min(limits.write_stall_max));
        }
        let limit = if self.has_served { limits.idle_max } else { limits.first_request_max };
        match limit.checked_sub(now.duration_since(self.idle_since)) {
            Some(left) if !left.is_zero() => ActivityVerdict::Keep(left.min(CHECK_MAX).min(limits.write_stall_max)),
            _ => ActivityVerdict::Idle,
        }
    }
}

/// A request in progress, its response included.
pub struct OpenRequest {
    activity: Arc<Activity>,
    /// No other request of the connection was open when this one came.
    pub is_alone: bool,
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut state = self.activity.state.lock();
        state.requests_open -= 1;
        if state.requests_open == 0 {
            state.idle_since = Instant::now();
        }
    }
}

/// A response body that keeps its request open.
pub struct OpenBody<B> {
    pub body: B,
    pub _request: OpenRequest,
}

impl<B: Body<Data = Bytes> + Unpin> Body for OpenBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn check(state: State, after: Duration, expected: ActivityVerdict) {
        let limits = ConnectionLimits {
            first_request_max: SECOND * 10,
            idle_max: SECOND * 40,
            write_stall_max: SECOND * 60,
            ..ConnectionLimits::default()
        };
        let now = state.idle_since + after;
        assert_eq!(state.judge(&limits, now), expected, "{after:?}");
    }

    #[tokio::test]
    async fn connections_are_closed_when_idle_or_stalled() {
        let now = Instant::now();
        let silent = || State { requests_open: 0, has_served: false, idle_since: now, write_blocked_since: None };
        let served = || State { has_served: true, ..silent() };
        let open = || State { requests_open: 1, ..served() };
        check(silent(), SECOND * 4, ActivityVerdict::Keep(SECOND * 6));
        check(silent(), SECOND * 10, ActivityVerdict::Idle);
        check(served(), SECOND * 10, ActivityVerdict::Keep(SECOND * 30));
        check(served(), SECOND * 41, ActivityVerdict::Idle);
        check(open(), SECOND * 4_000, ActivityVerdict::Keep(SECOND * 30));
        check(State { write_blocked_since: Some(now), ..open() }, SECOND * 59, ActivityVerdict::Keep(SECOND * 30));
        check(State { write_blocked_since: Some(now), ..open() }, SECOND * 60, ActivityVerdict::Stalled);
    }
}
