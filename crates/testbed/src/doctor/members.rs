//! The members' own APIs and nodes.

use std::sync::Arc;

use async_trait::async_trait;
use cluster_client::{ClusterClient, ListOptions, ResourceRef};
use object::{Object, conditions};

use super::plane::{judge_clock, judge_latency};
use super::probe::{Answer, Probe, Route, probe};
use super::subject::Hints;
use super::{Check, DoctorSubject, Evidence, Finding, Layer, Severity, broken};
use crate::clusters::NODES;
use crate::hint::Hint;
use crate::spec::Kind;

/// Nodes that are named one by one; more are counted.
const NODES_NAMED_MAX: usize = 5;

#[derive(Debug)]
pub struct MemberSeen {
    pub name: String,
    pub probe: Probe,
    /// Without the forward, where possible: distinguishes a broken forward from a broken member.
    pub direct: Option<Probe>,
    pub nodes: Vec<Arc<Object>>,
}

pub struct Members;

#[async_trait]
impl Check for Members {
    fn layer(&self) -> Layer {
        Layer::Members
    }

    async fn gather(&self, subject: &DoctorSubject) -> Evidence {
        let names = match member_names(subject).await {
            Ok(names) => names,
            Err(why) => return Evidence::Unknown(Layer::Members, why),
        };
        let looks = names.iter().map(|name| look(subject, name));
        Evidence::Members(futures::future::join_all(looks).await)
    }
}

/// Those of the testbed, and those the control plane knows beyond them. Fails if neither is known.
pub async fn member_names(subject: &DoctorSubject) -> Result<Vec<String>, String> {
    let mut names = subject.hints().members.clone();
    match list_clusters(subject).await {
        Ok(listed) => names.extend(listed),
        Err(why) if subject.bed().is_none() => return Err(why),
        Err(_) => {}
    }
    names.sort();
    names.dedup();
    Ok(names)
}

async fn list_clusters(subject: &DoctorSubject) -> Result<Vec<String>, String> {
    let client = subject.plane_client()?;
    let listed = client.list_all(ResourceRef::all(&api::cluster::CLUSTERS.gvr()), ListOptions::default()).await;
    let clusters = listed.map_err(|status| status.to_string())?.items;
    Ok(clusters.iter().map(|cluster| cluster.name().to_owned()).collect())
}

async fn look(subject: &DoctorSubject, name: &str) -> MemberSeen {
    let client = subject.member_client(name);
    let seen = match &client {
        Ok(client) => probe(client, subject.route_to(name)).await,
        Err(why) => Probe::unreachable(why.clone()),
    };
    let nodes = match (&client, &seen.answer) {
        (Ok(client), Answer::Ready | Answer::NotReady(_)) => list_nodes(client).await,
        _ => Vec::new(),
    };
    let direct = match seen.answer {
        Answer::Unreachable(_) => direct_probe(subject, name).await,
        _ => None,
    };
    MemberSeen { name: name.to_owned(), probe: seen, direct, nodes }
}

async fn list_nodes(client: &ClusterClient) -> Vec<Arc<Object>> {
    let listed = client.list_all(ResourceRef::all(&NODES.gvr()), ListOptions::default()).await;
    listed.map(|list| list.items).unwrap_or_default()
}

/// A member that is a process of this host listens on a port of its own, behind the forwarded one.
async fn direct_probe(subject: &DoctorSubject, name: &str) -> Option<Probe> {
    let (place, spec) = subject.bed().filter(|(_, spec)| spec.provisioner == Kind::Process)?;
    let port = spec.members.iter().find(|member| member.name == name)?.own_port;
    let mut remote = super::subject::load(&place.member_config(name), None).ok()?;
    remote.server = format!("https://127.0.0.1:{port}");
    Some(probe(&super::subject::connect(remote).ok()?, Route::Direct).await)
}

pub fn judge(seen: &[MemberSeen], hints: &Hints) -> Vec<Finding> {
    seen.iter().flat_map(|member| judge_member(member, hints)).collect()
}

fn judge_member(member: &MemberSeen, hints: &Hints) -> Vec<Finding> {
    let name = member.name.as_str();
    let mut findings = Vec::new();
    let mut add = |what: &str, why: &str, command: String| {
        findings.push(broken(Layer::Members, name, what, why, command));
    };
    match &member.probe.answer {
        Answer::Ready => {}
        Answer::NotReady(why) => {
            add("responds, but is not ready", why, hints.on_member(name, "get --raw '/readyz?verbose'"))
        }
        Answer::Unauthorized(why) => add("does not accept our credentials", why, hints.join_again(name)),
        Answer::Refused(why) => add("does not report its health", why, hints.on_member(name, "get nodes")),
        Answer::Unreachable(why) => match &member.direct {
            Some(Probe { answer: Answer::Ready, .. }) => {
                let why = format!("it responds directly, but not through its forwarded port: {why}");
                add(
                    "is healthy, but its forwarded port is broken",
                    &why,
                    hints.flotilla(&Hint::Fault { member: name, fault: "heal" }),
                );
            }
            _ => add(
                "cannot be reached",
                why,
                hints.repair_cluster(name, &hints.kubectl(&format!("describe cluster {name}"))),
            ),
        },
    }
    findings.extend(judge_clock(Layer::Members, name, member.probe.skew));
    findings.extend(judge_latency(Layer::Members, name, &member.probe, hints));
    findings.extend(judge_nodes(member, hints));
    findings
}

fn judge_nodes(member: &MemberSeen, hints: &Hints) -> Vec<Finding> {
    let name = member.name.as_str();
    let answers = matches!(member.probe.answer, Answer::Ready);
    if member.nodes.is_empty() {
        let finding =
            broken(Layer::Members, name, "has no nodes", "no pod can run there", hints.on_member(name, "get nodes"));
        return if answers { vec![finding] } else { Vec::new() };
    }
    let mut findings: Vec<Finding> = member.nodes.iter().flat_map(|node| judge_node(name, node, hints)).collect();
    if findings.len() > NODES_NAMED_MAX {
        let more = findings.len() - NODES_NAMED_MAX;
        findings.truncate(NODES_NAMED_MAX);
        let what = format!("has {more} more problems with nodes");
        findings.push(broken(Layer::Members, name, what, "as above", hints.on_member(name, "get nodes")));
    }
    findings
}

fn judge_node(member: &str, node: &Object, hints: &Hints) -> Vec<Finding> {
    let subject = format!("{member}/{}", node.name());
    let mut findings = Vec::new();
    for condition in conditions::all(node) {
        let wrong = match condition.kind() {
            "Ready" => !condition.is_true(),
            "DiskPressure" | "MemoryPressure" | "PIDPressure" | "NetworkUnavailable" => condition.is_true(),
            _ => false,
        };
        if wrong {
            let what = match condition.kind() {
                "Ready" => "the node is not ready".to_owned(),
                kind => format!("the node is under {kind}"),
            };
            let why = format!("{}: {}", condition.reason(), condition.message());
            let command = hints.on_member(member, &format!("describe node {}", node.name()));
            findings.push(broken(Layer::Members, &subject, what, why.trim_matches([':', ' ']), command));
        }
    }
    if node.bool_at(&["spec", "unschedulable"]) == Some(true) {
        let command = hints.on_member(member, &format!("uncordon {}", node.name()));
        let finding = broken(Layer::Members, &subject, "the node is cordoned", "no new pod is placed on it", command);
        findings.push(Finding { severity: Severity::Note, ..finding });
    }
    findings
}
