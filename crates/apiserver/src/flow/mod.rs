//! API priority and fairness: FlowSchemas sort requests into priority levels, and each level has seats and queues of its own.
//!
//! A request waits for a seat after its body has arrived and gives it back when its response is ready. The limits per user
//! (`limits`) apply to it as well. Watches are classified but need no seat.

mod classify;
mod defaults;
mod seats;

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use object::Status;
use object::request::User;
use parking_lot::Mutex;

use crate::admission::Live;
use crate::request::RequestInfo;
use crate::served_resources::ServedResources;
use classify::Classifier;
use seats::{Levels, Queued};

pub use defaults::objects as default_objects;
pub use seats::Seat;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
/// Time a request waits for a seat; a quarter of the time a request may take, as in kube-apiserver.
const WAIT_MAX: Duration = Duration::from_secs(15);

/// The FlowSchema and priority level of a request, by their uids; empty for objects that are not stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classified {
    pub schema_uid: String,
    pub level_uid: String,
    level: String,
    /// Identifies the flow within its level.
    flow: String,
    is_exempt: bool,
}

impl Classified {
    /// Names the classification in the response.
    pub fn add_headers(&self, headers: &mut HeaderMap) {
        let names = ["x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid"];
        for (name, uid) in names.into_iter().zip([&self.schema_uid, &self.level_uid]) {
            if let Ok(value) = HeaderValue::from_str(uid)
                && !uid.is_empty()
            {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
    }
}

pub struct FlowControl {
    classifier: Live<Classifier>,
    levels: Arc<Mutex<Levels>>,
    /// Seats of all levels together.
    seats: usize,
}

impl FlowControl {
    pub fn new(seats: usize) -> Self {
        let sources = &["flowschemas", "prioritylevelconfigurations"];
        let classifier = Live::of_group(GROUP, sources, Classifier::compile);
        Self { classifier, levels: Arc::default(), seats }
    }

    /// Finds the FlowSchema and priority level of a request.
    pub async fn classify(
        &self,
        registry: &ServedResources,
        user: &User,
        info: &RequestInfo,
    ) -> Result<Classified, Status> {
        let classifier = self.classifier.current(registry).await?;
        self.levels.lock().follow(&classifier, self.seats);
        Ok(classifier.classify(user, info))
    }

    /// Waits for a seat of the level; 429 when its queues are full or the wait takes too long.
    pub async fn enter(&self, classified: &Classified) -> Result<Option<Seat>, Status> {
        if classified.is_exempt {
            return Ok(None);
        }
        let queued = Levels::enter(&self.levels, &classified.level, &classified.flow);
        match queued {
            Queued::Seated(seat) => Ok(Some(seat)),
            Queued::Waiting(ticket) => match tokio::time::timeout(WAIT_MAX, ticket.seated()).await {
                Ok(Some(seat)) => Ok(Some(seat)),
                Ok(None) | Err(_) => Err(refused()),
            },
            Queued::Refused => Err(refused()),
        }
    }
}

fn refused() -> Status {
    Status::too_many_requests("Too many requests, please try again later.", 1)
}
