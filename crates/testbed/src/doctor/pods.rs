//! Pods in the members that do not run, with the events that explain them.

use std::sync::Arc;

use api::Resource;
use async_trait::async_trait;
use cluster_client::{ClusterClient, ListOptions, ResourceRef};
use karmadactl::pod_problem::PodProblem;
use object::Object;

use super::members::member_names;
use super::subject::Hints;
use super::{Check, DoctorSubject, Evidence, Finding, Layer, broken};
use crate::clusters::PODS;

const EVENTS: Resource = Resource::namespaced("", "v1", "Event", "events");
/// Pods that are named one by one in a member; more are counted.
const PODS_NAMED_MAX: usize = 20;

#[derive(Debug)]
pub struct PodSeen {
    pub member: String,
    pub pod: Arc<Object>,
    /// The newest warning about it, where there is one.
    pub warning: Option<Warning>,
}

#[derive(Clone, Debug)]
pub struct Warning {
    pub reason: String,
    pub message: String,
}

pub struct Pods;

#[async_trait]
impl Check for Pods {
    fn layer(&self) -> Layer {
        Layer::Pods
    }

    async fn gather(&self, subject: &DoctorSubject) -> Evidence {
        let names = match member_names(subject).await {
            Ok(names) => names,
            Err(why) => return Evidence::Unknown(Layer::Pods, why),
        };
        let looks = names.iter().map(|name| async move {
            let client = subject.member_client(name).ok()?;
            look(name, &client).await
        });
        let looks = futures::future::join_all(looks).await;
        if !names.is_empty() && looks.iter().all(Option::is_none) {
            return Evidence::Unknown(Layer::Pods, "no member responds".to_owned());
        }
        Evidence::Pods(looks.into_iter().flatten().flatten().collect())
    }
}

/// `None` for a member that does not respond, which is a finding of its own.
async fn look(member: &str, client: &ClusterClient) -> Option<Vec<PodSeen>> {
    let listed = client.list_all(ResourceRef::all(&PODS.gvr()), ListOptions::default()).await;
    let pods = listed.ok()?.items;
    let failing: Vec<Arc<Object>> = pods.into_iter().filter(|pod| PodProblem::of(pod).is_some()).collect();
    let mut seen = Vec::new();
    for pod in failing {
        let warning = if seen.len() < PODS_NAMED_MAX { newest_warning(client, &pod).await } else { None };
        seen.push(PodSeen { member: member.to_owned(), pod, warning });
    }
    Some(seen)
}

async fn newest_warning(client: &ClusterClient, pod: &Object) -> Option<Warning> {
    let selector =
        format!("involvedObject.name={},involvedObject.namespace={},type=Warning", pod.name(), pod.namespace());
    let options = ListOptions { field_selector: Some(selector), ..ListOptions::default() };
    let events = client.list_all(ResourceRef::within(&EVENTS.gvr(), pod.namespace()), options).await.ok()?.items;
    let when = |event: &Object| {
        let times = [event.str_at(&["lastTimestamp"]), event.str_at(&["eventTime"]), event.creation_timestamp()];
        times.into_iter().find(|time| !time.is_empty()).unwrap_or_default().to_owned()
    };
    let newest = events.iter().max_by_key(|event| when(event))?;
    Some(Warning { reason: newest.str_at(&["reason"]).to_owned(), message: newest.str_at(&["message"]).to_owned() })
}

pub fn judge(seen: &[PodSeen], hints: &Hints) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut members: Vec<&str> = seen.iter().map(|pod| pod.member.as_str()).collect();
    members.sort_unstable();
    members.dedup();
    for member in members {
        let of_member: Vec<&PodSeen> = seen.iter().filter(|pod| pod.member == member).collect();
        findings.extend(of_member.iter().take(PODS_NAMED_MAX).filter_map(|pod| judge_pod(pod, hints)));
        if of_member.len() > PODS_NAMED_MAX {
            let what = format!("{} more pods do not run", of_member.len() - PODS_NAMED_MAX);
            let command = hints.on_member(member, "get pods -A");
            findings.push(broken(Layer::Pods, member, what, "as those above", command));
        }
    }
    findings
}

fn judge_pod(seen: &PodSeen, hints: &Hints) -> Option<Finding> {
    let (name, namespace) = (seen.pod.name(), seen.pod.namespace());
    let subject = format!("{}: {namespace}/{name}", seen.member);
    let problem = PodProblem::of(&seen.pod)?;
    let warned = seen.warning.as_ref().map(|warning| format!("{}: {}", warning.reason, warning.message));
    let why = match &problem {
        PodProblem::Crashing { .. } => problem.cause(),
        // The event says more; the status is used once the event has expired.
        _ => warned.unwrap_or_else(|| problem.cause()),
    };
    let (what, command) = (problem.summary(), hints.on_member(&seen.member, &problem.arguments(name, namespace)));
    Some(broken(Layer::Pods, &subject, what, why, command))
}
