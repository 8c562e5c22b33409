//! All members that are synced from here: started, changed and stopped as their Clusters and secrets come, change and go.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use api::cluster::{CLUSTERS, ClusterSpec, SecretReference, SyncMode};
use api::features::Features;
use api::names;
use api::work::{FINALIZER_EXECUTION, WORKS};
use cluster_client::{ClusterClient, ResourceRef};
use object::builtin;
use object::{Object, Status};
use parking_lot::{Mutex, RwLock};
use plane_metrics::PlaneMetrics;
use plane_state::MemberCapacity;
use reconcile::{
    Change, Clock, Index, Mirror, MirrorSpec, Mirrors, ObjectKey, Outcome, Priority, ReconcileError, Subscription,
    WorkQueue,
};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::connect::LinkError;
use crate::member::{Member, Plane, Recorders, index_ground_works};
use crate::settings::Settings;
use crate::status::threshold::Threshold;
use crate::{collect, connect, removal, workers};

/// Members that are started or stopped at the same time; one that ends slowly holds up none of the others.
const CHANGES_MAX: usize = 64;

/// Dependencies of push-mode sync.
pub struct PushDeps {
    /// Of the control plane.
    pub mirrors: Mirrors,
    pub interpreter: interpreter_runtime::SharedInterpreter,
    pub member_capacity: MemberCapacity,
    pub features: Arc<Features>,
    pub clock: Arc<dyn Clock>,
    pub metrics: PlaneMetrics,
    pub settings: Settings,
}

/// Makes the client of a member.
pub type Connect =
    dyn Fn(&str, &ClusterSpec, Option<&Object>, &Settings) -> Result<ClusterClient, LinkError> + Send + Sync;

/// Runs until cancelled, and ends when every member has ended.
pub async fn run(deps: PushDeps, cancel: CancellationToken) {
    run_with(deps, Arc::new(connect::connect), cancel).await;
}

/// `run` with members that are reached in another way, such as those in the same process.
pub async fn run_with(deps: PushDeps, connect: Arc<Connect>, cancel: CancellationToken) {
    // The recorders outlive the members.
    let recorders = Recorders::start(deps.mirrors.client(), &deps.clock, &cancel);
    let works = deps.mirrors.packed(&WORKS.gvr());
    let plane = Plane {
        slice_works: collect::index_works(&works),
        ground_works: index_ground_works(&works),
        works,
        clusters: deps.mirrors.of(&CLUSTERS.gvr()),
        client: deps.mirrors.client().clone(),
        interpreter: deps.interpreter,
        member_capacity: deps.member_capacity,
        features: deps.features,
        clock: deps.clock,
        metrics: deps.metrics,
        recorders,
        settings: deps.settings,
    };
    let synced = async {
        plane.clusters.synced().await;
        plane.works.synced().await;
    };
    tokio::select! {
        () = cancel.cancelled() => return,
        () = synced => {}
    }
    let manager = Arc::new(Manager {
        clusters_by_secret: plane.clusters.index(secret_of),
        mirrors: deps.mirrors,
        plane,
        connect,
        members: RwLock::default(),
        thresholds: Mutex::default(),
        secrets: Mutex::default(),
        clusters: Arc::default(),
        cancel: cancel.clone(),
    });
    // A member that starts looks at all works there are by then.
    let (works, changes) = manager.plane.works.subscribe_with_keys();
    let spaces: BTreeSet<String> = works.into_iter().map(|work| work.namespace).collect();
    for cluster in spaces.iter().filter_map(|space| names::cluster_of_execution_namespace(space)) {
        // Its Cluster may be gone.
        manager.clusters.add_now(cluster.to_owned(), Priority::LOW);
    }
    let reconciler = Arc::clone(&manager);
    let reconcile = move |name: String| Arc::clone(&reconciler).reconcile(name);
    // The mirrors may outlive this component.
    let following = async { tokio::join!(manager.follow_clusters(), manager.follow_works(changes)) };
    let following = cancel.run_until_cancelled(following);
    let members = workers::run("member-sync", Arc::clone(&manager.clusters), CHANGES_MAX, cancel.clone(), reconcile);
    tokio::join!(members, following);
    manager.stop_all().await;
}

fn secret_of(cluster: &Object) -> Vec<ObjectKey> {
    let spec: ClusterSpec = api::read(cluster).unwrap_or_default();
    spec.secret_ref.iter().map(|reference| ObjectKey::new(&reference.namespace, &reference.name)).collect()
}

struct Manager {
    plane: Plane,
    mirrors: Mirrors,
    clusters_by_secret: Index<ObjectKey>,
    connect: Arc<Connect>,
    members: RwLock<HashMap<String, Running>>,
    /// Readiness thresholds by member; they outlive its client.
    thresholds: Mutex<HashMap<String, Arc<Mutex<Threshold>>>>,
    /// By namespace; there are as many as Clusters name.
    secrets: Mutex<HashMap<String, Mirror>>,
    /// Names of Clusters to look at.
    clusters: Arc<WorkQueue<String>>,
    cancel: CancellationToken,
}

struct Running {
    member: Arc<Member>,
    link: Link,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

/// All that makes one client other than another.
#[derive(Clone, Debug, PartialEq)]
struct Link {
    uid: String,
    spec: ClusterSpec,
    secret: Option<Value>,
}

impl Link {
    fn of(cluster: &Object, spec: &ClusterSpec, secret: Option<&Object>) -> Self {
        let spec = ClusterSpec {
            api_endpoint: spec.api_endpoint.clone(),
            secret_ref: spec.secret_ref.clone(),
            insecure_skip_tls_verification: spec.insecure_skip_tls_verification,
            proxy_url: spec.proxy_url.clone(),
            proxy_header: spec.proxy_header.clone(),
            ..ClusterSpec::default()
        };
        let secret = secret.and_then(|secret| secret.get(&["data"]).cloned());
        Self { uid: cluster.uid().to_owned(), spec, secret }
    }
}

impl Manager {
    async fn follow_clusters(&self) {
        let mut changes = self.plane.clusters.subscribe();
        while let Some(Change { key, before, now, .. }) = changes.next().await {
            if let Some(now) = &now
                && let Some(member) = self.member(&key.name)
            {
                member.cluster_changed(before.as_deref(), now);
            }
            self.clusters.add_now(key.name, Priority::NORMAL);
        }
    }

    async fn follow_works(&self, mut changes: Subscription) {
        while let Some(Change { key, before, now, .. }) = changes.next().await {
            let Some(cluster) = names::cluster_of_execution_namespace(&key.namespace) else { continue };
            match self.member(cluster) {
                Some(member) => member.work_changed(before.as_deref(), now.as_deref()),
                // No other task may be left to end it.
                None if now.is_some_and(|work| work.is_deleting()) => {
                    self.clusters.add_now(cluster.to_owned(), Priority::NORMAL);
                }
                None => {}
            }
        }
    }

    fn member(&self, cluster: &str) -> Option<Arc<Member>> {
        self.members.read().get(cluster).map(|running| Arc::clone(&running.member))
    }

    /// Makes what runs of a Cluster what it asks for.
    async fn reconcile(self: Arc<Self>, name: String) -> Result<Outcome, ReconcileError> {
        let Some(cluster) = self.plane.clusters.get(&ObjectKey::new("", &name)) else {
            self.stop(&name).await;
            self.thresholds.lock().remove(&name);
            self.release_orphans(&name).await?;
            return Ok(Outcome::Done);
        };
        let spec: ClusterSpec = api::read(&cluster)?;
        if spec.sync_mode != SyncMode::Push {
            self.stop(&name).await;
            return Ok(Outcome::Done);
        }
        let secret = match &spec.secret_ref {
            Some(reference) => self.secret(reference).await,
            None => None,
        };
        let link = Link::of(&cluster, &spec, secret.as_deref());
        if self.members.read().get(&name).is_some_and(|running| running.link == link) {
            return Ok(Outcome::Done);
        }
        self.stop(&name).await;
        if !self.cancel.is_cancelled() {
            self.start(&name, &spec, secret.as_deref(), link).map_err(ReconcileError::other)?;
        }
        Ok(Outcome::Done)
    }

    fn start(
        self: &Arc<Self>,
        name: &str,
        spec: &ClusterSpec,
        secret: Option<&Object>,
        link: Link,
    ) -> Result<(), cluster_client::ConnectError> {
        let (client, problem) = match (self.connect)(name, spec, secret, &self.plane.settings) {
            Ok(client) => (client, None),
            Err(error) => (connect::unconnected(&error.to_string())?, Some(error.to_string())),
        };
        let cancel = self.cancel.child_token();
        let threshold = self.threshold(name);
        let member = Member::new(self.plane.clone(), name, client, problem, threshold, cancel.clone());
        let task = tokio::spawn(Arc::clone(&member).run());
        tracing::info!(cluster = name, endpoint = spec.api_endpoint, "a member is synced");
        let running = Running { member: Arc::clone(&member), link, cancel, task };
        self.members.write().insert(name.to_owned(), running);
        // Changes before the subscription.
        member.wake_all();
        Ok(())
    }

    fn threshold(&self, name: &str) -> Arc<Mutex<Threshold>> {
        let settings = &self.plane.settings;
        let new = || Arc::new(Mutex::new(Threshold::new(settings.success_threshold, settings.failure_threshold)));
        Arc::clone(self.thresholds.lock().entry(name.to_owned()).or_insert_with(new))
    }

    /// Returns when the member has ended: two never write into the same cluster.
    async fn stop(&self, name: &str) {
        let Some(running) = self.members.write().remove(name) else { return };
        running.cancel.cancel();
        if running.task.await.is_err() {
            tracing::error!(cluster = name, "a member did not end in good order");
        }
        tracing::info!(cluster = name, "a member is no longer synced");
    }

    async fn stop_all(&self) {
        let names: Vec<String> = self.members.read().keys().cloned().collect();
        for name in names {
            self.stop(&name).await;
        }
    }

    async fn secret(self: &Arc<Self>, reference: &SecretReference) -> Option<Arc<Object>> {
        let mirror = self.secrets_in(&reference.namespace);
        tokio::select! {
            () = self.cancel.cancelled() => return None,
            () = mirror.synced() => {}
        }
        mirror.get(&ObjectKey::new(&reference.namespace, &reference.name))
    }

    fn secrets_in(self: &Arc<Self>, namespace: &str) -> Mirror {
        let start = || {
            let spec = MirrorSpec::new(&builtin::secrets()).within(namespace);
            let mirror = self.mirrors.get(spec);
            tokio::spawn(follow_secrets(Arc::clone(self), mirror.clone()));
            mirror
        };
        self.secrets.lock().entry(namespace.to_owned()).or_insert_with(start).clone()
    }

    /// Lets works end whose member is gone for good: their objects cannot be reached any more.
    async fn release_orphans(&self, cluster: &str) -> Result<(), Status> {
        let works = self.plane.works.list_within(&names::execution_namespace(cluster));
        let ending: Vec<_> =
            works.into_iter().filter(|work| work.is_deleting() && work.has_finalizer(FINALIZER_EXECUTION)).collect();
        if ending.is_empty() {
            return Ok(());
        }
        // The copy may be behind; the API knows.
        if self.plane.client.find(ResourceRef::cluster(&CLUSTERS.gvr(), cluster)).await?.is_some() {
            return Ok(());
        }
        for work in ending {
            removal::release_finalizer(&self.plane.client, &work).await?;
        }
        Ok(())
    }
}

/// Looks at the Clusters that use a changed secret.
async fn follow_secrets(manager: Arc<Manager>, mirror: Mirror) {
    let mut changes = mirror.subscribe();
    while let Some(change) = changes.next().await {
        for cluster in manager.clusters_by_secret.keys(&change.key) {
            manager.clusters.add_now(cluster.name, Priority::NORMAL);
        }
    }
}
