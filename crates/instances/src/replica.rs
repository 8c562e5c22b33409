//! The replicas of a manager, which share its storage. Each runs some of the instances and reaches the others through their
//! replicas.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cluster_client::{ClusterClient, Endpoint, RemoteConfig};
use jiff::Timestamp;
use manager_kinds::annotations;
use object::Object;
use parking_lot::Mutex;
use reconcile::{ObjectKey, TermFence};
use serde_json::json;
use tokio::time::Instant;

use crate::decide::{Phase, StartedWith};
use crate::plane::{Connection, PlaneTask, RemoteAccess};
use crate::running::RunningInstance;

/// Time for which a connection to another replica is used before its credential is made again.
const CONNECTION_KEPT: Duration = Duration::from_secs(3600);

/// One replica of a manager, `status.replica` of the instances it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaName {
    /// Kept with the data directory: an address may change.
    pub name: String,
    /// `HOST:PORT` for other replicas.
    pub address: String,
}

impl ReplicaName {
    /// Returns the replica on which an instance ran last.
    pub fn of(instance: &Object) -> Option<Self> {
        let field = |name: &str| instance.str_at(&["status", "replica", name]).to_owned();
        let replica = Self { name: field("name"), address: field("address") };
        (!replica.name.is_empty()).then_some(replica)
    }

    pub fn write(&self, instance: &mut Object) {
        instance.set(&["status", "replica"], json!({"name": self.name, "address": self.address}));
    }
}

/// The other replicas. The entry point implements it, because it has the keys that they share.
#[async_trait]
pub trait OtherReplicas: Send + Sync {
    fn own(&self) -> &ReplicaName;

    /// Returns true if a replica answers and is the one with that name.
    async fn answers(&self, other: &ReplicaName) -> bool;

    /// Returns the connection to an instance that another replica runs, with all rights and the right to impersonate.
    fn connection(&self, other: &ReplicaName, uid: &str) -> Result<RemoteConfig, String>;
}

/// This replica among the others.
#[derive(Clone)]
pub struct ReplicaContext {
    /// `None` when no other manager can use the same storage.
    pub replicas: Option<Arc<dyn OtherReplicas>>,
    /// Open while this replica holds the lease of the manager.
    pub terms: TermFence,
}

impl ReplicaContext {
    /// Returns the replica of an instance, if it is another one.
    pub fn elsewhere(&self, instance: &Object) -> Option<ReplicaName> {
        let own = self.replicas.as_ref()?.own();
        ReplicaName::of(instance).filter(|replica| replica.name != own.name)
    }
}

/// Connections to instances that other replicas run, by UID.
#[derive(Default)]
pub struct RemoteInstances {
    connected: Mutex<HashMap<String, (ReplicaName, Arc<RunningInstance>)>>,
}

impl RemoteInstances {
    /// Returns an instance that another replica runs, or can wake.
    pub fn get(&self, replica_context: &ReplicaContext, instance: &Object) -> Option<Arc<RunningInstance>> {
        let replica = replica_context.elsewhere(instance)?;
        let replicas = replica_context.replicas.as_ref()?;
        let serves = [Phase::Running, Phase::Degraded, Phase::Suspended, Phase::Hibernated, Phase::Deleting];
        let phase = instance.str_at(&["status", "phase"]);
        if !serves.iter().any(|serving| serving.name() == phase) {
            return None;
        }
        let mut connected = self.connected.lock();
        let known = connected.get(instance.uid()).filter(|(at, view)| {
            *at == replica && view.running_since.elapsed() < CONNECTION_KEPT && is_same_start(view, instance)
        });
        if let Some((_, view)) = known {
            return Some(Arc::clone(view));
        }
        match connect(&**replicas, &replica, instance) {
            Ok(view) => {
                let view = Arc::new(view);
                connected.retain(|_, (_, view)| view.running_since.elapsed() < CONNECTION_KEPT);
                connected.insert(instance.uid().to_owned(), (replica, Arc::clone(&view)));
                Some(view)
            }
            Err(problem) => {
                tracing::warn!(instance = %ObjectKey::of(instance), problem, "cannot connect to another replica");
                None
            }
        }
    }
}

/// The other replica does what is asked for; this one does not know when.
fn is_same_start(view: &RunningInstance, instance: &Object) -> bool {
    view.started_with.restarted_at == annotations::read(instance).0.restarted_at
}

fn connect(replicas: &dyn OtherReplicas, replica: &ReplicaName, instance: &Object) -> Result<RunningInstance, String> {
    let config = replicas.connection(replica, instance.uid())?;
    let admin = ClusterClient::connect(Endpoint::Remote(config.clone())).map_err(|error| error.to_string())?;
    let settings = annotations::read(instance).0;
    Ok(RunningInstance {
        key: ObjectKey::of(instance),
        uid: instance.uid().to_owned(),
        mode: settings.mode,
        connection: Connection::Remote(Arc::new(RemoteAccess { config, can_impersonate: true })),
        admin,
        kubeconfig: None,
        address: None,
        replica: Some(replica.clone()),
        started_with: StartedWith { restarted_at: settings.restarted_at, ..StartedWith::default() },
        started_at: Timestamp::now(),
        running_since: Instant::now(),
        start_millis: 0,
        identity: instance.str_at(&["status", "identity"]).to_owned(),
        is_copy: settings.restore.is_some(),
        kubernetes_version: instance.str_at(&["status", "kubernetesVersion"]).to_owned(),
        task: PlaneTask::elsewhere(),
        activity: Default::default(),
        health: Default::default(),
        namespaces: Default::default(),
        member_users: Default::default(),
    })
}
