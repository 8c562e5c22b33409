//! `why`: traces one template through policy, scheduling, overrides and works to its members, and shows where it is
//! stuck.

mod delivery;
mod failover;
mod members;
pub(crate) mod placement;
pub(crate) mod policy;

use std::sync::Arc;

use api::cluster::ClusterStatus;
use api::work::{BindingSpec, BindingStatus, TargetCluster};
use jiff::Timestamp;
use object::{Object, Status};
use propagation::policy::PolicyKey;
use propagation::policy_index::PolicyIndex;
use propagation::works::targets;
use serde::Serialize;

use crate::advice::Advisor;
use crate::document::{Stage, State, Subject};
use crate::gather::Explainer;
use crate::reason::Reason;
use crate::why_text;

/// The whole answer.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    pub subject: Subject,
    pub state: State,
    /// One sentence: the current state, or the cause of the problem.
    pub verdict: String,
    /// The cause, if there is a problem or the user should know something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
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
        let mut trace = Trace::new(subject);
        let Some(template) = self.find_template(&trace.subject).await? else {
            let stage = Stage::new("template", State::Failed, "there is no such object on the control plane");
            return Ok(trace.finish(stage.because(Reason::TemplateMissing)));
        };
        trace.push(
            Stage::new("template", State::Done, format!("generation {}", template.generation()))
                .since(template.creation_timestamp()),
        );
        if let Some(stage) = policy::exempt(&self.parts.rules, &template) {
            return Ok(trace.finish(stage));
        }
        let policies = self.policies().await?;
        if policy::is_synced_namespace(&policies, &template) {
            return self.why_namespace(trace, &template).await;
        }
        let (stage, policy) = policy::stage(&policies, &template);
        trace.policy = policy;
        let is_claimed = stage.state == State::Done;
        trace.push(stage);
        let Some(binding) = self.binding(&template).await? else {
            let (state, text) = match is_claimed {
                true => (State::Waiting, "not created yet"),
                false => (State::Ahead, "created once a policy selects the object"),
            };
            return Ok(trace.finish(Stage::new("binding", state, text)));
        };
        self.why_bound(trace, &policies, &template, &binding).await
    }

    async fn why_bound(
        &self,
        mut trace: Trace,
        policies: &PolicyIndex,
        template: &Object,
        binding: &Object,
    ) -> Result<Why, Status> {
        let now = Timestamp::now();
        let spec: BindingSpec = api::read(binding)?;
        let status: BindingStatus = api::read_at(binding, &["status"])?;
        trace.push(placement::binding_stage(binding, &spec));
        let clusters = self.clusters().await?;
        trace.push(self.scheduling_stage(binding, &spec, &status, &clusters)?);
        let targets = self.targets(template, targets(&spec), &clusters).await?;
        trace.push(delivery::overrides_stage(template, &targets, &self.overrides().await?));
        trace.push(delivery::work_stage(&targets));
        trace.push(self.member_stage(&spec, &status, &targets, now));
        trace.push(members::status_stage(&status));
        let policy = trace.policy.as_ref().and_then(|key| policies.get(key));
        trace.stages.extend(failover::stage(binding, &spec, policy.map(|policy| &*policy.object), &clusters, now));
        Ok(trace.end())
    }

    /// Namespaces need no policy: each is created in every cluster.
    async fn why_namespace(&self, mut trace: Trace, namespace: &Object) -> Result<Why, Status> {
        if let Some(why) = self.parts.rules.skipped_namespaces.not_synced(namespace) {
            let stage = Stage::new("policy", State::Done, policy::not_synced(why));
            return Ok(trace.finish(stage.because(Reason::NamespaceNotSynced { why })));
        }
        trace.push(Stage::new("policy", State::Done, "needs none: namespaces are created in every cluster"));
        let clusters = self.clusters().await?;
        let all = clusters.iter().map(|cluster| TargetCluster {
            name: cluster.name().to_owned(),
            replicas: 0,
            ..TargetCluster::default()
        });
        let targets = self.targets(namespace, all.collect(), &clusters).await?;
        trace.push(delivery::overrides_stage(namespace, &targets, &self.overrides().await?));
        let stage = delivery::work_stage(&targets);
        Ok(trace.finish(if clusters.is_empty() { stage.because(Reason::NoClusters) } else { stage }))
    }

    async fn targets(
        &self,
        template: &Object,
        targets: Vec<TargetCluster>,
        clusters: &[Arc<Object>],
    ) -> Result<Vec<BindingTarget>, Status> {
        let mut known = Vec::new();
        for target in targets {
            let object = clusters.iter().find(|cluster| cluster.name() == target.name).cloned();
            let status = match &object {
                Some(cluster) => api::read_at(cluster, &["status"])?,
                None => ClusterStatus::default(),
            };
            let work = self.work(&target.name, template).await?;
            known.push(BindingTarget { cluster: target.name, replicas: target.replicas, object, status, work });
        }
        Ok(known)
    }
}

/// The stages found so far.
struct Trace {
    subject: Subject,
    policy: Option<PolicyKey>,
    stages: Vec<Stage>,
}

impl Trace {
    fn new(subject: Subject) -> Self {
        Self { subject, policy: None, stages: Vec::new() }
    }

    fn push(&mut self, stage: Stage) {
        self.stages.push(stage);
    }

    /// Ends with a last stage.
    fn finish(mut self, last: Stage) -> Why {
        self.push(last);
        self.end()
    }

    /// The first stage that is not done gives the verdict and the next step; if all are done, the first with a reason gives
    /// the next step.
    fn end(mut self) -> Why {
        let advisor = Advisor { subject: &self.subject, policy: self.policy.as_ref() };
        for stage in &mut self.stages {
            stage.next_step = stage.reason.as_ref().and_then(|reason| advisor.advise(reason));
        }
        let stop = self.stages.iter().find(|stage| stage.state != State::Done);
        let (state, verdict) = match stop {
            None => (State::Done, done(&self.stages)),
            Some(stage) => {
                let detail = stage.details.first().map(|detail| format!(" ({detail})")).unwrap_or_default();
                let word = if stage.state == State::Failed { "it stops at" } else { "it waits at" };
                (stage.state, format!("{word} {}: {}{detail}", stage.name, stage.summary))
            }
        };
        let cause = stop.or_else(|| self.stages.iter().find(|stage| stage.reason.is_some()));
        let reason = cause.and_then(|stage| stage.reason.clone());
        let next_step = cause.and_then(|stage| stage.next_step.clone());
        let stages = self.stages;
        let mut why = Why { subject: self.subject, state, verdict, reason, next_step, stages, text: String::new() };
        why.text = why_text::text(&why);
        why
    }
}

/// The verdict if nothing is wrong.
fn done(stages: &[Stage]) -> String {
    let find = |name: &str| stages.iter().find(|stage| stage.name == name);
    match (find("scheduling"), find("work"), find("policy")) {
        (Some(scheduling), ..) => format!("it runs as it should: {}", scheduling.summary),
        (None, Some(_), _) => "it is in every cluster".to_owned(),
        (None, None, Some(policy)) => policy.summary.clone(),
        (None, None, None) => "nothing to report".to_owned(),
    }
}

#[cfg(test)]
mod tests;
