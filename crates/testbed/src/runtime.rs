//! The runtime of pods: containers where this host can run them, else simulated.

use anyhow::bail;
use serde::{Deserialize, Serialize};

use crate::hint::Hint;
use crate::place::TestbedDir;
use crate::spec::{Kind, Spec};

/// The runtime of a member's pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    Simulated,
    Containerd,
}

/// The requested runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuntimeChoice {
    /// Containers if this host can run them.
    #[default]
    Auto,
    Simulated,
    Containerd,
}

/// The ability of this host to run the containers of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HostContainers {
    /// Not checked; nothing is known.
    #[default]
    Unknown,
    Available,
    /// The reason why it cannot.
    Unavailable(String),
}

impl Runtime {
    pub fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Containerd => "containerd",
        }
    }
}

impl HostContainers {
    /// Checks user, programs and network plugins with the same code as a member that starts.
    pub fn gather() -> Self {
        match kubelet::containerd::unmet() {
            None => Self::Available,
            Some(reason) => Self::Unavailable(reason.to_string()),
        }
    }
}

/// Chooses the runtime of the members of a new testbed.
pub fn choose(
    choice: RuntimeChoice,
    provisioner: Kind,
    nodes: Option<u32>,
    host: &HostContainers,
    place: &TestbedDir,
) -> anyhow::Result<Runtime> {
    let has_many_nodes = nodes.is_some_and(|nodes| nodes != 1);
    match (choice, host) {
        (RuntimeChoice::Simulated, _) => Ok(Runtime::Simulated),
        (RuntimeChoice::Containerd, _) if has_many_nodes => {
            bail!(
                "--nodes: a member with --runtime containerd has one node, this host; --runtime simulated has any number"
            )
        }
        (RuntimeChoice::Containerd, HostContainers::Unavailable(reason)) if provisioner == Kind::Process => {
            bail!("--runtime containerd: {reason}; `{}` installs what is missing", place.hint(&Hint::PrepareContainers))
        }
        (RuntimeChoice::Containerd, _) => Ok(Runtime::Containerd),
        // Members in system containers have no containerd; many nodes can only be simulated.
        (RuntimeChoice::Auto, HostContainers::Available) if provisioner == Kind::Process && !has_many_nodes => {
            Ok(Runtime::Containerd)
        }
        (RuntimeChoice::Auto, _) => Ok(Runtime::Simulated),
    }
}

/// Describes how pods run and how to get the other runtime; `None` if the members are the user's clusters.
pub fn describe(spec: &Spec, host: &HostContainers, place: &TestbedDir) -> Option<String> {
    if spec.host.is_some() {
        return Some("Pods are real containers; the control plane and the agents are pods too.".to_owned());
    }
    let runtime = spec.members.iter().find(|member| member.source.is_none())?.runtime();
    Some(match (runtime, host) {
        (Runtime::Containerd, _) => {
            format!("Pods are real containers. `{}` simulates them.", place.hint(&Hint::UpSimulated))
        }
        (Runtime::Simulated, HostContainers::Available) if spec.provisioner == Kind::Process => format!(
            "Pods are simulated: no containers run. `{}` runs real containers.",
            place.hint(&Hint::UpWithContainers)
        ),
        (Runtime::Simulated, HostContainers::Unavailable(reason)) if spec.provisioner == Kind::Process => format!(
            "Pods are simulated: no containers run ({reason}). `{}` prepares this host for real containers.",
            place.hint(&Hint::PrepareContainers)
        ),
        (Runtime::Simulated, _) => "Pods are simulated: no containers run.".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> TestbedDir {
        TestbedDir::find(Some("/beds".into()), "x").unwrap()
    }

    #[track_caller]
    fn check(
        choice: RuntimeChoice,
        kind: Kind,
        nodes: Option<u32>,
        host: &HostContainers,
        expected: Result<Runtime, &str>,
    ) {
        let chosen = choose(choice, kind, nodes, host, &place()).map_err(|error| error.to_string());
        match (chosen, expected) {
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (chosen, expected) => assert_eq!(chosen, expected.map_err(str::to_owned)),
        }
    }

    #[test]
    fn containers_run_where_they_can() {
        use RuntimeChoice::{Auto, Containerd, Simulated};
        let (can, cannot) = (HostContainers::Available, HostContainers::Unavailable("requires root".into()));
        check(Auto, Kind::Process, None, &can, Ok(Runtime::Containerd));
        check(Auto, Kind::Process, Some(1), &can, Ok(Runtime::Containerd));
        check(Auto, Kind::Process, Some(5), &can, Ok(Runtime::Simulated));
        check(Auto, Kind::Lxd, None, &can, Ok(Runtime::Simulated));
        check(Auto, Kind::Process, None, &cannot, Ok(Runtime::Simulated));
        check(Auto, Kind::Process, None, &HostContainers::Unknown, Ok(Runtime::Simulated));
        check(Simulated, Kind::Process, None, &can, Ok(Runtime::Simulated));
        check(Containerd, Kind::Process, None, &can, Ok(Runtime::Containerd));
        check(Containerd, Kind::Process, None, &cannot, Err("`flotilla prepare --runtime containerd`"));
        check(Containerd, Kind::Process, Some(3), &can, Err("has one node"));
    }
}
