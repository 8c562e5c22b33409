//! One pure rollout step of a Deployment over its ReplicaSets.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use object::Object;

use crate::deployment::scaling;
use crate::deployment::sets::{RolloutSet, by_age};
use crate::deployment::spec::{DeploymentSpec, DeploymentStrategy, has_template_of};
use crate::deployment::status::{self, DeploymentProgress};

/// The changes to make, in this order.
#[derive(Debug, Default)]
pub struct DeploymentPlan {
    pub create: Option<NewReplicaSet>,
    pub updates: Vec<Update>,
    pub deletes: Vec<Arc<Object>>,
    /// The revision of the Deployment.
    pub revision: Option<String>,
    /// An object with only the status.
    pub status: Object,
    pub recheck: Option<Duration>,
}

#[derive(Debug)]
pub struct NewReplicaSet {
    pub set: Object,
    pub event: Option<String>,
}

#[derive(Debug)]
pub struct Update {
    pub current: Arc<Object>,
    pub desired: Object,
    pub event: Option<String>,
}

/// The inputs of a rollout step.
pub struct DeploymentInputs<'a> {
    pub deployment: &'a Object,
    pub sets: Vec<Arc<Object>>,
    /// The uids of sets with running pods.
    pub populated: HashSet<String>,
    pub now: Timestamp,
}

/// A Deployment during the planning of a step.
pub struct Rollout<'a> {
    pub deployment: &'a Object,
    pub spec: DeploymentSpec,
    /// Sorted by age; includes the new set.
    pub sets: Vec<RolloutSet>,
    pub new: Option<usize>,
    pub populated: HashSet<String>,
    pub progress: DeploymentProgress,
    pub deletes: Vec<Arc<Object>>,
}

pub fn plan(inputs: DeploymentInputs<'_>) -> DeploymentPlan {
    let DeploymentInputs { deployment, sets, populated, now } = inputs;
    let mut sets: Vec<RolloutSet> = sets.into_iter().map(RolloutSet::existing).collect();
    sets.sort_by(by_age);
    let new = sets.iter().position(|set| has_template_of(deployment, &set.object));
    let spec = DeploymentSpec::of(deployment);
    let progress = DeploymentProgress::of(deployment, now);
    let mut rollout = Rollout { deployment, spec, sets, new, populated, progress, deletes: Vec::new() };
    rollout.step();
    rollout.into_plan()
}

impl Rollout<'_> {
    fn step(&mut self) {
        if self.deployment.is_deleting() {
            self.revise();
            return self.progress.tally(self.deployment, &self.spec, &self.sets, self.new);
        }
        self.progress.note_pause(&self.spec);
        self.revise();
        if self.spec.is_paused || self.is_being_scaled() {
            scaling::scale(self);
            if self.spec.is_paused {
                self.clean_up();
            }
            return self.progress.tally(self.deployment, &self.spec, &self.sets, self.new);
        }
        match self.spec.strategy {
            DeploymentStrategy::Recreate => self.recreate(),
            DeploymentStrategy::Rolling { .. } => self.roll(),
        }
        self.progress.tally(self.deployment, &self.spec, &self.sets, self.new);
        self.progress.judge(self.deployment, &self.spec, &self.sets, self.new);
    }

    fn recreate(&mut self) {
        let mut has_scaled = false;
        for index in self.old_active() {
            self.sets[index].replicas = 0;
            self.sets[index].note_scale(&self.spec);
            has_scaled = true;
        }
        if has_scaled || self.has_old_pods() {
            return;
        }
        let new = self.ensure_new();
        self.scale(new, self.spec.replicas);
        self.clean_up_if_complete();
    }

    fn roll(&mut self) {
        let new = self.ensure_new();
        let before = self.sets[new].replicas;
        let wanted = self.spec.replicas;
        if before != wanted {
            let after = if before > wanted { wanted } else { scaling::new_replicas(self, new) };
            self.scale(new, after);
            if after != before {
                return;
            }
        }
        if !scaling::scale_down_old(self, new) {
            self.clean_up_if_complete();
        }
    }

    fn has_old_pods(&self) -> bool {
        let is_old = |index: usize| Some(index) != self.new;
        let mut old = self.sets.iter().enumerate().filter(|(index, _)| is_old(*index));
        old.any(|(_, set)| set.actual() > 0 || self.populated.contains(set.object.uid()))
    }

    /// Returns the indexes of old sets with replicas, by age.
    pub fn old_active(&self) -> Vec<usize> {
        (0..self.sets.len()).filter(|index| Some(*index) != self.new && self.sets[*index].replicas != 0).collect()
    }

    pub fn scale(&mut self, index: usize, replicas: i64) {
        let set = &mut self.sets[index];
        if set.replicas != replicas {
            set.replicas = replicas;
            set.note_scale(&self.spec);
        }
    }

    /// Sets the revision of the new set to the highest one, and copies it to the Deployment.
    fn revise(&mut self) {
        let Some(new) = self.new else { return };
        let revision = self.next_revision();
        let set = &mut self.sets[new];
        set.note_revision(self.deployment, revision);
        set.ready_seconds_min = self.spec.ready_seconds_min;
        let name = set.name().to_owned();
        self.progress.note_found(&self.spec, &name);
    }

    fn next_revision(&self) -> i64 {
        let old = self.sets.iter().enumerate().filter(|(index, _)| Some(*index) != self.new);
        old.filter_map(|(_, set)| set.revision()).max().unwrap_or(0) + 1
    }

    /// Returns the new set, creating it if missing.
    fn ensure_new(&mut self) -> usize {
        if let Some(new) = self.new {
            return new;
        }
        let revision = self.next_revision();
        let mut set = RolloutSet::made_for(self.deployment, &self.spec);
        set.note_revision(self.deployment, revision);
        set.note_scale(&self.spec);
        let name = set.name().to_owned();
        self.sets.push(set);
        let new = self.sets.len() - 1;
        self.new = Some(new);
        self.sets[new].replicas = scaling::new_replicas(self, new);
        self.progress.note_created(&self.spec, &name);
        new
    }

    /// Reports whether a set has another desired-replicas annotation than the spec.
    fn is_being_scaled(&self) -> bool {
        let mut active = self.sets.iter().filter(|set| set.replicas > 0);
        active.any(|set| set.desired_replicas().is_some_and(|desired| desired != self.spec.replicas))
    }

    fn clean_up_if_complete(&mut self) {
        if status::is_complete(self.deployment, &self.spec) {
            self.clean_up();
        }
    }

    /// Deletes the oldest sets beyond the history limit.
    fn clean_up(&mut self) {
        let Some(history_max) = self.spec.history_max else { return };
        let is_old = |index: usize| Some(index) != self.new;
        let old = self.sets.iter().enumerate().filter(|(index, set)| is_old(*index) && !set.object.is_deleting());
        let mut old: Vec<&RolloutSet> = old.map(|(_, set)| set).collect();
        let surplus = old.len().saturating_sub(usize::try_from(history_max).unwrap_or(0));
        old.sort_by(|a, b| a.revision().cmp(&b.revision()).then_with(|| by_age(a, b)));
        let deleting = old.into_iter().take(surplus).filter(|set| set.is_spent());
        self.deletes = deleting.map(|set| Arc::clone(&set.object)).collect();
    }

    fn into_plan(self) -> DeploymentPlan {
        let recheck = self.progress.recheck(self.deployment, &self.spec);
        let mut plan = DeploymentPlan { deletes: self.deletes, recheck, ..DeploymentPlan::default() };
        if let Some(new) = self.new {
            plan.revision = self.sets[new].revision_text().map(str::to_owned);
        }
        for set in self.sets {
            let Some(desired) = set.desired() else { continue };
            let before = if set.is_new { 0 } else { set.object.i64_at(&["spec", "replicas"]).unwrap_or(1) };
            let event = scaling_event(desired.name(), before, set.replicas);
            if set.is_new {
                plan.create = Some(NewReplicaSet { set: desired, event });
            } else {
                plan.updates.push(Update { current: set.object, desired, event });
            }
        }
        plan.status = self.progress.into_status();
        plan
    }
}

fn scaling_event(name: &str, before: i64, after: i64) -> Option<String> {
    let direction = if before < after { "up" } else { "down" };
    (before != after).then(|| format!("Scaled {direction} replica set {name} from {before} to {after}"))
}
