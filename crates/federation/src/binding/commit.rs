//! Writes claims and bindings, where they differ.

use std::sync::Arc;

use api::names::binding_name;
use cluster_client::{ResourceRef, WriteOptions};
use object::{Object, Status};
use propagation::binding::{BindingPlan, ONLY_VERSION, Twin, is_as_desired, plan_binding};
use propagation::claim;
use propagation::policy::{Policy, Scope};
use reconcile::{Committed, ObjectKey, commit_object};

use crate::binding::Detector;
use crate::binding::causes::Cause;
use crate::bindings::mirror_of;
use crate::plane::FIELD_MANAGER;
use crate::templates::Template;

/// The result of writing a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    Unchanged,
    Changed,
    /// An earlier binding of this name has to go first.
    Blocked(&'static str),
}

const COLLECTION: &str = "failed to update binding due to different owner reference UID, will try again later after \
    binding is garbage collected, see https://github.com/karmada-io/karmada/issues/2090";
const DELETION: &str = "the binding is being deleted; another is made once it is gone";

impl Detector {
    /// Marks the template as the policy's and returns it as it is then; `None` when it is gone.
    pub async fn commit_claim(&self, object: &Arc<Object>, policy: &Policy) -> Result<Option<Arc<Object>>, Status> {
        if !claim::needs_claim(object, policy) {
            return Ok(Some(Arc::clone(object)));
        }
        let mut desired = Object::clone(object);
        claim::claim(&mut desired, policy);
        let target = self.plane.templates.target(&Template::of(object)).await?;
        match commit_object(&self.plane.client, target, object, &desired, FIELD_MANAGER).await {
            Ok(Committed::Written(written)) => Ok(Some(written)),
            Ok(Committed::Unchanged) => Ok(Some(Arc::clone(object))),
            Err(status) if status.is_not_found() => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// Takes the marks of a policy that goes off a template and its binding, where they still bear them. The binding
    /// goes first: the template is found by its own mark, and without one it would not be found again.
    pub async fn commit_release(&self, template: &Template, scope: Scope, id: &str) -> Result<(), Status> {
        self.commit_unclaim(binding_target(template), scope, id).await?;
        self.commit_unclaim_template(template, scope, id).await
    }

    /// Takes the marks of a policy off a template it no longer selects, and off its binding. Here the template goes
    /// first: it is found by its binding.
    pub async fn commit_drop(&self, template: &Template, scope: Scope, id: &str) -> Result<(), Status> {
        self.commit_unclaim_template(template, scope, id).await?;
        self.commit_unclaim(binding_target(template), scope, id).await
    }

    async fn commit_unclaim_template(&self, template: &Template, scope: Scope, id: &str) -> Result<(), Status> {
        match self.plane.templates.target(template).await {
            Ok(target) => self.commit_unclaim(target, scope, id).await,
            Err(status) if status.is_not_found() => Ok(()),
            Err(status) => Err(status),
        }
    }

    /// Takes the mark of a policy off whatever the target is, if it still bears it.
    async fn commit_unclaim(&self, target: ResourceRef, scope: Scope, id: &str) -> Result<(), Status> {
        let Some(current) = self.plane.client.find(target.clone()).await? else { return Ok(()) };
        if !claim::is_claimed_by(&current, scope, id) {
            return Ok(());
        }
        let mut desired = Object::clone(&current);
        claim::unclaim(&mut desired, scope);
        match commit_object(&self.plane.client, target, &current, &desired, FIELD_MANAGER).await {
            Err(status) if !status.is_not_found() => Err(status),
            _ => Ok(()),
        }
    }

    /// Creates the binding or changes what differs. `is_new` is a guess that spares a read.
    pub async fn commit_binding(
        &self,
        desired: Object,
        policy: &Policy,
        cause: Cause,
        is_new: bool,
    ) -> Result<Applied, Status> {
        let key = ObjectKey::of(&desired);
        let existing = match mirror_of(&self.plane, &key).get(&key) {
            None if !is_new => self.plane.client.find(mirror_of(&self.plane, &key).target(&key)).await?,
            shown => shown,
        };
        if existing.as_ref().is_some_and(|existing| is_as_desired(&desired, existing, policy)) {
            return Ok(Applied::Unchanged);
        }
        match self.commit_plan(desired.clone(), existing, policy, cause).await {
            // The guess was wrong, or the mirror is behind others.
            Err(status) if status.is_already_exists() || status.is_conflict() => {
                let existing = self.plane.client.find(mirror_of(&self.plane, &key).target(&key)).await?;
                self.commit_plan(desired, existing, policy, cause).await
            }
            result => result,
        }
    }

    async fn commit_plan(
        &self,
        desired: Object,
        existing: Option<Arc<Object>>,
        policy: &Policy,
        cause: Cause,
    ) -> Result<Applied, Status> {
        let client = &self.plane.client;
        let key = ObjectKey::of(&desired);
        let mirror = mirror_of(&self.plane, &key);
        let written = match (plan_binding(desired, existing.as_deref(), policy), &existing) {
            (BindingPlan::WaitForCollection, _) => return Ok(Applied::Blocked(COLLECTION)),
            (BindingPlan::WaitForDeletion, _) => return Ok(Applied::Blocked(DELETION)),
            // All other readers of templates start with the current ones, and nothing indicates that this one changed.
            (BindingPlan::Update(_, differences), _) if cause == Cause::Found && differences == ONLY_VERSION => {
                return Ok(Applied::Unchanged);
            }
            (BindingPlan::Update(merged, differences), Some(existing)) => {
                tracing::debug!(binding = merged.name(), ?differences, "a binding changes");
                commit_object(client, mirror.target(&key), existing, &merged, FIELD_MANAGER).await?
            }
            (BindingPlan::Create(binding), _) => {
                let target = ResourceRef { name: None, ..mirror.target(&key) };
                Committed::Written(client.create(target, binding, WriteOptions::managed_by(FIELD_MANAGER)).await?)
            }
            (BindingPlan::Unchanged | BindingPlan::Update(..), _) => Committed::Unchanged,
        };
        let Committed::Written(written) = written else { return Ok(Applied::Unchanged) };
        mirror.note(&written);
        Ok(Applied::Changed)
    }
}

/// Returns the reference of a template's binding.
pub fn binding_target(template: &Template) -> ResourceRef {
    let Template { kind, namespace, name, .. } = template;
    let gvr = Twin::of(namespace).resource().gvr();
    match namespace.as_str() {
        "" => ResourceRef::cluster(&gvr, &binding_name(kind, name)),
        namespace => ResourceRef::namespaced(&gvr, namespace, &binding_name(kind, name)),
    }
}
