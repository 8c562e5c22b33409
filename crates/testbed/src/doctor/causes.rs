//! Groups findings by cause: what a stopped testbed, control plane or member explains is listed with it.

use super::{Finding, Layer, Severity, UnknownLayer};
use crate::place::{PLANE, agent_of};

/// Subject of the finding that the whole testbed is not running.
pub const SUPERVISOR: &str = "supervisor";

/// Moves findings that another finding explains to its consequences. Findings are ordered by layer, so a cause comes first.
pub fn group(findings: Vec<Finding>) -> Vec<Finding> {
    let mut grouped: Vec<Finding> = Vec::new();
    for finding in findings {
        match grouped.iter_mut().find(|cause| explains(cause, &finding)) {
            Some(cause) if finding.severity == Severity::Broken => {
                cause.consequences.push(format!("{} {}", finding.subject, finding.what));
            }
            _ => grouped.push(finding),
        }
    }
    grouped
}

/// Adds the layers that cannot be examined because of a finding.
pub fn mark_unknown(findings: &[Finding], layers: &[Layer], unknown: &mut Vec<UnknownLayer>) {
    let stopped = findings.iter().find(|finding| is_testbed(finding));
    let Some(cause) = stopped.or_else(|| findings.iter().find(|finding| is_plane(finding))) else { return };
    let hides = |layer: Layer| match is_testbed(cause) {
        true => layer > Layer::Machines && layer != Layer::Certificates,
        false => matches!(layer, Layer::Registrations | Layer::Workloads),
    };
    for layer in layers.iter().copied().filter(|layer| hides(*layer)) {
        if !unknown.iter().any(|known| known.layer == layer) && layer != cause.layer {
            let why = match is_testbed(cause) {
                true => cause.what.clone(),
                false => format!("{} {}", cause.subject, cause.what),
            };
            unknown.push(UnknownLayer { layer, why });
        }
    }
    unknown.sort_by_key(|unknown| unknown.layer);
}

fn is_testbed(finding: &Finding) -> bool {
    finding.layer == Layer::Machines && finding.subject == SUPERVISOR
}

/// The control plane does not run, or does not respond.
fn is_plane(finding: &Finding) -> bool {
    let layers = [Layer::Machines, Layer::ControlPlane];
    finding.severity == Severity::Broken
        && layers.contains(&finding.layer)
        && (finding.subject == PLANE || finding.layer == Layer::ControlPlane)
}

fn explains(cause: &Finding, finding: &Finding) -> bool {
    if cause.severity == Severity::Note || cause.layer >= finding.layer {
        return false;
    }
    if is_testbed(cause) {
        return finding.layer != Layer::Certificates;
    }
    match cause.layer {
        Layer::Machines if cause.subject == PLANE => {
            finding.layer == Layer::ControlPlane || is_about(finding, "the control plane")
        }
        // A stopped member or agent explains everything about that member, but not the pods it ran before.
        Layer::Machines => is_about(finding, &cause.subject) || is_agent_of(&cause.subject, finding),
        Layer::Ports if is_about(cause, "the control plane") => finding.layer == Layer::ControlPlane,
        // An unreachable member is not ready either.
        Layer::Registrations => finding.layer == Layer::Members && finding.subject == cause.subject,
        _ => false,
    }
}

/// Ports name their cluster in the text, other findings in their subject.
fn is_about(finding: &Finding, name: &str) -> bool {
    finding.subject == name || (finding.layer == Layer::Ports && finding.what.ends_with(&format!("the port of {name}")))
}

fn is_agent_of(machine: &str, finding: &Finding) -> bool {
    finding.layer == Layer::Registrations && machine == agent_of(&finding.subject)
}

#[cfg(test)]
mod tests {
    use super::super::broken;
    use super::*;

    fn finding(layer: Layer, subject: &str, what: &str) -> Finding {
        broken(layer, subject, what, "why", "command".to_owned())
    }

    #[track_caller]
    fn check(findings: Vec<Finding>, expected: &[(&str, usize)]) {
        let grouped = group(findings);
        let found: Vec<(&str, usize)> =
            grouped.iter().map(|finding| (finding.subject.as_str(), finding.consequences.len())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn one_cause_is_one_finding() {
        let port = |of: &str| {
            finding(Layer::Ports, "16441", &format!("no program listens on 127.0.0.1:16441, the port of {of}"))
        };
        check(
            vec![
                finding(Layer::Machines, SUPERVISOR, "the testbed is not running"),
                port("member1"),
                finding(Layer::ControlPlane, "https://127.0.0.1:5443", "cannot be reached"),
                finding(Layer::Certificates, "f", "has expired"),
                finding(Layer::Members, "member1", "cannot be reached"),
            ],
            &[(SUPERVISOR, 3), ("f", 0)],
        );
        check(
            vec![
                finding(Layer::Machines, "member1", "is stopped"),
                port("member1"),
                port("member2"),
                finding(Layer::Registrations, "member1", "is not ready"),
                finding(Layer::Members, "member1", "cannot be reached"),
                finding(Layer::Members, "member2", "cannot be reached"),
            ],
            &[("member1", 3), ("16441", 0), ("member2", 0)],
        );
        let agent = agent_of("member3");
        check(
            vec![
                finding(Layer::Machines, &agent, "is stopped"),
                finding(Layer::Registrations, "member3", "its agent does not report"),
            ],
            &[(agent.as_str(), 1)],
        );
        let note =
            Finding { severity: Severity::Note, ..finding(Layer::Machines, "member1", "the fault slow is active") };
        check(vec![note, finding(Layer::Members, "member1", "cannot be reached")], &[("member1", 0), ("member1", 0)]);
    }

    #[test]
    fn layers_behind_a_stopped_testbed_or_control_plane_are_unknown() {
        let all =
            [Layer::Host, Layer::Machines, Layer::ControlPlane, Layer::Certificates, Layer::Registrations, Layer::Pods];
        let check = |findings: &[Finding], expected: &[Layer]| {
            let mut unknown = Vec::new();
            mark_unknown(findings, &all, &mut unknown);
            assert_eq!(unknown.iter().map(|unknown| unknown.layer).collect::<Vec<_>>(), expected, "{findings:?}");
        };
        check(&[], &[]);
        let stopped = finding(Layer::Machines, SUPERVISOR, "the testbed is not running");
        check(&[stopped], &[Layer::ControlPlane, Layer::Registrations, Layer::Pods]);
        check(&[finding(Layer::ControlPlane, "https://h:1", "cannot be reached")], &[Layer::Registrations]);
        check(&[finding(Layer::Members, "member1", "cannot be reached")], &[]);
    }
}
