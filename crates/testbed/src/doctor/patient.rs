//! The subject of an examination: a testbed with all its parts, or any control plane that has a kubeconfig.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use cluster_client::{ClusterClient, Endpoint, Kubeconfig, RemoteConfig};
use karmadactl::plane::proxy_url;

use super::probe::Route;
use crate::place::{DEFAULT_NAME, TestbedDir};
use crate::spec::{Kind, Spec};

/// One question to one server.
pub const ASK_PATIENCE: Duration = Duration::from_secs(6);

pub struct Patient {
    bed: Option<(TestbedDir, Spec)>,
    remote: Option<RemoteConfig>,
    hints: Hints,
}

/// The parameters of commands in findings.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    /// The testbed, where it is one.
    pub place: Option<TestbedDir>,
    /// The control plane's kubeconfig.
    pub kubeconfig: PathBuf,
    /// Members are system containers: their logs are inside.
    pub is_lxd: bool,
}

impl Patient {
    /// A testbed. That its control plane cannot be reached is for the checks to say.
    pub fn testbed(place: &TestbedDir) -> anyhow::Result<Self> {
        let spec = Spec::existing(place)?;
        let kubeconfig = place.plane_config();
        let remote = load(&kubeconfig, None).ok();
        let hints = Hints { place: Some(place.clone()), kubeconfig, is_lxd: spec.provisioner == Kind::Lxd };
        Ok(Self { bed: Some((place.clone(), spec)), remote, hints })
    }

    pub fn plane(kubeconfig: &Path, context: Option<&str>) -> anyhow::Result<Self> {
        let remote = load(kubeconfig, context)?;
        let hints = Hints { place: None, kubeconfig: kubeconfig.to_owned(), is_lxd: false };
        Ok(Self { bed: None, remote: Some(remote), hints })
    }

    pub fn hints(&self) -> &Hints {
        &self.hints
    }

    pub fn bed(&self) -> Option<(&TestbedDir, &Spec)> {
        self.bed.as_ref().map(|(place, spec)| (place, spec))
    }

    pub fn remote(&self) -> Option<&RemoteConfig> {
        self.remote.as_ref()
    }

    pub fn plane_client(&self) -> Result<ClusterClient, String> {
        let remote = self.remote.clone();
        connect(remote.ok_or_else(|| format!("{} cannot be read", self.hints.kubeconfig.display()))?)
    }

    /// A member's own API: by its own kubeconfig where there is one, else through the control plane.
    pub fn member_client(&self, member: &str) -> Result<ClusterClient, String> {
        let own = self.bed().map(|(place, _)| place.member_config(member)).filter(|path| path.exists());
        match own {
            Some(path) => connect(load(&path, None).map_err(|error| format!("{error:#}"))?),
            None => {
                let remote = self.remote.clone().ok_or("the control plane has no kubeconfig")?;
                let server = proxy_url(&remote.server, member);
                connect(RemoteConfig { server, ..remote })
            }
        }
    }
}

impl Patient {
    /// A member with a kubeconfig of its own is asked directly, others through the control plane.
    pub fn route_to(&self, member: &str) -> Route {
        match self.bed() {
            Some((place, _)) if place.member_config(member).exists() => Route::Direct,
            _ => Route::Proxy,
        }
    }
}

pub fn load(kubeconfig: &Path, context: Option<&str>) -> anyhow::Result<RemoteConfig> {
    let loaded = Kubeconfig::load(&[kubeconfig.to_owned()])?.remote(context);
    loaded.with_context(|| format!("cannot use {}", kubeconfig.display()))
}

pub fn connect(mut remote: RemoteConfig) -> Result<ClusterClient, String> {
    remote.request_timeout = ASK_PATIENCE;
    ClusterClient::connect(Endpoint::Remote(remote)).map_err(|error| error.to_string())
}

impl Hints {
    pub fn examined(&self) -> String {
        match &self.place {
            Some(place) => format!("the testbed {} in {}", place.name(), place.home().display()),
            None => format!("the control plane of {}", self.kubeconfig.display()),
        }
    }

    /// A command of the testbed, with the flags that name this one.
    pub fn flotilla(&self, words: &str) -> String {
        let Some(place) = &self.place else { return format!("flotilla {words}") };
        let name = if place.name() == DEFAULT_NAME { String::new() } else { format!(" --name {}", place.name()) };
        let usual = std::env::home_dir().is_some_and(|home| home.join(".flotilla") == place.home());
        let home = if usual { String::new() } else { format!(" --home {}", place.home().display()) };
        format!("flotilla {words}{home}{name}")
    }

    /// Returns the command that repairs a testbed; for other control planes, the given advice for the owner.
    pub fn repair(&self, elsewhere: &str) -> String {
        if self.place.is_some() { self.flotilla("up") } else { elsewhere.to_owned() }
    }

    pub fn kubectl(&self, words: &str) -> String {
        format!("kubectl --kubeconfig {} {words}", self.kubeconfig.display())
    }

    /// kubectl on a member, or our own command through the control plane where the member has no kubeconfig here.
    pub fn on_member(&self, member: &str, words: &str) -> String {
        let own = self.place.as_ref().map(|place| place.member_config(member));
        match own {
            Some(path) => format!("kubectl --kubeconfig {} {words}", path.display()),
            None => {
                let scope = if words.starts_with("logs") { "" } else { " -s members" };
                format!("flotilla {words} --kubeconfig {}{scope} -C {member}", self.kubeconfig.display())
            }
        }
    }

    /// The command that gives the plane new credentials for a member.
    pub fn join_again(&self, member: &str) -> String {
        let again = format!("flotilla unjoin {member} && flotilla join {member} --cluster-kubeconfig FILE-OF-{member}");
        self.repair(&again)
    }
}
