//! Reads one object.

use object::Status;

use super::{Answer, Target};
use crate::storage::{Objects, Stored, status_of_store};

/// The newest state, or any state not older than `revision` (0 is any).
pub async fn get(objects: &Objects, target: &Target, revision: Option<u64>) -> Result<Answer, Status> {
    if let Some(revision) = revision {
        // Reading the store itself is never older than anything it ever answered; only the future needs waiting for.
        target.resource.cache.reach(revision).await?;
    }
    let (found, _) = objects.store().get(&target.key()).await.map_err(status_of_store)?;
    let kv = found.ok_or_else(|| target.not_found())?;
    let stored = Stored::new(kv.value, kv.mod_revision)
        .ok_or_else(|| Status::internal(format!("stored object {} has no metadata", kv.key)))?;
    Ok(Answer::stored(200, stored))
}
