//! Pods in the members that do not run, with the events that explain them.

use std::sync::Arc;

use api::Resource;
use async_trait::async_trait;
use cluster_client::{ClusterClient, ListOptions, ResourceRef};
use object::Object;
use serde_json::Value;

use super::members::member_names;
use super::patient::Hints;
use super::{Check, Evidence, Finding, Layer, Patient, broken};
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

    async fn gather(&self, patient: &Patient) -> Evidence {
        let names = member_names(patient).await;
        let looks = names.iter().map(|name| async move {
            let client = patient.member_client(name).ok()?;
            Some(look(name, &client).await)
        });
        Evidence::Pods(futures::future::join_all(looks).await.into_iter().flatten().flatten().collect())
    }
}

async fn look(member: &str, client: &ClusterClient) -> Vec<PodSeen> {
    let listed = client.list_all(ResourceRef::all(&PODS.gvr()), ListOptions::default()).await;
    // A member that does not answer is a finding of its own.
    let pods = listed.map(|list| list.items).unwrap_or_default();
    let sick: Vec<Arc<Object>> = pods.into_iter().filter(|pod| ailment(pod).is_some()).collect();
    let mut seen = Vec::new();
    for pod in sick {
        let warning = if seen.len() < PODS_NAMED_MAX { newest_warning(client, &pod).await } else { None };
        seen.push(PodSeen { member: member.to_owned(), pod, warning });
    }
    seen
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

/// The reason a pod does not run.
#[derive(Debug, PartialEq, Eq)]
enum Ailment {
    NotScheduled(String),
    /// Container, its image, reason, message.
    Image(String, String, String, String),
    /// Container, reason, message.
    Waiting(String, String, String),
    /// Container, code, how often it was started again.
    Crashing(String, i64, i64),
    Failed(String),
}

const IMAGE_REASONS: &[&str] = &["ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"];
/// On the way, and no reason to worry.
const STARTING_REASONS: &[&str] = &["ContainerCreating", "PodInitializing", ""];

fn ailment(pod: &Object) -> Option<Ailment> {
    let phase = pod.str_at(&["status", "phase"]);
    if pod.is_deleting() || phase == "Succeeded" {
        return None;
    }
    if phase == "Failed" {
        let text = |field: &str| pod.str_at(&["status", field]).to_owned();
        let why = format!("{}: {}", text("reason"), text("message"));
        return Some(Ailment::Failed(why.trim_matches([':', ' ']).to_owned()));
    }
    for condition in pod.items(&["status", "conditions"]) {
        if condition["type"] == "PodScheduled" && condition["status"] == "False" {
            return Some(Ailment::NotScheduled(condition["message"].as_str().unwrap_or_default().to_owned()));
        }
    }
    let lists = ["initContainerStatuses", "containerStatuses"];
    lists.iter().flat_map(|list| pod.items(&["status", list])).find_map(container_ailment)
}

fn container_ailment(status: &Value) -> Option<Ailment> {
    let text = |at: &str| status.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (name, reason, message) = (text("/name"), text("/state/waiting/reason"), text("/state/waiting/message"));
    let restarts = status["restartCount"].as_i64().unwrap_or(0);
    if reason == "CrashLoopBackOff" {
        let code = status.pointer("/lastState/terminated/exitCode").and_then(Value::as_i64).unwrap_or(-1);
        return Some(Ailment::Crashing(name, code, restarts));
    }
    if IMAGE_REASONS.contains(&reason.as_str()) {
        return Some(Ailment::Image(name, text("/image"), reason, message));
    }
    if STARTING_REASONS.contains(&reason.as_str()) {
        return None;
    }
    Some(Ailment::Waiting(name, reason, message))
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
    let describe = hints.on_member(&seen.member, &format!("describe pod {name} -n {namespace}"));
    let warned = seen.warning.as_ref().map(|warning| format!("{}: {}", warning.reason, warning.message));
    // The event says it best; the status says it where events are gone already.
    let why = |status: String| warned.clone().unwrap_or(status);
    let (what, why, command) = match ailment(&seen.pod)? {
        Ailment::NotScheduled(message) => ("is Pending: no node takes it".to_owned(), why(message), describe),
        Ailment::Image(container, image, reason, message) => {
            let what = format!("container {container} has no image ({reason})");
            let bring = hints.place.as_ref().map(|_| hints.flotilla(&format!("image preload {image}")));
            (what, why(format!("{image}: {message}")), bring.unwrap_or(describe))
        }
        Ailment::Crashing(container, code, restarts) => {
            let what = format!("container {container} keeps crashing (CrashLoopBackOff)");
            let logs = format!("logs {name} -n {namespace} -c {container} --previous");
            let ended = format!("it ended with code {code} and was started again {restarts} times");
            (what, ended, hints.on_member(&seen.member, &logs))
        }
        Ailment::Waiting(container, reason, message) => {
            (format!("container {container} does not start ({reason})"), why(message), describe)
        }
        Ailment::Failed(message) => ("has failed".to_owned(), why(message), describe),
    };
    Some(broken(Layer::Pods, &subject, what, why, command))
}
