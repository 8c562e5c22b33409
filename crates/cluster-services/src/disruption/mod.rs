//! Maintains the allowed disruptions of PodDisruptionBudgets, which `pods/eviction` enforces.

mod budget;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cluster_client::ResourceRef;
use object::Object;
use object::builtin;
use object::selector::LabelSelector;
use reconcile::{Change, Controller, ObjectKey, Outcome, Priority, ReconcileError, Recorder, Source, commit_status};

use crate::disruption::budget::{Guarded, expect, needs_scale, plan_failure, plan_status};
use crate::mirrors::{ClusterMirrors, FIELD_MANAGER};
use crate::scales::Scales;
use crate::selected_pods::SelectedPods;
use crate::start::Service;

const WORKERS: usize = 2;
/// Batches pod events: pods of one budget tend to change together.
const GATHERING: Duration = Duration::from_millis(50);
/// Scaling a controller causes no immediate pod event, so budgets are resynced periodically.
const RESYNC: Duration = Duration::from_secs(60);

struct Disruption {
    mirrors: Arc<ClusterMirrors>,
    selected_pods: SelectedPods<Guarded>,
    scales: Scales,
    recorder: Recorder,
}

pub fn start(mirrors: &Arc<ClusterMirrors>) -> Service {
    let controller = Controller::new("disruption-controller");
    let disruption = Arc::new(Disruption {
        selected_pods: SelectedPods::new(budget::read),
        scales: Scales::new(mirrors.client.clone()),
        recorder: mirrors.recorder("controllermanager"),
        mirrors: Arc::clone(mirrors),
    });
    let (listener, queue) = (Arc::clone(&disruption), controller.clone());
    let on_pod = move |change: &Change| {
        for budget in listener.selected_pods.pod_changed(change) {
            queue.queue().add_after(budget, GATHERING, Priority::NORMAL);
        }
    };
    Service::new(run(disruption, controller)).on_pods(on_pod)
}

async fn run(disruption: Arc<Disruption>, controller: Controller<ObjectKey>) {
    let sources = vec![Source::each(&disruption.mirrors.budgets)];
    let cancel = disruption.mirrors.cancel.clone();
    let reconcile = move |key: ObjectKey| {
        let disruption = Arc::clone(&disruption);
        async move { disruption.reconcile(&key).await }
    };
    controller.run(sources, WORKERS, cancel, reconcile).await;
}

impl Disruption {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some(budget) = self.mirrors.budgets.get(key).filter(|budget| !budget.is_deleting()) else {
            self.selected_pods.remove_selector(key);
            return Ok(Outcome::Done);
        };
        let selector = match LabelSelector::from_value(budget.get(&["spec", "selector"])) {
            Ok(selector) => selector,
            Err(error) => {
                self.commit(&budget, &plan_failure(&budget, &error.to_string(), self.mirrors.now())).await?;
                return Ok(Outcome::Done);
            }
        };
        self.selected_pods.set_selector(key, selector, &self.mirrors.pods);
        let pods = self.selected_pods.of(key);
        if pods.is_empty() {
            self.recorder.normal(&*budget, "NoPods", "No matching pods found");
        }
        let needs = needs_scale(&budget);
        let scale = match needs {
            true => match self.gather_scale(key, &pods).await {
                Ok(scale) => scale,
                Err(error) => {
                    let message = error.to_string();
                    self.recorder.warning(&*budget, "CalculateExpectedPodCountFailed", message.clone());
                    self.commit(&budget, &plan_failure(&budget, &message, self.mirrors.now())).await?;
                    return Err(error);
                }
            },
            false => 0,
        };
        let now = self.mirrors.now();
        let (desired, next) = plan_status(&budget, &pods, expect(&budget, pods.len(), scale), now);
        self.commit(&budget, &desired).await?;
        Ok(match (next, needs) {
            (Some(next), _) => Outcome::After(next),
            (None, true) if !pods.is_empty() => Outcome::After(RESYNC),
            _ => Outcome::Done,
        })
    }

    async fn commit(&self, budget: &Object, desired: &Object) -> Result<(), ReconcileError> {
        let target = ResourceRef::of(&builtin::pod_disruption_budgets(), budget);
        commit_status(&self.mirrors.client, target, budget, desired, FIELD_MANAGER).await?;
        Ok(())
    }

    /// Returns the total replicas desired by the controllers of these pods. A pod without a controller is an error.
    async fn gather_scale(&self, key: &ObjectKey, pods: &[Arc<Guarded>]) -> Result<i64, ReconcileError> {
        let mut by_uid: HashMap<&str, Option<(String, i64)>> = HashMap::new();
        let mut wanted: HashMap<String, i64> = HashMap::new();
        for pod in pods {
            let Some(owner) = &pod.owner else {
                return Err(ReconcileError::other(format!("found no controller ref for pod {:?}", pod.name)));
            };
            if !by_uid.contains_key(owner[3].as_str()) {
                let found = self.scales.replicas_of(owner, &key.namespace).await?;
                by_uid.insert(&owner[3], found);
            }
            match by_uid.get(owner[3].as_str()) {
                Some(Some((uid, replicas))) => drop(wanted.insert(uid.clone(), *replicas)),
                _ => {
                    let message = format!("found no controllers for pod {:?}", pod.name);
                    return Err(ReconcileError::other(message));
                }
            }
        }
        Ok(wanted.values().sum())
    }
}
