//! Blocks changes of the member while the control plane is in safe mode after a restore.
//!
//! A control plane in push mode knows its own state. An agent asks its control plane, and asks again before acting when
//! the answer is old: the control plane may have been lost and restored meanwhile. Only Flotilla has such a mode.

use std::sync::Arc;
use std::time::Duration;

use api::safe_mode::STATE_PATH;
use bytes::Bytes;
use cluster_client::{ClusterClient, is_unreachable};
use http::Request;
use object::Status;
use plane_state::SafeMode;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Time an answer is valid. A control plane cannot be stopped, restored and started within it.
const ANSWER_COUNTS: Duration = Duration::from_secs(1);
/// Time for which a missing endpoint is remembered.
const ABSENCE_COUNTS: Duration = Duration::from_secs(60);
/// Interval for checking whether safe mode has ended.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Free,
    /// Nothing in the member may be changed, taken away or brought back.
    Held,
    /// The control plane has not answered yet; ask again.
    Unknown,
}

/// The default lets everything through.
#[derive(Clone, Default)]
pub struct Gate {
    mode: SafeMode,
    asking: Option<Arc<Asking>>,
}

struct Asking {
    plane: ClusterClient,
    answer: Mutex<(Verdict, Option<Instant>)>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("mode", &self.mode).field("asks", &self.asking.is_some()).finish()
    }
}

impl Gate {
    /// Of the plane in this process.
    pub fn shared(mode: SafeMode) -> Self {
        Self { mode, asking: None }
    }

    /// Of a plane elsewhere.
    pub fn asking(plane: ClusterClient) -> Self {
        let asking = Asking { plane, answer: Mutex::new((Verdict::Unknown, None)) };
        Self { mode: SafeMode::default(), asking: Some(Arc::new(asking)) }
    }

    pub async fn verdict(&self) -> Verdict {
        match &self.asking {
            Some(asking) => asking.verdict().await,
            None if !self.mode.is_known() => Verdict::Unknown,
            None if self.mode.is_on() => Verdict::Held,
            None => Verdict::Free,
        }
    }

    /// Returns when safe mode was on and is no longer.
    pub async fn ended(&self) {
        let mut was_held = false;
        loop {
            // A plane is restored before it starts, never while it runs.
            if self.asking.is_none() && !was_held && !self.mode.is_on() {
                return std::future::pending().await;
            }
            let verdict = match &self.asking {
                // Asked once while there is a plane to ask, for the time when there is none. From then on an agent that has
                // nothing to do has nothing to ask either.
                Some(asking) if !was_held => match asking.known().await {
                    Verdict::Unknown => self.verdict().await,
                    known => known,
                },
                _ => self.verdict().await,
            };
            if was_held && verdict == Verdict::Free {
                return;
            }
            was_held |= verdict == Verdict::Held;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl Asking {
    /// The last answer.
    async fn known(&self) -> Verdict {
        self.answer.lock().await.0
    }

    async fn verdict(&self) -> Verdict {
        let mut answer = self.answer.lock().await;
        if answer.1.is_some_and(|until| Instant::now() < until) {
            return answer.0;
        }
        let (verdict, counts) = match self.ask().await {
            Ok(is_on) => (if is_on { Verdict::Held } else { Verdict::Free }, ANSWER_COUNTS),
            // An unreachable control plane hands out no works either, so the last answer still holds.
            Err(status) if is_unreachable(&status) => (answer.0, ANSWER_COUNTS),
            // One that is about to stop says so too, and what it had said before must last until it is back.
            Err(status) if status.code == 429 || status.code >= 500 => return Verdict::Unknown,
            Err(_) => (Verdict::Free, ABSENCE_COUNTS),
        };
        *answer = (verdict, Some(Instant::now() + counts));
        verdict
    }

    async fn ask(&self) -> Result<bool, Status> {
        let request = Request::get(STATE_PATH).body(Bytes::new()).map_err(Status::internal)?;
        let response = self.plane.raw(request).await?;
        let code = response.status().as_u16();
        if code >= 400 {
            return Err(Status::from_response(code, response.body()));
        }
        let answer: Value = serde_json::from_slice(response.body()).map_err(Status::internal)?;
        answer["on"].as_bool().ok_or_else(|| Status::internal("an answer without words"))
    }
}
