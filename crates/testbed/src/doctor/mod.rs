//! `doctor`: what is wrong with a testbed or a control plane, from the outside in: each check gathers evidence, and a pure
//! judgement turns evidence into findings that say what, why, and which command repairs it.

mod certificates;
mod connections;
mod host;
mod machines;
mod members;
mod patient;
mod plane;
mod pods;
mod ports;
mod print;
mod probe;
mod registrations;
#[cfg(test)]
mod tests;
mod workloads;

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;

use self::patient::Hints;
pub use self::patient::Patient;
pub use self::print::print;

/// The longest one check may take; what it has not learned by then is a finding.
const CHECK_PATIENCE: Duration = Duration::from_secs(30);

/// From the outside in: what is wrong further out explains what is wrong further in.
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
    /// Which machine, port, cluster, file or pod.
    pub subject: String,
    pub what: String,
    pub why: String,
    /// The command that repairs it, or that shows the rest where only its owner can.
    pub command: String,
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
    /// It took longer than anything healthy does.
    Late(Layer),
}

#[async_trait]
pub trait Check: Send + Sync {
    fn layer(&self) -> Layer;
    /// Only reads.
    async fn gather(&self, patient: &Patient) -> Evidence;
}

/// Every check there is.
fn checks() -> Vec<Box<dyn Check>> {
    vec![
        Box::new(host::Host),
        Box::new(machines::Machines),
        Box::new(ports::Ports),
        Box::new(plane::Plane),
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
    pub layers: Vec<Layer>,
    pub findings: Vec<Finding>,
}

/// Looks at everything at once, and answers with what is wrong, the outermost first.
pub async fn examine(patient: &Patient) -> Report {
    let checks = checks();
    let mut layers = Vec::new();
    let mut gathering = Vec::new();
    for check in &checks {
        layers.push(check.layer());
        gathering.push(async {
            let gathered = tokio::time::timeout(CHECK_PATIENCE, check.gather(patient)).await;
            gathered.unwrap_or_else(|_| Evidence::Late(check.layer()))
        });
    }
    let evidence = futures::future::join_all(gathering).await;
    let now = Timestamp::now();
    let findings = diagnose(&evidence, patient.hints(), now);
    let healthy = findings.iter().all(|finding| finding.severity == Severity::Note);
    Report { healthy, examined: patient.hints().examined(), layers, findings }
}

/// All findings, outermost layer first, broken things before notes.
fn diagnose(evidence: &[Evidence], hints: &Hints, now: Timestamp) -> Vec<Finding> {
    let mut findings: Vec<Finding> = evidence.iter().flat_map(|evidence| judge(evidence, hints, now)).collect();
    findings.sort();
    findings.dedup();
    findings
}

/// Pure: what the evidence means.
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
        Evidence::Late(layer) => vec![Finding {
            layer: *layer,
            severity: Severity::Broken,
            subject: "this check".to_owned(),
            what: format!("could not be finished within {} seconds", CHECK_PATIENCE.as_secs()),
            why: "something it asked neither answers nor refuses".to_owned(),
            command: "flotilla doctor --log debug".to_owned(),
        }],
    }
}

/// Most findings, in one line.
fn broken(layer: Layer, subject: &str, what: impl Into<String>, why: impl Into<String>, command: String) -> Finding {
    let (what, why) = (what.into(), why.into());
    Finding { layer, severity: Severity::Broken, subject: subject.to_owned(), what, why, command }
}
