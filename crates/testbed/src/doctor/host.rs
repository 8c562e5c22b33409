//! The host itself: memory, disk, limits, and what its kind of machines needs.

use async_trait::async_trait;
use provisioners::host::{Check as HostCheck, CheckStatus, HostUse, gather, judge as judge_host};

use super::{Check, DoctorSubject, Evidence, Finding, Layer, Severity, broken};
use crate::runtime::Runtime;
use crate::spec::Kind;

pub struct Host;

#[async_trait]
impl Check for Host {
    fn layer(&self) -> Layer {
        Layer::Host
    }

    async fn gather(&self, subject: &DoctorSubject) -> Evidence {
        let bed = subject.bed();
        if bed.is_none() {
            return Evidence::NotApplicable(Layer::Host);
        }
        let wanted = HostUse {
            lxd: bed.is_some_and(|(_, spec)| spec.provisioner == Kind::Lxd),
            containerd: bed
                .is_some_and(|(_, spec)| spec.members.iter().any(|member| member.runtime() == Runtime::Containerd)),
            bridge: None,
            // The next check covers ports.
            ports: Vec::new(),
            needs_ports: true,
            home: bed.map(|(place, _)| place.directory().to_owned()).unwrap_or_else(std::env::temp_dir),
        };
        let checks = tokio::task::spawn_blocking(move || judge_host(&gather(&wanted), &wanted)).await;
        Evidence::Host(checks.unwrap_or_default())
    }
}

pub fn judge(checks: &[HostCheck]) -> Vec<Finding> {
    let wrong = checks.iter().filter(|check| check.standing == CheckStatus::Broken);
    let finding = |check: &HostCheck| {
        let subject = format!("{} {}:", check.area, check.name);
        let command = check.repair.as_ref().map(ToString::to_string).unwrap_or_default();
        let finding = broken(Layer::Host, &subject, check.detail.clone(), check.why.clone(), command);
        // A low limit does no harm until something reaches it.
        let severity = if check.area == "limits" { Severity::Note } else { finding.severity };
        Finding { severity, ..finding }
    };
    wrong.map(finding).collect()
}
