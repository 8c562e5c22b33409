//! The ports of the clusters: open, held by the right program, and the ones named in the kubeconfigs.

use std::path::PathBuf;

use async_trait::async_trait;
use provisioners::host::ports::{Listener, listeners};

use super::subject::{Hints, load};
use super::{Check, DoctorSubject, Evidence, Finding, Layer, broken};
use crate::hint::Hint;
use crate::host_cluster::HOST;
use crate::spec::Kind;

#[derive(Debug)]
pub struct PortSeen {
    pub port: u16,
    /// `member1`, or `the control plane`.
    pub of: String,
    pub holder: Option<Listener>,
    /// Held by this program under any name of its file, such as `karmadactl`.
    pub is_own: bool,
    /// The address in the kubeconfig of that cluster, if there is one.
    pub named: Option<Named>,
}

#[derive(Debug)]
pub struct Named {
    pub file: String,
    pub server: String,
}

/// Programs that may hold a port of a testbed: Flotilla itself, or the daemon of the machines.
const OURS: &[&str] = &["flotilla", "lxd", "incusd"];

pub struct Ports;

#[async_trait]
impl Check for Ports {
    fn layer(&self) -> Layer {
        Layer::Ports
    }

    async fn gather(&self, subject: &DoctorSubject) -> Evidence {
        let Some((place, spec)) = subject.bed() else { return Evidence::NotApplicable(Layer::Ports) };
        let mut wanted = vec![(spec.plane_port, "the control plane".to_owned(), Some(place.plane_config()))];
        wanted.extend(
            spec.host
                .as_ref()
                .map(|host| (host.cluster.port, "the host cluster".to_owned(), Some(place.member_config(HOST)))),
        );
        wanted.extend(spec.registry_port.map(|port| (port, "the registry".to_owned(), None)));
        wanted
            .extend(spec.manager.map(|manager| (manager.port, "the manager".to_owned(), Some(place.manager_config()))));
        if spec.provisioner != Kind::Kubeconfig {
            let members = spec.members.iter();
            wanted.extend(
                members.map(|member| (member.port, member.name.clone(), Some(place.member_config(&member.name)))),
            );
        }
        let ports: Vec<u16> = wanted.iter().map(|(port, _, _)| *port).collect();
        let found = tokio::task::spawn_blocking(move || listeners(&ports)).await.unwrap_or_default();
        let seen = |(port, of, file): (u16, String, Option<PathBuf>)| {
            let holder = found.iter().find(|listener| listener.address.port() == port).cloned();
            let named = file.and_then(|file| {
                let server = load(&file, None).ok()?.server;
                Some(Named { file: file.display().to_string(), server })
            });
            PortSeen {
                is_own: holder.as_ref().and_then(|holder| holder.pid).is_some_and(runs_this),
                holder,
                named,
                port,
                of,
            }
        };
        Evidence::Ports(wanted.into_iter().map(seen).collect())
    }
}

/// Returns true if a process runs the same file as this one.
fn runs_this(pid: u32) -> bool {
    let own = std::env::current_exe().ok();
    own.is_some() && std::fs::read_link(format!("/proc/{pid}/exe")).ok() == own
}

pub fn judge(seen: &[PortSeen], hints: &Hints) -> Vec<Finding> {
    seen.iter().flat_map(|port| judge_port(port, hints)).collect()
}

fn judge_port(seen: &PortSeen, hints: &Hints) -> Vec<Finding> {
    let subject = seen.port.to_string();
    let mut findings = Vec::new();
    match &seen.holder {
        None => {
            let what = format!("no program listens on 127.0.0.1:{}, the port of {}", seen.port, seen.of);
            findings.push(broken(
                Layer::Ports,
                &subject,
                what,
                "its process or its port forward does not run",
                hints.flotilla(&Hint::Up),
            ));
        }
        Some(holder) => {
            let program = holder.program.as_deref().unwrap_or_default();
            if !program.is_empty() && !OURS.contains(&program) && !seen.is_own {
                let pid = holder.pid.map(|pid| pid.to_string()).unwrap_or_default();
                let what = format!("{program} (process {pid}) uses the port of {}", seen.of);
                let command = format!("kill {pid}; {}", hints.flotilla(&Hint::Up));
                findings.push(broken(Layer::Ports, &subject, what, "two programs cannot use the same port", command));
            }
        }
    }
    if let Some(named) = &seen.named
        && !named.server.ends_with(&format!(":{}", seen.port))
    {
        let what = format!("{} has the server {}, but {} is on port {}", named.file, named.server, seen.of, seen.port);
        findings.push(broken(
            Layer::Ports,
            &named.file,
            what,
            "the file was changed, or belongs to another testbed",
            hints.flotilla(&Hint::Up),
        ));
    }
    findings
}
