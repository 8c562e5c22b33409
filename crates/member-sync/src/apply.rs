//! Brings one manifest into the member: made when absent, written when it differs, left alone when it is someone else's.

use std::borrow::Cow;
use std::sync::Arc;

use api::work::{ANNOTATION_CONFLICT_RESOLUTION, ApplyFailure};
use cluster_client::{ApiResource, ResourceRef, WriteOptions, is_unreachable};
use interpreter::question::Retain;
use interpreter::{InterpretError, Operation};
use object::{GroupVersionKind, Object, Status};
use reconcile::ObjectKey;

use crate::gate::Verdict;
use crate::manifest::Manifest;
use crate::member::{FIELD_MANAGER, Member};
use crate::{retain, work_status};

/// The result of applying a manifest, with the object in the member.
#[derive(Clone, Debug)]
pub struct Applied {
    pub object: Arc<Object>,
    pub action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It was as it should be.
    None,
    Created,
    Updated,
}

/// The reason a manifest was not applied. The text is shown to users.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The state of the member is unknown, so nothing was done.
    #[error("{0}")]
    Look(#[source] Status),
    #[error("{0}")]
    Create(#[source] Status),
    #[error("{0}")]
    Update(#[source] Status),
    #[error(
        "resource(kind={kind}, {key}) already exists in the cluster {cluster} and the {ANNOTATION_CONFLICT_RESOLUTION} \
         strategy value is empty, Karmada will not manage this resource"
    )]
    Taken { kind: String, key: String, cluster: String },
    /// Safe mode: what is there, if anything, stays as it is.
    #[error("it would {action} {object}")]
    Held { action: &'static str, object: String, observed: Option<Arc<Object>> },
    #[error(transparent)]
    Interpret(#[from] InterpretError),
}

impl ApplyError {
    /// The member was asked what it has and did not say.
    pub fn leaves_unknown(&self) -> bool {
        matches!(self, Self::Look(status) if is_passing(status) || matches!(status.code, 401 | 403))
    }

    /// The member may take the same a moment later.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Look(status) | Self::Create(status) | Self::Update(status) if is_passing(status))
    }
}

impl ApplyError {
    /// Returns the code of the error, for advice.
    pub fn failure(&self) -> ApplyFailure {
        match self {
            Self::Look(status) | Self::Create(status) | Self::Update(status) => failure_of(status),
            Self::Taken { .. } => ApplyFailure::AlreadyExists,
            Self::Interpret(_) => ApplyFailure::Interpreter,
            Self::Held { .. } => ApplyFailure::Other,
        }
    }
}

fn failure_of(status: &Status) -> ApplyFailure {
    let kind = status.details.as_ref().map_or("", |details| details.kind.as_str());
    // kube-apiserver marks a denial by a webhook or by a quota in the message only; the codes are the webhook's choice.
    if status.message.starts_with("admission webhook ") {
        return ApplyFailure::AdmissionDenied;
    }
    if status.code == 403 && status.message.contains("exceeded quota: ") {
        return ApplyFailure::QuotaExceeded;
    }
    match status.code {
        _ if is_passing(status) => ApplyFailure::Unreachable,
        401 => ApplyFailure::CredentialsRejected,
        403 => ApplyFailure::Forbidden,
        404 if kind == "namespaces" => ApplyFailure::NamespaceMissing,
        404 if status.is_not_served() => ApplyFailure::KindNotServed,
        400 | 422 => ApplyFailure::Invalid,
        _ => ApplyFailure::Other,
    }
}

fn is_passing(status: &Status) -> bool {
    is_unreachable(status) || status.code == 429 || status.code >= 500
}

/// The target of a manifest.
pub struct ManifestTarget {
    pub resource: ApiResource,
    pub key: ObjectKey,
}

impl ManifestTarget {
    pub async fn of(member: &Member, manifest: Manifest<'_>) -> Result<Self, Status> {
        let gvk = manifest.gvk()?;
        let resource = match member.mapper.resource_of(&gvk).await {
            Err(status) if status.is_not_found() => return Err(not_served(member, &gvk, status).await?),
            found => found?,
        };
        let namespace = if resource.namespaced { manifest.namespace() } else { "" };
        if resource.namespaced && namespace.is_empty() {
            return Err(Status::bad_request("an empty namespace may not be set during creation"));
        }
        Ok(Self { key: ObjectKey::new(namespace, manifest.name()), resource })
    }

    pub fn target(&self) -> ResourceRef {
        match self.resource.namespaced {
            true => ResourceRef::namespaced(&self.resource.gvr, &self.key.namespace, &self.key.name),
            false => ResourceRef::cluster(&self.resource.gvr, &self.key.name),
        }
    }

    fn collection(&self) -> ResourceRef {
        match self.resource.namespaced {
            true => ResourceRef::within(&self.resource.gvr, &self.key.namespace),
            false => ResourceRef::all(&self.resource.gvr),
        }
    }
}

/// A kind the member does not serve, unless it could not say what it serves.
async fn not_served(member: &Member, gvk: &GroupVersionKind, status: Status) -> Result<Status, Status> {
    let served = member.mapper.all().await?;
    let version = gvk.group_version();
    match served.incomplete.contains(&version) {
        true => Ok(Status::unavailable(format!("the member does not say at the moment what it serves of {version}"))),
        false => Ok(status),
    }
}

/// The object as far as the copy knows it; asks the member where there is no copy.
pub async fn look(member: &Member, place: &ManifestTarget) -> Result<Option<Arc<Object>>, Status> {
    let mirror = member.watches.of(&place.resource.gvr).await;
    if mirror.is_synced() {
        return Ok(mirror.get(&place.key));
    }
    member.client.find(place.target()).await
}

/// Applies a manifest of a work.
pub async fn apply(member: &Member, work: &Object, manifest: Manifest<'_>) -> Result<Applied, ApplyError> {
    let place = ManifestTarget::of(member, manifest).await.map_err(ApplyError::Look)?;
    let Some(observed) = look(member, &place).await.map_err(ApplyError::Look)? else {
        // Had it never been there, making it takes nothing away. What is gone was removed after the backup, or moved.
        if was_applied(work) {
            pass(member, manifest, "bring back", None).await?;
        }
        return create(member, work, manifest, &place).await;
    };
    if member.records.is_settled(work, manifest.ordinal, &observed) {
        return Ok(Applied { object: observed, action: Action::None });
    }
    match update(member, work, manifest, &place, observed).await {
        // The copy was behind; the member itself knows.
        Err(ApplyError::Update(status)) if status.is_conflict() || status.is_not_found() => {
            match member.client.find(place.target()).await.map_err(ApplyError::Look)? {
                Some(observed) => update(member, work, manifest, &place, observed).await,
                None => create(member, work, manifest, &place).await,
            }
        }
        result => result,
    }
}

fn was_applied(work: &Object) -> bool {
    api::read_at(work, &["status"]).is_ok_and(|status| work_status::is_applied(&status))
}

/// Refuses while the gate is shut.
async fn pass(
    member: &Member,
    manifest: Manifest<'_>,
    action: &'static str,
    observed: Option<&Arc<Object>>,
) -> Result<(), ApplyError> {
    match member.plane.settings.gate.verdict().await {
        Verdict::Free => Ok(()),
        Verdict::Held => {
            Err(ApplyError::Held { action, object: manifest.described(), observed: observed.map(Arc::clone) })
        }
        Verdict::Unknown => {
            let text = "whether the control plane is in safe mode is not known yet";
            Err(ApplyError::Look(Status::unavailable(text)))
        }
    }
}

/// The copy shows managed objects only, so one that is not in it may still be there and someone else's; the member says.
async fn create(
    member: &Member,
    work: &Object,
    manifest: Manifest<'_>,
    place: &ManifestTarget,
) -> Result<Applied, ApplyError> {
    let desired = manifest.to_object().map_err(ApplyError::Look)?;
    let options = WriteOptions::managed_by(FIELD_MANAGER);
    match member.client.create(place.collection(), desired, options).await {
        Ok(object) => {
            member.watches.note(&place.resource.gvr, &object);
            member.records.settle(work, manifest.ordinal, &object);
            Ok(Applied { object, action: Action::Created })
        }
        Err(status) if is_passing(&status) || status.is_not_served() => Err(ApplyError::Create(noted(member, status))),
        // It may be there: not every member answers "already exists" first. A Service whose node port or cluster IP is
        // in use, by the Service itself, is invalid; a quota that is used up forbids.
        Err(status) => match member.client.find(place.target()).await {
            Ok(Some(observed)) => update(member, work, manifest, place, observed).await,
            Err(failure) if status.is_already_exists() => Err(ApplyError::Look(failure)),
            Ok(None) | Err(_) => Err(ApplyError::Create(status)),
        },
    }
}

async fn update(
    member: &Member,
    work: &Object,
    manifest: Manifest<'_>,
    place: &ManifestTarget,
    observed: Arc<Object>,
) -> Result<Applied, ApplyError> {
    let mut desired = manifest.to_object().map_err(ApplyError::Look)?;
    if !retain::may_update(&desired, &observed) {
        let key = format!("{}/{}", manifest.namespace(), manifest.name());
        return Err(ApplyError::Taken { kind: manifest.kind().to_owned(), key, cluster: member.cluster.clone() });
    }
    retain::retain_metadata(&mut desired, &observed);
    let desired = retain_by_rule(member, desired, &observed).await?;
    if !retain::is_same(&desired, &observed) {
        pass(member, manifest, "change", Some(&observed)).await?;
    }
    let written = write_if_different(member, place, desired, &observed).await.map_err(ApplyError::Update)?;
    let applied = match written {
        // The member made of it what it was: its admission changes it back.
        Some(object) if object.resource_version() == observed.resource_version() => {
            Applied { object, action: Action::None }
        }
        Some(object) => {
            member.watches.note(&place.resource.gvr, &object);
            Applied { object, action: Action::Updated }
        }
        None => Applied { object: observed, action: Action::None },
    };
    member.records.settle(work, manifest.ordinal, &applied.object);
    Ok(applied)
}

/// Keeps the fields of this kind that the member's own controllers set.
pub async fn retain_by_rule(member: &Member, desired: Object, observed: &Object) -> Result<Object, InterpretError> {
    let interpreter = member.plane.interpreter.load();
    if !interpreter.has_hook(&desired.gvk(), Operation::Retain) {
        return Ok(desired);
    }
    interpreter.ask(Retain { desired: Cow::Owned(desired), observed }).await
}

/// `None` when nothing differs and nothing was sent.
pub async fn write_if_different(
    member: &Member,
    place: &ManifestTarget,
    mut desired: Object,
    observed: &Object,
) -> Result<Option<Arc<Object>>, Status> {
    if retain::is_same(&desired, observed) {
        return Ok(None);
    }
    // Without a status subresource the status is written with the rest, and would be lost.
    if !place.resource.subresources.iter().any(|name| name == "status")
        && let Some(status) = observed.get(&["status"])
    {
        desired.set(&["status"], status.clone());
    }
    let options = WriteOptions::managed_by(FIELD_MANAGER);
    member.client.update(place.target(), desired, options).await.map(Some).map_err(|status| noted(member, status))
}

fn noted(member: &Member, status: Status) -> Status {
    if status.is_not_served() {
        // The member no longer serves the kind as it did.
        member.mapper.invalidate();
    }
    status
}

#[cfg(test)]
mod tests {
    use object::GroupResource;

    use super::*;

    #[test]
    fn failures_have_reason_codes() {
        let check = |status: Status, expected: ApplyFailure| {
            let text = status.to_string();
            assert_eq!(ApplyError::Create(status).failure(), expected, "{text}");
        };
        let forbidden = |text: &str| Status::new(403, "Forbidden", text);

        check(Status::unavailable("starting"), ApplyFailure::Unreachable);
        check(Status::new(429, "TooManyRequests", "later"), ApplyFailure::Unreachable);
        check(Status::new(401, "Unauthorized", "Unauthorized"), ApplyFailure::CredentialsRejected);
        check(forbidden("deployments.apps \"web\" is forbidden: exceeded quota: q"), ApplyFailure::QuotaExceeded);
        check(forbidden("deployments.apps is forbidden: User \"x\" cannot create"), ApplyFailure::Forbidden);
        check(forbidden("admission webhook \"a.b\" denied the request: no"), ApplyFailure::AdmissionDenied);
        let webhook = "admission webhook \"a.b\" denied the request: no";
        check(Status::new(400, "BadRequest", webhook), ApplyFailure::AdmissionDenied);
        let namespaces = GroupResource { group: String::new(), resource: "namespaces".to_owned() };
        check(Status::not_found(&namespaces, "shop"), ApplyFailure::NamespaceMissing);
        check(Status::new(404, "NotFound", "no matches for kind"), ApplyFailure::KindNotServed);
        check(Status::new(422, "Invalid", "spec.a: Required value"), ApplyFailure::Invalid);
        check(Status::new(409, "Conflict", "changed"), ApplyFailure::Other);
    }
}
