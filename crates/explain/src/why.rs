//! `why`: traces one template through policy, scheduling, overrides and works to its members, and shows where it is
//! stuck.

use std::sync::Arc;

use api::cluster::{CONDITION_READY, ClusterSpec, ClusterStatus};
use api::core::{Condition, find_condition};
use api::failover::{ANNOTATION_FAILBACK, Move};
use api::features::Features;
use api::work::{
    BindingSpec, BindingStatus, CONDITION_APPLIED, CONDITION_DISPATCHING, CONDITION_FULLY_APPLIED, CONDITION_SCHEDULED,
    STATUS_UNSCHEDULABLE, Unschedulable, WorkStatus,
};
use object::{Object, Status};
use propagation::claim::{Claim, Decision, decide};
use propagation::failover_history::History;
use propagation::overrides::{self, Considered, Member, Verdict};
use propagation::policy_choice::explain_choice;
use propagation::policy_index::PolicyIndex;
use propagation::works::targets;
use scheduler::{ClusterSnapshot, Explanation, Peers, Request, SchedulerOptions, explain};
use serde::Serialize;
use serde_json::{Value, json};

use crate::document::{Stage, State, Subject};
use crate::gather::{Explainer, Overrides};
use crate::{advice, scheduling, why_text};

/// The whole answer.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    pub subject: Subject,
    pub state: State,
    /// One sentence: the current state, or the cause of the problem.
    pub verdict: String,
    /// The recommended action, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_step: Option<String>,
    pub stages: Vec<Stage>,
    /// The answer as text.
    pub text: String,
}

/// A target of a binding, and its known state.
struct BindingTarget {
    cluster: String,
    replicas: i32,
    object: Option<Arc<Object>>,
    status: ClusterStatus,
    work: Option<Arc<Object>>,
}

impl Explainer {
    pub async fn why(&self, subject: Subject) -> Result<Why, Status> {
        let mut stages = Vec::new();
        let Some(template) = self.find_template(&subject).await? else {
            let stage = Stage::new("template", State::Failed, "there is no such object on the control plane");
            stages.push(stage.next_step(Some(advice::no_template(&subject))));
            return Ok(finish(subject, stages));
        };
        stages.push(
            Stage::new("template", State::Done, format!("generation {}", template.generation()))
                .since(template.creation_timestamp()),
        );
        let policies = self.policies().await?;
        stages.push(policy_stage(&policies, &template));
        let Some(binding) = self.binding(&template).await? else {
            let (state, text) = match stages[1].state {
                State::Done => (State::Waiting, "not made yet"),
                _ => (State::Ahead, "made once a policy selects the object"),
            };
            stages.push(Stage::new("binding", state, text));
            return Ok(finish(subject, stages));
        };
        let spec: BindingSpec = api::read(&binding)?;
        let status: BindingStatus = api::read_at(&binding, &["status"])?;
        stages.push(binding_stage(&binding, &spec));
        let clusters = self.clusters().await?;
        let snapshot = self.snapshot(&clusters)?;
        stages.push(self.scheduling_stage(&binding, &spec, &status, &snapshot));
        let places = self.places(&template, &spec, &clusters).await?;
        stages.push(overrides_stage(&template, &places, &self.overrides().await?));
        stages.push(work_stage(&places));
        stages.push(member_stage(&template, &spec, &status, &places));
        stages.push(status_stage(&status));
        stages.extend(failover_stage(&binding, &spec));
        Ok(finish(subject, stages))
    }

    async fn places(
        &self,
        template: &Object,
        spec: &BindingSpec,
        clusters: &[Arc<Object>],
    ) -> Result<Vec<BindingTarget>, Status> {
        let mut places = Vec::new();
        for target in targets(spec) {
            let object = clusters.iter().find(|cluster| cluster.name() == target.name).cloned();
            let status = match &object {
                Some(cluster) => api::read_at(cluster, &["status"])?,
                None => ClusterStatus::default(),
            };
            let work = self.work(&target.name, template).await?;
            places.push(BindingTarget { cluster: target.name, replicas: target.replicas, object, status, work });
        }
        Ok(places)
    }

    /// The recorded reasons of the scheduler, or those of a decision made now.
    fn scheduling_stage(
        &self,
        binding: &Object,
        spec: &BindingSpec,
        status: &BindingStatus,
        snapshot: &ClusterSnapshot,
    ) -> Stage {
        let key = match binding.namespace() {
            "" => binding.name().to_owned(),
            namespace => format!("{namespace}/{}", binding.name()),
        };
        if spec.placement.is_none() {
            let text = if spec.required_by.is_empty() {
                "no policy says where".to_owned()
            } else {
                let by: Vec<String> =
                    spec.required_by.iter().map(|by| format!("{}/{}", by.namespace, by.name)).collect();
                format!("goes where the bindings go that need it: {}", by.join(", "))
            };
            return Stage::new("scheduling", State::Done, text);
        }
        let (explanation, note) = match self.parts.decisions.get(&key) {
            Some(known) => ((*known.explanation).clone(), format!("decided at {}", known.time.strftime("%FT%TZ"))),
            None => {
                (explain_now(spec, status, snapshot, &self.parts.features), "as it would be decided now".to_owned())
            }
        };
        let scheduled = find_condition(&status.conditions, CONDITION_SCHEDULED);
        let mut stage = match scheduled {
            Some(condition) if condition.status == "True" => {
                Stage::new("scheduling", State::Done, where_to(spec)).since(&condition.last_transition_time)
            }
            Some(condition) => {
                let text = format!("{}: {}", condition.reason, condition.message);
                let state = if condition.reason == "Unschedulable" { State::Waiting } else { State::Failed };
                Stage::new("scheduling", state, text).since(&condition.last_transition_time)
            }
            None => Stage::new("scheduling", State::Waiting, "not decided yet"),
        };
        stage.details = scheduling::lines(&explanation);
        stage.details.push(note);
        if stage.state != State::Done {
            stage.next_step = advice::scheduling(spec, &explanation);
        }
        stage.data = json!(explanation);
        stage
    }
}

/// The scheduler's decision for the current state.
fn explain_now(
    spec: &BindingSpec,
    status: &BindingStatus,
    snapshot: &ClusterSnapshot,
    features: &Features,
) -> Explanation {
    let (peers, options) = (Peers::default(), SchedulerOptions::new(features));
    explain(snapshot, &Request { spec, status, peers: &peers, options: &options }).1
}

fn policy_stage(policies: &PolicyIndex, template: &Object) -> Stage {
    let decision = decide(policies, template);
    let choice = explain_choice(policies, template);
    let mut details: Vec<String> = choice
        .candidates
        .iter()
        .map(|c| format!("{} selects it with priority {} by {:?}: {}", c.policy, c.priority, c.specificity, c.verdict))
        .collect();
    let mut next = None;
    let (state, summary) = match decision {
        Decision::Apply(policy) => (State::Done, format!("{} decides", policy.display_name())),
        Decision::TakenBy(other) => (State::Done, format!("{other} propagates it, no policy does")),
        Decision::HolderDeleting(policy) => {
            (State::Waiting, format!("{} is being deleted; another may take over after it", policy.display_name()))
        }
        Decision::HolderSelectsOther(policy) => {
            (State::Waiting, format!("it belonged to {}, which selects it no more", policy.display_name()))
        }
        Decision::HolderGone(Claim { policy, .. }) => {
            (State::Waiting, format!("it belonged to {policy}, which is gone; what was propagated stays"))
        }
        Decision::Unmatched => {
            details.extend(choice.nearest.iter().map(|miss| format!("nearly: {miss}")));
            next = Some(advice::no_policy(template, !choice.nearest.is_empty()));
            let text = match policies.is_empty() {
                true => "no policy selects it: there are no policies",
                false => "no policy selects it",
            };
            (State::Failed, text.to_owned())
        }
    };
    Stage::new("policy", state, summary).details(details).next_step(next)
}

fn binding_stage(binding: &Object, spec: &BindingSpec) -> Stage {
    let mut summary = format!("{}/{}", binding.kind(), binding.name());
    if spec.replicas > 0 {
        summary.push_str(&format!(", {} replicas", spec.replicas));
    }
    let mut details = Vec::new();
    for task in &spec.graceful_eviction_tasks {
        details.push(format!("leaves {}: {} by {}", task.from_cluster, task.reason, task.producer));
    }
    if spec.suspension.as_ref().is_some_and(|suspension| suspension.scheduling == Some(true)) {
        details.push("scheduling is suspended".to_owned());
    }
    Stage::new("binding", State::Done, summary).since(binding.creation_timestamp()).details(details)
}

fn where_to(spec: &BindingSpec) -> String {
    if spec.clusters.is_empty() {
        return "nowhere".to_owned();
    }
    let told = spec.clusters.iter().map(|target| match target.replicas {
        0 => target.name.clone(),
        replicas => format!("{} ({replicas})", target.name),
    });
    told.collect::<Vec<_>>().join(", ")
}

fn overrides_stage(template: &Object, places: &[BindingTarget], overrides: &Overrides) -> Stage {
    let mut details = Vec::new();
    let mut state = if places.is_empty() { State::Ahead } else { State::Done };
    for place in places {
        let Some(cluster) = &place.object else { continue };
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
        details.extend(considered.iter().filter_map(|c| tell_override(&place.cluster, c)));
    }
    let summary = match (state, details.is_empty()) {
        (State::Failed, _) => "one cannot be applied",
        (_, true) => "none for any of its members",
        _ => "as follows",
    };
    let next = (state == State::Failed).then(advice::failed_override);
    Stage::new("overrides", state, summary).details(details).next_step(next)
}

/// Policies for other objects are omitted.
fn tell_override(cluster: &str, considered: &Considered) -> Option<String> {
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

fn condition_of(work: &Object, kind: &str) -> Option<Condition> {
    let status: WorkStatus = api::read_at(work, &["status"]).ok()?;
    find_condition(&status.conditions, kind).cloned()
}

fn work_stage(places: &[BindingTarget]) -> Stage {
    let mut lines = Lines::default();
    let mut state = if places.is_empty() { State::Ahead } else { State::Done };
    let mut since = String::new();
    for place in places {
        let (line, own, next) = match &place.work {
            None => ("no Work yet".to_owned(), State::Waiting, None),
            Some(work) => tell_work(&place.cluster, work, &mut since),
        };
        state = worse(state, own);
        let replicas = if place.replicas > 0 { format!(" ({} replicas)", place.replicas) } else { String::new() };
        lines.push(own, format!("{}{replicas}: {line}", place.cluster), next);
    }
    let (details, next) = lines.finish();
    let summary = match state {
        State::Done => "applied in every member",
        State::Waiting => "not applied everywhere yet",
        State::Failed => "a member refuses it",
        State::Ahead => "made once it is scheduled",
    };
    Stage::new("work", state, summary).since(&since).details(details).next_step(next)
}

fn tell_work(cluster: &str, work: &Object, since: &mut String) -> (String, State, Option<String>) {
    if let Some(dispatching) = condition_of(work, CONDITION_DISPATCHING).filter(|c| c.status == "False") {
        return match dispatching.reason == api::safe_mode::REASON {
            true => (dispatching.message.clone(), State::Waiting, None),
            false => (format!("held back: {}", dispatching.message), State::Waiting, Some(advice::held_back())),
        };
    }
    let Some(applied) = condition_of(work, CONDITION_APPLIED) else {
        return ("not sent yet".to_owned(), State::Waiting, None);
    };
    if applied.last_transition_time > *since {
        since.clone_from(&applied.last_transition_time);
    }
    match applied.status.as_str() {
        "True" => (format!("applied at {}", applied.last_transition_time), State::Done, None),
        _ => {
            let line = format!("refused at {}: {}", applied.last_transition_time, applied.message);
            (line, State::Failed, Some(advice::refused(cluster, &applied.message)))
        }
    }
}

fn member_stage(template: &Object, spec: &BindingSpec, status: &BindingStatus, places: &[BindingTarget]) -> Stage {
    let mut lines = Lines::default();
    let mut state = if places.is_empty() { State::Ahead } else { State::Done };
    for place in places {
        let ready = find_condition(&place.status.conditions, CONDITION_READY);
        if place.object.is_none() {
            state = worse(state, State::Failed);
            let line = format!("{}: there is no such cluster", place.cluster);
            lines.push(State::Failed, line, Some(advice::no_cluster(&place.cluster)));
            continue;
        }
        if let Some(ready) = ready.filter(|ready| ready.status != "True") {
            state = worse(state, State::Waiting);
            let (reason, since) = (&ready.message, &ready.last_transition_time);
            let line = format!("{}: the cluster is not ready since {since}: {reason}", place.cluster);
            lines.push(State::Failed, line, Some(advice::not_ready(&place.cluster)));
        }
        let item = status.aggregated_status.iter().find(|item| item.cluster_name == place.cluster);
        let health = item.map_or("Unknown", |item| item.health.as_str());
        let own = if health == "Healthy" { State::Done } else { State::Waiting };
        state = worse(state, own);
        let seen = item.and_then(|item| item.status.as_ref());
        if let Some(waiting) = seen.and_then(unschedulable) {
            state = worse(state, State::Waiting);
            let since = waiting.since.keys().next().map(|since| format!(" since {since}")).unwrap_or_default();
            let line = format!(
                "{}: {} of {} replicas find no node{since}: {}",
                place.cluster, waiting.replicas, place.replicas, waiting.message
            );
            lines.push(State::Failed, line, Some(advice::unschedulable(&place.cluster, &waiting)));
        }
        let next = (own != State::Done).then(|| advice::unhealthy(&place.cluster, template));
        let says = seen.map(|status| format!(", says {status}")).unwrap_or_default();
        lines.push(own, format!("{}: {health}{says}", place.cluster), next);
    }
    let (details, next) = lines.finish();
    let summary = match (state, spec.clusters.is_empty()) {
        (State::Done, _) => "healthy in every member",
        (State::Ahead, true) => "nothing runs anywhere",
        _ => "not healthy in every member",
    };
    Stage::new("members", state, summary).details(details).next_step(next)
}

fn unschedulable(status: &Value) -> Option<Unschedulable> {
    serde_json::from_value(status.get(STATUS_UNSCHEDULABLE)?.clone()).ok()
}

/// Lines with their severity: the worst comes first and determines the next step.
#[derive(Default)]
struct Lines(Vec<(State, String, Option<String>)>);

impl Lines {
    fn push(&mut self, state: State, line: String, next: Option<String>) {
        self.0.push((state, line, next));
    }

    fn finish(mut self) -> (Vec<String>, Option<String>) {
        self.0.sort_by_key(|(state, ..)| std::cmp::Reverse(rank(*state)));
        let next = self.0.iter().find_map(|(_, _, next)| next.clone());
        (self.0.into_iter().map(|(_, line, _)| line).collect(), next)
    }
}

fn status_stage(status: &BindingStatus) -> Stage {
    match find_condition(&status.conditions, CONDITION_FULLY_APPLIED) {
        None => Stage::new("status", State::Ahead, "nothing to sum up yet"),
        Some(applied) => {
            let state = if applied.status == "True" { State::Done } else { State::Waiting };
            Stage::new("status", state, applied.message.clone()).since(&applied.last_transition_time)
        }
    }
}

/// Its last moves; `None` if it never moved.
fn failover_stage(binding: &Object, spec: &BindingSpec) -> Option<Stage> {
    let history = History::of(binding);
    let last = history.0.last()?;
    let summary = match &last.to {
        None => format!("left {} and has no other place yet", last.from),
        Some(_) if last.ended.is_empty() => format!("leaves {} once it is well elsewhere", last.from),
        Some(_) => format!("last left {}", last.from),
    };
    let left = history.left(spec);
    let mut details: Vec<String> = history.0.iter().rev().map(tell_move).collect();
    if !left.is_empty() {
        details.push(format!(
            "it does not go back to {} by itself; a policy can ask for it: {ANNOTATION_FAILBACK}",
            left.join(", ")
        ));
    }
    let mut stage = Stage::new("failover", State::Done, summary).since(&last.time).details(details);
    stage.data = json!(history.0);
    Some(stage)
}

fn tell_move(own: &Move) -> String {
    let why = match own.message.as_str() {
        "" => format!("{} by {}", own.reason, own.by),
        message => format!("{message} ({} by {})", own.reason, own.by),
    };
    let to = match &own.to {
        None => "nowhere yet".to_owned(),
        Some(to) if to.is_empty() => "no other cluster: the rest had it".to_owned(),
        Some(to) => to.iter().map(|t| format!("{} {}", t.name, t.replicas)).collect::<Vec<_>>().join(", "),
    };
    let mut line = format!("{}: from {} to {to}: {why}", own.time, own.from);
    if !own.ended.is_empty() {
        line.push_str(&format!("; ended {} ({})", own.ended, own.outcome));
    }
    if !own.returned.is_empty() {
        line.push_str(&format!("; back since {}", own.returned));
    }
    line
}

/// The more severe of two states.
fn worse(a: State, b: State) -> State {
    if rank(b) > rank(a) { b } else { a }
}

fn rank(state: State) -> u8 {
    match state {
        State::Done => 0,
        State::Ahead => 1,
        State::Waiting => 2,
        State::Failed => 3,
    }
}

fn finish(subject: Subject, stages: Vec<Stage>) -> Why {
    let stop = stages.iter().find(|stage| stage.state != State::Done);
    let (state, verdict) = match stop {
        None => {
            let place = stages.iter().find(|stage| stage.name == "scheduling").map_or("", |stage| &stage.summary);
            (State::Done, format!("it runs as it should: {place}"))
        }
        Some(stage) => {
            let detail = stage.details.first().map(|detail| format!(" ({detail})")).unwrap_or_default();
            let word = if stage.state == State::Failed { "it stops at" } else { "it waits at" };
            (stage.state, format!("{word} {}: {}{detail}", stage.name, stage.summary))
        }
    };
    let next_step = stop.and_then(|stage| stage.next_step.clone());
    let mut why = Why { subject, state, verdict, next_step, stages, text: String::new() };
    why.text = why_text::text(&why);
    why
}

#[cfg(test)]
mod tests;
