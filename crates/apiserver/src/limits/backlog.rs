//! Content of responses that waits for its client, and is dropped when the client stops reading.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::Reservation;

/// Time a client may take to read one piece of a response.
const STALL_MAX: Duration = Duration::from_secs(30);
/// Time a client may take to read all of it.
const READ_MAX: Duration = Duration::from_secs(300);
const SWEEP_EVERY: Duration = Duration::from_secs(2);
/// Bytes counted after the content was dropped: pieces in the connection's buffers.
const DROPPED_BYTES: usize = 64 << 10;

/// The rest of a response. HTTP/2 polls a body only when its client accepts more, so a stalled response cannot
/// notice the time by itself: it is swept.
pub struct Backlog<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    content: Option<T>,
    began: Instant,
    progressed: Instant,
    reservation: Option<Reservation>,
}

impl<T: Send + 'static> Backlog<T> {
    pub fn new(content: T, reservation: Option<Reservation>) -> Arc<Self> {
        let now = Instant::now();
        let state = State { content: Some(content), began: now, progressed: now, reservation };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// Works on the content for the next piece; `None` when it was dropped because the client was too slow.
    pub fn next<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let mut state = self.state.lock();
        state.progressed = Instant::now();
        state.content.as_mut().map(work)
    }

    /// Drops everything: the response is complete.
    pub fn finish(&self) {
        let mut state = self.state.lock();
        state.content = None;
        state.reservation = None;
    }
}

trait Sweep: Send + Sync {
    /// Drops the content of a stalled response; true when there is nothing left to look after.
    fn sweep(&self, now: Instant) -> bool;
}

impl<T: Send> Sweep for Backlog<T> {
    fn sweep(&self, now: Instant) -> bool {
        let mut state = self.state.lock();
        let is_late = now.duration_since(state.progressed) >= STALL_MAX || now.duration_since(state.began) >= READ_MAX;
        if is_late && state.content.take().is_some() {
            tracing::debug!("dropped a response whose client does not read");
            if let Some(reservation) = &mut state.reservation {
                reservation.shrink_to(DROPPED_BYTES);
            }
        }
        state.content.is_none()
    }
}

/// The backlogs of all responses under way.
#[derive(Default, Clone)]
pub struct Backlogs {
    open: Arc<Mutex<Vec<Weak<dyn Sweep>>>>,
}

impl Backlogs {
    /// Looks after a backlog from now on. The sweeping task runs only while there are any.
    pub fn watch_over<T: Send + 'static>(&self, backlog: &Arc<Backlog<T>>) {
        let backlog: Weak<dyn Sweep> = Arc::downgrade(&(backlog.clone() as Arc<dyn Sweep>));
        let mut open = self.open.lock();
        let is_first = open.is_empty();
        open.push(backlog);
        if is_first {
            tokio::spawn(sweep_until_empty(self.open.clone()));
        }
    }
}

async fn sweep_until_empty(open: Arc<Mutex<Vec<Weak<dyn Sweep>>>>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        let now = Instant::now();
        let mut open = open.lock();
        open.retain(|backlog| backlog.upgrade().is_some_and(|backlog| !backlog.sweep(now)));
        if open.is_empty() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client reads a piece every `pause`, for `total`; true when its content is still there.
    fn check(pause: Duration, total: Duration, is_kept: bool) {
        let backlog = Backlog::new(vec![1], None);
        let began = Instant::now();
        let mut now = began;
        while now < began + total {
            now += pause;
            backlog.sweep(now);
            backlog.state.lock().progressed = now;
        }
        assert_eq!(backlog.next(|content| content.len()).is_some(), is_kept, "{pause:?} for {total:?}");
    }

    #[test]
    fn content_a_client_does_not_read_in_time_is_dropped() {
        check(STALL_MAX / 2, STALL_MAX * 3, true);
        check(STALL_MAX, STALL_MAX, false);
        check(STALL_MAX / 2, READ_MAX, false);
    }

    #[tokio::test]
    async fn finished_responses_are_forgotten() {
        let backlogs = Backlogs::default();
        let (read, stopped) = (Backlog::new(vec![1], None), Backlog::new(vec![1], None));
        backlogs.watch_over(&read);
        backlogs.watch_over(&stopped);
        read.finish();
        drop(stopped);
        let deadline = Instant::now() + SWEEP_EVERY * 10;
        while !backlogs.open.lock().is_empty() {
            assert!(Instant::now() < deadline, "still looked after");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
