//! Scales by the clock: rules of CronFederatedHPAs, each with its schedule.
//!
//! A rule runs at the times that come while this process watches it; those it slept through are not made up for. Writes
//! the bounds of FederatedHPAs, the scale of templates, and the status of CronFederatedHPAs.

mod history;
mod scale;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::cron::Schedule;
use api::autoscaling::{CRON_FEDERATED_HPAS, CronHpaSpec, CronHpaStatus, CronRule, ScaleTarget};
use cluster_client::{ResourceRef, RestMapper};
use jiff::Timestamp;
use object::{Object, Status};
use parking_lot::Mutex;
use reconcile::{Change, Controller, MirrorSpec, ObjectKey, Outcome, ReconcileError, Recorder, Source, commit_status};
use tokio_util::sync::CancellationToken;

use crate::cron::history::{Execution, RuleState, merge};
use crate::plane::{FIELD_MANAGER, Plane};

const COMPONENT: &str = "cronfederatedhpa-controller";
const WORKERS: usize = 2;

/// A rule that is watched.
#[derive(Clone, Debug)]
struct Watched {
    rule: CronRule,
    /// `None` where the rule is suspended, cannot be read, or is never due.
    schedule: Option<Schedule>,
    next: Option<Timestamp>,
    news: Vec<Execution>,
}

/// The rules of one CronFederatedHPA. What they scale is part of them: another target resets them.
#[derive(Clone, Debug, Default)]
struct Timetable {
    target: ScaleTarget,
    rules: Vec<Watched>,
}

struct Cron {
    plane: Arc<Plane>,
    mapper: RestMapper,
    events: Recorder,
    /// One for each CronFederatedHPA there is.
    timetables: Mutex<HashMap<ObjectKey, Timetable>>,
}

pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    let objects = plane.mirror(MirrorSpec::new(&CRON_FEDERATED_HPAS.gvr()));
    let sources = vec![Source::new(&objects, objects_with_new_spec)];
    let cron = Arc::new(Cron {
        mapper: RestMapper::new(plane.client.clone()),
        events: plane.recorder(COMPONENT, &cancel),
        timetables: Mutex::default(),
        plane,
    });
    let controller = Controller::new(COMPONENT).observed_by(&cron.plane.metrics.controllers);
    let reconcile = move |key: ObjectKey| {
        let cron = Arc::clone(&cron);
        async move {
            let (metrics, started) = (cron.plane.metrics.propagation.clone(), Instant::now());
            let result = reconcile(cron, key).await;
            metrics.cron_processed(result.is_ok(), started.elapsed());
            result
        }
    };
    controller.run(sources, WORKERS, cancel, reconcile).await;
}

fn objects_with_new_spec(change: &Change) -> Vec<ObjectKey> {
    let generation = |object: &Option<Arc<Object>>| object.as_ref().map(|o| (o.uid().to_owned(), o.generation()));
    if generation(&change.before) == generation(&change.now) { Vec::new() } else { vec![change.key.clone()] }
}

async fn reconcile(cron: Arc<Cron>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let target = ResourceRef::namespaced(&CRON_FEDERATED_HPAS.gvr(), &key.namespace, &key.name);
    let object = cron.plane.client.find(target.clone()).await?;
    // Taken out while it is worked on: a key is never with two workers.
    let known = cron.timetables.lock().remove(&key).unwrap_or_default();
    let Some(object) = object.filter(|object| !object.is_deleting()) else { return Ok(Outcome::Done) };
    let spec: CronHpaSpec = api::read(&object)?;
    let mut timetable = cron.renew(&object, known, spec);
    cron.run_due(&key, &object, &mut timetable).await;
    let written = cron.commit(target, &object, &timetable).await;
    if written.is_ok() {
        timetable.rules.iter_mut().for_each(|watched| watched.news.clear());
    }
    let next = timetable.rules.iter().filter_map(|watched| watched.next).min();
    // Results not yet in the status are kept for the next try.
    cron.timetables.lock().insert(key, timetable);
    written?;
    let wait = next.map(|next| Duration::try_from(next.duration_since(cron.plane.clock.now())).unwrap_or_default());
    Ok(wait.map_or(Outcome::Done, Outcome::After))
}

impl Cron {
    /// The timetable of a spec: rules that are as before go on, others start now.
    fn renew(&self, object: &Object, known: Timetable, spec: CronHpaSpec) -> Timetable {
        let is_same_target = known.target == spec.scale_target_ref;
        let mut before: HashMap<String, Watched> =
            known.rules.into_iter().map(|watched| (watched.rule.name.clone(), watched)).collect();
        let rules = spec.rules.into_iter().map(|rule| match before.remove(&rule.name) {
            Some(watched) if is_same_target && watched.rule == rule => watched,
            _ => self.watch(object, rule),
        });
        Timetable { rules: rules.collect(), target: spec.scale_target_ref }
    }

    fn watch(&self, object: &Object, rule: CronRule) -> Watched {
        let schedule = match rule.suspend {
            Some(true) => None,
            _ => match Schedule::parse(&rule.schedule, rule.time_zone.as_deref()) {
                Ok(schedule) => Some(schedule),
                Err(error) => {
                    // Only its author can fix it; the other rules run.
                    self.events.warning(object, "StartRuleFailed", error.to_string());
                    None
                }
            },
        };
        let next = schedule.as_ref().and_then(|schedule| schedule.next_after(self.plane.clock.now()));
        Watched { rule, schedule, next, news: Vec::new() }
    }

    async fn run_due(&self, key: &ObjectKey, object: &Object, timetable: &mut Timetable) {
        for watched in &mut timetable.rules {
            let now = self.plane.clock.now();
            let Some(due) = watched.next.filter(|next| *next <= now) else { continue };
            let started = Instant::now();
            let result = scale::apply(&self.plane.client, &self.mapper, key, &timetable.target, &watched.rule).await;
            self.plane.metrics.propagation.cron_rule_processed(result.is_ok(), started.elapsed());
            if let Err(message) = &result {
                self.events.warning(object, "ScaleFailed", message.clone());
            }
            let done = self.plane.clock.now();
            watched.news.push(Execution { due, done, result });
            watched.next = watched.schedule.as_ref().and_then(|schedule| schedule.next_after(done));
        }
    }

    async fn commit(&self, target: ResourceRef, object: &Object, timetable: &Timetable) -> Result<(), Status> {
        let before: CronHpaStatus = api::read_at(object, &["status"])?;
        let states: Vec<RuleState<'_>> = timetable
            .rules
            .iter()
            .map(|watched| RuleState { rule: &watched.rule, next: watched.next, news: &watched.news })
            .collect();
        let after = merge(&before, &states);
        if after == before {
            return Ok(());
        }
        let mut desired = object.clone();
        desired.set(&["status"], serde_json::to_value(after).unwrap_or_default());
        let result = commit_status(&self.plane.client, target, object, &desired, FIELD_MANAGER).await;
        if let Err(status) = &result
            && !status.is_conflict()
        {
            self.events.warning(object, "UpdateStatusFailed", status.to_string());
        }
        result.map(drop)
    }
}

#[cfg(test)]
mod tests;
