//! Aggregates the statuses of all members into one.

use api::work::AggregatedStatusItem;
use jiff::Timestamp;
use object::Object;
use serde_json::{Map, Value, json};

use super::counters::{AUTOSCALER, BUDGET, Counter, DAEMON_SET, DEPLOYMENT, REPLICA_SET, STATEFUL_SET};
use super::job::{self, is_before};
use super::read::Zero::{Omitted, Written};
use super::read::{int, list, text, write_int};
use super::{Kind, load_balancer};
use crate::operation::{InterpretResult, Operation};

/// In order of precedence: the first of these that any member reports is the phase of all.
const POD_PHASES: &[&str] = &["Failed", "Pending", "Running", "Succeeded"];
const VOLUME_PHASES: &[&str] = &["Failed", "Pending", "Available", "Bound", "Released"];

pub fn aggregate(
    kind: Kind,
    object: &mut Object,
    items: &[AggregatedStatusItem],
    now: Timestamp,
) -> InterpretResult<()> {
    let statuses = || items.iter().filter_map(|item| item.status.as_ref());
    let status = match kind {
        Kind::Deployment => return replicated(object, items, DEPLOYMENT, Latest::OfTemplate),
        Kind::ReplicaSet => return replicated(object, items, REPLICA_SET, Latest::OfTemplate),
        Kind::DaemonSet => return replicated(object, items, DAEMON_SET, Latest::OfTemplate),
        Kind::StatefulSet => return replicated(object, items, STATEFUL_SET, Latest::OfMember),
        Kind::CronJob => return cron_job(object, items),
        Kind::Service if object.str_at(&["spec", "type"]) != "LoadBalancer" => return Ok(()),
        Kind::Service | Kind::Ingress => load_balancer::merge(statuses())?,
        Kind::Job => match job::status(object, items, now)? {
            Some(status) => status,
            None => return Ok(()),
        },
        Kind::Pod if items.is_empty() => return Ok(()),
        Kind::Pod => pod(items)?,
        Kind::PersistentVolume => match phase(items, VOLUME_PHASES)? {
            Some(phase) => json!({"phase": phase}),
            None => json!({}),
        },
        Kind::PersistentVolumeClaim => json!({"phase": claim_phase(statuses())?}),
        Kind::PodDisruptionBudget => budget(items)?,
        Kind::HorizontalPodAutoscaler => Value::Object(sums(statuses(), AUTOSCALER)?),
        Kind::ServiceAccount | Kind::Secret | Kind::ServiceImport => {
            return Err(super::no_rule(object, Operation::AggregateStatus));
        }
    };
    if object.get(&["status"]) != Some(&status) {
        object.set(&["status"], status);
    }
    Ok(())
}

/// The generation that a member status's template generation must reach to be current.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Latest {
    OfTemplate,
    /// Karmada 1.18 compares a StatefulSet with the member's generation, and reflects no observed one: with any
    /// member the observed generation of the template stays unchanged.
    OfMember,
}

/// Sums the counters; all else in the status stays.
fn replicated(
    object: &mut Object,
    items: &[AggregatedStatusItem],
    counters: &[Counter],
    latest: Latest,
) -> InterpretResult<()> {
    let generation = object.generation();
    let mut totals = vec![0i64; counters.len()];
    let mut current = 0;
    for item in items {
        let Some(status) = &item.status else { continue };
        for (total, (key, _)) in totals.iter_mut().zip(counters) {
            *total = total.saturating_add(int(status, key)?);
        }
        let member_generation = int(status, "generation")?;
        let wanted = if latest == Latest::OfTemplate { generation } else { member_generation };
        let is_current = int(status, "observedGeneration")? >= member_generation
            && int(status, "resourceTemplateGeneration")? >= wanted;
        current += usize::from(is_current);
    }
    let observed = (current == items.len()).then_some(generation);
    let mut map = take_status(object);
    for ((key, zero), total) in counters.iter().zip(totals) {
        write_int(&mut map, key, total, *zero);
    }
    if let Some(observed) = observed {
        write_int(&mut map, "observedGeneration", observed, Omitted);
    }
    put_status(object, map);
    Ok(())
}

fn take_status(object: &mut Object) -> Map<String, Value> {
    match object.as_map_mut().get_mut("status") {
        Some(Value::Object(map)) => std::mem::take(map),
        _ => Map::new(),
    }
}

/// An empty status is not added to an object without one.
fn put_status(object: &mut Object, map: Map<String, Value>) {
    if !map.is_empty() || object.as_map().contains_key("status") {
        object.as_map_mut().insert("status".to_owned(), Value::Object(map));
    }
}

fn sums<'a>(statuses: impl Iterator<Item = &'a Value>, counters: &[Counter]) -> InterpretResult<Map<String, Value>> {
    let mut totals = vec![0i64; counters.len()];
    for status in statuses {
        for (total, (key, _)) in totals.iter_mut().zip(counters) {
            *total = total.saturating_add(int(status, key)?);
        }
    }
    let written = counters.iter().zip(totals).filter(|((_, zero), total)| *total != 0 || *zero == Written);
    Ok(written.map(|((key, _), total)| ((*key).to_owned(), total.into())).collect())
}

fn cron_job(object: &mut Object, items: &[AggregatedStatusItem]) -> InterpretResult<()> {
    let mut active = Vec::new();
    let mut times = [("lastScheduleTime", ""), ("lastSuccessfulTime", "")];
    for status in items.iter().filter_map(|item| item.status.as_ref()) {
        active.extend_from_slice(list(status, "active")?);
        for (key, latest) in &mut times {
            let time = text(status, key)?;
            if latest.is_empty() || (!time.is_empty() && is_before(latest, time)) {
                *latest = time;
            }
        }
    }
    let mut map = take_status(object);
    let mut put = |key: &str, value: Option<Value>| match value {
        Some(value) => drop(map.insert(key.to_owned(), value)),
        None => drop(map.remove(key)),
    };
    put("active", (!active.is_empty()).then(|| active.into()));
    for (key, latest) in times {
        put(key, (!latest.is_empty()).then(|| latest.into()));
    }
    put_status(object, map);
    Ok(())
}

/// The first phase of the order that some member is in. A member without a status counts as pending.
fn phase<'a>(items: &[AggregatedStatusItem], order: &[&'a str]) -> InterpretResult<Option<&'a str>> {
    let mut reported = Vec::with_capacity(items.len());
    for item in items {
        reported.push(match &item.status {
            Some(status) => text(status, "phase")?,
            None => "Pending",
        });
    }
    Ok(order.iter().find(|phase| reported.contains(phase)).copied())
}

fn claim_phase<'a>(statuses: impl Iterator<Item = &'a Value>) -> InterpretResult<&'a str> {
    let mut result = "Bound";
    for status in statuses {
        match text(status, "phase")? {
            "Lost" => return Ok("Lost"),
            "Bound" => {}
            other => result = other,
        }
    }
    Ok(result)
}

fn pod(items: &[AggregatedStatusItem]) -> InterpretResult<Value> {
    let mut status = Map::new();
    if let Some(phase) = phase(items, POD_PHASES)? {
        status.insert("phase".to_owned(), phase.into());
    }
    for key in ["containerStatuses", "initContainerStatuses"] {
        let mut containers = Vec::new();
        for status in items.iter().filter_map(|item| item.status.as_ref()) {
            // Names and images differ or repeat between members; only these two can be aggregated.
            containers.extend(list(status, key)?.iter().map(|container| {
                let state = container.get("state").filter(|state| state.is_object()).cloned();
                json!({"name": "", "image": "", "imageID": "", "restartCount": 0, "lastState": {},
                    "ready": container["ready"].as_bool().unwrap_or(false),
                    "state": state.unwrap_or_else(|| json!({}))})
            }));
        }
        if !containers.is_empty() {
            status.insert(key.to_owned(), containers.into());
        }
    }
    Ok(Value::Object(status))
}

fn budget(items: &[AggregatedStatusItem]) -> InterpretResult<Value> {
    let mut status = sums(items.iter().filter_map(|item| item.status.as_ref()), BUDGET)?;
    let mut disrupted = Map::new();
    for item in items {
        let pods = item.status.as_ref().and_then(|status| status["disruptedPods"].as_object());
        for (pod, time) in pods.into_iter().flatten() {
            disrupted.insert(format!("{}/{pod}", item.cluster_name), time.clone());
        }
    }
    if !disrupted.is_empty() {
        status.insert("disruptedPods".to_owned(), Value::Object(disrupted));
    }
    Ok(Value::Object(status))
}
