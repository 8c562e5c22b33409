//! The subject of an examination: a testbed with all its parts, or any control plane that has a kubeconfig.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use cluster_client::{ClusterClient, Endpoint, Kubeconfig, RemoteConfig};
use karmadactl::plane::proxy_url;

use super::probe::Route;
use crate::hint::{Hint, quoted};
use crate::place::{PLANE_CONTEXT, TestbedDir};
use crate::spec::{Kind, Spec};

/// One question to one server.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(6);

pub struct DoctorSubject {
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
    /// Members of the testbed. The control plane may know further clusters, which `up` does not repair.
    pub members: Vec<String>,
    /// The command that starts the control plane, if its directory is known.
    pub start: Option<String>,
}

impl DoctorSubject {
    /// A testbed. That its control plane cannot be reached is for the checks to say.
    pub fn testbed(place: &TestbedDir) -> anyhow::Result<Self> {
        let spec = Spec::existing(place)?;
        let kubeconfig = place.plane_config();
        let remote = load(&kubeconfig, None).ok();
        let members = spec.members.iter().map(|member| member.name.clone()).collect();
        let is_lxd = spec.provisioner == Kind::Lxd;
        let hints = Hints { place: Some(place.clone()), kubeconfig, is_lxd, members, start: None };
        Ok(Self { bed: Some((place.clone(), spec)), remote, hints })
    }

    pub fn plane(kubeconfig: &Path, context: Option<&str>) -> anyhow::Result<Self> {
        let remote = load(kubeconfig, context)?;
        let hints = Hints { kubeconfig: kubeconfig.to_owned(), start: start_of(kubeconfig), ..Hints::default() };
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

impl DoctorSubject {
    /// A member with a kubeconfig of its own is asked directly, others through the control plane.
    pub fn route_to(&self, member: &str) -> Route {
        match self.bed() {
            Some((place, _)) if place.member_config(member).exists() => Route::Direct,
            _ => Route::Proxy,
        }
    }
}

/// The command that starts the control plane that wrote a kubeconfig: it is in the directory of its testbed or server, or a
/// link leads there.
fn start_of(kubeconfig: &Path) -> Option<String> {
    let original = kubeconfig.canonicalize().ok()?;
    let directory = original.parent()?;
    let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let testbed = TestbedDir::find(directory.parent().map(Path::to_owned), name).ok();
    if let Some(testbed) = testbed.filter(|testbed| testbed.spec_file().exists()) {
        return Some(testbed.hint(&Hint::Up));
    }
    let is_server = original.ends_with(format!("{PLANE_CONTEXT}.config")) && directory.join("pki").exists();
    is_server.then(|| format!("flotilla server --data-dir {}", quoted(directory)))
}

pub fn load(kubeconfig: &Path, context: Option<&str>) -> anyhow::Result<RemoteConfig> {
    let loaded = Kubeconfig::load(&[kubeconfig.to_owned()])?.remote(context);
    loaded.with_context(|| format!("cannot use {}", kubeconfig.display()))
}

pub fn connect(mut remote: RemoteConfig) -> Result<ClusterClient, String> {
    remote.request_timeout = REQUEST_TIMEOUT;
    ClusterClient::connect(Endpoint::Remote(remote)).map_err(|error| error.to_string())
}

impl Hints {
    pub fn examined(&self) -> String {
        match &self.place {
            Some(place) => format!("the testbed {} in {}", place.name(), place.home().display()),
            None => format!("the control plane of {}", self.kubeconfig.display()),
        }
    }

    /// A command of flotilla, with the flags that select what is examined.
    pub fn flotilla(&self, hint: &Hint<'_>) -> String {
        match &self.place {
            Some(place) => place.hint(hint),
            None => hint.for_plane(&self.kubeconfig),
        }
    }

    /// Returns the command that repairs a testbed; for other control planes, the given advice for the owner.
    pub fn repair(&self, elsewhere: &str) -> String {
        if self.place.is_some() { self.flotilla(&Hint::Up) } else { elsewhere.to_owned() }
    }

    /// The same for a cluster: further clusters of the control plane are not repaired by `up`.
    pub fn repair_cluster(&self, name: &str, elsewhere: &str) -> String {
        if self.is_member(name) { self.flotilla(&Hint::Up) } else { elsewhere.to_owned() }
    }

    pub fn is_member(&self, cluster: &str) -> bool {
        self.members.iter().any(|member| member == cluster)
    }

    /// Returns the command that starts the control plane again.
    pub fn start_plane(&self) -> String {
        self.start.clone().unwrap_or_else(|| self.repair("flotilla server --data-dir DATA-DIR"))
    }

    pub fn kubectl(&self, words: &str) -> String {
        format!("kubectl --kubeconfig {} {words}", quoted(&self.kubeconfig))
    }

    /// kubectl on a member, or our own command through the control plane where the member has no kubeconfig here.
    pub fn on_member(&self, member: &str, words: &str) -> String {
        let own = self.place.as_ref().filter(|_| self.is_member(member)).map(|place| place.member_config(member));
        match own {
            Some(path) => format!("kubectl --kubeconfig {} {words}", quoted(&path)),
            None => {
                let scope = if words.starts_with("logs") { "" } else { " -s members" };
                format!("flotilla {words} --kubeconfig {}{scope} -C {member}", quoted(&self.kubeconfig))
            }
        }
    }

    /// The command that gives the plane new credentials for a member.
    pub fn join_again(&self, member: &str) -> String {
        let file = PathBuf::from(format!("FILE-OF-{member}"));
        let join = self.flotilla(&Hint::Join { name: member, kubeconfig: &file });
        let again = format!("{} && {join}", self.flotilla(&Hint::Unjoin(member)));
        self.repair_cluster(member, &again)
    }
}
