//! The control plane's API: reachable, ready, fast, with the right time.

use std::time::Duration;

use async_trait::async_trait;

use super::probe::{Answer, Probe, Route, SKEW_SECONDS_MAX, probe};
use super::subject::Hints;
use super::{Check, DoctorSubject, Evidence, Finding, Layer, Severity, broken};
use crate::hint::Hint;

/// Slower responses of a testbed and of other control planes are reported.
const LATENCY_MAX_LOCAL: Duration = Duration::from_millis(200);
const LATENCY_MAX: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Seen {
    pub server: String,
    pub probe: Probe,
}

pub struct PlaneCheck;

#[async_trait]
impl Check for PlaneCheck {
    fn layer(&self) -> Layer {
        Layer::ControlPlane
    }

    async fn gather(&self, subject: &DoctorSubject) -> Evidence {
        let server = subject.remote().map(|remote| remote.server.clone()).unwrap_or_default();
        let probe = match subject.plane_client() {
            Ok(client) => probe(&client, Route::Direct).await,
            Err(why) => Probe::unreachable(why),
        };
        Evidence::Plane(Seen { server, probe })
    }
}

pub fn judge(seen: &Seen, hints: &Hints) -> Vec<Finding> {
    let subject = if seen.server.is_empty() { "control plane" } else { &seen.server };
    let mut findings = Vec::new();
    let mut add = |what: &str, why: &str, command: String| {
        findings.push(broken(Layer::ControlPlane, subject, what, why, command));
    };
    match &seen.probe.answer {
        Answer::Ready => {}
        Answer::NotReady(why) => add("responds, but is not ready", why, hints.kubectl("get --raw '/readyz?verbose'")),
        Answer::Unauthorized(why) => {
            let elsewhere = "cp DATA-DIR/karmada-apiserver.config FILE, from the server's --data-dir";
            add("does not accept the credentials in the kubeconfig", why, hints.repair(elsewhere));
        }
        Answer::Refused(why) => add("does not report its health", why, hints.kubectl("auth whoami")),
        Answer::Unreachable(why) => add("cannot be reached", why, hints.start_plane()),
    }
    findings.extend(judge_clock(Layer::ControlPlane, subject, seen.probe.skew));
    findings.extend(judge_latency(Layer::ControlPlane, subject, &seen.probe, hints));
    findings
}

/// On one machine a response takes a few milliseconds.
pub fn judge_latency(layer: Layer, subject: &str, probe: &Probe, hints: &Hints) -> Option<Finding> {
    let limit = if hints.place.is_some() { LATENCY_MAX_LOCAL } else { LATENCY_MAX };
    let latency = probe.latency.filter(|latency| *latency > limit)?;
    let what = format!("responds slowly: {} ms", latency.as_millis());
    let why = "the machine or the network is overloaded, or a fault `slow` is active";
    let command = match layer {
        Layer::Members if hints.is_member(subject) => hints.flotilla(&Hint::Fault { member: subject, fault: "heal" }),
        _ => hints.kubectl("get --raw '/readyz?verbose'"),
    };
    Some(Finding { severity: Severity::Note, ..broken(layer, subject, what, why, command) })
}

/// Clocks that disagree make good tokens and certificates look bad.
pub fn judge_clock(layer: Layer, subject: &str, skew: Option<i64>) -> Option<Finding> {
    let skew = skew.filter(|skew| skew.abs() > SKEW_SECONDS_MAX)?;
    let side = if skew > 0 { "ahead of" } else { "behind" };
    let what = format!("its clock is {} seconds {side} this machine's", skew.abs());
    let why = "tokens, leases and certificates are judged by the clock, so good ones look expired or not yet valid";
    Some(broken(layer, subject, what, why, "timedatectl set-ntp true".to_owned()))
}
