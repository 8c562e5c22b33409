//! Joins the clusters that Cluster API provisions, and removes those it deletes.
//!
//! Watches `cluster.x-k8s.io` Clusters in a management cluster. A provisioned one joins in push mode under its name, with
//! the kubeconfig in the Secret `NAME-kubeconfig`. Clusters joined here have an annotation with their source; no other
//! Cluster is ever removed.

use std::sync::Arc;
use std::time::Duration;

use api::cluster::CLUSTERS;
use api::names::CLUSTER_NAMESPACE;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, Preconditions, RemoteConfig, ResourceRef};
use object::{GroupVersionResource, Object};
use reconcile::{Change, Controller, Mirror, MirrorSpec, ObjectKey, Outcome, ReconcileError, Source};
use tokio_util::sync::CancellationToken;

use crate::credentials::SECRETS;
use crate::join::{JoinOptions, join_annotated};
use crate::{ClusterLocation, MemberAccess, NoProgress, member_access};

/// On Clusters that were joined from here: `NAMESPACE/NAME` of the cluster in the management cluster.
pub const ANNOTATION_SOURCE: &str = "flotilla.dev/cluster-api-source";

const COMPONENT: &str = "cluster-api-discovery";
const WORKERS: usize = 2;
/// Kubeconfigs above this are not read.
const KUBECONFIG_BYTES_MAX: usize = 256 * 1024;
/// Time after which a cluster whose Secret is missing is looked at again.
const SECRET_WAIT: Duration = Duration::from_secs(10);

/// Opens the connection to a new member.
pub type ConnectMember = dyn Fn(RemoteConfig) -> Result<MemberAccess, ReconcileError> + Send + Sync;

pub struct DiscoveryDeps {
    pub control_plane: ClusterClient,
    /// Clusters of the control plane.
    pub clusters: Mirror,
    pub management: ClusterClient,
    pub connect: Arc<ConnectMember>,
}

struct Discovery {
    deps: DiscoveryDeps,
    sources: Mirror,
}

fn sources_gvr() -> GroupVersionResource {
    GroupVersionResource::new("cluster.x-k8s.io", "v1beta1", "clusters")
}

/// Runs until cancelled.
pub async fn run(deps: DiscoveryDeps, cancel: CancellationToken) {
    let sources = Mirror::start(deps.management.clone(), MirrorSpec::new(&sources_gvr()), cancel.clone());
    let watched = vec![Source::each(&sources), Source::new(&deps.clusters, source_of_change)];
    let discovery = Arc::new(Discovery { deps, sources });
    let reconcile = move |key: ObjectKey| Arc::clone(&discovery).reconcile(key);
    Controller::new(COMPONENT).run(watched, WORKERS, cancel, reconcile).await;
}

/// Clusters that were joined from here lead to their source, which may have gone while this was not running.
fn source_of_change(change: &Change) -> Vec<ObjectKey> {
    let states = [&change.before, &change.now].into_iter().flatten();
    let sources = states.filter_map(|cluster| cluster.annotation(ANNOTATION_SOURCE)?.split_once('/'));
    let mut keys: Vec<ObjectKey> = sources.map(|(namespace, name)| ObjectKey::new(namespace, name)).collect();
    keys.dedup();
    keys
}

impl Discovery {
    async fn reconcile(self: Arc<Self>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
        let source = self.sources.get(&key);
        let joined = self.deps.clusters.get(&ObjectKey::new("", &key.name));
        match source {
            None => self.remove(&key, joined.as_deref()).await,
            // Its workloads are still there until it is gone.
            Some(source) if source.is_deleting() => Ok(Outcome::Done),
            Some(source) if source.str_at(&["status", "phase"]) != "Provisioned" => Ok(Outcome::Done),
            Some(_) => match joined {
                None => self.join(&key).await,
                Some(cluster) if is_from(&cluster, &key) => Ok(Outcome::Done),
                Some(_) => {
                    tracing::warn!(cluster = %key.name, "not joined: another cluster has this name");
                    Ok(Outcome::Done)
                }
            },
        }
    }

    async fn join(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let target = ResourceRef::namespaced(&SECRETS.gvr(), &key.namespace, &format!("{}-kubeconfig", key.name));
        let Some(secret) = self.deps.management.find(target).await? else { return Ok(Outcome::After(SECRET_WAIT)) };
        let member = kubeconfig_of(&secret).map_err(|problem| {
            ReconcileError::other(format!("secret {}/{}: {problem}", secret.namespace(), secret.name()))
        })?;
        let options = JoinOptions {
            control_plane: self.deps.control_plane.clone(),
            member: (self.deps.connect)(member)?,
            name: key.name.clone(),
            namespace: CLUSTER_NAMESPACE.to_owned(),
            location: ClusterLocation::default(),
            dry_run: false,
        };
        let source = format!("{}/{}", key.namespace, key.name);
        join_annotated(&options, &[(ANNOTATION_SOURCE, &source)], &NoProgress).await.map_err(ReconcileError::other)?;
        tracing::info!(cluster = %key.name, source, "joined a cluster of Cluster API");
        Ok(Outcome::Done)
    }

    /// Deletes the Cluster of a source that is gone; its cleanup goes on as for every Cluster.
    async fn remove(&self, key: &ObjectKey, joined: Option<&Object>) -> Result<Outcome, ReconcileError> {
        let Some(cluster) = joined.filter(|cluster| is_from(cluster, key) && !cluster.is_deleting()) else {
            return Ok(Outcome::Done);
        };
        let options = cluster_client::DeleteOptions {
            preconditions: Preconditions { uid: Some(cluster.uid().to_owned()), ..Preconditions::default() },
            ..cluster_client::DeleteOptions::default()
        };
        let target = ResourceRef::cluster(&CLUSTERS.gvr(), &key.name);
        crate::credentials::ignore_missing(self.deps.control_plane.delete(target, options).await)?;
        tracing::info!(cluster = %key.name, "removing a cluster that Cluster API deleted");
        Ok(Outcome::Done)
    }
}

fn is_from(cluster: &Object, key: &ObjectKey) -> bool {
    cluster.annotation(ANNOTATION_SOURCE) == Some(format!("{}/{}", key.namespace, key.name).as_str())
}

/// The kubeconfig in a Secret of Cluster API.
fn kubeconfig_of(secret: &Object) -> Result<RemoteConfig, String> {
    let data = secret.str_at(&["data", "value"]);
    if data.is_empty() || data.len() > KUBECONFIG_BYTES_MAX {
        return Err(format!("data.value must be a kubeconfig of at most {KUBECONFIG_BYTES_MAX} bytes"));
    }
    let text = STANDARD.decode(data).map_err(|error| format!("data.value is not base64: {error}"))?;
    let text = String::from_utf8(text).map_err(|_| "data.value is not text".to_owned())?;
    member_access::read_kubeconfig(&text)
}
