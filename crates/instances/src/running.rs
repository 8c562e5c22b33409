//! The instances that run now, by UID. Objects may be deleted and created again under the same name; a UID is never reused.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use apiserver::direct::Direct;
use cluster_client::{Backend, ClusterClient, ConnectError, Endpoint, Identity, RemoteConfig, User};
use jiff::Timestamp;
use manager_kinds::annotations::Mode;
use parking_lot::{Mutex, RwLock};
use reconcile::ObjectKey;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::decide::{FailedStart, StartedWith};
use crate::plane::{Connection, PlaneTask};
use crate::replica::ReplicaName;

/// First wait after a failed start; doubles with each further failure.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(300);

/// A running instance.
pub struct RunningInstance {
    pub key: ObjectKey,
    pub uid: String,
    pub mode: Mode,
    pub connection: Connection,
    /// A client with all rights in the plane.
    pub admin: ClusterClient,
    /// The administrator's kubeconfig of the plane itself.
    pub kubeconfig: Option<PathBuf>,
    pub address: Option<SocketAddr>,
    /// The replica of the manager that runs it, if it is another one.
    pub replica: Option<ReplicaName>,
    pub started_with: StartedWith,
    pub started_at: Timestamp,
    /// The same on a clock that does not jump.
    pub running_since: Instant,
    pub start_millis: i64,
    /// UID of the plane's namespace kube-system.
    pub identity: String,
    /// Its data was restored from a backup.
    pub is_copy: bool,
    pub kubernetes_version: String,
    pub task: PlaneTask,
    pub activity: Activity,
    pub health: Arc<Mutex<Health>>,
    /// Namespaces whose role bindings exist, with the time they were checked.
    pub namespaces: Mutex<HashMap<String, Instant>>,
    /// Users that members of the instance accept.
    pub member_users: Mutex<HashSet<String>>,
}

impl RunningInstance {
    /// Returns a client to the plane as a user. Planes in other processes are asked to impersonate the user.
    pub fn client_as(&self, user: User) -> Result<ClusterClient, ConnectError> {
        match &self.connection {
            Connection::InProcess(server) => {
                let server: Arc<dyn Backend> = Arc::new(Direct::new(Arc::clone(server)));
                ClusterClient::connect(Endpoint::Direct { server, identity: Identity::of(user) })
            }
            Connection::Remote(remote) => {
                let config = RemoteConfig { impersonate: Some(user), ..remote.config.clone() };
                ClusterClient::connect(Endpoint::Remote(config))
            }
        }
    }
}

/// Result of the last probes.
#[derive(Clone, Debug, Default)]
pub struct Health {
    pub failures: u32,
    /// Failures at the end without any answer.
    pub unanswered: u32,
    pub message: String,
    /// Why the plane refuses writes although it answers: its storage has reached its size limit.
    pub full_storage: Option<String>,
    pub probed_at: Option<Instant>,
    /// A probe has been sent and has not ended yet.
    pub is_probing: bool,
}

/// Requests to an instance, to find out whether it is idle.
pub struct Activity {
    in_flight: AtomicUsize,
    last: Mutex<Instant>,
}

impl Default for Activity {
    fn default() -> Self {
        Self { in_flight: AtomicUsize::new(0), last: Mutex::new(Instant::now()) }
    }
}

impl Activity {
    /// Returns the time without requests; zero while there are some.
    pub fn idle(&self) -> Duration {
        match self.in_flight.load(Ordering::Acquire) {
            0 => self.last.lock().elapsed(),
            _ => Duration::ZERO,
        }
    }
}

/// Counts one request as long as it lives.
pub struct InFlight(Arc<RunningInstance>);

impl InFlight {
    pub fn begin(instance: &Arc<RunningInstance>) -> Self {
        instance.activity.in_flight.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(instance))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        *self.0.activity.last.lock() = Instant::now();
        self.0.activity.in_flight.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Starts of an instance in a row that failed, or after which it ended early.
#[derive(Clone, Debug)]
struct Failure {
    count: u32,
    message: String,
    until: Instant,
    tried_with: StartedWith,
}

/// All running instances of this process.
#[derive(Default)]
pub struct RunningInstances {
    by_uid: RwLock<HashMap<String, Arc<RunningInstance>>>,
    failures: Mutex<HashMap<String, Failure>>,
    woken: Mutex<HashSet<String>>,
    changes: watch::Sender<u64>,
}

impl RunningInstances {
    pub fn get(&self, uid: &str) -> Option<Arc<RunningInstance>> {
        self.by_uid.read().get(uid).cloned()
    }

    pub fn all(&self) -> Vec<Arc<RunningInstance>> {
        self.by_uid.read().values().cloned().collect()
    }

    pub fn insert(&self, instance: RunningInstance) -> Arc<RunningInstance> {
        let instance = Arc::new(instance);
        self.woken.lock().remove(&instance.uid);
        self.by_uid.write().insert(instance.uid.clone(), Arc::clone(&instance));
        self.changes.send_modify(|count| *count += 1);
        instance
    }

    /// Takes an instance out, so that it gets no more requests.
    pub fn remove(&self, uid: &str) -> Option<Arc<RunningInstance>> {
        let removed = self.by_uid.write().remove(uid);
        self.changes.send_modify(|count| *count += 1);
        removed
    }

    /// Returns another running instance of the same plane.
    pub fn other_of(&self, identity: &str, uid: &str) -> Option<Arc<RunningInstance>> {
        self.by_uid.read().values().find(|other| other.identity == identity && other.uid != uid).cloned()
    }

    pub fn failure(&self, uid: &str) -> Option<FailedStart> {
        let failures = self.failures.lock();
        let Failure { count, message, until, tried_with } = failures.get(uid)?.clone();
        Some(FailedStart { count, message, wait: until.saturating_duration_since(Instant::now()), tried_with })
    }

    /// Records a start that failed, or after which the plane ended early.
    pub fn failed(&self, uid: &str, message: String, tried_with: StartedWith) {
        let mut failures = self.failures.lock();
        let count = failures.get(uid).map_or(0, |failure| failure.count) + 1;
        let wait = BACKOFF_MIN.saturating_mul(1 << (count - 1).min(16)).min(BACKOFF_MAX);
        let failure = Failure { count, message, until: Instant::now() + wait, tried_with };
        failures.insert(uid.to_owned(), failure);
    }

    /// Forgets failed starts. A start alone is not enough: the plane may end again at once.
    pub fn forget_failures(&self, uid: &str) {
        self.failures.lock().remove(uid);
    }

    /// Asks for the start of a hibernating instance.
    pub fn ask_to_wake(&self, uid: &str) {
        self.woken.lock().insert(uid.to_owned());
    }

    pub fn is_woken(&self, uid: &str) -> bool {
        self.woken.lock().contains(uid)
    }

    /// Waits until an instance runs.
    pub async fn until_running(&self, uid: &str, wait: Duration) -> Option<Arc<RunningInstance>> {
        let mut changes = self.changes.subscribe();
        let found = tokio::time::timeout(wait, async {
            loop {
                if let Some(found) = self.get(uid) {
                    return Some(found);
                }
                if changes.changed().await.is_err() {
                    return None;
                }
            }
        });
        found.await.ok().flatten()
    }
}
