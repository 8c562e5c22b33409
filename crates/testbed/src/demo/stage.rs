//! The context of a demo: runs and prints commands, waits for results, and tracks created objects.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use cluster_client::{ClusterClient, DeleteOptions, ResourceRef, RestMapper};
use karmadactl::console::Console;
use membership::join::Readiness;
use object::Object;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::Instant;

use crate::bed::Testbed;
use crate::clusters::open;
use crate::demo::images;
use crate::hint::Hint;
use crate::runtime::Runtime;

const FIELD_MANAGER: &str = "flotilla-demo";
const POLL: Duration = Duration::from_millis(100);
/// Timeout for a change to propagate between the control plane and members.
pub const CROSSING: Duration = Duration::from_secs(60);

pub struct DemoContext<'a> {
    console: &'a Console,
    pub bed: &'a Testbed,
    pub plane: ClusterClient,
    kubectl: Option<PathBuf>,
    made: Vec<Object>,
    exposed: Vec<String>,
    faulty: Vec<String>,
}

impl<'a> DemoContext<'a> {
    pub fn new(console: &'a Console, bed: &'a Testbed) -> anyhow::Result<Self> {
        let plane = open(&bed.place.plane_config())?;
        let kubectl = find_program("kubectl");
        Ok(Self { console, bed, plane, kubectl, made: Vec::new(), exposed: Vec::new(), faulty: Vec::new() })
    }

    pub fn say(&self, text: impl std::fmt::Display) -> anyhow::Result<()> {
        Ok(self.console.line(format!("# {text}"))?)
    }

    pub fn member(&self, name: &str) -> anyhow::Result<ClusterClient> {
        open(&self.bed.place.member_config(name))
    }

    pub fn members(&self) -> Vec<String> {
        self.bed.spec.members.iter().map(|member| member.name.clone()).collect()
    }

    /// Reports whether pods of the members are simulated.
    pub fn is_simulated(&self) -> bool {
        self.bed.spec.members.iter().all(|member| member.source.is_none() && member.runtime() == Runtime::Simulated)
    }

    /// Returns the image of a web server on port 80. Where containers run, it is built and distributed here, so that
    /// nothing has to be downloaded.
    pub async fn web_image(&mut self) -> anyhow::Result<String> {
        let runs_containers = self.bed.spec.members.iter().any(|member| member.runtime() == Runtime::Containerd);
        match runs_containers {
            true => images::web(self).await,
            false => Ok("nginx:1.27".to_owned()),
        }
    }

    pub fn console(&self) -> &'a Console {
        self.console
    }

    /// Runs `kubectl apply -f -` on the control plane.
    pub async fn apply(&mut self, manifests: &str) -> anyhow::Result<()> {
        let config = self.bed.place.plane_config();
        let shown = manifests.trim();
        self.console.line(format!("$ kubectl --kubeconfig {} apply -f - <<EOF\n{shown}\nEOF", config.display()))?;
        let mapper = RestMapper::new(self.plane.clone());
        for document in manifests.split("\n---").filter(|text| !text.trim().is_empty()) {
            let value: Value = serde_saphyr::from_str(document.trim_start_matches('-')).context("invalid manifest")?;
            let object = Object::from_value(value).context("invalid manifest")?;
            self.made.push(object.clone());
            if self.kubectl.is_none() {
                let mapped = mapper.resource_of(&object.gvk()).await?;
                let target = ResourceRef::of(&mapped.gvr, &object);
                let (kind, name) = (object.kind().to_owned(), object.name().to_owned());
                self.plane.apply(target, object, FIELD_MANAGER).await?;
                self.console.line(format!("{kind} {name} applied"))?;
            }
        }
        if let Some(kubectl) = &self.kubectl {
            let words = ["apply", "-f", "-"].map(str::to_owned);
            self.run(kubectl, &config, &words, Some(manifests)).await?;
        }
        Ok(())
    }

    /// Runs `get …` on the control plane or, with a name, in a member.
    pub async fn show(&self, member: Option<&str>, words: &[&str]) -> anyhow::Result<()> {
        let config = match member {
            Some(member) => self.bed.place.member_config(member),
            None => self.bed.place.plane_config(),
        };
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let (program, name) = match &self.kubectl {
            Some(kubectl) => (kubectl, "kubectl"),
            None => (&self.bed.program, "flotilla"),
        };
        self.console.line(format!("$ {name} --kubeconfig {} {}", config.display(), words.join(" ")))?;
        self.run(program, &config, &words, None).await
    }

    async fn run(&self, program: &Path, config: &Path, words: &[String], input: Option<&str>) -> anyhow::Result<()> {
        let mut command = Command::new(program);
        command.args(words).arg("--kubeconfig").arg(config).env_remove("KUBECONFIG");
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().with_context(|| format!("cannot run {}", program.display()))?;
        if let (Some(mut pipe), Some(text)) = (child.stdin.take(), input) {
            pipe.write_all(text.as_bytes()).await?;
        }
        let output = child.wait_with_output().await?;
        self.console.print(&String::from_utf8_lossy(&output.stdout))?;
        if !output.status.success() {
            bail!("{} failed: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }

    /// Prints a flotilla command that the library runs.
    pub fn show_own(&self, hint: &Hint<'_>) -> anyhow::Result<()> {
        Ok(self.console.line(format!("$ {}", self.bed.place.hint(hint)))?)
    }

    /// Waits until the condition holds, and prints it.
    pub async fn wait(
        &self,
        what: &str,
        limit: Duration,
        mut holds: impl AsyncFnMut() -> anyhow::Result<Result<(), String>>,
    ) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            // Some demos make a member unreachable for a while.
            let why = match holds().await {
                Ok(Ok(())) => break,
                Ok(Err(why)) => why,
                Err(error) => format!("{error:#}"),
            };
            if start.elapsed() >= limit {
                bail!("timed out after {}s: {what}: {why}", limit.as_secs());
            }
            tokio::time::sleep(POLL).await;
        }
        self.say(format!("✔ {what} ({:.1}s)", start.elapsed().as_secs_f32()))
    }

    /// Records an exposed port for the cleanup.
    pub fn remember_exposure(&mut self, name: &str) {
        self.exposed.push(name.to_owned());
    }

    pub fn remember_fault(&mut self, member: &str) {
        self.faulty.push(member.to_owned());
    }

    /// Removes everything the demo created, and waits until it is gone from the control plane.
    pub async fn clean_up(&mut self) -> anyhow::Result<()> {
        if self.made.is_empty() && self.exposed.is_empty() && self.faulty.is_empty() {
            return Ok(());
        }
        self.say("cleaning up")?;
        let faulty = std::mem::take(&mut self.faulty);
        for member in faulty.clone() {
            self.show_own(&Hint::Fault { member: &member, fault: "heal" })?;
            crate::faults::heal(self.console, &self.bed.place, &member).await?;
        }
        for name in std::mem::take(&mut self.exposed) {
            self.show_own(&Hint::Unexpose(&name))?;
            self.bed.supervisor.unexpose(&name).await?;
        }
        let mapper = RestMapper::new(self.plane.clone());
        let made: Vec<Object> = std::mem::take(&mut self.made).into_iter().rev().collect();
        let mut targets = Vec::new();
        for object in &made {
            let target = ResourceRef::of(&mapper.resource_of(&object.gvk()).await?.gvr, object);
            let plural = target.gvr.resource.clone();
            let namespace = object.namespace();
            let place = if namespace.is_empty() { String::new() } else { format!(" -n {namespace}") };
            let config = self.bed.place.plane_config();
            let line = format!("kubectl --kubeconfig {} delete {plural}{place} {}", config.display(), object.name());
            self.console.line(format!("$ {line}"))?;
            match self.plane.delete(target.clone(), DeleteOptions::default()).await {
                Err(status) if !status.is_not_found() => return Err(status.into()),
                _ => targets.push(target),
            }
        }
        let plane = self.plane.clone();
        self.wait("all objects of the demo are deleted", CROSSING, async || {
            for target in &targets {
                if let Some(left) = plane.find(target.clone()).await? {
                    return Ok(Err(format!("{} {} is still there", left.kind(), left.name())));
                }
            }
            Ok(Ok(()))
        })
        .await?;
        for member in faulty {
            let (plane, what) = (self.plane.clone(), format!("{member} is ready again"));
            self.wait(&what, CROSSING, async || match crate::registration::readiness(&plane, &member).await? {
                Readiness::Ready => Ok(Ok(())),
                Readiness::NotReady(reason) => Ok(Err(reason)),
            })
            .await?;
        }
        Ok(())
    }
}

/// Returns the object, or the reason to wait.
pub async fn object_in(client: &ClusterClient, target: ResourceRef) -> anyhow::Result<Result<Arc<Object>, String>> {
    let name = target.name.clone().unwrap_or_default();
    Ok(client.find(target).await?.ok_or_else(|| format!("{name} does not exist")))
}

fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}
