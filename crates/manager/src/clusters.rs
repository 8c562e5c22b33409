//! The cluster-import and credential-sync controllers: joins clusters of the inventory to instances, and gives instances new
//! credentials once those were tried.
//!
//! Owns the status of ManagedCluster objects, and in instances the Cluster objects it joined. A new credential replaces the old
//! one only if it reaches the same cluster.

mod pull;

use std::sync::Arc;
use std::time::Duration;

use api::cluster::CLUSTERS;
use api::names::CLUSTER_NAMESPACE;
use cluster_client::{ClusterClient, Endpoint, Patch, RemoteConfig, ResourceRef, WriteOptions};
use instances::directory::InstanceDirectory;
use instances::import::{self, EndpointPolicy};
use jiff::Timestamp;
use manager_kinds::access_rules::{ROTATED_AT, is_pull};
use manager_kinds::{KARMADAS, MANAGED_CLUSTERS};
use membership::join::{JoinOptions, cluster_id, join, renew_credentials};
use membership::unjoin::{UnjoinOptions, unjoin};
use membership::{ClusterLocation, MemberAccess, NoProgress};
use object::builtin;
use object::conditions::{self, NewCondition};
use object::{GroupVersionResource, Object};
use reconcile::{Controller, Mirror, MirrorSpec, ObjectKey, Outcome, ReconcileError, Source, TermFence, commit_status};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const FIELD_MANAGER: &str = "flotilla-manager";
/// Label of a Cluster with the name it has in the inventory.
const LABEL_INVENTORY: &str = "flotilla.dev/managed-cluster";
const WORKERS: usize = 4;
/// Interval for checking clusters again.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
const UNJOIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Rules for clusters of the inventory.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImportPolicy {
    pub endpoints: EndpointPolicy,
    /// Allow a cluster in several instances, which then manage the same objects.
    pub shared_members: bool,
}

/// The controller of the inventory.
#[derive(Clone)]
pub struct ClusterImport {
    /// Refuses writes outside of terms.
    client: ClusterClient,
    /// Fences writes into instances and clusters in the same way.
    terms: TermFence,
    directory: InstanceDirectory,
    policy: ImportPolicy,
    clusters: Mirror,
    secrets: Mirror,
    karmadas: Mirror,
}

/// The credential of a cluster, tried.
struct Checked {
    remote: RemoteConfig,
    fingerprint: String,
    system_id: String,
    version: String,
}

impl ClusterImport {
    pub fn new(
        (client, terms): (&ClusterClient, &TermFence),
        directory: InstanceDirectory,
        policy: ImportPolicy,
        cancel: &CancellationToken,
    ) -> Self {
        let mirror = |gvr: &GroupVersionResource| Mirror::start(client.clone(), MirrorSpec::new(gvr), cancel.clone());
        Self {
            clusters: mirror(&MANAGED_CLUSTERS.gvr()),
            secrets: mirror(&builtin::secrets()),
            karmadas: mirror(&KARMADAS.gvr()),
            client: terms.guard(client),
            terms: terms.clone(),
            directory,
            policy,
        }
    }

    pub async fn run(self, cancel: CancellationToken) {
        let all = |clusters: &Mirror| clusters.list().iter().map(|cluster| ObjectKey::of(cluster)).collect::<Vec<_>>();
        let (of_secrets, of_karmadas) = (self.clusters.clone(), self.clusters.clone());
        let secrets = Source::new(&self.secrets, move |change| {
            let name = &change.key;
            let is_meant = |cluster: &Arc<Object>| secret_of(cluster) == *name;
            of_secrets.list().iter().filter(|cluster| is_meant(cluster)).map(|cluster| ObjectKey::of(cluster)).collect()
        });
        let karmadas = Source::new(&self.karmadas, move |change| {
            let phase = |object: &Option<Arc<Object>>| {
                object.as_ref().map(|object| object.str_at(&["status", "phase"]).to_owned())
            };
            if phase(&change.before) == phase(&change.now) { Vec::new() } else { all(&of_karmadas) }
        });
        let sources = vec![Source::each(&self.clusters), secrets, karmadas];
        let reconcile = move |key: ObjectKey| {
            let own = self.clone();
            async move { own.reconcile(&key).await }
        };
        Controller::new("cluster-import").run(sources, WORKERS, cancel, reconcile).await;
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some(cluster) = self.clusters.get(key) else { return Ok(Outcome::Done) };
        if is_pull(&cluster) {
            return self.reconcile_pull(key, &cluster).await;
        }
        let mut desired = (*cluster).clone();
        desired.set(&["status", "observedGeneration"], cluster.generation());
        let is_complete;
        match self.check(&cluster).await {
            Err((reason, problem)) => {
                set_condition(&mut desired, "CredentialsValid", false, reason, &problem);
                set_condition(&mut desired, "Ready", false, reason, &problem);
                desired.set(&["status", "phase"], "Failed");
                is_complete = false;
            }
            Ok(checked) => {
                desired.set(&["status", "kubernetesVersion"], checked.version.as_str());
                desired.set(&["status", "systemID"], checked.system_id.as_str());
                set_condition(&mut desired, "CredentialsValid", true, "Checked", "the cluster accepts the credential");
                let joined = self.settle_instances(&cluster, &checked).await;
                let problems: Vec<&str> = joined
                    .iter()
                    .filter_map(|entry| entry["message"].as_str())
                    .filter(|text| !text.is_empty())
                    .collect();
                is_complete = problems.is_empty();
                let (reason, message) = match is_complete {
                    true => ("Joined", "joined to all its instances".to_owned()),
                    false => ("JoinFailed", problems.join("; ")),
                };
                set_condition(&mut desired, "Ready", is_complete, reason, &message);
                desired.set(&["status", "phase"], if is_complete { "Ready" } else { "Degraded" });
                desired.set(&["status", "joinedTo"], joined);
                // The old fingerprint stays until every instance has the new credential.
                if is_complete {
                    desired.set(&["status", "credential"], json!({"fingerprint": checked.fingerprint}));
                }
            }
        }
        commit_status(&self.client, self.clusters.target(key), &cluster, &desired, FIELD_MANAGER).await?;
        Ok(Outcome::After(if is_complete { CHECK_INTERVAL } else { RETRY_INTERVAL }))
    }

    /// Tries the credential in the Secret of a cluster.
    async fn check(&self, cluster: &Object) -> Result<Checked, (&'static str, String)> {
        let invalid = |problem: String| ("CredentialsInvalid", problem);
        let ObjectKey { namespace, name } = secret_of(cluster);
        let key =
            Some(cluster.str_at(&["spec", "secretRef", "key"])).filter(|key| !key.is_empty()).unwrap_or("kubeconfig");
        let text = instances::secrets::read_text(&self.client, &namespace, &name, key).await.map_err(invalid)?;
        let mut remote = import::read_kubeconfig(&text).map_err(invalid)?;
        let endpoint = cluster.str_at(&["spec", "apiEndpoint"]);
        if !endpoint.is_empty() {
            endpoint.clone_into(&mut remote.server);
        }
        self.policy.endpoints.check(&remote.server).await.map_err(invalid)?;
        let unreachable = |problem: String| ("Unreachable", problem);
        remote.addresses = self.policy.endpoints.addresses();
        let client = ClusterClient::connect(Endpoint::Remote(remote.clone())).map_err(|e| invalid(e.to_string()))?;
        let system_id = cluster_id(&client, &remote.server).await.map_err(|error| unreachable(error.to_string()))?;
        let version = client.get_json("/version").await.map_err(|status| unreachable(status.to_string()))?;
        let known = cluster.str_at(&["status", "systemID"]);
        if !known.is_empty() && known != system_id {
            let text =
                format!("the credential is for another cluster ({system_id} instead of {known}); the old one is kept");
            return Err(("OtherCluster", text));
        }
        if let Some(same) = self.same_cluster(cluster, &system_id) {
            return Err(("Duplicate", format!("the same cluster is already in the inventory as {same}")));
        }
        let version = version["gitVersion"].as_str().unwrap_or_default().to_owned();
        let rotated_at = cluster.annotation(ROTATED_AT).unwrap_or_default();
        let fingerprint = match rotated_at {
            "" => pki::token::hash(&text),
            at => pki::token::hash(&format!("{at} {text}")),
        };
        Ok(Checked { remote, fingerprint, system_id, version })
    }

    /// Joins the cluster to the instances of its spec and removes it from others; returns `status.joinedTo`.
    async fn settle_instances(&self, cluster: &Object, checked: &Checked) -> Vec<Value> {
        let wanted: Vec<String> =
            cluster.items(&["spec", "instances"]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let before = cluster.items(&["status", "joinedTo"]).to_vec();
        let mut joined = Vec::new();
        for entry in &before {
            let name = entry["instance"].as_str().unwrap_or_default();
            if wanted.iter().any(|instance| instance == name) {
                continue;
            }
            if let Err(problem) = self.leave(cluster, checked, name).await {
                joined.push(json!({"instance": name, "fingerprint": entry["fingerprint"], "message": problem}));
            }
        }
        for (at, name) in wanted.iter().enumerate() {
            if at > 0 && !self.policy.shared_members {
                let text = format!("{name}: two instances would manage one cluster; allow it with --shared-members");
                joined.push(json!({"instance": name, "message": text}));
                continue;
            }
            let old = before.iter().find(|entry| entry["instance"] == name.as_str());
            let old = old.and_then(|entry| entry["fingerprint"].as_str()).unwrap_or_default();
            joined.push(match self.enter(cluster, checked, name, old).await {
                Ok(()) => json!({"instance": name, "fingerprint": checked.fingerprint}),
                Err(problem) => json!({"instance": name, "fingerprint": old, "message": problem}),
            });
        }
        joined
    }

    /// Returns the name under which the inventory has a new cluster already.
    fn same_cluster(&self, cluster: &Object, system_id: &str) -> Option<String> {
        if !cluster.str_at(&["status", "systemID"]).is_empty() {
            return None;
        }
        let others = self.clusters.list();
        let is_same =
            |other: &&Arc<Object>| other.name() != cluster.name() && other.str_at(&["status", "systemID"]) == system_id;
        others.iter().find(is_same).map(|same| same.name().to_owned())
    }

    /// Returns a client with all rights in an instance, whose writes end with the term of this replica.
    fn instance_api(&self, name: &str) -> Result<ClusterClient, String> {
        let entry = self.directory.find(name).ok_or_else(|| format!("there is no instance {name}"))?;
        let running = entry.running.ok_or_else(|| format!("the instance {name} is not running"))?;
        Ok(self.terms.guard(&running.admin))
    }

    /// Joins the cluster to an instance, or gives the instance a new credential.
    async fn enter(&self, cluster: &Object, checked: &Checked, name: &str, old: &str) -> Result<(), String> {
        let instance_api = self.instance_api(name)?;
        let options = self.join_options(cluster, checked, instance_api.clone())?;
        let target = ResourceRef::cluster(&CLUSTERS.gvr(), cluster.name());
        let existing = instance_api.find(target.clone()).await.map_err(|status| status.to_string())?;
        match &existing {
            None => drop(join(&options, &NoProgress).await.map_err(|error| error.to_string())?),
            Some(existing) if existing.str_at(&["spec", "id"]) != checked.system_id => {
                return Err(format!("the instance {name} has another cluster of this name"));
            }
            Some(_) if old != checked.fingerprint => {
                renew_credentials(&options, &NoProgress).await.map_err(|error| error.to_string())?;
            }
            Some(_) => {}
        }
        // Users of the instance have the same roles in its members.
        let granted = instances::rights::ensure(&options.member.client).await;
        granted.map_err(|status| format!("the roles of users cannot be created in the cluster: {status}"))?;
        describe(cluster, &instance_api).await
    }

    async fn leave(&self, cluster: &Object, checked: &Checked, name: &str) -> Result<(), String> {
        // An instance that is gone has no Cluster object left.
        if self.directory.find(name).is_none() {
            return Ok(());
        }
        let instance_api = self.instance_api(name)?;
        let target = ResourceRef::cluster(&CLUSTERS.gvr(), cluster.name());
        let existing = instance_api.find(target).await.map_err(|status| status.to_string())?;
        if existing.is_none_or(|existing| existing.str_at(&["spec", "id"]) != checked.system_id) {
            return Ok(());
        }
        let member = ClusterClient::connect(Endpoint::Remote(checked.remote.clone())).map_err(|e| e.to_string())?;
        let options = UnjoinOptions {
            control_plane: instance_api,
            member: Some(self.terms.guard(&member)),
            name: cluster.name().to_owned(),
            namespace: CLUSTER_NAMESPACE.to_owned(),
            wait: UNJOIN_TIMEOUT,
            force: false,
            dry_run: false,
        };
        unjoin(&options, &NoProgress).await.map(drop).map_err(|error| error.to_string())
    }

    fn join_options(
        &self,
        cluster: &Object,
        checked: &Checked,
        control_plane: ClusterClient,
    ) -> Result<JoinOptions, String> {
        let spec = |field: &str| cluster.str_at(&["spec", field]).to_owned();
        let zone = spec("zone");
        let member = MemberAccess::new(checked.remote.clone(), None).map_err(|error| error.to_string())?;
        Ok(JoinOptions {
            control_plane,
            member: MemberAccess { client: self.terms.guard(&member.client), ..member },
            name: cluster.name().to_owned(),
            namespace: CLUSTER_NAMESPACE.to_owned(),
            location: ClusterLocation {
                provider: spec("provider"),
                region: spec("region"),
                zones: if zone.is_empty() { Vec::new() } else { vec![zone] },
            },
            dry_run: false,
        })
    }
}

/// Copies labels and place of a cluster to the Cluster in an instance.
async fn describe(cluster: &Object, instance_api: &ClusterClient) -> Result<(), String> {
    let spec = |field: &str| cluster.str_at(&["spec", field]).to_owned();
    let mut labels = cluster.get(&["spec", "labels"]).cloned().unwrap_or_else(|| json!({}));
    labels[LABEL_INVENTORY] = cluster.name().into();
    let mut patch = json!({"metadata": {"labels": labels}, "spec": {}});
    for field in ["provider", "region"] {
        if !spec(field).is_empty() {
            patch["spec"][field] = spec(field).into();
        }
    }
    let target = ResourceRef::cluster(&CLUSTERS.gvr(), cluster.name());
    let written = instance_api.patch(target, Patch::merge(patch), WriteOptions::managed_by(FIELD_MANAGER)).await;
    written.map(drop).map_err(|status| status.to_string())
}

fn secret_of(cluster: &Object) -> ObjectKey {
    let field = |name: &str| cluster.str_at(&["spec", "secretRef", name]);
    ObjectKey::new(field("namespace"), field("name"))
}

fn set_condition(cluster: &mut Object, kind: &str, is: bool, reason: &str, message: &str) {
    let status = if is { "True" } else { "False" };
    conditions::set(cluster, &NewCondition { kind, status, reason, message }, Timestamp::now());
}

#[cfg(test)]
mod tests;
