//! Drops history that can no longer be requested: in the caches as the store compacts, and in etcd by compacting it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::server::Server;

/// Time for which lists can be continued and etcd keeps history; the same as in kube-apiserver.
const HISTORY_KEPT: Duration = Duration::from_secs(300);
/// Interval at which caches drop what the store has compacted.
const FOLLOW_EVERY: Duration = Duration::from_secs(30);

pub fn start(server: &Arc<Server>) {
    let (weak, stop) = (Arc::downgrade(server), server.stop.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = follow(weak) => {}
        }
    });
}

async fn follow(server: Weak<Server>) {
    let rounds_kept = (HISTORY_KEPT.as_secs() / FOLLOW_EVERY.as_secs()) as usize;
    let mut revisions = std::collections::VecDeque::new();
    loop {
        tokio::time::sleep(FOLLOW_EVERY).await;
        let Some(server) = server.upgrade() else { return };
        let store = server.objects.store();
        if let Ok(revision) = store.revision().await {
            revisions.push_back(revision);
            if revisions.len() > rounds_kept
                && let Some(old) = revisions.pop_front()
            {
                server.objects.forget_history_before(old);
                if store.engine() == "etcd"
                    // Another replica may have been faster; that is as good.
                    && let Err(error) = store.compact(old).await
                {
                    tracing::debug!(%error, "history was not compacted this time");
                }
            }
        }
        server.compressed_parts.forget_unused();
        let compacted = store.compacted().await;
        for (_, cache) in server.registry.caches() {
            cache.forget_before(compacted);
        }
    }
}
