//! The stages of an application's failover, observed by watches on the control plane and members.

use std::time::Instant;

use serde_json::Value;
use tokio::sync::mpsc;

use crate::failover::{LOST, NAMESPACE, OTHERS};
use crate::fleet::plane::BenchPlane;
use crate::fleet::real_member::Member;
use crate::fleet::watch::{Watches, name_of};
use crate::propagation::measure::mark_ready;
use crate::propagation::objects::deployments;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FailoverStage {
    /// Its binding has an eviction task.
    Evicted,
    /// Its binding has another cluster.
    Scheduled,
    /// A Work for that cluster exists.
    Worked,
    /// The other member has it.
    Applied,
    /// It is ready in the other member.
    Ready,
    /// Its binding reports that.
    Reported,
}

impl FailoverStage {
    pub const ALL: [Self; 6] =
        [Self::Evicted, Self::Scheduled, Self::Worked, Self::Applied, Self::Ready, Self::Reported];

    pub fn name(self) -> &'static str {
        match self {
            Self::Evicted => "evicted",
            Self::Scheduled => "scheduled elsewhere",
            Self::Worked => "work made",
            Self::Applied => "applied in the member",
            Self::Ready => "ready in the member",
            Self::Reported => "healthy on the binding",
        }
    }
}

pub enum FailoverEvent {
    Tainted,
    LeftAt { name: String, left_at: String },
    Reached { stage: FailoverStage, name: String },
}

type Sender = mpsc::UnboundedSender<(FailoverEvent, Instant)>;

fn send(sender: &Sender, seen: FailoverEvent) {
    // The measurement may have ended.
    let _ = sender.send((seen, Instant::now()));
}

/// Every application that arrives is marked ready at once, unless the member does it, and reported.
pub fn follow_member(watches: &mut Watches, member: &Member, sender: Sender) {
    let (arrived, arrivals) = mpsc::unbounded_channel();
    if !member.is_light() {
        mark_ready(watches, member.target(), NAMESPACE, 1, arrivals);
    }
    let path = format!("{}?watch=true", deployments(NAMESPACE));
    watches.follow(member.target().clone(), path, move |event| {
        let name = name_of(event);
        if event["type"] == "ADDED" {
            // The measurement may have ended.
            let _ = arrived.send(name.clone());
            send(&sender, FailoverEvent::Reached { stage: FailoverStage::Applied, name: name.clone() });
        }
        if event["object"]["status"]["readyReplicas"] == 1 && event["type"] != "DELETED" {
            send(&sender, FailoverEvent::Reached { stage: FailoverStage::Ready, name });
        }
    });
}

pub fn follow_plane(watches: &mut Watches, plane: &BenchPlane, sender: &Sender) {
    let clusters = "/apis/cluster.karmada.io/v1alpha1/clusters?watch=true".to_owned();
    let of_clusters = sender.clone();
    watches.follow(plane.target().clone(), clusters, move |event| {
        let drives_out = |taint: &Value| taint["effect"] == "NoExecute";
        if name_of(event) == LOST && list(&event["object"]["spec"]["taints"]).iter().any(drives_out) {
            send(&of_clusters, FailoverEvent::Tainted);
        }
    });
    let bindings = format!("/apis/work.karmada.io/v1alpha2/namespaces/{NAMESPACE}/resourcebindings?watch=true");
    let of_bindings = sender.clone();
    watches.follow(plane.target().clone(), bindings, move |event| report_binding(&event["object"], &of_bindings));
    for cluster in OTHERS {
        let works = format!("/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-{cluster}/works?watch=true");
        let sender = sender.clone();
        watches.follow(plane.target().clone(), works, move |event| {
            let name = &event["object"]["spec"]["workload"]["manifests"][0]["metadata"]["name"];
            if event["type"] == "ADDED"
                && let Some(name) = name.as_str()
            {
                send(&sender, FailoverEvent::Reached { stage: FailoverStage::Worked, name: name.to_owned() });
            }
        });
    }
}

fn report_binding(binding: &Value, sender: &Sender) {
    let name = || binding["spec"]["resource"]["name"].as_str().unwrap_or_default().to_owned();
    let is_elsewhere = |cluster: &Value| OTHERS.iter().any(|other| cluster == other);
    if list(&binding["spec"]["gracefulEvictionTasks"]).iter().any(|task| task["fromCluster"] == LOST) {
        let history = &binding["metadata"]["annotations"]["flotilla.dev/failover-history"];
        let moves: Value = serde_json::from_str(history.as_str().unwrap_or_default()).unwrap_or_default();
        let left_at = moves[0]["time"].as_str().unwrap_or_default().to_owned();
        send(sender, FailoverEvent::LeftAt { name: name(), left_at });
        send(sender, FailoverEvent::Reached { stage: FailoverStage::Evicted, name: name() });
    }
    if list(&binding["spec"]["clusters"]).iter().any(|cluster| is_elsewhere(&cluster["name"])) {
        send(sender, FailoverEvent::Reached { stage: FailoverStage::Scheduled, name: name() });
    }
    let is_well = |item: &&Value| item["health"] == "Healthy" && is_elsewhere(&item["clusterName"]);
    if list(&binding["status"]["aggregatedStatus"]).iter().any(|item| is_well(&item)) {
        send(sender, FailoverEvent::Reached { stage: FailoverStage::Reported, name: name() });
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
