//! Joins a cluster in push mode: credentials in the member, secrets and the Cluster object in the control plane.

mod control_plane;
mod member;

use std::time::Duration;

use api::cluster::{CLUSTERS, CONDITION_READY, ClusterStatus};
use api::core::find_condition;
use cluster_client::{ClusterClient, ResourceRef};
use object::Status;
use tokio::time::Instant;

use crate::cluster_name::check_name;
use crate::{ClusterLocation, MemberAccess, MembershipError, Progress};

pub use member::cluster_id;

const READY_POLL: Duration = Duration::from_millis(200);

pub struct JoinOptions {
    pub control_plane: ClusterClient,
    pub member: MemberAccess,
    pub name: String,
    /// Namespace of the secrets, in the control plane and in the member.
    pub namespace: String,
    pub location: ClusterLocation,
    /// Checks everything and changes nothing.
    pub dry_run: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum JoinOutcome {
    /// All checks passed, nothing was changed.
    Checked {
        id: String,
    },
    Joined {
        id: String,
    },
}

/// Joins a cluster. The same name, or the same cluster under another name, is refused.
pub async fn join(options: &JoinOptions, progress: &dyn Progress) -> Result<JoinOutcome, MembershipError> {
    join_annotated(options, &[], progress).await
}

/// The same; the Cluster is created with these annotations.
pub async fn join_annotated(
    options: &JoinOptions,
    annotations: &[(&str, &str)],
    progress: &dyn Progress,
) -> Result<JoinOutcome, MembershipError> {
    check_name(&options.name)?;
    let id = cluster_id(&options.member.client, &options.member.endpoint).await?;
    control_plane::refuse_duplicates(options, &id).await?;
    if options.dry_run {
        return Ok(JoinOutcome::Checked { id });
    }
    progress.note(&format!("preparing service accounts in cluster {} at {}", options.name, options.member.endpoint));
    let credentials = member::prepare(options, progress).await?;
    progress.note(&format!("registering cluster {} in the control plane", options.name));
    control_plane::register(options, &id, annotations, &credentials).await?;
    Ok(JoinOutcome::Joined { id })
}

/// Stores new credentials of a joined cluster in the control plane, for example after its secrets were deleted.
pub async fn renew_credentials(options: &JoinOptions, progress: &dyn Progress) -> Result<(), MembershipError> {
    let target = ResourceRef::cluster(&CLUSTERS.gvr(), &options.name);
    let Some(cluster) = options.control_plane.find(target).await? else {
        return Err(MembershipError::NoSuchCluster(options.name.clone()));
    };
    let credentials = member::prepare(options, progress).await?;
    control_plane::write_secrets(options, &credentials).await?;
    control_plane::own_secrets(options, &cluster).await
}

/// Readiness of a member as its Cluster object reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    NotReady(String),
}

/// Waits until the member is ready or the time is over, and returns its last readiness.
pub async fn wait_until_ready(
    control_plane: &ClusterClient,
    name: &str,
    wait: Duration,
    progress: &dyn Progress,
) -> Result<Readiness, MembershipError> {
    let deadline = Instant::now() + wait;
    let mut shown = String::new();
    loop {
        let reason = match readiness(control_plane, name).await? {
            Some(Readiness::NotReady(reason)) => reason,
            Some(Readiness::Ready) => return Ok(Readiness::Ready),
            None => return Err(MembershipError::NoSuchCluster(name.to_owned())),
        };
        if reason != shown {
            progress.note(&format!("waiting for cluster {name} to be ready: {reason}"));
            shown.clone_from(&reason);
        }
        if Instant::now() >= deadline {
            return Ok(Readiness::NotReady(reason));
        }
        tokio::time::sleep(READY_POLL).await;
    }
}

/// Reads the readiness of a member; `None` when the control plane has no such cluster.
pub async fn readiness(control_plane: &ClusterClient, name: &str) -> Result<Option<Readiness>, Status> {
    let Some(cluster) = control_plane.find(ResourceRef::cluster(&CLUSTERS.gvr(), name)).await? else {
        return Ok(None);
    };
    let status: ClusterStatus = api::read_at(&cluster, &["status"])?;
    if status.is_ready() {
        return Ok(Some(Readiness::Ready));
    }
    Ok(Some(Readiness::NotReady(match find_condition(&status.conditions, CONDITION_READY) {
        Some(ready) => format!("{}: {}", ready.reason, ready.message),
        None => "the control plane has not reported its status yet".to_owned(),
    })))
}

#[cfg(test)]
mod tests;
