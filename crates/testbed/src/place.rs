//! The directory of a testbed, HOME/NAME, with the paths in it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::hint::quoted;

pub const DEFAULT_NAME: &str = "default";
/// Machine of the control plane, and its cluster name in kubeconfigs.
pub const PLANE: &str = "karmada";
pub const PLANE_CONTEXT: &str = "karmada-apiserver";
pub const REGISTRY: &str = "registry";
/// Machine and kubeconfig context of the manager.
pub const MANAGER: &str = "manager";
/// The instance of the manager that runs in its process, and the context for it.
pub const SECOND_INSTANCE: &str = "second";
/// The member of the second instance.
pub const INSTANCE_MEMBER: &str = "second-member1";

/// The directory of one testbed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestbedDir {
    name: String,
    directory: PathBuf,
    /// Commands find the testbed without --home.
    is_default_home: bool,
}

impl TestbedDir {
    /// Uses `home`, else `$FLOTILLA_HOME`, else `~/.flotilla`.
    pub fn find(home: Option<PathBuf>, name: &str) -> anyhow::Result<Self> {
        let problems = object::names::dns1123_label(name);
        if !problems.is_empty() {
            bail!("--name {name:?} is not a valid name: {}", problems.join("; "));
        }
        let default = default_home();
        let home = home.or_else(|| default.clone()).context("HOME is not set: use --home DIR")?;
        let home = std::path::absolute(&home).with_context(|| format!("{} is not a directory", home.display()))?;
        let is_default_home = default.and_then(|default| std::path::absolute(default).ok()).as_ref() == Some(&home);
        Ok(Self { name: name.to_owned(), directory: home.join(name), is_default_home })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns `flotilla ARGUMENTS` with --home and --name where needed.
    pub(crate) fn command(&self, arguments: &str) -> String {
        let mut line = format!("flotilla {arguments}");
        if !self.is_default_home {
            line += &format!(" --home {}", quoted(self.home()));
        }
        if self.name != DEFAULT_NAME {
            line += &format!(" --name {}", self.name);
        }
        line
    }

    /// Returns `flotilla ARGUMENTS` for the control plane of this testbed.
    pub(crate) fn plane_command(&self, arguments: &str) -> String {
        let environment = std::env::var_os("KUBECONFIG").filter(|files| !files.is_empty());
        let has_server = self.home().join(format!("{PLANE_CONTEXT}.config")).exists();
        match self.is_found_without_flags(environment.as_deref(), has_server) {
            true => format!("flotilla {arguments}"),
            false => format!("flotilla {arguments} --kubeconfig {}", quoted(&self.plane_config())),
        }
    }

    /// Returns true if client commands use this testbed by default: no other kubeconfig is selected by $KUBECONFIG, and no
    /// `flotilla server` has left one.
    fn is_found_without_flags(&self, environment: Option<&OsStr>, has_server: bool) -> bool {
        let own = [self.plane_config(), self.merged_config()];
        let is_own = |files: &OsStr| own.iter().any(|path| path == files);
        match environment {
            Some(files) => is_own(files),
            None => self.is_default_home && self.name == DEFAULT_NAME && !has_server,
        }
    }

    /// Returns `flotilla ARGUMENTS` for the manager of this testbed.
    pub(crate) fn manager_command(&self, arguments: &str) -> String {
        format!("flotilla {arguments} --kubeconfig {}", quoted(&self.manager_config()))
    }

    /// Returns the directory of all testbeds.
    pub fn home(&self) -> &Path {
        self.directory.parent().unwrap_or(&self.directory)
    }

    /// The desired state of the testbed.
    pub fn spec_file(&self) -> PathBuf {
        self.directory.join("testbed.json")
    }

    /// Socket of the supervisor.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("supervisor.sock")
    }

    /// Locked by the supervisor while it is running.
    pub fn lock_file(&self) -> PathBuf {
        self.directory.join("supervisor.lock")
    }

    /// Locked while a command changes the testbed.
    pub fn change_lock_file(&self) -> PathBuf {
        self.directory.join("change.lock")
    }

    /// Data, one directory per machine.
    pub fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    pub fn machine_data(&self, machine: &str) -> PathBuf {
        self.data().join(machine)
    }

    /// Logs, one file per machine.
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

    pub fn manager_config(&self) -> PathBuf {
        self.directory.join(format!("{MANAGER}.config"))
    }

    /// Kubeconfig of the manager's second instance.
    pub fn instance_config(&self) -> PathBuf {
        self.directory.join(format!("{SECOND_INSTANCE}.config"))
    }

    /// Kubeconfig with one context per cluster.
    pub fn merged_config(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// The agent's kubeconfig for the control plane.
    pub fn agent_plane_config(&self, member: &str) -> PathBuf {
        self.directory.join(format!("agents/{member}-plane.config"))
    }

    /// The agent's kubeconfig for its member, without the forwarded port.
    pub fn agent_member_config(&self, member: &str) -> PathBuf {
        self.directory.join(format!("agents/{member}-member.config"))
    }

    pub fn exposures_file(&self) -> PathBuf {
        self.directory.join("forwards.json")
    }

    pub fn faults_file(&self) -> PathBuf {
        self.directory.join("faults.json")
    }

    /// Links to kubeconfigs that were created outside of the directory.
    pub fn links_file(&self) -> PathBuf {
        self.directory.join("links.json")
    }

    pub fn snapshots(&self) -> PathBuf {
        self.directory.join("snapshots")
    }
}

/// Returns the machine of a pull-mode member's agent.
pub fn agent_of(member: &str) -> String {
    format!("{member}-agent")
}

/// Returns `$FLOTILLA_HOME`, else `~/.flotilla`.
fn default_home() -> Option<PathBuf> {
    let set = std::env::var_os("FLOTILLA_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    set.or_else(|| Some(std::env::home_dir()?.join(".flotilla")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_below_home_and_name() {
        let place = TestbedDir::find(Some("/tmp/beds".into()), "one").unwrap();
        assert_eq!(place.plane_config(), Path::new("/tmp/beds/one/karmada-apiserver.config"));
        assert_eq!(place.member_config("member1"), Path::new("/tmp/beds/one/member1.config"));
        assert_eq!(place.merged_config(), Path::new("/tmp/beds/one/kubeconfig"));
        assert!(TestbedDir::find(Some("/tmp/beds".into()), "../up").is_err());
    }

    #[test]
    fn commands_for_the_control_plane_need_no_flags_only_if_they_find_it() {
        let default = TestbedDir::find(None, DEFAULT_NAME).unwrap();
        let other = TestbedDir::find(Some("/tmp/beds".into()), "one").unwrap();
        let check = |place: &TestbedDir, environment: Option<&str>, has_server: bool, expected: bool| {
            let found = place.is_found_without_flags(environment.map(OsStr::new), has_server);
            assert_eq!(found, expected, "{place:?} {environment:?} {has_server}");
        };
        check(&default, None, false, true);
        check(&default, None, true, false);
        check(&default, Some("/home/me/.kube/config"), false, false);
        check(&other, None, false, false);
        check(&other, Some("/tmp/beds/one/kubeconfig"), true, true);
    }
}
