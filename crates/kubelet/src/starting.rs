//! Starts one container: pulls its image, builds its configuration, creates it, runs its postStart hook.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object::Object;
use reconcile::ObjectKey;
use serde_json::Value;

use crate::container::{ContainerInputs, container_config};
use crate::cri::image_messages::Image;
use crate::cri::messages::CreateContainerRequest;
use crate::decide::Start;
use crate::env::variables;
use crate::handlers::{HandlerTarget, run};
use crate::images::{Presence, gather_keys, presence, pull, refused};
use crate::node::KubeletNode;
use crate::observed::{Sandbox, gather_observed};
use crate::pod::{container, text, uses_host_network};
use crate::references::gather_for_environment;
use crate::sandbox::{hosts_file, sandbox_config};
use crate::state::Cause;
use crate::status::WaitingReason;
use crate::sync::PodSync;
use crate::volumes::pod_folder;

/// Timeout of a postStart hook.
const HOOK_TIMEOUT: Duration = Duration::from_secs(600);

/// The reason why a container did not start, and its kind of backoff.
struct StartFailure {
    waiting: WaitingReason,
    cause: Option<Cause>,
}

impl StartFailure {
    fn new(reason: &str, message: String, cause: Option<Cause>) -> Self {
        Self { waiting: WaitingReason { reason: reason.to_owned(), message }, cause }
    }
}

/// A container being started.
struct Starting {
    node: Arc<KubeletNode>,
    key: ObjectKey,
    pod: Arc<Object>,
    container: Arc<Value>,
    start: Start,
    sandbox: Sandbox,
}

impl PodSync {
    /// Starts a container in a background task, since the pull may take long.
    pub fn start(&self, start: Start, sandbox: &Sandbox) {
        let Some((_, container)) = container(&self.pod, &start.name) else { return };
        let ending = self.node.states.with(self.pod.uid(), |state| {
            state.busy.insert(start.name.clone());
            state.ending.clone()
        });
        let starting = Starting {
            node: Arc::clone(&self.node),
            key: self.key.clone(),
            pod: Arc::clone(&self.pod),
            container: Arc::new(container.clone()),
            start,
            sandbox: sandbox.clone(),
        };
        tokio::spawn(async move {
            let result = tokio::select! {
                () = ending.cancelled() => Ok(()),
                result = starting.go() => result,
            };
            starting.settle(result);
        });
    }
}

impl Starting {
    fn name(&self) -> &str {
        &self.start.name
    }

    fn settle(&self, result: Result<(), StartFailure>) {
        let name = self.name();
        self.node.states.with_known(self.pod.uid(), |state| {
            state.busy.remove(name);
            match result {
                Ok(()) => {
                    state.waiting.remove(name);
                    // Crashes are not reset by starting, only by running long enough.
                    if state.backoffs.get(name).is_some_and(|backoff| backoff.cause != Cause::Crash) {
                        state.backoffs.remove(name);
                    }
                }
                Err(failure) => {
                    tracing::debug!(pod = %self.key, container = name, ?failure.waiting, "container did not start");
                    state.waiting.insert(name.to_owned(), failure.waiting);
                    if let Some(cause) = failure.cause {
                        state.note_failure(name, cause);
                    }
                }
            }
        });
        self.node.wake(&self.key);
    }

    async fn go(&self) -> Result<(), StartFailure> {
        let image = self.image().await?;
        let request = self.request(&image).await.map_err(|why| {
            self.node.recorder.warning(&*self.pod, "Failed", format!("Error: {why}"));
            StartFailure::new("CreateContainerConfigError", why, Some(Cause::Settings))
        })?;
        self.sweep().await;
        let (node, name) = (&self.node, self.name());
        let id = node.runtime.create_container(request).await.map_err(|error| {
            let message = error.to_string();
            node.recorder.warning(&*self.pod, "Failed", format!("Error: {message}"));
            StartFailure::new("CreateContainerError", message, Some(Cause::Settings))
        })?;
        node.recorder.normal(&*self.pod, "Created", format!("Created container: {name}"));
        // The runtime keeps a container that failed to start as exited, so it is counted like any other exit.
        node.runtime.start_container(&id).await.map_err(|error| {
            let message = error.to_string();
            node.recorder.warning(&*self.pod, "Failed", format!("Error: {message}"));
            StartFailure::new("RunContainerError", message, None)
        })?;
        node.recorder.normal(&*self.pod, "Started", format!("Started container {name}"));
        self.node.states.with_known(self.pod.uid(), |state| state.waiting.remove(name));
        node.wake(&self.key);
        self.run_post_start_hook(&id).await
    }

    /// Returns the image, after pulling it if needed.
    async fn image(&self) -> Result<Image, StartFailure> {
        let (node, image) = (&self.node, text(&self.container, "image"));
        let here = node.runtime.image(image).await;
        let here = here.map_err(|e| StartFailure::new("ImageInspectError", e.to_string(), Some(Cause::Pull)))?;
        match (presence(text(&self.container, "imagePullPolicy"), here.is_some()), here) {
            (Presence::Use, Some(here)) => {
                let message = format!("Container image {image:?} already present on machine");
                node.recorder.normal(&*self.pod, "Pulled", message);
                Ok(here)
            }
            (Presence::Refuse, _) => {
                let waiting = refused(image);
                node.recorder.warning(&*self.pod, "ErrImageNeverPull", waiting.message.clone());
                Err(StartFailure { waiting, cause: Some(Cause::Settings) })
            }
            _ => self.pull(image).await,
        }
    }

    async fn pull(&self, image: &str) -> Result<Image, StartFailure> {
        let node = &self.node;
        let keys = gather_keys(&node.client, &self.pod, image).await;
        node.recorder.normal(&*self.pod, "Pulling", format!("Pulling image {image:?}"));
        let begun = tokio::time::Instant::now();
        // The semaphore is never closed.
        let _turn = node.pulls.acquire().await.ok();
        match pull(&node.runtime, image, &keys).await {
            Ok(pulled) => {
                let message = format!(
                    "Successfully pulled image {image:?} in {}ms. Image size: {} bytes.",
                    begun.elapsed().as_millis(),
                    pulled.size
                );
                node.recorder.normal(&*self.pod, "Pulled", message);
                Ok(pulled)
            }
            Err(waiting) => {
                let message = format!("Failed to pull image {image:?}: {}", waiting.message);
                node.recorder.warning(&*self.pod, "Failed", message);
                node.recorder.warning(&*self.pod, "Failed", format!("Error: {}", waiting.reason));
                Err(StartFailure { waiting, cause: Some(Cause::Pull) })
            }
        }
    }

    /// Returns the create request; the error is the message for users.
    async fn request(&self, image: &Image) -> Result<CreateContainerRequest, String> {
        let (node, pod) = (&self.node, &self.pod);
        let pod_ips = node.pod_ips(pod, &self.sandbox.ips);
        let facts = node.facts(pod_ips.clone());
        let references = gather_for_environment(&node.client, pod).await.map_err(|e| e.to_string())?;
        let variables = variables(pod, &self.container, &references, &facts, node.api_address())?;
        let mounted = node.states.with(pod.uid(), |state| state.mounted.clone()).unwrap_or_default();
        let failed = |e: std::io::Error| e.to_string();
        let inputs = ContainerInputs {
            pod,
            container: &self.container,
            attempt: self.start.attempt,
            image_ref: &image.id,
            image_user: image.uid.as_ref().map(|uid| uid.value),
            image_user_name: &image.username,
            variables: &variables,
            mounted: &mounted,
            hosts_file: self.hosts_file(&pod_ips).map_err(failed)?,
            termination_log: self.termination_log().map_err(failed)?,
            node_memory_bytes: node.machine.memory_bytes,
            target_id: self.target().await,
        };
        let mut config = container_config(&inputs)?;
        // The runtime reports the image by the name that was requested.
        if let Some(spec) = &mut config.image {
            spec.image.clone_from(&image.id);
        }
        let log_directory = node.log_directory(pod.namespace(), pod.name(), pod.uid());
        fs::create_dir_all(log_directory.join(self.name())).map_err(failed)?;
        let cgroup = node.cgroup_of(pod.uid());
        let sandbox_config = sandbox_config(pod, self.sandbox.attempt, &log_directory, &cgroup, &node.resolving);
        Ok(CreateContainerRequest {
            pod_sandbox_id: self.sandbox.id.clone(),
            config: Some(config),
            sandbox_config: Some(sandbox_config),
        })
    }

    /// Returns the target container of an ephemeral container, if it runs.
    async fn target(&self) -> Option<String> {
        let name = Some(text(&self.container, "targetContainerName")).filter(|name| !name.is_empty())?;
        let mut all = gather_observed(&self.node.runtime, &self.key).await.ok()?;
        let observed = all.remove(self.pod.uid())?;
        observed.running().find(|seen| seen.name == name).map(|seen| seen.id.clone())
    }

    /// Not for pods on the host network, which use the host's file.
    fn hosts_file(&self, pod_ips: &[String]) -> std::io::Result<Option<PathBuf>> {
        if uses_host_network(&self.pod) && self.pod.items(&["spec", "hostAliases"]).is_empty() {
            return Ok(None);
        }
        let path = pod_folder(&self.node.settings.root_dir, self.pod.uid()).join("etc-hosts");
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        fs::write(&path, hosts_file(&self.pod, pod_ips, &self.node.settings.cluster_domain))?;
        Ok(Some(path))
    }

    fn termination_log(&self) -> std::io::Result<PathBuf> {
        let path = termination_log(&self.node, self.pod.uid(), self.name(), self.start.attempt);
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        fs::write(&path, "")?;
        // Writable by any user of the container.
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666))?;
        Ok(path)
    }

    /// Removes old attempts except the last one, kept for `logs --previous` and `lastState`.
    async fn sweep(&self) {
        let labels = crate::sandbox::labels(&self.pod);
        let Ok(containers) = self.node.runtime.list_containers(labels).await else { return };
        let directory = self.node.log_directory(self.pod.namespace(), self.pod.name(), self.pod.uid());
        for container in containers {
            let metadata = container.metadata.unwrap_or_default();
            if metadata.name != self.name() || metadata.attempt + 1 >= self.start.attempt {
                continue;
            }
            let removed = self.node.runtime.remove_container(&container.id).await;
            if let Err(error) = removed {
                tracing::debug!(pod = %self.key, %error, "failed to remove old container");
                continue;
            }
            let _ = fs::remove_file(directory.join(self.name()).join(format!("{}.log", metadata.attempt)));
            let _ = fs::remove_file(termination_log(&self.node, self.pod.uid(), self.name(), metadata.attempt));
        }
    }

    /// Runs the postStart hook; if it fails, the container is stopped.
    async fn run_post_start_hook(&self, id: &str) -> Result<(), StartFailure> {
        let Some(hook) = self.container.get("lifecycle").and_then(|lifecycle| lifecycle.get("postStart")) else {
            return Ok(());
        };
        let target = HandlerTarget {
            runtime: self.node.runtime.clone(),
            container_id: id.to_owned(),
            container: Arc::clone(&self.container),
            address: self.node.pod_ips(&self.pod, &self.sandbox.ips).first().cloned().unwrap_or_default(),
        };
        let Err(why) = run(hook, &target, HOOK_TIMEOUT).await else { return Ok(()) };
        let message = format!("PostStartHook failed: {why}");
        self.node.recorder.warning(&*self.pod, "FailedPostStartHook", message.clone());
        let grace = Duration::from_secs(crate::pod::grace_seconds(&self.pod));
        if let Err(error) = self.node.runtime.stop_container(id, grace).await {
            tracing::warn!(pod = %self.key, %error, "failed to stop container after a failed postStart hook");
        }
        Err(StartFailure::new("PostStartHookError", message, None))
    }
}

/// Returns the path of a container's termination log on this machine.
pub(crate) fn termination_log(node: &KubeletNode, uid: &str, name: &str, attempt: u32) -> PathBuf {
    pod_folder(&node.settings.root_dir, uid).join("containers").join(name).join(format!("{attempt}.last-words"))
}
