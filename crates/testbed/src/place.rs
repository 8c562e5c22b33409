//! Where a testbed keeps what: everything is below one directory, HOME/NAME.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

pub const DEFAULT_NAME: &str = "default";
/// The machine that runs the control plane, and the cluster's name in kubeconfigs.
pub const PLANE: &str = "karmada";
pub const PLANE_CONTEXT: &str = "karmada-apiserver";
pub const REGISTRY: &str = "registry";

/// The directory of one testbed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    name: String,
    directory: PathBuf,
}

impl Place {
    /// `home` is what was asked for, else `$FLOTILLA_HOME`, else `~/.flotilla`.
    pub fn find(home: Option<PathBuf>, name: &str) -> anyhow::Result<Self> {
        let problems = object::names::dns1123_label(name);
        if !problems.is_empty() {
            bail!("--name {name:?} is no name for a testbed: {}", problems.join("; "));
        }
        let set = std::env::var_os("FLOTILLA_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        let home = match home.or(set) {
            Some(home) => home,
            None => std::env::home_dir().context("HOME is not set: say --home DIR")?.join(".flotilla"),
        };
        let home = std::path::absolute(&home).with_context(|| format!("{} is no directory", home.display()))?;
        Ok(Self { name: name.to_owned(), directory: home.join(name) })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The testbed's home, for hints: where it and others are.
    pub fn home(&self) -> &Path {
        self.directory.parent().unwrap_or(&self.directory)
    }

    /// What the testbed is to be.
    pub fn spec_file(&self) -> PathBuf {
        self.directory.join("testbed.json")
    }

    /// The supervisor answers here.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("supervisor.sock")
    }

    /// Held by the supervisor for as long as it lives.
    pub fn lock_file(&self) -> PathBuf {
        self.directory.join("supervisor.lock")
    }

    /// Held while the testbed is changed by a command.
    pub fn change_lock_file(&self) -> PathBuf {
        self.directory.join("change.lock")
    }

    /// A directory per machine.
    pub fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    pub fn machine_data(&self, machine: &str) -> PathBuf {
        self.data().join(machine)
    }

    /// A file per machine.
    pub fn logs(&self) -> PathBuf {
        self.directory.join("logs")
    }

    pub fn log_of(&self, machine: &str) -> PathBuf {
        self.logs().join(format!("{machine}.log"))
    }

    pub fn plane_config(&self) -> PathBuf {
        self.directory.join("karmada-apiserver.config")
    }

    pub fn member_config(&self, member: &str) -> PathBuf {
        self.directory.join(format!("{member}.config"))
    }

    /// One context per cluster.
    pub fn merged_config(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// What the agent of a pull member reaches the control plane with.
    pub fn agent_plane_config(&self, member: &str) -> PathBuf {
        self.directory.join(format!("agents/{member}-plane.config"))
    }

    /// What it reaches its member with: without a detour, it is beside it.
    pub fn agent_member_config(&self, member: &str) -> PathBuf {
        self.directory.join(format!("agents/{member}-member.config"))
    }

    pub fn exposures_file(&self) -> PathBuf {
        self.directory.join("forwards.json")
    }

    pub fn faults_file(&self) -> PathBuf {
        self.directory.join("faults.json")
    }

    pub fn snapshots(&self) -> PathBuf {
        self.directory.join("snapshots")
    }
}

/// The machine of a pull member's agent.
pub fn agent_of(member: &str) -> String {
    format!("{member}-agent")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_below_home_and_name() {
        let place = Place::find(Some("/tmp/beds".into()), "one").unwrap();
        assert_eq!(place.plane_config(), Path::new("/tmp/beds/one/karmada-apiserver.config"));
        assert_eq!(place.member_config("member1"), Path::new("/tmp/beds/one/member1.config"));
        assert_eq!(place.merged_config(), Path::new("/tmp/beds/one/kubeconfig"));
        assert!(Place::find(Some("/tmp/beds".into()), "../up").is_err());
    }
}
