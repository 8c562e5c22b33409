//! All processes of a soak: control plane replicas, etcd, members, the agent, each as a fault target.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::api::{Api, ApiAnswer};
use super::schedule::{Engine, LIGHT_MEMBERS, SoakPlan};
use crate::etcd::{EtcdCluster, steady_port};
use crate::faults::process::{EtcdNode, Process, RealApi};
use crate::faults::relay::Relay;
use crate::faults::shim::Shim;
use crate::faults::{FaultTarget, Unsupported};
use crate::flotilla::binary;
use crate::member::Member;
use crate::netns::Namespace;

const READY_TIMEOUT: Duration = Duration::from_secs(120);
const REPLICAS: usize = 3;
const ETCD_NODES: usize = 3;
/// Shorter intervals than the defaults, since soaks are short of time.
const PLANE_PACE: &[&str] = &[
    "--cluster-status-update-frequency=2s",
    "--cluster-failure-threshold=5s",
    "--cluster-success-threshold=3s",
    "--cluster-monitor-grace-period=10s",
    "--cluster-monitor-period=2s",
    "--graceful-eviction-timeout=20s",
];

pub struct SoakSystem {
    pub replicas: Vec<Api>,
    /// Kubeconfigs of the replicas, for commands.
    pub kubeconfigs: Vec<PathBuf>,
    pub members: Vec<SoakMember>,
    pub targets: BTreeMap<String, FaultTarget>,
    /// Unsupported features of this machine.
    pub refused: Vec<Unsupported>,
    directory: PathBuf,
}

/// A member and its kubeconfig.
#[derive(Clone)]
pub struct SoakMember {
    pub name: String,
    pub kubeconfig: PathBuf,
    pub api: Api,
    pub is_pull: bool,
}

impl SoakSystem {
    /// Starts everything and waits until control plane and members answer. Members are not joined yet.
    pub async fn start(plan: &SoakPlan, directory: &Path) -> Result<Self, String> {
        let mut system = Self {
            replicas: Vec::new(),
            kubeconfigs: Vec::new(),
            members: Vec::new(),
            targets: BTreeMap::new(),
            refused: Vec::new(),
            directory: directory.to_owned(),
        };
        let spaces: Vec<Option<Arc<Namespace>>> = match plan.has_members {
            true => (0..LIGHT_MEMBERS).map(|_| Namespace::make().map(Arc::new)).collect(),
            false => Vec::new(),
        };
        if spaces.iter().any(Option::is_none) {
            system
                .refused
                .push(Unsupported("no network namespaces (requires root): members are not partitioned".to_owned()));
        }
        system.start_planes(plan, &spaces).await?;
        if plan.has_members {
            for (number, space) in spaces.iter().enumerate() {
                system.start_light(number, space.clone()).await?;
            }
            if plan.has_real_member {
                system.start_real().await?;
            }
            system.start_agent(spaces.last().cloned().flatten())?;
        }
        Ok(system)
    }

    async fn start_planes(&mut self, plan: &SoakPlan, spaces: &[Option<Arc<Namespace>>]) -> Result<(), String> {
        let etcd = match plan.engine {
            Engine::Embedded => None,
            Engine::Etcd => {
                let started = tokio::task::spawn_blocking(|| EtcdCluster::start(ETCD_NODES)).await;
                let cluster = started.map_err(|error| error.to_string())?.ok_or("etcd is not installed")?;
                Some(Arc::new(Mutex::new(cluster)))
            }
        };
        if let Some(cluster) = &etcd {
            for number in 0..ETCD_NODES {
                let name = format!("etcd-{number}");
                self.add(FaultTarget::new(&name, EtcdNode { cluster: Arc::clone(cluster), number }));
            }
        }
        let count = if etcd.is_some() { REPLICAS } else { 1 };
        for number in 0..count {
            self.start_plane(plan, number, etcd.as_ref(), spaces).await?;
        }
        Ok(())
    }

    async fn start_plane(
        &mut self,
        plan: &SoakPlan,
        number: usize,
        etcd: Option<&Arc<Mutex<EtcdCluster>>>,
        spaces: &[Option<Arc<Namespace>>],
    ) -> Result<(), String> {
        let name = format!("plane-{number}");
        let data = self.folder(&name)?;
        let (flags, relays) = match etcd {
            None => (Vec::new(), Vec::new()),
            Some(cluster) => way_to_etcd(cluster).await?,
        };
        let port = steady_port();
        let mut arguments: Vec<String> = ["server", "--bind", &format!("0.0.0.0:{port}"), "--advertise-url"]
            .iter()
            .map(|&text| text.to_owned())
            .collect();
        arguments.extend([format!("https://127.0.0.1:{port}"), "--data-dir".to_owned(), data.display().to_string()]);
        for space in spaces.iter().flatten() {
            arguments.extend(["--tls-san".to_owned(), space.host.to_string()]);
        }
        arguments.extend(PLANE_PACE.iter().map(|&text| text.to_owned()));
        for kind in ["not-ready", "unreachable"] {
            arguments.push(format!("--default-{kind}-toleration-seconds={}", plan.toleration_seconds));
        }
        arguments.extend(flags);
        let shim = self.shim(&name);
        let kubeconfig = data.join("karmada-apiserver.config");
        let process = self.process(&name, None, shim.clone(), arguments);
        self.add(FaultTarget::new(&name, process).with_shim(shim).through(relays));
        self.replicas.push(ready(&name, &kubeconfig).await?);
        self.kubeconfigs.push(kubeconfig);
        Ok(())
    }

    async fn start_light(&mut self, number: usize, space: Option<Arc<Namespace>>) -> Result<(), String> {
        let name = format!("member-{number}");
        let data = self.folder(&name)?;
        let host = space.as_ref().map_or(Ipv4Addr::LOCALHOST, |space| space.inside);
        let arguments =
            ["member", "--bind", &format!("{host}:{}", steady_port()), "--cluster-name", &name, "--data-dir"];
        let mut arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        arguments.extend([data.display().to_string(), "--pod-delay=50ms".to_owned()]);
        let shim = self.shim(&name);
        let process = self.process(&name, space.clone(), shim.clone(), arguments);
        self.add(FaultTarget::new(&name, process).with_shim(shim).inside(space));
        let kubeconfig = data.join("member.config");
        let api = ready(&name, &kubeconfig).await?;
        let is_pull = number + 1 == usize::try_from(LIGHT_MEMBERS).expect("a few");
        self.members.push(SoakMember { name, kubeconfig, api, is_pull });
        Ok(())
    }

    async fn start_real(&mut self) -> Result<(), String> {
        let name = format!("member-{LIGHT_MEMBERS}");
        let asked = name.clone();
        let started = tokio::task::spawn_blocking(move || Member::start(&asked, 2)).await;
        let member = started.map_err(|error| error.to_string())?.ok_or("the Kubernetes programs are not installed")?;
        let kubeconfig = member.kubeconfig().to_owned();
        self.add(FaultTarget::new(&name, RealApi { member: Arc::new(Mutex::new(member)), is_down: false }));
        let api = ready(&name, &kubeconfig).await?;
        self.members.push(SoakMember { name, kubeconfig, api, is_pull: false });
        Ok(())
    }

    /// Runs with the last light member, and is disconnected with it. It only uses the first replica.
    fn start_agent(&mut self, space: Option<Arc<Namespace>>) -> Result<(), String> {
        let site = self.members.iter().find(|site| site.is_pull).ok_or("there is no pull-mode member")?.clone();
        let text = std::fs::read_to_string(&self.kubeconfigs[0]).map_err(|error| error.to_string())?;
        let text = match &space {
            Some(space) => text.replace("https://127.0.0.1:", &format!("https://{}:", space.host)),
            None => text,
        };
        let kubeconfig = self.directory.join("agent.config");
        std::fs::write(&kubeconfig, text).map_err(|error| error.to_string())?;
        let arguments =
            ["agent", "--karmada-kubeconfig", &kubeconfig.display().to_string(), "--cluster-name", &site.name]
                .into_iter()
                .chain(["--kubeconfig", &site.kubeconfig.display().to_string(), "--cluster-status-update-frequency=2s"])
                .chain([
                    "--cluster-lease-duration=8s",
                    "--cluster-failure-threshold=5s",
                    "--cluster-success-threshold=3s",
                ])
                .map(str::to_owned)
                .collect();
        let shim = self.shim("agent");
        let process = self.process("agent", space.clone(), shim.clone(), arguments);
        self.add(FaultTarget::new("agent", process).with_shim(shim).inside(space));
        Ok(())
    }

    fn process(
        &self,
        name: &str,
        space: Option<Arc<Namespace>>,
        shim: Option<Arc<Shim>>,
        arguments: Vec<String>,
    ) -> Process {
        let log = self.directory.join(format!("{name}.log"));
        Process::start(&log, move || {
            let mut command = match &space {
                Some(space) => space.command(binary()),
                None => Command::new(binary()),
            };
            if let Some(shim) = &shim {
                shim.preload(&mut command);
            }
            command.args(&arguments).env_remove("KUBECONFIG").env_remove("FLOTILLA_HOME");
            command
        })
    }

    fn shim(&mut self, name: &str) -> Option<Arc<Shim>> {
        match Shim::build(&self.directory, name) {
            Ok(shim) => Some(Arc::new(shim)),
            Err(why) => {
                self.refused.push(why);
                None
            }
        }
    }

    fn add(&mut self, target: FaultTarget) {
        self.targets.insert(target.name.clone(), target);
    }

    fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.directory.join(name);
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(folder)
    }

    /// Runs the flotilla CLI against a replica; which one changes with each attempt.
    pub async fn flotilla(&self, replica: usize, arguments: &[String]) -> Result<(), String> {
        let kubeconfig = &self.kubeconfigs[replica % self.kubeconfigs.len()];
        let mut command = tokio::process::Command::new(binary());
        command.args(arguments).env("KUBECONFIG", kubeconfig).env_remove("FLOTILLA_HOME").kill_on_drop(true);
        let output = tokio::time::timeout(Duration::from_secs(60), command.output()).await;
        let output = output.map_err(|_| "timeout".to_owned())?.map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }
}

/// Each replica has its own relays to every node, so that it can be disconnected separately.
async fn way_to_etcd(cluster: &Arc<Mutex<EtcdCluster>>) -> Result<(Vec<String>, Vec<Arc<Relay>>), String> {
    let (mut flags, urls) = {
        let cluster = cluster.lock().map_err(|error| error.to_string())?;
        let urls: Vec<String> = (0..cluster.size()).map(|number| cluster.url(number)).collect();
        (cluster.flags(), urls)
    };
    let mut relays = Vec::new();
    for url in &urls {
        let port = url.rsplit(':').next().and_then(|port| port.parse().ok()).ok_or("etcd has no port")?;
        let relay =
            Relay::to(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await.map_err(|error| error.to_string())?;
        relays.push(Arc::new(relay));
    }
    let servers: Vec<String> = relays.iter().map(|relay| format!("https://127.0.0.1:{}", relay.port)).collect();
    let at = flags.iter().position(|flag| flag == "--etcd-servers").ok_or("the flag --etcd-servers is missing")?;
    flags[at + 1] = servers.join(",");
    Ok((flags, relays))
}

async fn ready(name: &str, kubeconfig: &Path) -> Result<Api, String> {
    let start = Instant::now();
    let mut why = "no kubeconfig".to_owned();
    while start.elapsed() < READY_TIMEOUT {
        if kubeconfig.exists() {
            match Api::open(kubeconfig).await {
                Ok(api) => match api.get("/readyz").await {
                    ApiAnswer::Done(_) => return Ok(api),
                    other => why = format!("{other:?}"),
                },
                Err(error) => why = error,
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err(format!("{name} is not ready: {why}"))
}
