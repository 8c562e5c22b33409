//! `doctor`: finds problems of a testbed or a control plane, layer by layer from the host to the pods.
//!
//! Each check gathers evidence. Pure functions turn evidence into findings with a reason and a command, and group the
//! findings that have the same cause.

mod causes;
mod certificates;
mod connections;
mod host;
mod machines;
mod members;
mod plane;
mod pods;
mod ports;
mod print;
mod probe;
mod registrations;
mod subject;
#[cfg(test)]
mod tests;
mod workloads;

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;

pub use self::print::print;
pub use self::subject::DoctorSubject;
use self::subject::Hints;

/// Timeout of one check; its layer is unknown then.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

/// Ordered so that a problem of one layer may cause problems of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Layer {
    Host,
    Machines,
    Ports,
    ControlPlane,
    Certificates,
    Registrations,
    Members,
    Workloads,
    Pods,
    Connections,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// Does not work.
    Broken,
    /// Works or is intended; useful to know when something else does not work.
    Note,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    pub layer: Layer,
    pub severity: Severity,
    /// The machine, port, cluster, file or pod.
    pub subject: String,
    pub what: String,
    pub why: String,
    /// The command that repairs it, or that shows more.
    pub command: String,
    /// Findings of further layers with the same cause.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub consequences: Vec<String>,
}

/// A layer that could not be examined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnknownLayer {
    pub layer: Layer,
    pub why: String,
}

/// The evidence a check gathered. A failure to read something is evidence, too.
#[derive(Debug)]
pub enum Evidence {
    Host(Vec<provisioners::host::Check>),
    Machines(machines::Seen),
    Ports(Vec<ports::PortSeen>),
    Plane(plane::Seen),
    Certificates(Vec<certificates::CertificateSeen>),
    Registrations(registrations::Seen),
    Members(Vec<members::MemberSeen>),
    Workloads(workloads::Seen),
    Pods(Vec<pods::PodSeen>),
    Connections(Vec<connections::ConnectionSeen>),
    /// The layer could not be examined.
    Unknown(Layer, String),
    /// The layer is not part of what is examined: a control plane that is not a testbed has no machines to look at.
    NotApplicable(Layer),
}

#[async_trait]
pub trait Check: Send + Sync {
    fn layer(&self) -> Layer;
    /// Only reads.
    async fn gather(&self, subject: &DoctorSubject) -> Evidence;
}

/// All checks.
fn checks() -> Vec<Box<dyn Check>> {
    vec![
        Box::new(host::Host),
        Box::new(machines::Machines),
        Box::new(ports::Ports),
        Box::new(plane::PlaneCheck),
        Box::new(certificates::Certificates),
        Box::new(registrations::Registrations),
        Box::new(members::Members),
        Box::new(workloads::Workloads),
        Box::new(pods::Pods),
        Box::new(connections::Connections),
    ]
}

#[derive(Debug, Serialize)]
pub struct Report {
    pub healthy: bool,
    pub examined: String,
    /// The examined layers.
    pub layers: Vec<Layer>,
    /// Layers that could not be examined.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<UnknownLayer>,
    pub findings: Vec<Finding>,
}

/// Runs all checks at once.
pub async fn examine(subject: &DoctorSubject) -> Report {
    let checks = checks();
    let gathering = checks.iter().map(|check| async {
        let gathered = tokio::time::timeout(CHECK_TIMEOUT, check.gather(subject)).await;
        let late = || format!("the check did not finish within {} seconds", CHECK_TIMEOUT.as_secs());
        gathered.unwrap_or_else(|_| Evidence::Unknown(check.layer(), late()))
    });
    let evidence = futures::future::join_all(gathering).await;
    let layers = checks.iter().map(|check| check.layer()).collect();
    report(&evidence, layers, subject.hints(), Timestamp::now())
}

/// Pure: the report on the evidence of all checks.
fn report(evidence: &[Evidence], mut layers: Vec<Layer>, hints: &Hints, now: Timestamp) -> Report {
    let findings = causes::group(diagnose(evidence, hints, now));
    let mut unknown: Vec<UnknownLayer> = Vec::new();
    for evidence in evidence {
        match evidence {
            Evidence::Unknown(layer, why) => unknown.push(UnknownLayer { layer: *layer, why: why.clone() }),
            Evidence::NotApplicable(layer) => layers.retain(|examined| examined != layer),
            _ => {}
        }
    }
    causes::mark_unknown(&findings, &layers, &mut unknown);
    layers.retain(|layer| !unknown.iter().any(|unknown| unknown.layer == *layer));
    let healthy = unknown.is_empty() && findings.iter().all(|finding| finding.severity == Severity::Note);
    Report { healthy, examined: hints.examined(), layers, unknown, findings }
}

/// All findings by layer, broken things before notes.
fn diagnose(evidence: &[Evidence], hints: &Hints, now: Timestamp) -> Vec<Finding> {
    let mut findings: Vec<Finding> = evidence.iter().flat_map(|evidence| judge(evidence, hints, now)).collect();
    findings.sort();
    findings.dedup();
    findings
}

/// Pure: the findings of one check.
fn judge(evidence: &Evidence, hints: &Hints, now: Timestamp) -> Vec<Finding> {
    match evidence {
        Evidence::Host(checks) => host::judge(checks),
        Evidence::Machines(seen) => machines::judge(seen, hints),
        Evidence::Ports(seen) => ports::judge(seen, hints),
        Evidence::Plane(seen) => plane::judge(seen, hints),
        Evidence::Certificates(seen) => certificates::judge(seen, hints, now),
        Evidence::Registrations(seen) => registrations::judge(seen, hints, now),
        Evidence::Members(seen) => members::judge(seen, hints),
        Evidence::Workloads(seen) => workloads::judge(seen, hints),
        Evidence::Pods(seen) => pods::judge(seen, hints),
        Evidence::Connections(seen) => connections::judge(seen, hints),
        Evidence::Unknown(..) | Evidence::NotApplicable(_) => Vec::new(),
    }
}

fn broken(layer: Layer, subject: &str, what: impl Into<String>, why: impl Into<String>, command: String) -> Finding {
    let (what, why) = (what.into(), why.into());
    Finding { layer, severity: Severity::Broken, subject: subject.to_owned(), what, why, command, consequences: vec![] }
}
