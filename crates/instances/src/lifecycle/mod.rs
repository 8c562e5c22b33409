//! The instance-lifecycle controller: brings planes to the state that their `Karmada` objects ask for.
//!
//! It owns the finalizer, the status and the Secret `…-admin-config` of an instance, its directory and its plane. A change of
//! the object, of a Secret it refers to, or the end of its plane wakes it.

mod gather;
mod left_data;
mod owner;
mod removal;
mod restore;
mod start;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use cluster_client::ClusterClient;
use jiff::Timestamp;
use manager_kinds::annotations::Mode;
use manager_kinds::instance::{FINALIZER, LABEL_KEEP};
use manager_kinds::{INSTANCE_NAMESPACE, KARMADAS};
use object::Object;
use parking_lot::Mutex;
use reconcile::{
    Controller, Mirror, MirrorSpec, ObjectKey, Outcome, Priority, ReconcileError, Source, commit_object, commit_status,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::data_dir::InstanceDirs;
use crate::decide::{self, LifecycleDecision, Step};
use crate::import::EndpointPolicy;
use crate::plane::{Connection, Ended, PlaneFactory};
use crate::replica::{OtherReplicas, ReplicaContext};
use crate::running::{RunningInstance, RunningInstances};
use crate::status::{Report, with_status};
use crate::{process, secrets};

use gather::Gathered;

const FIELD_MANAGER: &str = "flotilla-manager";
/// Starts that run at the same time. A plane that hangs while it starts holds one.
const WORKERS: usize = 16;
/// Interval of probes of planes in other processes.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// Interval of probes of planes in this process: they report their end themselves, only a plane that hangs does not.
const OWN_PROBE_INTERVAL: Duration = Duration::from_secs(10);
/// Longest wait for the end of a plane. One that hangs keeps its task, and its store stays locked.
const STOP_TIMEOUT: Duration = Duration::from_secs(40);
const TRASH_INTERVAL: Duration = Duration::from_secs(3600);
/// Longest wait for a hibernating plane.
const WAKE_TIMEOUT: Duration = Duration::from_secs(20);

/// Clients, settings and state of the controller.
pub struct LifecycleDeps {
    /// The manager's own API, with all rights.
    pub client: ClusterClient,
    pub factory: Arc<dyn PlaneFactory>,
    pub dirs: InstanceDirs,
    /// URL of the manager, for kubeconfigs.
    pub manager_url: String,
    pub manager_ca_pem: String,
    /// Address for planes with a port of their own.
    pub bind: IpAddr,
    pub endpoints: EndpointPolicy,
    pub running: Arc<RunningInstances>,
    pub replica_context: ReplicaContext,
}

/// The controller. Clones share everything.
#[derive(Clone)]
pub struct Lifecycle {
    deps: Arc<LifecycleDeps>,
    karmadas: Mirror,
    secrets: Mirror,
    controller: Controller<ObjectKey>,
    /// When this replica last acted for one that does not answer, by UID of the instance.
    acted_for: Arc<Mutex<HashMap<String, Instant>>>,
}

/// Returns the path segment that names an instance in URLs.
pub fn path_name(key: &ObjectKey) -> String {
    if key.namespace == INSTANCE_NAMESPACE { key.name.clone() } else { format!("{}~{}", key.namespace, key.name) }
}

impl Lifecycle {
    pub fn new(deps: LifecycleDeps, cancel: &CancellationToken) -> Self {
        let mirror = |spec| Mirror::start(deps.client.clone(), spec, cancel.clone());
        let karmadas = mirror(MirrorSpec::new(&KARMADAS.gvr()));
        let secrets = mirror(MirrorSpec::new(&secrets::secrets()));
        let controller = Controller::new("instance-lifecycle");
        Self { karmadas, secrets, deps: Arc::new(deps), controller, acted_for: Arc::default() }
    }

    /// The instances, as the API has them.
    pub fn karmadas(&self) -> &Mirror {
        &self.karmadas
    }

    pub fn running(&self) -> &Arc<RunningInstances> {
        &self.deps.running
    }

    /// Returns this replica among those of the manager.
    pub fn replica_context(&self) -> &ReplicaContext {
        &self.deps.replica_context
    }

    /// Runs until cancelled, on every replica. Planes in this process go on until [`Lifecycle::stop_planes`].
    pub async fn run(self, cancel: CancellationToken) {
        let terms = tokio::spawn(self.clone().follow_terms(cancel.clone()));
        let trash = tokio::spawn(self.clone().empty_trash(cancel.clone()));
        let known = self.karmadas.clone();
        let of_secret = Source::new(&self.secrets, move |change| {
            let secret = change.now.as_ref().or(change.before.as_ref());
            let Some(secret) = secret else { return Vec::new() };
            let users = known.list_within(secret.namespace());
            users
                .iter()
                .filter(|instance| gather::refers_to(instance, secret.name()))
                .map(|i| ObjectKey::of(i))
                .collect()
        });
        let sources = vec![Source::each(&self.karmadas), of_secret];
        let own = self.clone();
        let reconcile = move |key: ObjectKey| {
            let own = own.clone();
            async move { own.reconcile(&key).await }
        };
        self.controller.clone().run(sources, WORKERS, cancel, reconcile).await;
        let _ = tokio::join!(trash, terms);
    }

    /// Stops all planes of this process, in parallel. Planes in processes of their own go on.
    pub async fn stop_planes(&self) {
        let mut stopping = tokio::task::JoinSet::new();
        for instance in self.deps.running.all() {
            self.deps.running.remove(&instance.uid);
            if instance.mode == Mode::InProcess {
                stopping.spawn(async move { instance.task.stop().await });
            }
        }
        while stopping.join_next().await.is_some() {}
    }

    /// Returns the running plane of an instance, and starts a hibernating one.
    pub async fn wake(&self, instance: &Object) -> Option<Arc<RunningInstance>> {
        if let Some(running) = self.deps.running.get(instance.uid()) {
            return Some(running);
        }
        if instance.str_at(&["status", "phase"]) != decide::Phase::Hibernated.name() {
            return None;
        }
        self.deps.running.ask_to_wake(instance.uid());
        self.controller.queue().add(ObjectKey::of(instance), Priority::NORMAL).await;
        self.deps.running.until_running(instance.uid(), WAKE_TIMEOUT).await
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let current = self.karmadas.get(key);
        self.stop_others(key, current.as_deref().map(Object::uid)).await;
        let Some(instance) = current else { return Ok(Outcome::Done) };
        if let Some(outcome) = self.yield_to_other(&instance).await {
            return Ok(outcome);
        }
        let gathered = self.gather(instance).await;
        let decision = decide::decide(&gathered.inputs());
        tracing::debug!(instance = %key, step = ?decision.step, phase = decision.phase.name(), "decided");
        self.perform(&gathered, decision).await
    }

    /// Stops planes of earlier objects with the same name.
    async fn stop_others(&self, key: &ObjectKey, uid: Option<&str>) {
        for other in self.deps.running.all() {
            if other.key == *key && Some(other.uid.as_str()) != uid {
                self.deps.running.remove(&other.uid);
                other.task.stop().await;
            }
        }
    }

    async fn perform(&self, gathered: &Gathered, decision: LifecycleDecision) -> Result<Outcome, ReconcileError> {
        let uid = gathered.instance.uid();
        match decision.step {
            Step::Adopt => self.adopt(gathered).await,
            Step::Remove { keeps_plane } => {
                self.report(gathered, &decision, None).await?;
                self.remove(gathered, keeps_plane).await
            }
            Step::Forget => {
                self.stop_running(uid).await;
                let directory = self.deps.dirs.of(uid);
                tracing::warn!(directory = %directory.display(), "the finalizer was removed by hand: the data is left");
                Ok(Outcome::Done)
            }
            Step::Stop => {
                // Reported first: a request that comes now finds the instance hibernated and wakes it.
                self.report(gathered, &decision, None).await?;
                self.stop_running(uid).await;
                Ok(Outcome::Done)
            }
            Step::Restart => {
                self.stop_running(uid).await;
                self.deps.running.forget_failures(uid);
                self.start_and_report(gathered, &decision).await
            }
            Step::GiveUp => {
                self.report(gathered, &decision, None).await?;
                self.stop_running(uid).await;
                self.note_failure(gathered, decision.message);
                self.controller.queue().add(ObjectKey::of(&gathered.instance), Priority::NORMAL).await;
                Ok(Outcome::Done)
            }
            Step::Start => self.start_and_report(gathered, &decision).await,
            Step::Nothing => {
                let running = self.deps.running.get(uid);
                self.report(gathered, &decision, running.as_deref()).await?;
                let probe = running.map(|running| match running.connection {
                    Connection::InProcess(_) => OWN_PROBE_INTERVAL,
                    Connection::Remote(_) => PROBE_INTERVAL,
                });
                let waits = [decision.again, probe];
                Ok(waits.into_iter().flatten().min().map_or(Outcome::Done, Outcome::After))
            }
        }
    }

    async fn adopt(&self, gathered: &Gathered) -> Result<Outcome, ReconcileError> {
        let instance = &gathered.instance;
        let mut adopted = Object::clone(instance);
        adopted.add_finalizer(FINALIZER);
        if adopted.label(LABEL_KEEP).is_none() {
            adopted.set_label(LABEL_KEEP, "false");
        }
        let target = self.karmadas.target(&ObjectKey::of(instance));
        commit_object(&gathered.writer, target, instance, &adopted, FIELD_MANAGER).await?;
        Ok(Outcome::Done)
    }

    async fn start_and_report(
        &self,
        gathered: &Gathered,
        decision: &LifecycleDecision,
    ) -> Result<Outcome, ReconcileError> {
        self.report(gathered, decision, None).await?;
        match self.start(gathered).await {
            Ok(started) => {
                let running = self.deps.running.insert(started);
                self.watch_end(&running);
            }
            Err(problem) => {
                tracing::warn!(instance = %ObjectKey::of(&gathered.instance), error = problem, "cannot start an instance");
                self.note_failure(gathered, problem);
            }
        }
        // The object has a new version; its change brings the key back, and this adds the state that is not in it.
        self.controller.queue().add(ObjectKey::of(&gathered.instance), Priority::NORMAL).await;
        Ok(Outcome::Done)
    }

    fn note_failure(&self, gathered: &Gathered, problem: String) {
        self.deps.running.failed(gathered.instance.uid(), problem, gathered.started_with());
    }

    /// Brings the key back when the plane ends by itself.
    fn watch_end(&self, running: &Arc<RunningInstance>) {
        let (running, controller) = (Arc::clone(running), self.controller.clone());
        tokio::spawn(async move {
            if let Ended::Broken(problem) = running.task.ended().await {
                tracing::error!(instance = %running.key, problem, "the control plane of an instance has ended");
                controller.queue().add(running.key.clone(), Priority::NORMAL).await;
            }
        });
    }

    async fn stop_running(&self, uid: &str) {
        let Some(running) = self.deps.running.remove(uid) else { return };
        if tokio::time::timeout(STOP_TIMEOUT, running.task.stop()).await.is_err() {
            tracing::error!(instance = %running.key, "the control plane of an instance does not stop");
        }
    }

    async fn report(
        &self,
        gathered: &Gathered,
        decision: &LifecycleDecision,
        running: Option<&RunningInstance>,
    ) -> Result<(), ReconcileError> {
        let instance = &gathered.instance;
        let key = ObjectKey::of(instance);
        let secret = match running {
            Some(running) => self.write_admin_config(gathered, running).await?,
            None => None,
        };
        let endpoint = format!("{}/instances/{}", self.deps.manager_url, path_name(&key));
        let has_directory = gathered.settings.mode != Mode::Imported;
        let report = Report {
            decision,
            running,
            ignored: &gathered.ignored,
            secret: secret.as_deref(),
            mode: gathered.settings.mode.name(),
            endpoint: &endpoint,
            directory: has_directory.then(|| self.deps.dirs.of(instance.uid()).display().to_string()),
            replica: self.deps.replica_context.replicas.as_deref().map(OtherReplicas::own),
            now: Timestamp::now(),
        };
        // Read again: an earlier step of this reconcile may have written, and the mirror follows with a delay.
        let writer = &gathered.writer;
        let Some(current) = writer.find(self.karmadas.target(&key)).await? else { return Ok(()) };
        if current.uid() != instance.uid() {
            return Ok(());
        }
        let desired = with_status(&current, &report);
        commit_status(writer, self.karmadas.target(&key), &current, &desired, FIELD_MANAGER).await?;
        Ok(())
    }

    /// Planes of this process are reached through the manager, with the plane's own credential; others at their own address.
    async fn write_admin_config(
        &self,
        gathered: &Gathered,
        running: &RunningInstance,
    ) -> Result<Option<String>, ReconcileError> {
        let instance = &gathered.instance;
        let Some(own) = &running.kubeconfig else {
            return Ok(gathered_import_secret(instance));
        };
        let text = match running.connection {
            Connection::InProcess(_) => {
                let url = format!("{}/instances/{}", self.deps.manager_url, path_name(&running.key));
                secrets::admin_kubeconfig(own, &url, &self.deps.manager_ca_pem)
            }
            Connection::Remote(_) => std::fs::read_to_string(own).map_err(|error| error.to_string()),
        };
        let text = text.map_err(ReconcileError::Other)?;
        Ok(Some(secrets::write_admin_config(&gathered.writer, instance, &text).await?))
    }

    async fn empty_trash(self, cancel: CancellationToken) {
        loop {
            if let Err(error) = self.discard_left_data().await {
                tracing::warn!(%error, "cannot remove data of instances that were deleted meanwhile; will retry");
            }
            match self.deps.dirs.empty_trash(Timestamp::now()) {
                Ok(removed) if removed.is_empty() => {}
                Ok(removed) => {
                    tracing::info!(directories = removed.len(), "removed the data of instances deleted a week ago")
                }
                Err(error) => tracing::warn!(%error, "cannot remove the data of deleted instances"),
            }
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(TRASH_INTERVAL) => {}
            }
        }
    }
}

/// The Secret an imported instance was created with is its administrator's kubeconfig.
fn gathered_import_secret(instance: &Object) -> Option<String> {
    manager_kinds::annotations::read(instance).0.import.map(|import| import.name)
}

/// Ends the process of an instance that no manager watches any more.
async fn end_stray_process(dirs: &InstanceDirs, uid: &str) {
    process::end_stray(&dirs.of(uid)).await;
}

#[cfg(test)]
mod tests;
