//! Collects what a decision about one instance depends on.

use std::sync::Arc;

use api::cluster::CLUSTERS;
use cluster_client::{ClusterClient, ListOptions, ResourceRef};
use manager_kinds::annotations::{self, InstanceSettings, Mode};
use manager_kinds::instance::{FINALIZER, keeps_plane};
use manager_kinds::spec::{self, PlaneSpec};
use object::Object;
use reconcile::ObjectKey;

use super::Lifecycle;
use crate::backups::backup_file;
use crate::decide::{Clusters, FailedStart, Inputs, Phase, RunningFacts, StartedWith, needs_clusters};
use crate::etcd_location::{self, Compared};
use crate::existing_data::{self, DataFacts};
use crate::plane::Ended;
use crate::probe::{PROBE_TIMEOUT, probe};
use crate::running::RunningInstance;

/// The state of one instance.
pub struct Gathered {
    pub instance: Arc<Object>,
    pub settings: InstanceSettings,
    pub spec: PlaneSpec,
    pub ignored: Vec<String>,
    pub fingerprint: String,
    /// Writes are refused when this replica may not act on the instance any longer.
    pub writer: ClusterClient,
    spec_problem: Option<String>,
    running: Option<RunningFacts>,
    clusters: Clusters,
    is_woken: bool,
    failure: Option<FailedStart>,
    missing_data: Option<String>,
}

impl Gathered {
    /// The settings and requests that a start now has.
    pub fn started_with(&self) -> StartedWith {
        StartedWith {
            fingerprint: self.fingerprint.clone(),
            restarted_at: self.settings.restarted_at.clone(),
            hibernated_at: self.settings.hibernated_at.clone(),
        }
    }

    pub fn inputs(&self) -> Inputs<'_> {
        Inputs {
            is_deleting: self.instance.is_deleting(),
            has_finalizer: self.instance.has_finalizer(FINALIZER),
            keeps_plane: keeps_plane(&self.instance),
            was_hibernated: self.instance.str_at(&["status", "phase"]) == Phase::Hibernated.name(),
            settings: &self.settings,
            spec: &self.spec,
            spec_problem: self.spec_problem.clone(),
            fingerprint: self.fingerprint.clone(),
            running: self.running.clone(),
            clusters: self.clusters.clone(),
            is_woken: self.is_woken,
            failure: self.failure.clone(),
            missing_data: self.missing_data.clone(),
        }
    }
}

/// Returns the names of the Secrets an instance was configured with.
fn referred_secrets(instance: &Object) -> Vec<String> {
    let (settings, _) = annotations::read(instance);
    let plane = spec::read(instance, settings.mode).plane;
    let etcd = plane.etcd.and_then(|etcd| etcd.secret);
    [settings.import.map(|import| import.name), plane.ca_secret, etcd].into_iter().flatten().collect()
}

pub fn refers_to(instance: &Object, secret: &str) -> bool {
    referred_secrets(instance).iter().any(|name| name == secret)
}

impl Lifecycle {
    pub(super) async fn gather(&self, instance: Arc<Object>) -> Gathered {
        let (settings, mut errors) = annotations::read(&instance);
        let reading = spec::read(&instance, settings.mode);
        errors.extend(reading.errors);
        let mut problems: Vec<String> = errors.iter().map(ToString::to_string).collect();
        if let Err(problem) = self.deps.factory.check(&reading.plane.flags) {
            problems.push(problem);
        }
        // Admission refuses this, but two instances may have been admitted at the same time.
        if reading.plane.etcd.is_some() {
            let conflict = etcd_location::conflict(&instance, &self.karmadas.list(), Compared::Older);
            problems.extend(conflict.map(|error| error.to_string()));
        }
        let fingerprint = self.fingerprint(&instance, &settings, &reading.plane);
        let running = self.deps.running.get(instance.uid());
        if let Some(running) = &running {
            probe(running).await;
        }
        let wants_clusters = needs_clusters(instance.is_deleting(), keeps_plane(&instance), &settings);
        let clusters = match running.as_deref().filter(|_| wants_clusters) {
            Some(running) => joined_clusters(running).await,
            None => Clusters::NotAsked,
        };
        let missing_data = match &running {
            None => existing_data::missing(&self.data_facts(&instance, &settings, &reading.plane)),
            Some(_) => None,
        };
        Gathered {
            settings,
            spec: reading.plane,
            ignored: reading.ignored,
            fingerprint,
            writer: self.writer(&instance),
            spec_problem: (!problems.is_empty()).then(|| problems.join("; ")),
            running: running.as_deref().map(facts),
            clusters,
            is_woken: self.deps.running.is_woken(instance.uid()),
            failure: self.deps.running.failure(instance.uid()),
            missing_data,
            instance,
        }
    }

    fn data_facts(&self, instance: &Object, settings: &InstanceSettings, plane: &PlaneSpec) -> DataFacts {
        let dirs = &self.deps.dirs;
        let restores = |id: &String| backup_file(&dirs.backups(instance.uid()), id).is_file();
        DataFacts {
            was_ready: existing_data::was_ready(instance),
            is_local: settings.mode != Mode::Imported && plane.etcd.is_none(),
            is_here: dirs.has_plane(instance.uid()),
            can_restore: settings.restore.as_ref().is_some_and(restores),
            directory: dirs.of(instance.uid()),
            last_directory: instance.str_at(&["status", "directory"]).to_owned(),
        }
    }

    /// Everything that a plane is started with. A difference means that it has to be restarted.
    fn fingerprint(&self, instance: &Object, settings: &InstanceSettings, plane: &PlaneSpec) -> String {
        let versions: Vec<String> = referred_secrets(instance)
            .iter()
            .filter_map(|name| self.secrets.get(&ObjectKey::new(instance.namespace(), name)))
            .map(|secret| format!("{}@{}", secret.name(), secret.resource_version()))
            .collect();
        let PlaneSpec { flags, etcd, ca_secret, has_own_port, .. } = plane;
        format!(
            "{:?}",
            (
                settings.mode,
                flags,
                etcd,
                ca_secret,
                has_own_port,
                &settings.expose,
                &settings.import,
                &settings.restore,
                versions
            )
        )
    }
}

fn facts(running: &RunningInstance) -> RunningFacts {
    let health = running.health.lock().clone();
    RunningFacts {
        started_with: running.started_with.clone(),
        broken: match running.task.has_ended() {
            Some(Ended::Broken(problem)) => Some(problem),
            Some(Ended::Stopped) => Some("it was stopped".to_owned()),
            None => None,
        },
        ran_for: running.running_since.elapsed(),
        idle: running.activity.idle(),
        failed_probes: health.failures,
        unanswered_probes: health.unanswered,
        probe_message: health.message,
        full_storage: health.full_storage,
    }
}

async fn joined_clusters(running: &RunningInstance) -> Clusters {
    let listing = running.admin.list_all(ResourceRef::all(&CLUSTERS.gvr()), ListOptions::default());
    match tokio::time::timeout(PROBE_TIMEOUT, listing).await {
        Ok(Ok(list)) => Clusters::Count(list.items.len()),
        Ok(Err(status)) => Clusters::Unknown(status.to_string()),
        Err(_) => Clusters::Unknown("no answer".to_owned()),
    }
}
