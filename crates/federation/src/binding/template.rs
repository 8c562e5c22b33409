//! One template: which policy it has, and the binding that follows.

use std::sync::Arc;
use std::time::Instant;

use cluster_client::ResourceRef;
use interpreter::Operation;
use interpreter::question::{Components, Replicas};
use object::builtin;
use object::{Object, Status};
use propagation::binding::{BindingInputs, Interpreted, desired_binding, wanted_priority_class};
use propagation::claim::{self, Claim, Decision};
use propagation::policy::{Policy, Scope};
use reconcile::{Outcome, ReconcileError};

use crate::binding::Detector;
use crate::binding::causes::Cause;
use crate::binding::commit::{Applied, binding_target};
use crate::templates::Template;

impl Detector {
    pub async fn reconcile_template(self: Arc<Self>, template: Template) -> Result<Outcome, ReconcileError> {
        let queued_for = self.causes.lock().take(&template);
        let cause = match queued_for {
            Cause::Claimed if self.follows_claim(&template) => return Ok(Outcome::Done),
            Cause::Claimed => Cause::Changed,
            cause => cause,
        };
        let result = self.propagate(&template, cause).await;
        if !matches!(result, Ok(Outcome::Done)) {
            self.causes.lock().note(&template, cause);
        }
        result
    }

    /// Reports whether the template is as an own claim left it. Its binding was written with the claim.
    fn follows_claim(&self, template: &Template) -> bool {
        let shown = self.plane.templates.mirror(&template.gvk()).and_then(|mirror| mirror.get(&template.key()));
        shown.is_some_and(|object| self.causes.lock().take_claim(template, object.resource_version()))
    }

    async fn propagate(&self, template: &Template, cause: Cause) -> Result<Outcome, ReconcileError> {
        let Some(object) = self.plane.templates.find(template).await? else {
            self.waiting.lock().remove(template);
            // The garbage collector removes what it owns.
            return Ok(Outcome::Done);
        };
        // It waits before it is matched: a policy that comes in between finds it.
        if Claim::of(&object).is_none() {
            self.waiting.lock().insert(template.clone());
        }
        let started = Instant::now();
        let decision = claim::decide(&self.policies.read(), &object);
        self.plane.metrics.propagation.policy_matched(started.elapsed());
        match decision {
            Decision::Apply(policy) => return self.apply(template, object, &policy, cause).await,
            Decision::Unmatched => {
                tracing::debug!(?template, "no policy selects the template");
                return Ok(Outcome::Done);
            }
            Decision::HolderGone(claim) => return self.clean_up(template, &claim).await,
            Decision::HolderDeleting(policy) => {
                tracing::debug!(?template, policy = %policy.key, "the policy is being deleted");
                return Ok(Outcome::Retry);
            }
            Decision::TakenBy(_) | Decision::HolderSelectsOther(_) => self.waiting.lock().remove(template),
        }
        Ok(Outcome::Done)
    }

    /// Frees a template whose policy went without doing so, as when the claim was made a moment before.
    async fn clean_up(&self, template: &Template, claim: &Claim) -> Result<Outcome, ReconcileError> {
        let gvr = claim.scope().resource().gvr();
        let target = match claim.scope() {
            Scope::Namespaced => ResourceRef::namespaced(&gvr, &claim.policy.namespace, &claim.policy.name),
            Scope::Cluster => ResourceRef::cluster(&gvr, &claim.policy.name),
        };
        if self.plane.client.find(target).await?.is_some() {
            // It is there, and our copy does not know it yet.
            return Ok(Outcome::Retry);
        }
        self.commit_release(template, claim.scope(), &claim.id).await?;
        Ok(Outcome::Done)
    }

    async fn apply(
        &self,
        template: &Template,
        object: Arc<Object>,
        policy: &Policy,
        cause: Cause,
    ) -> Result<Outcome, ReconcileError> {
        if !self.has_dependent_overrides(policy) {
            tracing::debug!(?template, policy = %policy.key, "waiting for dependent overrides");
            return Ok(Outcome::Retry);
        }
        self.waiting.lock().remove(template);
        let title = match policy.scope() {
            Scope::Namespaced => "policy",
            Scope::Cluster => "cluster policy",
        };
        let title = format!("Apply {title}({})", policy.display_name());
        let started = Instant::now();
        let applied = self.apply_policy(&object, policy, cause).await;
        self.plane
            .metrics
            .propagation
            .policy_applied(matches!(applied, Ok(Applied::Unchanged | Applied::Changed)), started.elapsed());
        match applied {
            Ok(Applied::Unchanged) => Ok(Outcome::Done),
            Ok(Applied::Changed) => {
                self.recorder.normal(&*object, "ApplyPolicySucceed", format!("{title} succeed"));
                Ok(Outcome::Done)
            }
            Ok(Applied::Blocked(_)) if object.is_deleting() => Ok(Outcome::Done),
            Ok(Applied::Blocked(reason)) => {
                self.recorder.warning(&*object, "ApplyPolicyFailed", format!("{title} failed: {reason}"));
                Ok(Outcome::Retry)
            }
            // Template and binding go with their namespace; what was seen here is the time in between.
            Err(status) if is_namespace_leaving(&status) => Ok(Outcome::Retry),
            Err(status) => {
                // That another was first is no news to users: it is tried again at once.
                if !status.is_conflict() {
                    self.recorder.warning(&*object, "ApplyPolicyFailed", format!("{title} failed: {status}"));
                }
                Err(status.into())
            }
        }
    }

    async fn apply_policy(&self, object: &Arc<Object>, policy: &Policy, cause: Cause) -> Result<Applied, Status> {
        // A template that is being deleted keeps its binding and gets no new one: a client that waits for its
        // binding to be deleted first would wait forever.
        if object.is_deleting() && self.plane.client.find(binding_target(&Template::of(object))).await?.is_none() {
            return Ok(Applied::Unchanged);
        }
        let Some(claimed) = self.commit_claim(object, policy).await? else { return Ok(Applied::Unchanged) };
        if cause == Cause::Karmada && policy.is_lazy {
            return Ok(Applied::Unchanged);
        }
        let inputs = BindingInputs {
            template: &claimed,
            policy,
            interpreted: self.gather_interpretation(&claimed).await?,
            schedule_priority: self.gather_schedule_priority(policy).await?,
            features: &self.plane.features,
        };
        let is_replicas = matches!(inputs.interpreted, Interpreted::Replicas(..));
        let is_components = matches!(inputs.interpreted, Interpreted::Components(_));
        let desired = desired_binding(&inputs);
        // A template that was just claimed for the first time has no binding, as a rule.
        let is_new = Claim::holder(object).is_none() && !Arc::ptr_eq(object, &claimed);
        let applied = self.commit_binding(desired, policy, cause, is_new).await?;
        if !Arc::ptr_eq(object, &claimed) && !matches!(applied, Applied::Blocked(_)) {
            self.causes.lock().note_claim(&Template::of(&claimed), claimed.resource_version());
        }
        if applied == Applied::Changed && is_replicas {
            let message = "Get replicas of resource template successfully.";
            self.recorder.normal(&*claimed, "GetReplicasSucceed", message);
        } else if applied == Applied::Changed && is_components {
            let message = "Get components of resource template successfully.";
            self.recorder.normal(&*claimed, "GetComponentsSucceed", message);
        }
        Ok(applied)
    }

    async fn gather_interpretation(&self, template: &Object) -> Result<Interpreted, Status> {
        let interpreter = self.plane.interpreter.load();
        let gvk = template.gvk();
        let failed = |reason: &'static str, error: interpreter::InterpretError| {
            self.recorder.warning(template, reason, error.to_string());
            Status::internal(error)
        };
        if self.plane.features.multiple_pod_templates && interpreter.has_hook(&gvk, Operation::InterpretComponent) {
            let components = interpreter.ask(Components(template)).await;
            return components.map(Interpreted::Components).map_err(|error| failed("GetComponentsFailed", error));
        }
        if interpreter.has_hook(&gvk, Operation::InterpretReplica) {
            let (replicas, requirements) =
                interpreter.ask(Replicas(template)).await.map_err(|error| failed("GetReplicasFailed", error))?;
            return Ok(Interpreted::Replicas(replicas, requirements));
        }
        Ok(Interpreted::Nothing)
    }

    async fn gather_schedule_priority(&self, policy: &Policy) -> Result<Option<i64>, Status> {
        let Some(class) = wanted_priority_class(policy, &self.plane.features)? else { return Ok(None) };
        let classes = builtin::priority_classes();
        let class = self.plane.client.get(ResourceRef::cluster(&classes, &class)).await?;
        Ok(Some(class.i64_at(&["value"]).unwrap_or(0)))
    }
}

fn is_namespace_leaving(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}
