//! The failover stage: the last moves of a workload, and whether it returns.

use std::sync::Arc;
use std::time::Duration;

use api::failover::{ANNOTATION_FAILBACK, Move};
use api::work::BindingSpec;
use jiff::Timestamp;
use object::Object;
use propagation::failback::{Failback, well_since};
use propagation::failover_history::History;
use serde_json::json;

use crate::document::{Stage, State};
use crate::reason::Reason;

/// Returns `None` if the workload never moved.
pub fn stage(
    binding: &Object,
    spec: &BindingSpec,
    policy: Option<&Object>,
    clusters: &[Arc<Object>],
    now: Timestamp,
) -> Option<Stage> {
    let history = History::of(binding);
    let last = history.0.last()?;
    let summary = match &last.to {
        None => format!("left {}, not scheduled to another cluster yet", last.from),
        Some(_) if last.ended.is_empty() => format!("leaves {} when it is healthy in its new clusters", last.from),
        Some(_) => format!("last left {}", last.from),
    };
    let mut details: Vec<String> = history.0.iter().rev().map(line).collect();
    let left = history.left(spec);
    let annotation = policy.and_then(|policy| policy.annotation(ANNOTATION_FAILBACK)).unwrap_or_default();
    let reason = match Failback::parse(annotation) {
        _ if left.is_empty() => None,
        Ok(Some(failback)) => {
            details.extend(left.iter().map(|cluster| return_line(cluster, failback, clusters, now)));
            None
        }
        Ok(None) => {
            details.push(format!("it does not return to {} by itself", left.join(", ")));
            Some(Reason::NoFailback { clusters: left })
        }
        Err(problem) => {
            details.push(format!("its policy has an invalid annotation {ANNOTATION_FAILBACK}: {problem}"));
            Some(Reason::NoFailback { clusters: left })
        }
    };
    let mut stage = Stage::new("failover", State::Done, summary).since(&last.time).details(details).because(reason);
    stage.data = json!(history.0);
    Some(stage)
}

/// When a workload returns to a cluster.
fn return_line(cluster: &str, failback: Failback, clusters: &[Arc<Object>], now: Timestamp) -> String {
    let after = failback.after.as_secs();
    let object = clusters.iter().find(|known| known.name() == cluster);
    let Some(healthy_since) = object.and_then(|object| well_since(object)) else {
        return format!("it returns to {cluster} when {cluster} has been healthy for {after}s ({ANNOTATION_FAILBACK})");
    };
    let healthy_for = Duration::try_from(now.duration_since(healthy_since)).unwrap_or_default();
    match failback.after.saturating_sub(healthy_for).as_secs() {
        0 => format!("it returns to {cluster} as soon as the scheduler allows ({ANNOTATION_FAILBACK})"),
        left => format!("it returns to {cluster} in {left}s if {cluster} stays healthy ({ANNOTATION_FAILBACK})"),
    }
}

fn line(own: &Move) -> String {
    let why = match own.message.as_str() {
        "" => format!("{} by {}", own.reason, own.by),
        message => format!("{message} ({} by {})", own.reason, own.by),
    };
    let to = match &own.to {
        None => "no cluster yet".to_owned(),
        Some(to) if to.is_empty() => "no other cluster: the others had it already".to_owned(),
        Some(to) => to.iter().map(|t| format!("{} {}", t.name, t.replicas)).collect::<Vec<_>>().join(", "),
    };
    let mut line = format!("{}: from {} to {to}: {why}", own.time, own.from);
    if !own.ended.is_empty() {
        line.push_str(&format!("; ended {} ({})", own.ended, own.outcome));
    }
    if !own.returned.is_empty() {
        line.push_str(&format!("; returned at {}", own.returned));
    }
    line
}
