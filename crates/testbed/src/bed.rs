//! A testbed at hand: its directory, what it is to be, its supervisor, and where its members run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use provisioners::kubeconfig::{Clusters, Existing};
use provisioners::lxd::{ImageSource, Limits, Lxd, LxdSettings, MACHINE_LOG, microk8s};
use provisioners::{Condition, Machine, Provisioner};
use tokio::time::Instant;

use crate::clusters::{NotReady, check_ready, rewrite, write_if_changed};
use crate::display::Line;
use crate::place::{PLANE, PLANE_CONTEXT, Place, REGISTRY};
use crate::spec::{Kind, MachineSpec, MemberSpec, Mode, Spec, loopback};
use crate::supervisor::client::{SupervisorClient, this_program};

const POLL: Duration = Duration::from_millis(15);
/// One question whether something is ready.
const ASK_PATIENCE: Duration = Duration::from_secs(2);
const READY_PATIENCE: Duration = Duration::from_secs(30);
const LOG_LINES: usize = 8;
const MICROK8S_IMAGE: &str = "ubuntu:22.04";

pub struct Bed {
    pub place: Place,
    pub spec: Spec,
    pub supervisor: SupervisorClient,
    pub members: Arc<dyn Provisioner>,
    pub program: PathBuf,
}

impl Bed {
    /// A testbed that runs.
    pub async fn running(place: &Place) -> anyhow::Result<Self> {
        let spec = Spec::existing(place)?;
        let supervisor = SupervisorClient::running(place).await?;
        Self::new(place, spec, supervisor).await
    }

    pub async fn new(place: &Place, spec: Spec, supervisor: SupervisorClient) -> anyhow::Result<Self> {
        let program = this_program()?;
        let members: Arc<dyn Provisioner> = match spec.provisioner {
            Kind::Process => Arc::new(supervisor.clone()),
            Kind::Lxd => Arc::new(Lxd::connect(settings(place, &spec.machines, program.clone())).await?),
            Kind::Kubeconfig => Arc::new(Clusters::new(sources(&spec))),
        };
        Ok(Self { place: place.clone(), spec, supervisor, members, program })
    }

    pub async fn start_plane(&self, line: &Line, deadline: Instant) -> anyhow::Result<()> {
        line.say("starting");
        self.started(&self.supervisor, &self.spec.plane_machine(&self.place, &self.program)).await?;
        let written = self.place.machine_data(PLANE).join("karmada-apiserver.config");
        loop {
            if let Ok(text) = std::fs::read_to_string(&written)
                && let Ok(text) = rewrite(&text, PLANE_CONTEXT, &format!("https://{}", loopback(self.spec.plane_port)))
            {
                write_if_changed(&self.place.plane_config(), &text)?;
                if check_ready(&self.place.plane_config(), ASK_PATIENCE).await.is_ok() {
                    return Ok(());
                }
            }
            self.patience(&self.supervisor, PLANE, deadline).await?;
        }
    }

    pub async fn start_registry(&self, line: &Line, deadline: Instant) -> anyhow::Result<()> {
        let (Some(machine), Some(port)) =
            (self.spec.registry_machine(&self.place, &self.program), self.spec.registry_port)
        else {
            return Ok(());
        };
        line.say("starting");
        self.started(&self.supervisor, &machine).await?;
        while tokio::net::TcpStream::connect(loopback(port)).await.is_err() {
            self.patience(&self.supervisor, REGISTRY, deadline).await?;
        }
        Ok(())
    }

    /// Returns when the member's API is ready and its kubeconfig is in place.
    pub async fn start_member(&self, member: &MemberSpec, line: &Line, deadline: Instant) -> anyhow::Result<()> {
        line.say("starting");
        self.started(&*self.members, &self.spec.member_machine(&self.place, &self.program, member)).await?;
        if self.spec.provisioner == Kind::Lxd && self.spec.machines.microk8s {
            return self.install_microk8s(member, line).await;
        }
        loop {
            if let Ok(text) = self.read_member_config(member).await {
                let config = self.place.member_config(&member.name);
                write_if_changed(&config, &text)?;
                if check_ready(&config, ASK_PATIENCE).await.is_ok() {
                    return Ok(());
                }
            }
            self.patience(&*self.members, &member.name, deadline).await?;
        }
    }

    /// MicroK8s is installed once; one that answers is left alone.
    async fn install_microk8s(&self, member: &MemberSpec, line: &Line) -> anyhow::Result<()> {
        let config = self.place.member_config(&member.name);
        if check_ready(&config, ASK_PATIENCE).await.is_ok() {
            return Ok(());
        }
        line.say("installing MicroK8s");
        let server = format!("https://{}", loopback(member.port));
        let text = microk8s::install(&*self.members, &member.name, &server).await?;
        write_if_changed(&config, &rewrite(&text, &member.name, &server)?)?;
        Ok(check_ready(&config, READY_PATIENCE).await?)
    }

    /// A member that was started a moment ago answers soon.
    pub async fn wait_member(&self, member: &MemberSpec) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_PATIENCE;
        while let Err(error) = check_ready(&self.place.member_config(&member.name), ASK_PATIENCE).await {
            // The fault `errors` makes a running member answer with 503.
            if matches!(error, NotReady::Answered { code: http::StatusCode::SERVICE_UNAVAILABLE, .. }) {
                return Ok(());
            }
            self.patience(&*self.members, &member.name, deadline).await?;
        }
        Ok(())
    }

    /// The kubeconfig of a member's administrator, leading through the forwarded port.
    async fn read_member_config(&self, member: &MemberSpec) -> anyhow::Result<String> {
        if let Some(source) = &member.source {
            let text = std::fs::read_to_string(&source.kubeconfig)?;
            return choose_context(&text, source.context.as_deref(), &member.name);
        }
        let text = self.members.read_file(&member.name, &self.spec.member_config_inside()).await?;
        let text = String::from_utf8(text).context("the member's kubeconfig is no text")?;
        if member.mode == Mode::Pull && self.spec.provisioner == Kind::Process {
            let own = rewrite(&text, &member.name, &format!("https://{}", loopback(member.own_port)))?;
            write_if_changed(&self.place.agent_member_config(&member.name), &own)?;
        }
        rewrite(&text, &member.name, &format!("https://{}", loopback(member.port)))
    }

    /// The agent of a member that is registered.
    pub async fn start_agent(&self, member: &MemberSpec) -> anyhow::Result<()> {
        let config = self.place.member_config(&member.name);
        let beside = self.place.agent_member_config(&member.name);
        if self.spec.provisioner != Kind::Process {
            // Nothing of ours runs beside it: the agent takes the way everybody takes.
            write_if_changed(&beside, &std::fs::read_to_string(&config)?)?;
        }
        let endpoint = cluster_client::Kubeconfig::load(&[config])?.remote(None)?.server;
        let machine = self.spec.agent_machine(&self.place, &self.program, member, &endpoint);
        self.started(&self.supervisor, &machine).await
    }

    async fn started(&self, where_it_runs: &dyn Provisioner, machine: &Machine) -> anyhow::Result<()> {
        where_it_runs.create(machine).await?;
        Ok(where_it_runs.start(&machine.name).await?)
    }

    /// A pause between two looks, or an error where looking on makes no sense.
    async fn patience(&self, provisioner: &dyn Provisioner, machine: &str, deadline: Instant) -> anyhow::Result<()> {
        let is_failing = provisioner.condition(machine).await? == Condition::Failing;
        if is_failing || Instant::now() >= deadline {
            let log = self.place.log_of(machine);
            let mut said = tail(&std::fs::read_to_string(&log).unwrap_or_default());
            if said.is_empty() && self.spec.provisioner == Kind::Lxd {
                let inside = provisioner.read_file(machine, MACHINE_LOG).await.unwrap_or_default();
                said = tail(&String::from_utf8_lossy(&inside));
            }
            let what = if is_failing { "keeps ending" } else { "is not ready in time" };
            bail!("{machine} {what}; the end of {} says:\n{said}", log.display());
        }
        tokio::time::sleep(POLL).await;
        Ok(())
    }
}

/// How the machines are made; MicroK8s needs an image that has snap.
fn settings(place: &Place, machines: &MachineSpec, program: PathBuf) -> LxdSettings {
    let image = machines.image.as_deref().unwrap_or(if machines.microk8s { MICROK8S_IMAGE } else { "" });
    LxdSettings {
        image: ImageSource::parse(image),
        microk8s: machines.microk8s,
        limits: Limits { cpu: machines.cpu.clone(), memory: machines.memory.clone(), processes: None },
        ..LxdSettings::new(place.name(), program)
    }
}

fn sources(spec: &Spec) -> BTreeMap<String, Existing> {
    let of = |member: &MemberSpec| {
        let source = member.source.clone()?;
        Some((member.name.clone(), Existing { kubeconfig: source.kubeconfig, context: source.context }))
    };
    spec.members.iter().filter_map(of).collect()
}

/// One context of the user's kubeconfig, under the member's name and where it is.
fn choose_context(text: &str, context: Option<&str>, name: &str) -> anyhow::Result<String> {
    let mut config: serde_json::Value = serde_saphyr::from_str(text).context("not a kubeconfig")?;
    if let Some(context) = context {
        config["current-context"] = context.into();
    }
    let chosen = object::yaml::to_string(&config);
    let parsed = cluster_client::Kubeconfig::parse(&chosen, std::path::Path::new("/"))?;
    rewrite(&chosen, name, &parsed.remote(None)?.server)
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}
