//! An open testbed: its directory, desired state, supervisor and provisioner.

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
use crate::display::ProgressLine;
use crate::hint::Hint;
use crate::host_cluster::{self, HOST};
use crate::place::{PLANE, PLANE_CONTEXT, REGISTRY, TestbedDir};
use crate::spec::{Kind, MachineSpec, MemberSpec, Mode, Spec, loopback};
use crate::supervisor::client::{SupervisorClient, this_program};

const POLL: Duration = Duration::from_millis(15);
/// Timeout of one readiness check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);
const READY_TIMEOUT: Duration = Duration::from_secs(30);
const LOG_LINES: usize = 8;
const MICROK8S_IMAGE: &str = "ubuntu:22.04";

pub struct Testbed {
    pub place: TestbedDir,
    pub spec: Spec,
    pub supervisor: SupervisorClient,
    pub members: Arc<dyn Provisioner>,
    pub program: PathBuf,
}

impl Testbed {
    /// Opens a testbed that must be running.
    pub async fn running(place: &TestbedDir) -> anyhow::Result<Self> {
        let spec = Spec::existing(place)?;
        let supervisor = SupervisorClient::running(place).await?;
        Self::new(place, spec, supervisor).await
    }

    pub async fn new(place: &TestbedDir, spec: Spec, supervisor: SupervisorClient) -> anyhow::Result<Self> {
        let program = this_program()?;
        let members: Arc<dyn Provisioner> = match spec.provisioner {
            Kind::Process => Arc::new(supervisor.clone()),
            Kind::Lxd => Arc::new(Lxd::connect(settings(place, &spec.machines, program.clone())).await?),
            Kind::Kubeconfig => Arc::new(Clusters::new(sources(&spec))),
        };
        Ok(Self { place: place.clone(), spec, supervisor, members, program })
    }

    /// Fails if the provisioner of the members cannot be used on this host.
    pub async fn connect_provisioner(place: &TestbedDir, spec: &Spec) -> anyhow::Result<()> {
        if spec.provisioner == Kind::Lxd {
            Lxd::connect(settings(place, &spec.machines, this_program()?)).await?;
        }
        Ok(())
    }

    pub async fn start_plane(&self, line: &ProgressLine, deadline: Instant) -> anyhow::Result<()> {
        if let Some(host) = &self.spec.host {
            return host_cluster::start_plane(self, host, line, deadline).await;
        }
        self.started(&self.supervisor, &self.spec.plane_machine(&self.place, &self.program), line).await?;
        let written = self.place.machine_data(PLANE).join("karmada-apiserver.config");
        loop {
            if let Ok(text) = std::fs::read_to_string(&written)
                && let Ok(text) = rewrite(&text, PLANE_CONTEXT, &format!("https://{}", loopback(self.spec.plane_port)))
            {
                write_if_changed(&self.place.plane_config(), &text)?;
                if check_ready(&self.place.plane_config(), CHECK_TIMEOUT).await.is_ok() {
                    return Ok(());
                }
            }
            self.patience(&self.supervisor, PLANE, deadline).await?;
        }
    }

    pub async fn start_registry(&self, line: &ProgressLine, deadline: Instant) -> anyhow::Result<()> {
        let (Some(machine), Some(port)) =
            (self.spec.registry_machine(&self.place, &self.program), self.spec.registry_port)
        else {
            return Ok(());
        };
        self.started(&self.supervisor, &machine, line).await?;
        while tokio::net::TcpStream::connect(loopback(port)).await.is_err() {
            self.patience(&self.supervisor, REGISTRY, deadline).await?;
        }
        Ok(())
    }

    /// Starts a member, and returns when its API is ready and its kubeconfig is written.
    pub async fn start_member(
        &self,
        member: &MemberSpec,
        line: &ProgressLine,
        deadline: Instant,
    ) -> anyhow::Result<()> {
        let mut machine = self.spec.member_machine(&self.place, &self.program, member);
        if let Some(host) = self.spec.host.as_ref().filter(|_| member.name == HOST) {
            machine = host.machine(&self.spec, machine)?;
        }
        self.started(&*self.members, &machine, line).await?;
        if self.spec.provisioner == Kind::Lxd && self.spec.machines.microk8s {
            return self.install_microk8s(member, line).await;
        }
        loop {
            if let Ok(text) = self.read_member_config(member).await {
                let config = self.place.member_config(&member.name);
                write_if_changed(&config, &text)?;
                if check_ready(&config, CHECK_TIMEOUT).await.is_ok() {
                    return Ok(());
                }
            }
            self.patience(&*self.members, &member.name, deadline).await?;
        }
    }

    /// Installs MicroK8s unless it is already ready.
    async fn install_microk8s(&self, member: &MemberSpec, line: &ProgressLine) -> anyhow::Result<()> {
        let config = self.place.member_config(&member.name);
        if check_ready(&config, CHECK_TIMEOUT).await.is_ok() {
            return Ok(());
        }
        line.say("installing MicroK8s");
        let server = format!("https://{}", loopback(member.port));
        let text = microk8s::install(&*self.members, &member.name, &server).await?;
        write_if_changed(&config, &rewrite(&text, &member.name, &server)?)?;
        Ok(check_ready(&config, READY_TIMEOUT).await?)
    }

    /// Waits until a member that was just started answers.
    pub async fn wait_member(&self, member: &MemberSpec) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_TIMEOUT;
        while let Err(error) = check_ready(&self.place.member_config(&member.name), CHECK_TIMEOUT).await {
            // The fault `errors` makes a running member answer with 503.
            if matches!(error, NotReady::Answered { code: http::StatusCode::SERVICE_UNAVAILABLE, .. }) {
                return Ok(());
            }
            self.patience(&*self.members, &member.name, deadline).await?;
        }
        Ok(())
    }

    /// Reads the administrator's kubeconfig of a member, with the forwarded port as its server.
    async fn read_member_config(&self, member: &MemberSpec) -> anyhow::Result<String> {
        if let Some(source) = &member.source {
            let text = std::fs::read_to_string(&source.kubeconfig)?;
            return choose_context(&text, source.context.as_deref(), &member.name);
        }
        let text = self.members.read_file(&member.name, &self.spec.member_config_inside()).await?;
        let text = String::from_utf8(text).context("the member's kubeconfig is not valid UTF-8")?;
        if member.mode == Mode::Pull && self.spec.provisioner == Kind::Process {
            let own = rewrite(&text, &member.name, &format!("https://{}", loopback(member.own_port)))?;
            write_if_changed(&self.place.agent_member_config(&member.name), &own)?;
        }
        rewrite(&text, &member.name, &format!("https://{}", loopback(member.port)))
    }

    /// Starts the agent of a registered member.
    pub async fn start_agent(&self, member: &MemberSpec) -> anyhow::Result<()> {
        if self.spec.host.is_some() {
            return host_cluster::start_agent(self, member).await;
        }
        let config = self.place.member_config(&member.name);
        let agent_config = self.place.agent_member_config(&member.name);
        if self.spec.provisioner != Kind::Process {
            // The agent runs outside the member, and uses the same address as all clients.
            write_if_changed(&agent_config, &std::fs::read_to_string(&config)?)?;
        }
        let endpoint = cluster_client::Kubeconfig::load(&[config])?.remote(None)?.server;
        let machine = self.spec.agent_machine(&self.place, &self.program, member, &endpoint);
        self.started(&self.supervisor, &machine, &ProgressLine::silent()).await
    }

    /// Starts a machine unless it is already running as described.
    pub async fn started(
        &self,
        provisioner: &dyn Provisioner,
        machine: &Machine,
        line: &ProgressLine,
    ) -> anyhow::Result<()> {
        provisioner.create(machine).await?;
        match provisioner.condition(&machine.name).await {
            Ok(Condition::Running) => line.say("checking"),
            _ => line.say("starting"),
        }
        Ok(provisioner.start(&machine.name).await?)
    }

    /// Pauses between two checks, or fails when the machine keeps exiting or the time is over.
    pub async fn patience(
        &self,
        provisioner: &dyn Provisioner,
        machine: &str,
        deadline: Instant,
    ) -> anyhow::Result<()> {
        let is_failing = provisioner.condition(machine).await? == Condition::Failing;
        if is_failing || Instant::now() >= deadline {
            let log = self.place.log_of(machine);
            let mut said = tail(&std::fs::read_to_string(&log).unwrap_or_default());
            if said.is_empty() && self.spec.provisioner == Kind::Lxd {
                let inside = provisioner.read_file(machine, MACHINE_LOG).await.unwrap_or_default();
                said = tail(&String::from_utf8_lossy(&inside));
            }
            let what = if is_failing { "keeps exiting" } else { "is not ready before the timeout" };
            let hint = self.place.hint(&Hint::PartLogs(machine));
            bail!("{machine} {what}; last lines of its log (`{hint}`):\n{said}");
        }
        tokio::time::sleep(POLL).await;
        Ok(())
    }
}

/// Returns the settings of system containers; MicroK8s needs an image with snap.
fn settings(place: &TestbedDir, machines: &MachineSpec, program: PathBuf) -> LxdSettings {
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

/// Extracts one context of the user's kubeconfig, renamed to the member's name.
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
