//! Expiry of events: many events share one lease of the store, so that a burst of them costs a handful of leases.

use std::sync::Arc;
use std::time::{Duration, Instant};

use object::Status;
use store::{LeaseId, Store};
use tokio::sync::Mutex;

use super::status_of_store;

/// Events written within this time share a lease and expire together.
const SHARED_FOR: Duration = Duration::from_secs(60);

pub struct EventLeases {
    ttl_seconds: i64,
    current: Mutex<Option<(LeaseId, Instant)>>,
}

impl EventLeases {
    pub fn new(ttl: Duration) -> Self {
        Self { ttl_seconds: ttl.as_secs().max(1) as i64, current: Mutex::new(None) }
    }

    /// A lease under which an object written now lives at least its full time.
    pub async fn lease(&self, store: &Arc<dyn Store>) -> Result<LeaseId, Status> {
        let mut current = self.current.lock().await;
        if let Some((lease, since)) = *current
            && since.elapsed() < SHARED_FOR
        {
            return Ok(lease);
        }
        let ttl = self.ttl_seconds + SHARED_FOR.as_secs() as i64;
        let lease = store.grant(ttl).await.map_err(status_of_store)?;
        *current = Some((lease, Instant::now()));
        Ok(lease)
    }
}
