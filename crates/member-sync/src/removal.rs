//! A work on its way out: what it put into the member is deleted or let go, and only then may the work end.

use std::sync::Arc;

use api::safe_mode::HELD_BACK;
use api::work::{FINALIZER_EXECUTION, WORKS, WorkStatus};
use cluster_client::{
    DeleteOptions, Patch, Preconditions, PropagationPolicy, ResourceRef, WriteOptions, is_unreachable,
};
use object::time::format_seconds;
use object::{Object, Status};
use plane_metrics::AppliedObject;
use reconcile::{Outcome, ReconcileError};
use serde_json::{Value, json};

use crate::apply::{self, ManifestTarget};
use crate::gate::Verdict;
use crate::manifest::{Manifest, is_preserved, manifests};
use crate::member::{FIELD_MANAGER, Member, MemberState};
use crate::retain;
use crate::work_status::{self, Dispatching};

/// Maximum reads of an object that keeps changing, per attempt to delete it.
const LOOKS_MAX: usize = 5;

/// Ends a work that is being deleted.
pub async fn remove(member: &Member, work: &Arc<Object>, state: MemberState) -> Result<Outcome, ReconcileError> {
    if !work.has_finalizer(FINALIZER_EXECUTION) {
        return Ok(Outcome::Done);
    }
    match member.plane.settings.gate.verdict().await {
        Verdict::Free => {}
        Verdict::Unknown => return Ok(Outcome::Retry),
        Verdict::Held => return hold(member, work).await,
    }
    match (state.is_ready, state.is_leaving) {
        (true, _) => {
            if let Err(status) = clear(member, work).await {
                // The Ready condition shows that the member does not answer; a log line per attempt adds nothing.
                return if is_unreachable(&status) { Ok(Outcome::Retry) } else { Err(status.into()) };
            }
        }
        // The member is given up with all that is in it.
        (false, true) => {}
        // It will be looked at again when the member is ready, or leaves.
        (false, false) => return Ok(Outcome::Done),
    }
    release_finalizer(&member.plane.client, work).await?;
    member.records.forget(work.name());
    Ok(Outcome::Done)
}

/// Says on the work that it waits. It is looked at again when safe mode ends.
async fn hold(member: &Member, work: &Object) -> Result<Outcome, ReconcileError> {
    let mut status: WorkStatus = api::read_at(work, &["status"])?;
    let what: Vec<String> =
        manifests(work).map(|manifest| format!("it would delete {}", manifest.described())).collect();
    let now = format_seconds(member.plane.clock.now());
    if work_status::set_dispatching(&mut status, &Dispatching::Held(what.join(", ")), &now) {
        tracing::warn!(cluster = member.cluster, work = work.name(), "{HELD_BACK}: {}", what.join(", "));
        match work_status::commit(&member.plane.client, work, &status).await {
            Ok(Some(written)) => member.plane.works.note(&written),
            Ok(None) => {}
            Err(status) if status.is_not_found() => {}
            Err(status) => return Err(status.into()),
        }
    }
    Ok(Outcome::Done)
}

async fn clear(member: &Member, work: &Object) -> Result<(), Status> {
    for manifest in manifests(work) {
        let place = match ManifestTarget::of(member, manifest).await {
            Ok(place) => place,
            // A kind that is not served has no objects.
            Err(status) if status.is_not_found() => continue,
            Err(status) => return Err(status),
        };
        if is_preserved(work) {
            let_go(member, work, manifest, &place).await?;
        } else {
            delete(member, work, &place).await?;
        }
    }
    Ok(())
}

/// The object as it is certain to be. The copy may not have seen yet what was made a moment ago, so that an object is
/// not in it proves nothing.
async fn look_surely(member: &Member, place: &ManifestTarget) -> Result<Option<Arc<Object>>, Status> {
    match member.watches.known(&place.resource.gvr).and_then(|mirror| mirror.get(&place.key)) {
        Some(observed) => Ok(Some(observed)),
        None => member.client.find(place.target()).await,
    }
}

/// Deletes only the version that was checked: if the copy is stale or the object was taken over meanwhile, the member
/// refuses, and the object is checked again.
async fn delete(member: &Member, work: &Object, place: &ManifestTarget) -> Result<(), Status> {
    let mut seen = look_surely(member, place).await?;
    let mut looks = 1;
    loop {
        let Some(observed) = seen else { return Ok(()) };
        if !retain::is_managed(&observed) || retain::belongs_to_another(&observed, work) {
            return Ok(());
        }
        let options = DeleteOptions {
            preconditions: Preconditions {
                uid: Some(observed.uid().to_owned()),
                resource_version: Some(observed.resource_version().to_owned()),
            },
            // The default for jobs would leave their pods behind.
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteOptions::default()
        };
        let deleted = member.client.delete(place.target(), options).await;
        let subject =
            AppliedObject { api_version: observed.api_version(), kind: observed.kind(), cluster: &member.cluster };
        let is_ok = deleted.as_ref().map_or_else(Status::is_not_found, |_| true);
        member.plane.metrics.propagation.deleted(is_ok, subject);
        match deleted {
            Ok(_) => return Ok(()),
            Err(status) if status.is_not_found() => return Ok(()),
            Err(status) if status.is_conflict() && looks < LOOKS_MAX => looks += 1,
            Err(status) => return Err(status),
        }
        seen = member.client.find(place.target()).await?;
    }
}

/// Takes off what ties the object to the control plane and leaves the rest.
async fn let_go(member: &Member, work: &Object, manifest: Manifest<'_>, place: &ManifestTarget) -> Result<(), Status> {
    // The write replaces the object, so it must be based on the newest version.
    let Some(observed) = member.client.find(place.target()).await? else { return Ok(()) };
    if !retain::is_managed(&observed) || retain::belongs_to_another(&observed, work) {
        return Ok(());
    }
    let mut desired = manifest.to_object()?;
    retain::release(&mut desired);
    retain::retain_released_metadata(&mut desired, &observed);
    let desired = apply::retain_by_rule(member, desired, &observed).await.map_err(Status::internal)?;
    apply::write_if_different(member, place, desired, &observed).await.map(drop)
}

/// Lets a work end.
pub async fn release_finalizer(plane: &cluster_client::ClusterClient, work: &Object) -> Result<(), Status> {
    let kept: Vec<Value> = work.finalizers().filter(|f| *f != FINALIZER_EXECUTION).map(Value::from).collect();
    let finalizers = if kept.is_empty() { Value::Null } else { Value::Array(kept) };
    let body = json!({"metadata": {"finalizers": finalizers, "uid": work.uid(),
        "resourceVersion": work.resource_version()}});
    let target = ResourceRef::of(&WORKS.gvr(), work);
    match plane.patch(target, Patch::merge(body), WriteOptions::managed_by(FIELD_MANAGER)).await {
        Ok(_) => Ok(()),
        Err(status) if status.is_not_found() => Ok(()),
        Err(status) => Err(status),
    }
}
