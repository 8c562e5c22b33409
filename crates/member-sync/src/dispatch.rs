//! A work on its way into the member and back: apply, reflect, and one write of what came of it.

use std::sync::Arc;

use api::work::{ANNOTATION_TEMPLATE_UID, ManifestStatus, WorkStatus};
use object::time::format_seconds;
use object::{Object, error_list};
use plane_metrics::AppliedObject;
use reconcile::{Outcome as Next, ReconcileError, Regarding};

use crate::apply::{self, Action, Applied, ApplyError, ManifestTarget};
use crate::manifest::{Manifest, is_suspended, manifests};
use crate::member::{Member, MemberState};
use crate::reflect::{record_health, reflect};
use crate::work_status::{self, Dispatching, Outcome};

/// Brings the member in line with the work as far as it is ready for it, and the work in line with what the member says.
pub async fn dispatch(member: &Member, work: &Arc<Object>, state: MemberState) -> Result<Next, ReconcileError> {
    let current: WorkStatus = api::read_at(work, &["status"])?;
    let mut next = current.clone();
    let now = format_seconds(member.plane.clock.now());
    let mut held = Vec::new();
    // True when this process applies the work for the first time.
    let is_first = !member.records.was_applied(work, 0) && !work_status::is_applied(&current);
    // A member that is not ready is left alone, and so is what its works say; it is looked at again when it is back.
    let then = match (is_suspended(work), state.is_ready) {
        (_, false) => Next::Done,
        (true, true) => {
            observe_suspended(member, work, &mut next).await;
            Next::Done
        }
        (false, true) => {
            let applied = apply_manifests(member, work, &current, &mut held).await;
            if is_first && applied.is_all_new() && member.plane.settings.runs.work_status {
                // The member soon reports the first status: one write says that and that it was applied.
                record_work(member, work, &applied.outcome);
                return Ok(Next::After(member.plane.settings.reflect_wait));
            }
            report_all(member, work, applied, &current, &mut next, &now).await
        }
    };
    // Of a member that is not ready nothing new is known, so what was held there still is.
    let dispatching = match (is_suspended(work), held.is_empty()) {
        (true, _) => Dispatching::Suspended,
        (false, true) if !state.is_ready && work_status::is_held(&current) => Dispatching::Unchanged,
        (false, true) => Dispatching::Yes,
        (false, false) => Dispatching::Held(held.join(", ")),
    };
    let is_news = work_status::set_dispatching(&mut next, &dispatching, &now);
    if next != current {
        let written = work_status::commit(&member.plane.client, work, &next).await;
        match written {
            Ok(Some(written)) => member.plane.works.note(&written),
            Ok(None) => {}
            Err(status) if status.is_not_found() => return Ok(Next::Done),
            Err(status) => return Err(status.into()),
        }
    }
    if is_news && let Some(condition) = next.conditions.iter().find(|c| c.kind == api::work::CONDITION_DISPATCHING) {
        member.plane.recorders.execution.normal(Regarding::from(&**work), "WorkDispatching", condition.message.clone());
    }
    Ok(then)
}

/// Reports the status of objects already in the member while dispatching is suspended.
async fn observe_suspended(member: &Member, work: &Object, next: &mut WorkStatus) {
    if !work_status::is_applied(next) {
        return;
    }
    let mut seen = Vec::new();
    for manifest in manifests(work) {
        let observed = match ManifestTarget::of(member, manifest).await {
            Ok(place) => apply::look(member, &place).await.ok().flatten(),
            Err(_) => None,
        };
        seen.extend(manifest_status(member, work, manifest, next, observed.as_deref()).await.ok().flatten());
    }
    next.manifest_statuses = seen;
}

/// The results for the manifests of a work.
struct AppliedManifests<'a> {
    outcome: Outcome,
    /// Each with its object in the member, if there is one.
    observed: Vec<(Manifest<'a>, Option<Arc<Object>>)>,
    then: Next,
    is_unknown: bool,
    /// Objects that were not there before.
    created: usize,
}

impl AppliedManifests<'_> {
    /// Reports whether every object was made just now, so that none has a status worth reporting.
    fn is_all_new(&self) -> bool {
        self.created > 0 && self.created == self.outcome.manifests
    }
}

async fn apply_manifests<'a>(
    member: &Member,
    work: &'a Object,
    current: &WorkStatus,
    held: &mut Vec<String>,
) -> AppliedManifests<'a> {
    let outcome = Outcome::default();
    let mut all = AppliedManifests { outcome, observed: Vec::new(), then: Next::Done, is_unknown: false, created: 0 };
    for manifest in manifests(work) {
        let outcome = &mut all.outcome;
        outcome.manifests += 1;
        let result = apply::apply(member, work, manifest).await;
        let observed = match result {
            Ok(Applied { object, action }) => {
                outcome.applied += 1;
                outcome.has_written |= action != Action::None;
                let is_recreation = action == Action::Created && work_status::is_applied(current);
                outcome.is_recreation |= is_recreation;
                all.created += usize::from(action == Action::Created);
                count(member, manifest, true, Some(action), is_recreation);
                record_applied(member, manifest, action);
                Some(object)
            }
            Err(ApplyError::Held { action, object, observed }) => {
                held.push(format!("it would {action} {object}"));
                all.is_unknown = true;
                observed
            }
            Err(error) => {
                all.then = Next::Retry;
                outcome.is_recreation |= matches!(error, ApplyError::Create(_)) && work_status::is_applied(current);
                all.is_unknown |= is_doubtful(member, work, manifest, current, &error);
                let tried = match &error {
                    ApplyError::Create(_) => Some(Action::Created),
                    ApplyError::Update(_) => Some(Action::Updated),
                    _ => None,
                };
                count(member, manifest, false, tried, work_status::is_applied(current));
                record_failed(member, manifest, &error);
                outcome.failure.get_or_insert_with(|| error.failure());
                outcome.errors.push(error.to_string());
                None
            }
        };
        all.observed.push((manifest, observed));
    }
    all
}

/// Puts into the status what became of the manifests.
async fn report_all(
    member: &Member,
    work: &Object,
    applied: AppliedManifests<'_>,
    current: &WorkStatus,
    next: &mut WorkStatus,
    now: &str,
) -> Next {
    let AppliedManifests { outcome, observed, mut then, is_unknown, .. } = applied;
    let mut statuses = Vec::new();
    for (manifest, observed) in observed {
        match manifest_status(member, work, manifest, current, observed.as_deref()).await {
            Ok(status) => statuses.extend(status),
            Err(_) => {
                then = Next::Retry;
                statuses.extend(work_status::manifest_status(current, manifest.ordinal).cloned());
            }
        }
    }
    next.manifest_statuses = statuses;
    // Of a member that gives no answer nothing new is known, so nothing new is said.
    if !is_unknown {
        work_status::set_applied(next, &outcome, now);
    }
    record_work(member, work, &outcome);
    then
}

/// Reports whether the work's status may still hold: it was applied, and the member did not report otherwise.
fn is_doubtful(
    member: &Member,
    work: &Object,
    manifest: Manifest<'_>,
    current: &WorkStatus,
    error: &ApplyError,
) -> bool {
    let has_nothing_new = || error.is_passing() && member.records.was_applied(work, manifest.ordinal);
    work_status::is_applied(current) && (error.leaves_unknown() || has_nothing_new())
}

/// Returns the status of a manifest: from the object if it was observed, else the previous status.
async fn manifest_status(
    member: &Member,
    work: &Object,
    manifest: Manifest<'_>,
    current: &WorkStatus,
    observed: Option<&Object>,
) -> Result<Option<ManifestStatus>, interpreter::InterpretError> {
    let before = work_status::manifest_status(current, manifest.ordinal);
    let Some(observed) = observed.filter(|_| member.plane.settings.runs.work_status) else {
        return Ok(before.cloned());
    };
    let status = reflect(member, work, manifest, observed).await?;
    record_health(member, work, manifest, before.map(|b| b.health.as_str()), &status.health);
    Ok(Some(status))
}

/// Counts what was tried in the member.
fn count(member: &Member, manifest: Manifest<'_>, is_ok: bool, tried: Option<Action>, is_recreation: bool) {
    let subject =
        AppliedObject { api_version: manifest.api_version(), kind: manifest.kind(), cluster: member.cluster.as_str() };
    let metrics = &member.plane.metrics.propagation;
    match tried {
        Some(Action::Created) => metrics.created(is_ok, subject, is_recreation),
        Some(Action::Updated) => metrics.updated(is_ok, subject, is_ok),
        Some(Action::None) | None => {}
    }
}

fn record_applied(member: &Member, manifest: Manifest<'_>, action: Action) {
    if action == Action::None {
        return;
    }
    if let Some(template) = template_of(manifest) {
        let (namespace, name) = (manifest.namespace(), manifest.name());
        let text = format!("Successfully applied resource({namespace}/{name}) to cluster ");
        member.plane.recorders.execution.normal_listing(template, "SyncSucceed", text, member.cluster.as_str());
    }
}

fn record_failed(member: &Member, manifest: Manifest<'_>, error: &ApplyError) {
    if let Some(template) = template_of(manifest) {
        let key = match manifest.namespace() {
            "" => manifest.name().to_owned(),
            namespace => format!("{namespace}/{}", manifest.name()),
        };
        let text = format!("Failed to create or update resource({key}) in member cluster({}): {error}", member.cluster);
        member.plane.recorders.execution.warning(template, "SyncFailed", text);
    }
}

fn record_work(member: &Member, work: &Object, outcome: &Outcome) {
    let (namespace, name, cluster) = (work.namespace(), work.name(), &member.cluster);
    let recorder = &member.plane.recorders.execution;
    if !outcome.errors.is_empty() {
        let errors = error_list::joined(&outcome.errors);
        let text = format!("Failed to sync work({namespace}/{name}) to cluster({cluster}), err: {errors}");
        recorder.warning(Regarding::from(work), "SyncFailed", text);
    } else if outcome.has_written {
        let text = format!("Sync work({namespace}/{name}) to cluster({cluster}) successful.");
        recorder.normal(Regarding::from(work), "SyncSucceed", text);
    }
}

/// The template in the control plane a manifest was made of; only those know it that carry its uid.
fn template_of(manifest: Manifest<'_>) -> Option<Regarding> {
    let uid = manifest.annotation(ANNOTATION_TEMPLATE_UID);
    (!uid.is_empty()).then(|| Regarding {
        api_version: manifest.api_version().to_owned(),
        kind: manifest.kind().to_owned(),
        namespace: manifest.namespace().to_owned(),
        name: manifest.name().to_owned(),
        uid: uid.to_owned(),
    })
}
