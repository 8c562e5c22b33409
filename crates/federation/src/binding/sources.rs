//! Event sources of the controllers: maps relevant changes to keys.

use std::sync::Arc;

use api::names::is_reserved_namespace;
use api::work::ObjectReference;
use object::Object;
use propagation::binding_trigger::{is_changed_by_karmada_only, is_specification_changed};
use propagation::claim::Claim;
use propagation::policy::{Policy, PolicyKey};
use propagation::policy_preemption::may_preempt_now;
use reconcile::Source;
use reconcile::mirror::{Change, Mirror};
use reconcile::queue::Priority;
use tokio_util::sync::CancellationToken;

use crate::binding::Detector;
use crate::binding::causes::Cause;
use crate::bindings::check_scope;
use crate::templates::{Template, Watched};

/// Follows every resource whose objects may be propagated, until cancelled.
pub async fn follow_templates(detector: Arc<Detector>, cancel: CancellationToken) {
    let mut resources = detector.plane.templates.listen();
    loop {
        let watched = tokio::select! {
            () = cancel.cancelled() => return,
            watched = resources.recv() => watched,
        };
        let Some(watched) = watched else { return };
        if !watched.is_skipped {
            tokio::spawn(follow_one(Arc::clone(&detector), watched));
        }
    }
}

async fn follow_one(detector: Arc<Detector>, watched: Watched) {
    tokio::select! {
        () = watched.cancel.cancelled() => return,
        () = watched.mirror.synced() => {}
    }
    let mut changes = watched.mirror.subscribe();
    while let Some(change) = changes.next().await {
        let Some((template, cause)) = detector.template_change(&watched, &change) else { continue };
        detector.causes.lock().note(&template, cause);
        let priority = if cause == Cause::Found { Priority::LOW } else { Priority::NORMAL };
        detector.template_controller.queue().add(template, priority).await;
    }
    let gvk = watched.resource.gvk();
    detector.waiting.lock().remove_kind(&gvk.api_version(), &gvk.kind);
}

impl Detector {
    /// The template a change concerns, and why; `None` for changes that mean nothing here.
    fn template_change(&self, watched: &Watched, change: &Change) -> Option<(Template, Cause)> {
        let key = &change.key;
        if !self.may_propagate(&watched.resource.kind, &key.namespace, &key.name) {
            return None;
        }
        let cause = match (&change.before, &change.now) {
            (None, Some(_)) if change.is_initial => Cause::Found,
            (Some(before), Some(now)) if before.uid() == now.uid() => self.update_cause(before, now)?,
            _ => Cause::Changed,
        };
        let gvk = watched.resource.gvk();
        Some((Template::new(&gvk.api_version(), &gvk.kind, &key.namespace, &key.name), cause))
    }

    fn update_cause(&self, before: &Object, now: &Object) -> Option<Cause> {
        if !is_specification_changed(before, now) {
            return None;
        }
        let is_by_karmada = is_changed_by_karmada_only(before, now);
        Some(match is_by_karmada {
            true if self.is_held_lazily(now) => Cause::Karmada,
            true if Claim::of(before).is_none() && Claim::of(now).is_some() => Cause::Claimed,
            _ => Cause::Changed,
        })
    }

    fn is_held_lazily(&self, template: &Object) -> bool {
        Claim::of(template).is_some_and(|claim| self.policies.read().get(&claim.policy).is_some_and(|p| p.is_lazy))
    }

    fn may_propagate(&self, kind: &str, namespace: &str, name: &str) -> bool {
        // kube-apiserver keeps this one for itself, and it would not fit any member.
        let is_authentication =
            (kind, namespace, name) == ("ConfigMap", "kube-system", "extension-apiserver-authentication");
        !is_reserved_namespace(namespace)
            && !self.plane.settings.skipped_namespaces.contains(namespace)
            && !is_authentication
    }
}

/// Policies that changed, and those that wait for an override policy that came.
pub fn policy_sources(detector: &Arc<Detector>) -> Vec<Source<PolicyKey>> {
    let plane = &detector.plane;
    let policies = |mirror: &Mirror| {
        let detector = Arc::clone(detector);
        Source::new(mirror, move |change| detector.policy_change(change))
    };
    let overrides = |mirror: &Mirror| {
        let detector = Arc::clone(detector);
        Source::new(mirror, move |change| match change.before {
            None if !change.is_initial => {
                detector.policies.read().needing_override(&change.key.namespace, &change.key.name)
            }
            _ => Vec::new(),
        })
    };
    vec![
        policies(&plane.policies),
        policies(&plane.cluster_policies),
        overrides(&plane.overrides),
        overrides(&plane.cluster_overrides),
    ]
}

impl Detector {
    /// Updates the index before the policy is queued, so that the reconcile finds it.
    fn policy_change(&self, change: &Change) -> Vec<PolicyKey> {
        let key = PolicyKey::new(&change.key.namespace, &change.key.name);
        let Some(now) = &change.now else {
            self.policies.write().remove(&key);
            return Vec::new();
        };
        let policy = match Policy::read(Arc::clone(now)) {
            Ok(policy) => policy,
            Err(error) => {
                // The previous selectors stay in effect until the policy can be read again.
                tracing::warn!(policy = %key, %error, "a policy cannot be read");
                return Vec::new();
            }
        };
        let mut index = self.policies.write();
        let before = index.get(&key).cloned();
        let policy = index.put(policy);
        let is_same = before.as_ref().is_some_and(|before| {
            before.object.uid() == policy.object.uid()
                && before.object.generation() == policy.object.generation()
                && before.is_deleting() == policy.is_deleting()
                && before.id == policy.id
        });
        if is_same && change.is_initial {
            self.found_policies.lock().insert(key.clone());
            return vec![key];
        }
        if is_same {
            return Vec::new();
        }
        let mut keys = vec![key];
        if let Some(before) = before.filter(|_| self.plane.features.policy_preemption)
            && policy.priority() < before.priority()
        {
            keys.extend(may_preempt_now(&index, &policy.key, before.priority(), policy.priority()));
        }
        keys
    }
}

/// A binding that was deleted while its template exists is created again.
pub fn binding_sources(detector: &Arc<Detector>) -> Vec<Source<Template>> {
    let source = |mirror: &Mirror| {
        let detector = Arc::clone(detector);
        Source::changes(mirror, move |change| {
            let gone = change.before.as_ref().filter(|_| change.now.is_none());
            gone.and_then(|binding| detector.template_left_behind(binding)).into_iter().collect()
        })
    };
    vec![source(&detector.plane.bindings), source(&detector.plane.cluster_bindings)]
}

impl Detector {
    fn template_left_behind(&self, binding: &Object) -> Option<Template> {
        check_scope(&self.plane, binding).ok()?;
        let reference: ObjectReference = api::read_at(binding, &["spec", "resource"]).ok()?;
        let template = Template::from(&reference);
        self.plane.templates.mirror(&template.gvk())?.get(&template.key())?;
        self.causes.lock().note(&template, Cause::Changed);
        Some(template)
    }
}
