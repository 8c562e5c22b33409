//! Sends what templates need beside themselves to where the templates go.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::plane::Plane;

pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    plane.templates.listed().await;
    cancel.cancelled().await;
}
