//! Brings what members say back: from Works into their binding, from there into the template.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use api::work::{AggregatedStatusItem, BindingSpec, CONDITION_FULLY_APPLIED};
use cluster_client::{Patch, WriteOptions};
use interpreter::Operation;
use interpreter::question::AggregateStatus;
use object::request::Subresource;
use object::time::format_seconds;
use object::{Object, conditions};
use propagation::rollup;
use propagation::works::BindingRef;
use reconcile::{
    Change, Committed, Controller, ObjectKey, Outcome, Priority, ReconcileError, Source, Subscription, commit_status,
};
use tokio_util::sync::CancellationToken;

use crate::bindings::{Recorders, binding_of_work, check_scope, mirror_of, title, works_of};
use crate::plane::{FIELD_MANAGER, Plane};
use crate::templates::Template;

/// Members answer at about the same time: what comes within this of the first is summed up with it.
const GATHER_FOR: Duration = Duration::from_millis(20);

struct Context {
    plane: Arc<Plane>,
    recorders: Recorders,
}

/// Runs until cancelled.
pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    let names = ("resource-binding-status-controller", "cluster-resource-binding-status-controller");
    let recorders = Recorders::start(&plane, names.0, names.1, &cancel);
    let context = Arc::new(Context { recorders, plane });
    let plane = Arc::clone(&context.plane);
    tokio::select! {
        () = cancel.cancelled() => return,
        () = async { plane.templates.listed().await; plane.works.synced().await; } => {}
    }
    let controller = Controller::new("binding-status").observed_by(&plane.metrics.controllers);
    // From before the bindings are looked at, which all are at the start: nothing is missed in between.
    let changes = plane.works.subscribe_to_changes();
    let pump = tokio::spawn(pump_works(changes, controller.clone(), cancel.clone()));
    let sources = [&plane.bindings, &plane.cluster_bindings].map(|mirror| Source::all_existing(mirror, of_binding));
    let sources = Vec::from(sources);
    let workers = plane.settings.rollup_workers;
    let reconcile = move |key| {
        let context = Arc::clone(&context);
        async move { context.reconcile(key).await }
    };
    controller.run(sources, workers, cancel, reconcile).await;
    // It ends with the same token.
    drop(pump.await);
}

/// Works whose status changed or that are gone concern their binding, a moment later.
async fn pump_works(mut changes: Subscription, controller: Controller<ObjectKey>, cancel: CancellationToken) {
    loop {
        let change = tokio::select! {
            () = cancel.cancelled() => return,
            change = changes.next() => change,
        };
        let Some(change) = change else { return };
        if let Some(binding) = of_work(&change) {
            // As many keys as there are bindings wait at most.
            controller.queue().add_after(binding, GATHER_FOR, Priority::NORMAL);
        }
    }
}

/// A binding that was scheduled: when it is new, when its template changed, whose status may have to follow, and when
/// what kept it from being fully applied may be gone without a word from any work.
fn of_binding(change: &Change) -> Vec<ObjectKey> {
    let Some(now) = &change.now else { return Vec::new() };
    let version = |binding: &Object| binding.str_at(&["spec", "resource", "resourceVersion"]).to_owned();
    let is_news = change
        .before
        .as_ref()
        .is_none_or(|before| version(before) != version(now) || (!is_fully_applied(now) && expects_less(before, now)));
    let is_scheduled = !now.str_at(&["status", "lastScheduledTime"]).is_empty();
    if is_news && is_scheduled { vec![change.key.clone()] } else { Vec::new() }
}

fn is_fully_applied(binding: &Object) -> bool {
    conditions::is_true(binding, CONDITION_FULLY_APPLIED)
}

/// Reports whether a cluster is no longer a target. Its work may be long gone, as after an eviction.
fn expects_less(before: &Object, now: &Object) -> bool {
    let lists: [&[&str]; 3] = [&["spec", "clusters"], &["spec", "gracefulEvictionTasks"], &["spec", "requiredBy"]];
    lists.iter().any(|path| {
        let (before, now) = (before.items(path), now.items(path));
        before.iter().any(|item| !now.contains(item))
    })
}

fn of_work(change: &Change) -> Option<ObjectKey> {
    let is_same = |before: &Object, now: &Object| {
        before.get(&["status"]) == now.get(&["status"]) && before.is_deleting() == now.is_deleting()
    };
    match (&change.before, &change.now) {
        (Some(before), Some(now)) if is_same(before, now) => None,
        // Nothing has been heard of it.
        (None, Some(now)) if now.get(&["status", "conditions"]).is_none() => None,
        (_, Some(work)) | (Some(work), None) => binding_of_work(work),
        (None, None) => None,
    }
}

impl Context {
    async fn reconcile(&self, key: ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some(binding) = mirror_of(&self.plane, &key).get(&key) else { return Ok(Outcome::Done) };
        if binding.is_deleting() {
            return Ok(Outcome::Done);
        }
        if let Err(refusal) = check_scope(&self.plane, &binding) {
            tracing::debug!(binding = %key, %refusal, "the status of the binding is not aggregated");
            return Ok(Outcome::Done);
        }
        let spec: BindingSpec = api::read(&binding)?;
        let works = works_of(&self.plane, BindingRef::of(&binding));
        let has_status = binding.get(&["status", "aggregatedStatus"]).is_some();
        if works.is_empty() && !has_status && binding.str_at(&["status", "lastScheduledTime"]).is_empty() {
            // It was neither scheduled nor delivered.
            return Ok(Outcome::Done);
        }
        let items = rollup::aggregate(works.iter().map(Arc::as_ref), &spec.resource)?;
        self.commit_binding(&key, &binding, &spec, &items).await?;
        self.commit_template(&key, &spec, &items).await
    }

    async fn commit_binding(
        &self,
        key: &ObjectKey,
        binding: &Object,
        spec: &BindingSpec,
        items: &[AggregatedStatusItem],
    ) -> Result<(), ReconcileError> {
        let now = format_seconds(self.plane.clock.now());
        let Some(patch) = rollup::plan(binding, spec, items, &now)? else { return Ok(()) };
        let mirror = mirror_of(&self.plane, key);
        let target = mirror.target(key).subresource(Subresource::Status);
        let options = WriteOptions::managed_by(FIELD_MANAGER);
        match self.plane.client.patch(target, Patch::merge(patch), options).await {
            Ok(written) => {
                mirror.note(&written);
                let message = format!("Update {} with AggregatedStatus successfully.", title(key));
                self.recorders.of(key).normal(binding, "AggregateStatusSucceed", message);
                Ok(())
            }
            Err(error) => {
                if !error.is_conflict() && !error.is_not_found() {
                    self.recorders.of(key).warning(binding, "AggregateStatusFailed", error.to_string());
                }
                Err(error.into())
            }
        }
    }

    /// Writes what the kind makes of its members' states into the template, where the kind says so.
    async fn commit_template(
        &self,
        key: &ObjectKey,
        spec: &BindingSpec,
        items: &[AggregatedStatusItem],
    ) -> Result<Outcome, ReconcileError> {
        let template = Template::from(&spec.resource);
        let interpreter = self.plane.interpreter.load();
        if !interpreter.has_hook(&template.gvk(), Operation::AggregateStatus) {
            return Ok(Outcome::Done);
        }
        let Some(object) = self.plane.templates.find(&template).await? else { return Ok(Outcome::Done) };
        let recorder = self.recorders.of(key);
        let question = AggregateStatus { object: Cow::Borrowed(&object), items };
        let desired = match interpreter.ask(question).await {
            Ok(desired) => desired,
            Err(error) => {
                recorder.warning(&*object, "AggregateStatusFailed", error.to_string());
                return Err(ReconcileError::other(error));
            }
        };
        if desired.get(&["status"]) == object.get(&["status"]) {
            return Ok(Outcome::Done);
        }
        let target = self.plane.templates.target(&template).await?;
        match commit_status(&self.plane.client, target, &object, &desired, FIELD_MANAGER).await {
            Ok(Committed::Unchanged) => {}
            Ok(Committed::Written(written)) => {
                self.plane.templates.note(&written);
                let message = "Update Resource with AggregatedStatus successfully.";
                recorder.normal(&*object, "AggregateStatusSucceed", message);
            }
            // The template is gone, and its binding goes after it.
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                if !error.is_conflict() {
                    recorder.warning(&*object, "AggregateStatusFailed", error.to_string());
                }
                return Err(error.into());
            }
        }
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests;
