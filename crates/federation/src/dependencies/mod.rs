//! Propagates the dependencies of templates to the clusters of the templates.
//!
//! Woken by bindings that are scheduled, by attached bindings that go and by changes of what is needed. Writes on the
//! dependent its finalizer and the dependencies found; of attached bindings what `propagation::dependency` says.

mod attach;
mod sources;

use std::collections::HashSet;
use std::sync::Arc;

use api::config::DependentObjectReference;
use api::work::{ANNOTATION_DEPENDENCIES, FINALIZER_DEPENDENCIES, ObjectReference};
use interpreter::Operation;
use interpreter::question::Dependencies;
use object::{GroupVersionKind, Object, Status};
use parking_lot::Mutex;
use propagation::dependency::{dependencies_text, recorded_dependencies, split_by_namespace};
use reconcile::events::Recorder;
use reconcile::mirror::ObjectKey;
use reconcile::{Controller, Outcome, ReconcileError, commit_object};
use tokio_util::sync::CancellationToken;

use crate::bindings::check_scope;
use crate::plane::{FIELD_MANAGER, Plane};
use crate::templates::Template;

pub use crate::dependencies::sources::dependency_keys;

/// Component name of events.
const COMPONENT: &str = "dependencies-distributor";

struct Distributor {
    plane: Arc<Plane>,
    controller: Controller<ObjectKey>,
    /// Kinds something needs objects of, whose changes are followed.
    followed: Mutex<HashSet<GroupVersionKind>>,
    recorder: Recorder,
}

pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    tokio::select! {
        () = cancel.cancelled() => return,
        () = plane.templates.listed() => {}
    }
    let recorder = Recorder::start(plane.client.clone(), COMPONENT, Arc::clone(&plane.clock), cancel.clone());
    let workers = plane.settings.dependency_workers;
    let controller = Controller::new(COMPONENT).observed_by(&plane.metrics.controllers);
    let distributor =
        Arc::new(Distributor { plane, controller: controller.clone(), followed: Mutex::default(), recorder });
    let sources = vec![sources::binding_source(&distributor)];
    let reconcile = move |key| Distributor::reconcile(Arc::clone(&distributor), key);
    controller.run(sources, workers, cancel, reconcile).await;
}

impl Distributor {
    async fn reconcile(self: Arc<Self>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
        // From the API: what was recorded last is where attached bindings are found that no mirror shows yet.
        let target = self.plane.bindings.target(&key);
        let Some(dependent) = self.plane.client.find(target).await? else { return Ok(Outcome::Done) };
        if let Err(refusal) = check_scope(&self.plane, &dependent)
            && !dependent.is_deleting()
        {
            tracing::debug!(binding = %key, %refusal, "the dependencies of the binding are not propagated");
            return Ok(Outcome::Done);
        }
        if !propagates_dependencies(&dependent) || dependent.is_deleting() {
            self.detach_all(&dependent).await?;
            self.commit_finalizer_removal(&dependent).await?;
            return Ok(Outcome::Done);
        }
        let reference: ObjectReference = api::read_at(&dependent, &["spec", "resource"])?;
        let Some(template) = self.plane.templates.find(&Template::from(&reference)).await? else {
            // The binding goes after its template.
            return Ok(Outcome::Done);
        };
        let Some(dependencies) = self.gather_dependencies(&template).await? else { return Ok(Outcome::Done) };
        let former = recorded_dependencies(&dependent).unwrap_or_default();
        let dependent = self.commit_dependencies(dependent, &template, &dependencies).await?;
        match self.synchronize(&dependent, &former, &dependencies).await {
            Ok(0) => Ok(Outcome::Done),
            Ok(_) => {
                let message = "Sync schedule results to dependencies succeed.";
                self.recorder.normal(&*dependent, "SyncScheduleResultToDependenciesSucceed", message);
                Ok(Outcome::Done)
            }
            Err(status) => {
                if !status.is_conflict() {
                    let reason = "SyncScheduleResultToDependenciesFailed";
                    self.recorder.warning(&*dependent, reason, status.to_string());
                }
                Err(status.into())
            }
        }
    }

    /// Returns the dependencies of the template; `None` when its kind has no interpreter for them.
    async fn gather_dependencies(&self, template: &Object) -> Result<Option<Vec<DependentObjectReference>>, Status> {
        let interpreter = self.plane.interpreter.load();
        if !interpreter.has_hook(&template.gvk(), Operation::InterpretDependency) {
            return Ok(None);
        }
        let dependencies = interpreter.ask(Dependencies(template)).await.map_err(|error| {
            self.recorder.warning(template, "GetDependenciesFailed", error.to_string());
            Status::internal(error)
        })?;
        let (own, foreign) = split_by_namespace(dependencies, template.namespace());
        if !foreign.is_empty() {
            let (namespace, refused) = (template.namespace(), print_references(&foreign));
            let message = format!("dependencies outside namespace {namespace} are not propagated: {refused}");
            self.recorder.warning(template, "GetDependenciesFailed", message);
        }
        Ok(Some(own))
    }

    /// Notes on the dependent what it needs, and holds it until what is attached to it is detached.
    async fn commit_dependencies(
        &self,
        dependent: Arc<Object>,
        template: &Object,
        dependencies: &[DependentObjectReference],
    ) -> Result<Arc<Object>, Status> {
        let text = dependencies_text(dependencies);
        let is_recorded = dependent.annotation(ANNOTATION_DEPENDENCIES) == Some(text.as_str());
        if is_recorded && dependent.has_finalizer(FINALIZER_DEPENDENCIES) {
            return Ok(dependent);
        }
        let mut desired = Object::clone(&dependent);
        desired.add_finalizer(FINALIZER_DEPENDENCIES);
        desired.set_annotation(ANNOTATION_DEPENDENCIES, &text);
        let target = self.plane.bindings.target(&ObjectKey::of(&dependent));
        let committed = commit_object(&self.plane.client, target, &dependent, &desired, FIELD_MANAGER).await?;
        let message = format!("Get dependencies({}) succeed.", print_references(dependencies));
        self.recorder.normal(template, "GetDependenciesSucceed", message);
        Ok(match committed {
            reconcile::Committed::Written(written) => written,
            reconcile::Committed::Unchanged => dependent,
        })
    }

    async fn commit_finalizer_removal(&self, dependent: &Object) -> Result<(), Status> {
        if !dependent.has_finalizer(FINALIZER_DEPENDENCIES) {
            return Ok(());
        }
        let mut desired = dependent.clone();
        desired.remove_finalizer(FINALIZER_DEPENDENCIES);
        let target = self.plane.bindings.target(&ObjectKey::of(dependent));
        match commit_object(&self.plane.client, target, dependent, &desired, FIELD_MANAGER).await {
            Err(status) if !status.is_not_found() => Err(status),
            _ => Ok(()),
        }
    }
}

fn propagates_dependencies(binding: &Object) -> bool {
    binding.bool_at(&["spec", "propagateDeps"]).unwrap_or(false)
}

/// Dependencies as Karmada's events print them.
fn print_references(dependencies: &[DependentObjectReference]) -> String {
    let one = |dependency: &DependentObjectReference| {
        let DependentObjectReference { api_version, kind, namespace, name, label_selector } = dependency;
        let labels = match label_selector.as_ref().map(api::core::LabelSelector::compile) {
            None => "nil".to_owned(),
            Some(Ok(labels)) => format!("&LabelSelector{{{labels}}}"),
            Some(Err(error)) => format!("&LabelSelector{{{error}}}"),
        };
        format!("{{APIVersion:{api_version} Kind:{kind} Namespace:{namespace} Name:{name} LabelSelector:{labels}}}")
    };
    let all: Vec<String> = dependencies.iter().map(one).collect();
    format!("[{}]", all.join(" "))
}

#[cfg(test)]
mod tests;
