//! The marker of a restored store: read at start, followed until the restore is confirmed.

use std::time::Duration;

use object::Status;
use plane_state::SafeMode;
use store::reserved::{self, Restored};

use apiserver::server::Server;

/// Interval for checking whether another replica has ended safe mode.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Returns the marker of a restore; `None` when there was none, or it was confirmed.
pub async fn find(server: &Server) -> Result<Option<Restored>, Status> {
    let found = reserved::restored(&**server.objects.store()).await;
    found.map_err(|error| Status::unavailable(format!("cannot read whether the store was restored: {error}")))
}

/// Ends safe mode in every server on this store.
pub async fn confirm(server: &Server, mode: &SafeMode) -> Result<(), Status> {
    let forgotten = reserved::forget_restored(&**server.objects.store()).await;
    forgotten.map_err(|error| Status::unavailable(format!("cannot end safe mode: {error}")))?;
    mode.set(false);
    Ok(())
}

/// Ends safe mode here when another server on this store has ended it. Returns when it is over.
pub async fn follow(server: &Server, mode: &SafeMode) {
    while mode.is_on() && !server.stop.is_cancelled() {
        tokio::time::sleep(CHECK_INTERVAL).await;
        if matches!(find(server).await, Ok(None)) {
            mode.set(false);
        }
    }
}
