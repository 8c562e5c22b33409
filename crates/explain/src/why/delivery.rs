//! The override and work stages: what is sent to each member, and whether it took it.

use api::cluster::ClusterSpec;
use api::core::find_condition;
use api::work::{ApplyFailure, CONDITION_APPLIED, CONDITION_DISPATCHING, WorkStatus};
use object::Object;
use propagation::overrides::{self, Considered, Member, Verdict};

use super::BindingTarget;
use crate::document::{Stage, StageLines, State};
use crate::gather::Overrides;
use crate::reason::Reason;

pub fn overrides_stage(template: &Object, targets: &[BindingTarget], overrides: &Overrides) -> Stage {
    let mut details = Vec::new();
    let mut state = if targets.is_empty() { State::Ahead } else { State::Done };
    let mut reason = None;
    for target in targets {
        let Some(cluster) = &target.object else { continue };
        let Ok(spec) = api::read::<ClusterSpec>(cluster) else { continue };
        let member = Member { cluster, spec: &spec };
        let mut manifest = template.clone();
        let policies = overrides.of(template.namespace());
        let considered = match overrides::apply(&mut manifest, member, &overrides.cluster, policies) {
            Ok(applied) => applied.considered,
            Err(failure) => {
                state = State::Failed;
                failure.considered
            }
        };
        let failed = considered.iter().find(|policy| matches!(policy.verdict, Verdict::Failed { .. }));
        reason = reason.or_else(|| {
            let Considered { namespace, name, .. } = failed?;
            Some(Reason::OverrideFailed { namespace: namespace.clone(), name: name.clone() })
        });
        details.extend(considered.iter().filter_map(|policy| override_line(&target.cluster, policy)));
    }
    let summary = match (state, details.is_empty()) {
        (State::Failed, _) => "one cannot be applied",
        (_, true) => "none for any of its members",
        _ => "as follows",
    };
    Stage::new("overrides", state, summary).details(details).because(reason)
}

/// Policies for other objects are omitted.
fn override_line(cluster: &str, considered: &Considered) -> Option<String> {
    let kind = if considered.namespace.is_empty() { "ClusterOverridePolicy" } else { "OverridePolicy" };
    let policy = format!("{kind} {}", considered.name);
    match &considered.verdict {
        Verdict::OtherResource => None,
        Verdict::OtherMember { .. } => Some(format!("{cluster}: {policy} has no rule for this member")),
        Verdict::Applied { rules, .. } => {
            let rules: Vec<String> = rules.iter().map(|rule| rule.to_string()).collect();
            Some(format!("{cluster}: {policy} changes it (rules {})", rules.join(", ")))
        }
        Verdict::Failed { rule, error, .. } => {
            Some(format!("{cluster}: {policy} cannot be applied, so nothing is sent: rule {rule}: {error}"))
        }
    }
}

pub fn work_stage(targets: &[BindingTarget]) -> Stage {
    let mut lines = StageLines::default();
    let mut since = String::new();
    for target in targets {
        let (line, state, reason) = match &target.work {
            None => ("no Work yet".to_owned(), State::Waiting, None),
            Some(work) => work_line(&target.cluster, work, &mut since),
        };
        let replicas = if target.replicas > 0 { format!(" ({} replicas)", target.replicas) } else { String::new() };
        lines.push(state, format!("{}{replicas}: {line}", target.cluster), reason);
    }
    let summary = match lines.state() {
        State::Done => "applied in every member",
        State::Waiting => "not applied everywhere yet",
        State::Failed => "a member rejects it",
        State::Ahead => "created once it is scheduled",
    };
    lines.into_stage("work", summary).since(&since)
}

fn work_line(cluster: &str, work: &Object, since: &mut String) -> (String, State, Option<Reason>) {
    let status: WorkStatus = api::read_at(work, &["status"]).unwrap_or_default();
    let find = |kind: &str| find_condition(&status.conditions, kind);
    if let Some(dispatching) = find(CONDITION_DISPATCHING).filter(|condition| condition.is_false()) {
        return match dispatching.reason == api::safe_mode::REASON {
            true => (dispatching.message.clone(), State::Waiting, None),
            false => (format!("held back: {}", dispatching.message), State::Waiting, Some(Reason::DispatchSuspended)),
        };
    }
    let Some(applied) = find(CONDITION_APPLIED) else { return ("not sent yet".to_owned(), State::Waiting, None) };
    if applied.last_transition_time > *since {
        since.clone_from(&applied.last_transition_time);
    }
    let time = &applied.last_transition_time;
    if applied.is_true() {
        return (format!("applied at {time}"), State::Done, None);
    }
    let failure = ApplyFailure::of(&status.conditions);
    let reason = Some(Reason::NotApplied { cluster: cluster.to_owned(), failure });
    match failure {
        ApplyFailure::Unreachable => (format!("no response at {time}: {}", applied.message), State::Waiting, reason),
        _ => (format!("rejected at {time}: {}", applied.message), State::Failed, reason),
    }
}
