//! The control plane's API: does it answer, is it ready, is its clock right?

use async_trait::async_trait;

use super::patient::Hints;
use super::probe::{Answer, Probe, SKEW_SECONDS_MAX, probe};
use super::{Check, Evidence, Finding, Layer, Patient, broken};

#[derive(Debug)]
pub struct Seen {
    pub server: String,
    pub probe: Probe,
}

pub struct Plane;

#[async_trait]
impl Check for Plane {
    fn layer(&self) -> Layer {
        Layer::ControlPlane
    }

    async fn gather(&self, patient: &Patient) -> Evidence {
        let server = patient.remote().map(|remote| remote.server.clone()).unwrap_or_default();
        let probe = match patient.plane_client() {
            Ok(client) => probe(&client).await,
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
        Answer::NotReady(why) => add("answers, but is not ready", why, hints.kubectl("get --raw '/readyz?verbose'")),
        Answer::Unauthorized(why) => {
            let elsewhere = "cp DATA-DIR/karmada-apiserver.config FILE, from the server's --data-dir";
            add("does not accept the credentials in the kubeconfig", why, hints.repair(elsewhere));
        }
        Answer::Refused(why) => add("refuses to say how it is", why, hints.kubectl("auth whoami")),
        Answer::Unreachable(why) => add("cannot be reached", why, hints.repair("flotilla server")),
    }
    findings.extend(judge_clock(Layer::ControlPlane, subject, seen.probe.skew));
    findings
}

/// Clocks that disagree make good tokens and certificates look bad.
pub fn judge_clock(layer: Layer, subject: &str, skew: Option<i64>) -> Option<Finding> {
    let skew = skew.filter(|skew| skew.abs() > SKEW_SECONDS_MAX)?;
    let side = if skew > 0 { "ahead of" } else { "behind" };
    let what = format!("its clock is {} seconds {side} this machine's", skew.abs());
    let why = "tokens, leases and certificates are judged by the clock, so good ones look expired or not yet valid";
    Some(broken(layer, subject, what, why, "timedatectl set-ntp true".to_owned()))
}
