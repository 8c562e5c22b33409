//! Collects what a decision about one instance depends on.

use std::sync::Arc;
use std::time::Duration;

use api::cluster::CLUSTERS;
use bytes::Bytes;
use cluster_client::{ListOptions, ResourceRef};
use manager_kinds::annotations::{self, InstanceSettings, Mode};
use manager_kinds::instance::{FINALIZER, keeps_plane};
use manager_kinds::spec::{self, PlaneSpec};
use object::Object;
use reconcile::ObjectKey;

use super::Lifecycle;
use crate::decide::{Clusters, Inputs, Phase, RunningFacts, needs_clusters};
use crate::plane::{Connection, Ended};
use crate::running::RunningInstance;

const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The state of one instance.
pub struct Gathered {
    pub instance: Arc<Object>,
    pub settings: InstanceSettings,
    pub spec: PlaneSpec,
    pub ignored: Vec<String>,
    pub fingerprint: String,
    spec_problem: Option<String>,
    running: Option<RunningFacts>,
    clusters: Clusters,
    is_woken: bool,
    failure: Option<(u32, String, Duration)>,
}

impl Gathered {
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
        let failure = self.deps.running.failure(instance.uid());
        Gathered {
            settings,
            spec: reading.plane,
            ignored: reading.ignored,
            fingerprint,
            spec_problem: (!problems.is_empty()).then(|| problems.join("; ")),
            running: running.as_deref().map(facts),
            clusters,
            is_woken: self.deps.running.is_woken(instance.uid()),
            failure: failure.map(|failure| (failure.count, failure.message.clone(), failure.wait())),
            instance,
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
        idle: running.activity.idle(),
        failed_probes: health.failures,
        probe_message: health.message,
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

/// Asks a plane in another process whether it is ready. Planes of this process report their end themselves.
async fn probe(running: &RunningInstance) {
    if running.mode == Mode::InProcess || matches!(running.connection, Connection::InProcess(_)) {
        return;
    }
    let Ok(request) = http::Request::get("/readyz").body(Bytes::new()) else { return };
    let problem = match tokio::time::timeout(PROBE_TIMEOUT, running.admin.raw(request)).await {
        Ok(Ok(answer)) if answer.status().is_success() => None,
        Ok(Ok(answer)) => Some(format!("/readyz answered {}", answer.status())),
        Ok(Err(status)) => Some(status.to_string()),
        Err(_) => Some(format!("/readyz did not answer within {PROBE_TIMEOUT:?}")),
    };
    let mut health = running.health.lock();
    match problem {
        None => *health = Default::default(),
        Some(message) => {
            health.failures += 1;
            health.message = message;
        }
    }
}
