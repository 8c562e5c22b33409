//! Finds for every template the policy that claims it, and keeps its binding as both say.
//!
//! Woken by changes of templates, policies and the override policies these wait for, and by bindings that go. Writes the
//! claim on templates and, of bindings, what follows template and policy (`propagation::binding`).

mod causes;
mod commit;
mod policy;
mod sources;
mod template;
mod waiting;

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use propagation::policy::{Policy, PolicyKey, Scope};
use propagation::policy_index::PolicyIndex;
use reconcile::{Controller, ObjectKey, Recorder};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::binding::causes::Causes;
use crate::binding::waiting::Waiting;
use crate::plane::Plane;
use crate::templates::Template;

/// Component name of events.
const COMPONENT: &str = "resource-detector";

/// State shared by the two controllers of this module.
struct Detector {
    plane: Arc<Plane>,
    policies: RwLock<PolicyIndex>,
    /// Templates no policy selects.
    waiting: Mutex<Waiting>,
    /// The reasons templates are queued.
    causes: Mutex<Causes>,
    /// Policies that were there when this started and have not been looked at yet.
    found_policies: Mutex<HashSet<PolicyKey>>,
    template_controller: Controller<Template>,
    policy_controller: Controller<PolicyKey>,
    recorder: Recorder,
}

pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    let ready = async {
        for mirror in [&plane.policies, &plane.cluster_policies, &plane.overrides, &plane.cluster_overrides] {
            mirror.synced().await;
        }
        for mirror in [&plane.bindings, &plane.cluster_bindings] {
            mirror.synced().await;
        }
        plane.templates.listed().await;
    };
    tokio::select! {
        () = cancel.cancelled() => return,
        () = ready => {}
    }
    let detector = Detector::new(plane, &cancel);
    let mut running = JoinSet::new();
    running.spawn(sources::follow_templates(Arc::clone(&detector), cancel.clone()));

    let workers = detector.plane.settings.policy_workers;
    let (controller, sources) = (detector.policy_controller.clone(), sources::policy_sources(&detector));
    let worker = Arc::clone(&detector);
    let reconcile = move |key| Detector::reconcile_policy(Arc::clone(&worker), key);
    running.spawn(controller.run(sources, workers, cancel.clone(), reconcile));

    let workers = detector.plane.settings.template_workers;
    let (controller, sources) = (detector.template_controller.clone(), sources::binding_sources(&detector));
    let worker = Arc::clone(&detector);
    let reconcile = move |template| Detector::reconcile_template(Arc::clone(&worker), template);
    running.spawn(controller.run(sources, workers, cancel, reconcile));
    while let Some(ended) = running.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a task of the detector exited with an error");
        }
    }
}

impl Detector {
    /// With every policy there is, so that no template is taken for one without.
    fn new(plane: Arc<Plane>, cancel: &CancellationToken) -> Arc<Self> {
        let objects = plane.policies.list().into_iter().chain(plane.cluster_policies.list());
        let policies = objects.filter_map(|object| match Policy::read(object) {
            Ok(policy) => Some(policy),
            Err(error) => {
                tracing::warn!(%error, "a policy cannot be read and selects nothing");
                None
            }
        });
        let policies = RwLock::new(PolicyIndex::new(policies));
        let recorder = Recorder::start(plane.client.clone(), COMPONENT, Arc::clone(&plane.clock), cancel.clone());
        let template_controller = Controller::new("resource-detector").observed_by(&plane.metrics.controllers);
        let policy_controller = Controller::new("propagation-policy").observed_by(&plane.metrics.controllers);
        Arc::new(Self {
            plane,
            policies,
            waiting: Mutex::default(),
            causes: Mutex::default(),
            found_policies: Mutex::default(),
            template_controller,
            policy_controller,
            recorder,
        })
    }

    /// Do all override policies exist that the policy waits for?
    fn has_dependent_overrides(&self, policy: &Policy) -> bool {
        let plane = &self.plane;
        let mirror = match policy.scope() {
            Scope::Namespaced => &plane.overrides,
            Scope::Cluster => &plane.cluster_overrides,
        };
        let exists = |name: &String| mirror.get(&ObjectKey::new(&policy.key.namespace, name));
        policy.dependent_overrides.iter().all(|name| exists(name).is_some())
    }
}

#[cfg(test)]
mod tests;
