//! Finds for every template the policy that claims it, and keeps its binding as both say.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::plane::Plane;

pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    plane.templates.listed().await;
    cancel.cancelled().await;
}
