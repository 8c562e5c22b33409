//! A control plane with three light pull-mode members.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;

use crate::agent::Agent;
use crate::eventually::eventually;
use crate::fleet::{CROSSING, READY, READY_REPLICAS, text};
use crate::flotilla::Flotilla;
use crate::light_member::LightMember;
use crate::member;
use crate::netns::Namespace;
use crate::ready::{Ask, ReadyReplicasWatch};

/// Agents with a heartbeat every second, so that tests do not wait for most of a minute.
pub const QUICK_AGENT: &[&str] = &[
    "--cluster-lease-duration=4s",
    "--cluster-status-update-frequency=1s",
    "--cluster-failure-threshold=2s",
    "--cluster-success-threshold=1s",
];
/// A control plane that detects missed heartbeats as quickly.
pub const QUICK_PLANE: &[&str] = &["--cluster-monitor-grace-period=5s", "--cluster-monitor-period=1s"];

/// A member and its agent.
pub struct PullMember {
    pub name: &'static str,
    pub member: LightMember,
    pub agent: Agent,
}

pub struct LightFleet {
    pub plane: Flotilla,
    pub members: Vec<PullMember>,
}

impl LightFleet {
    /// The first member runs in the namespace, if any. `plane` are server flags in addition to `QUICK_PLANE`.
    pub fn start(data: &Path, names: &[&'static str], namespace: Option<&Arc<Namespace>>, plane: &[&str]) -> Self {
        let address = namespace.map_or([127, 0, 0, 1].into(), |namespace| namespace.host);
        let arguments: Vec<&str> = QUICK_PLANE.iter().chain(plane).copied().collect();
        let plane = Flotilla::start_on(data, SocketAddr::from((address, 0)), &arguments);
        let members = names.iter().enumerate().map(|(index, name)| {
            let inside = namespace.filter(|_| index == 0);
            let member = inside.map_or_else(|| LightMember::start(&[]), |inside| LightMember::start_in(inside, &[]));
            let outside = (*name, member.kubeconfig.as_path());
            let agent = match inside {
                Some(inside) => Agent::ours_in(inside, &plane.kubeconfig, outside, QUICK_AGENT),
                None => Agent::ours_outside(&plane.kubeconfig, outside, QUICK_AGENT),
            };
            PullMember { name, member, agent }
        });
        let fleet = Self { members: members.collect(), plane };
        for name in names {
            fleet.on_plane(&["get", "cluster", name, READY], "True");
            fleet.on_plane(&["get", "cluster", name, "-o=jsonpath={.spec.taints[*].key}"], "");
        }
        fleet
    }

    pub fn member(&self, name: &str) -> &PullMember {
        self.members.iter().find(|member| member.name == name).expect("a member of that name")
    }

    pub fn kubectl(&self, arguments: &[&str]) -> Output {
        self.plane.kubectl(arguments)
    }

    /// Returns the trimmed output of kubectl on the control plane; empty on failure.
    pub fn ask(&self, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&self.kubectl(arguments).stdout).trim().to_owned()
    }

    pub fn apply(&self, documents: &str) {
        let output = member::apply(&self.plane.kubeconfig, &["apply", "-f", "-"], documents);
        assert!(output.status.success(), "{}\n{documents}", text(&output));
    }

    pub fn ready_in(&self, member: &str, deployment: &str) -> u32 {
        self.member(member).member.ask(&["get", "deploy", deployment, READY_REPLICAS]).parse().unwrap_or(0)
    }

    /// Watches that a Deployment has this many ready replicas over all members.
    pub fn never_below(&self, least: u32, deployment: &str) -> ReadyReplicasWatch {
        let asks: Vec<Ask> = self.members.iter().map(|member| member.member.ready_of(deployment)).collect();
        ReadyReplicasWatch::start(least, asks)
    }

    /// Waits for a condition; prints diagnostics on a timeout.
    pub fn eventually(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| eventually(what, CROSSING, &mut holds)));
        if let Err(panic) = result {
            let log = self.plane.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("the plane's log:\n{}", lines[lines.len().saturating_sub(60)..].join("\n"));
            eprintln!("bindings:\n{}", self.ask(&["get", "rb", "-A", "-o", "yaml"]));
            eprintln!("clusters:\n{}", self.ask(&["get", "clusters", "-o", "yaml"]));
            std::panic::resume_unwind(panic);
        }
    }

    pub fn on_plane(&self, arguments: &[&str], expected: &str) {
        let what = format!("kubectl {} says {expected:?}", arguments.join(" "));
        self.eventually(&what, || self.ask(arguments) == expected);
    }

    pub fn in_cluster(&self, name: &str, arguments: &[&str], expected: &str) {
        let member = &self.member(name).member;
        let what = format!("{name}: kubectl {} says {expected:?}", arguments.join(" "));
        self.eventually(&what, || member.ask(arguments) == expected);
    }
}
