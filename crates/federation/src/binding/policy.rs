//! One policy: templates that it no longer selects are freed, those it selects are looked at again.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::work::ObjectReference;
use cluster_client::{ListOptions, ResourceRef};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use object::{GroupVersion, Object, Status};
use propagation::claim::{self, Claim};
use propagation::policy::{Policy, PolicyKey, Scope};
use propagation::policy_preemption::{Preemption, preempts};
use reconcile::commit::commit_object;
use reconcile::queue::Priority;
use reconcile::{Outcome, ReconcileError};

use crate::binding::Detector;
use crate::binding::causes::Cause;
use crate::bindings::check_scope;
use crate::plane::FIELD_MANAGER;
use crate::templates::Template;

/// Templates of one policy that are freed at once: writes that wait together are committed together.
const RELEASES_AT_ONCE: usize = 16;

impl Detector {
    pub async fn reconcile_policy(self: Arc<Self>, key: PolicyKey) -> Result<Outcome, ReconcileError> {
        let is_start = self.found_policies.lock().remove(&key);
        let policy = self.policies.read().get(&key).cloned();
        let Some(policy) = policy else { return Ok(Outcome::Done) };
        let result = match policy.is_deleting() {
            true => self.release_all(&policy).await,
            false => self.follow_policy(&policy, is_start).await,
        };
        if is_start && !matches!(result, Ok(Outcome::Done)) {
            self.found_policies.lock().insert(key);
        }
        result
    }

    /// A policy that is new or changed. At the start every template is looked at anyway.
    async fn follow_policy(&self, policy: &Policy, is_start: bool) -> Result<Outcome, ReconcileError> {
        let (selected, unselected) = self.gather_derived(policy).await?;
        let (scope, id) = (policy.scope(), policy.id.as_str());
        settle(unselected.iter().map(|template| self.commit_drop(template, scope, id).boxed()).collect()).await?;
        let cause = if policy.is_lazy { Cause::Karmada } else { Cause::Changed };
        if !is_start {
            self.look_again(selected, cause).await;
        }
        let waiting = self.gather_waiting(policy).await?;
        if !waiting.is_empty() && !self.has_dependent_overrides(policy) {
            tracing::debug!(policy = %policy.key, "waiting for dependent overrides");
            return Ok(Outcome::Retry);
        }
        for template in &waiting {
            self.waiting.lock().remove(template);
        }
        self.look_again(waiting, cause).await;
        if policy.may_preempt && self.plane.features.policy_preemption {
            self.preempt(policy).await?;
        }
        Ok(Outcome::Done)
    }

    async fn look_again(&self, templates: Vec<Template>, cause: Cause) {
        for template in templates {
            self.causes.lock().note(&template, cause);
            // Policies are few people's business, templates everybody's: their own changes go first.
            self.template_controller.queue().add(template, Priority::LOW).await;
        }
    }

    /// The templates of bindings that bear the policy's mark: those it selects, and those it does not any more.
    async fn gather_derived(&self, policy: &Policy) -> Result<(Vec<Template>, Vec<Template>), Status> {
        let (mut selected, mut unselected) = (Vec::new(), Vec::new());
        for template in self.derived_templates(policy)? {
            let Some(object) = self.plane.templates.find(&template).await? else { continue };
            match policy.selects(&object) {
                Some(_) => selected.push(template),
                None => unselected.push(template),
            }
        }
        Ok((selected, unselected))
    }

    fn derived_templates(&self, policy: &Policy) -> Result<Vec<Template>, Status> {
        if policy.id.is_empty() {
            return Ok(Vec::new());
        }
        let [namespaced, cluster_wide] = &self.plane.bindings_by_policy;
        let mut bindings = namespaced.list(&policy.id);
        match policy.scope() {
            Scope::Namespaced => bindings.retain(|binding| binding.namespace() == policy.key.namespace),
            Scope::Cluster => bindings.extend(cluster_wide.list(&policy.id)),
        }
        bindings.retain(|binding| check_scope(&self.plane, binding).is_ok());
        let reference = |binding: &Arc<Object>| api::read_at::<ObjectReference>(binding, &["spec", "resource"]);
        bindings.iter().map(|binding| Ok(Template::from(&reference(binding)?))).collect()
    }

    /// Waiting templates that the policy selects.
    async fn gather_waiting(&self, policy: &Policy) -> Result<Vec<Template>, Status> {
        let maybe = self.waiting.lock().maybe_selected(policy);
        let mut selected = Vec::new();
        for template in maybe {
            let object = self.plane.templates.find(&template).await?;
            if object.is_some_and(|object| policy.selects(&object).is_some()) {
                selected.push(template);
            }
        }
        Ok(selected)
    }

    /// A policy that is being deleted gives up its templates. Their bindings stay as they are.
    async fn release_all(&self, policy: &Policy) -> Result<Outcome, ReconcileError> {
        if !policy.object.has_finalizer(policy.scope().finalizer()) {
            return Ok(Outcome::Done);
        }
        // By its selectors as Karmada does, and by its bindings too: the selectors may have changed a moment before.
        let mut templates: BTreeSet<Template> = self.derived_templates(policy)?.into_iter().collect();
        templates.extend(self.gather_claimed(policy).await?);
        let (scope, id) = (policy.scope(), policy.id.as_str());
        settle(templates.iter().map(|template| self.commit_release(template, scope, id).boxed()).collect()).await?;
        let mut desired = Object::clone(&policy.object);
        desired.remove_finalizer(policy.scope().finalizer());
        let target = ResourceRef::of(&policy.scope().resource().gvr(), &policy.object);
        match commit_object(&self.plane.client, target, &policy.object, &desired, FIELD_MANAGER).await {
            Err(status) if !status.is_not_found() => Err(status.into()),
            _ => Ok(Outcome::Done),
        }
    }

    /// Templates of the kinds the policy selects that bear its mark.
    async fn gather_claimed(&self, policy: &Policy) -> Result<Vec<Template>, Status> {
        let mut claimed = Vec::new();
        let kinds: BTreeSet<(&str, &str, &str)> = policy
            .selectors
            .iter()
            .map(|selector| &selector.written)
            .map(|written| (written.api_version.as_str(), written.kind.as_str(), written.namespace.as_str()))
            .collect();
        for (api_version, kind, namespace) in kinds.into_iter().filter(|_| !policy.id.is_empty()) {
            let gvk = GroupVersion::parse(api_version).unwrap_or_default().kind(kind);
            // Karmada's own objects are no templates. A policy that selects policies would even release itself, which
            // fails because its id cannot be removed, so it could never be deleted.
            if self.plane.settings.skipped_apis.contains(&gvk) {
                continue;
            }
            let objects = match self.plane.templates.claimed_by(&gvk, &policy.id) {
                Some(objects) => objects,
                None => match self.plane.templates.resource_of(&gvk).await {
                    Ok(resource) => {
                        let label = Some(format!("{}={}", policy.scope().id_label(), policy.id));
                        let options = ListOptions { label_selector: label, ..ListOptions::default() };
                        self.plane.client.list_all(ResourceRef::all(&resource.gvr), options).await?.items
                    }
                    // The API is not installed, or not any more.
                    Err(status) if status.is_not_found() => continue,
                    Err(status) => return Err(status),
                },
            };
            let within = objects.iter().filter(|object| namespace.is_empty() || object.namespace() == namespace);
            claimed.extend(within.map(|object| Template::of(object)));
        }
        Ok(claimed)
    }

    /// Takes over what other policies hold and this one may have.
    async fn preempt(&self, policy: &Policy) -> Result<(), Status> {
        let mut failure = None;
        for selector in policy.selectors.iter().filter(|selector| !selector.written.name.is_empty()) {
            let wanted = &selector.written;
            let namespace = match (policy.scope(), wanted.namespace.as_str()) {
                (Scope::Namespaced, "") => policy.key.namespace.as_str(),
                (_, namespace) => namespace,
            };
            let template = Template::new(&wanted.api_version, &wanted.kind, namespace, &wanted.name);
            if self.plane.settings.skipped_apis.contains(&template.gvk()) {
                continue;
            }
            if let Err(status) = self.preempt_one(policy, &template).await {
                failure.get_or_insert(status);
            }
        }
        failure.map_or(Ok(()), Err)
    }

    async fn preempt_one(&self, policy: &Policy, template: &Template) -> Result<(), Status> {
        let Some(object) = self.plane.templates.find_live(template).await? else { return Ok(()) };
        if object.is_deleting() || policy.selects(&object).is_none() {
            return Ok(());
        }
        let verdict = {
            let index = self.policies.read();
            preempts(policy, Claim::holder(&object).as_ref(), |key| index.get(key).map(|policy| &**policy))
        };
        let holder = match verdict {
            Preemption::Takes(holder) => holder,
            Preemption::Leaves(reason) => {
                tracing::debug!(policy = %policy.key, ?template, %reason, "the template is left to its policy");
                return Ok(());
            }
        };
        let (own, other) = (called(&policy.key), called(&holder));
        let own = format!("{}{}", own[..1].to_uppercase(), &own[1..]);
        let mut desired = Object::clone(&object);
        claim::claim(&mut desired, policy);
        let target = self.plane.templates.target(template).await?;
        let taken = commit_object(&self.plane.client, target, &object, &desired, FIELD_MANAGER).await;
        self.plane.metrics.propagation.policy_preempted(taken.is_ok());
        match taken {
            Ok(_) => {
                let message = format!("{own} preempted {other} successfully");
                self.recorder.normal(&*object, "PreemptPolicySucceed", message);
                Ok(())
            }
            Err(status) => {
                let message = format!("{own} failed to preempt {other}: {status}");
                self.recorder.warning(&*object, "PreemptPolicyFailed", message);
                Err(status)
            }
        }
    }
}

/// Runs all writes, some at once, and returns the first error at the end.
async fn settle(writes: Vec<BoxFuture<'_, Result<(), Status>>>) -> Result<(), Status> {
    let results: Vec<Result<(), Status>> = stream::iter(writes).buffer_unordered(RELEASES_AT_ONCE).collect().await;
    results.into_iter().collect()
}

/// As events call a policy.
fn called(key: &PolicyKey) -> String {
    match key.scope() {
        Scope::Namespaced => format!("propagation policy({}/{})", key.namespace, key.name),
        Scope::Cluster => format!("cluster propagation policy({})", key.name),
    }
}
