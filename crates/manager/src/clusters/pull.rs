//! Pull clusters of the inventory: adopts what an agent has registered in its instance, and removes it again.
//!
//! The manager has no credential for such a cluster: its agent gets one of the instance with a registration token, and renews it.

use api::cluster::CLUSTERS;
use api::names::CLUSTER_NAMESPACE;
use cluster_client::{DeleteOptions, ResourceRef};
use membership::NoProgress;
use membership::invitation::Invitation;
use membership::rights::AgentRights;
use object::{Object, conditions};
use reconcile::{ObjectKey, Outcome, ReconcileError, commit_status};
use serde_json::{Value, json};

use super::{CHECK_INTERVAL, ClusterImport, FIELD_MANAGER, LABEL_INVENTORY, RETRY_INTERVAL, describe, set_condition};

/// The cluster in its instance.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Registered {
    /// No agent has registered yet.
    Waiting,
    /// It is what the inventory means.
    Own { system_id: String, version: String },
    /// The name belongs to something else.
    Other(&'static str, String),
}

/// Decides whether a Cluster of an instance is the pull cluster of the inventory.
fn judge(cluster: &Object, found: Option<&Object>) -> Registered {
    let Some(found) = found else { return Registered::Waiting };
    if found.str_at(&["spec", "syncMode"]) != "Pull" {
        return Registered::Other("NameTaken", "the instance has a push cluster of this name".to_owned());
    }
    let (id, known) = (found.str_at(&["spec", "id"]), cluster.str_at(&["status", "systemID"]));
    if id.is_empty() {
        return Registered::Waiting;
    }
    if !known.is_empty() && known != id {
        let text = format!("another cluster has registered under this name ({id} instead of {known})");
        return Registered::Other("OtherCluster", text);
    }
    let version = found.str_at(&["status", "kubernetesVersion"]).to_owned();
    Registered::Own { system_id: id.to_owned(), version }
}

impl ClusterImport {
    pub(super) async fn reconcile_pull(&self, key: &ObjectKey, cluster: &Object) -> Result<Outcome, ReconcileError> {
        let mut desired = cluster.clone();
        desired.set(&["status", "observedGeneration"], cluster.generation());
        let wanted = cluster.items(&["spec", "instances"]).first().and_then(Value::as_str);
        let mut joined = self.leave_others(cluster, wanted).await;
        let left = joined.iter().filter_map(|entry| entry["message"].as_str()).collect::<Vec<_>>().join("; ");
        let state = match wanted {
            None => Ok(Registered::Waiting),
            Some(name) => self.adopt(cluster, name).await,
        };
        let (is_ready, reason, message, phase) = match (wanted, state) {
            _ if !left.is_empty() => (false, "LeaveFailed", left, "Degraded"),
            (None, _) => (true, "NotJoined", "it belongs to no instance".to_owned(), "Ready"),
            (Some(name), Ok(Registered::Waiting)) => {
                let text = format!("waiting for its agent to register in {name} with a registration token");
                (false, "WaitingForAgent", text, "Pending")
            }
            (Some(name), Ok(Registered::Own { system_id, version })) => {
                desired.set(&["status", "systemID"], system_id);
                desired.set(&["status", "kubernetesVersion"], version);
                joined.push(json!({"instance": name}));
                (true, "Joined", "joined by its agent".to_owned(), "Ready")
            }
            (Some(_), Ok(Registered::Other(reason, text))) => (false, reason, text, "Failed"),
            (Some(_), Err(problem)) => {
                // A joined cluster stays joined while the instance cannot be asked.
                let before = cluster.items(&["status", "joinedTo"]).iter();
                joined.extend(before.filter(|entry| entry["instance"].as_str() == wanted).cloned());
                (false, "InstanceUnavailable", problem, "Degraded")
            }
        };
        set_condition(&mut desired, "Ready", is_ready, reason, &message);
        if reason == "Joined" {
            let text = "its agent has a credential of the instance and renews it";
            set_condition(&mut desired, "CredentialsValid", true, "ManagedByAgent", text);
        } else if reason != "InstanceUnavailable" {
            conditions::remove(&mut desired, "CredentialsValid");
        }
        desired.set(&["status", "phase"], phase);
        desired.set(&["status", "joinedTo"], joined);
        commit_status(&self.client, self.clusters.target(key), cluster, &desired, FIELD_MANAGER).await?;
        Ok(Outcome::After(if is_ready { CHECK_INTERVAL } else { RETRY_INTERVAL }))
    }

    /// Takes over the Cluster that an agent has registered.
    pub(super) async fn adopt(&self, cluster: &Object, name: &str) -> Result<Registered, String> {
        let instance_api = self.instance_api(name)?;
        let target = ResourceRef::cluster(&CLUSTERS.gvr(), cluster.name());
        let found = instance_api.find(target).await.map_err(|status| status.to_string())?;
        let state = judge(cluster, found.as_deref());
        if let Registered::Own { system_id, .. } = &state {
            if let Some(same) = self.same_cluster(cluster, system_id) {
                let text = format!("the same cluster is already in the inventory as {same}");
                return Ok(Registered::Other("Duplicate", text));
            }
            describe(cluster, &instance_api).await?;
        }
        Ok(state)
    }

    /// Removes the cluster from instances that it does not belong to any more; returns those where it still is.
    async fn leave_others(&self, cluster: &Object, wanted: Option<&str>) -> Vec<Value> {
        let mut left = Vec::new();
        for entry in cluster.items(&["status", "joinedTo"]) {
            let name = entry["instance"].as_str().unwrap_or_default();
            if Some(name) == wanted {
                continue;
            }
            if let Err(problem) = self.leave_pull(cluster, name).await {
                left.push(json!({"instance": name, "message": problem}));
            }
        }
        left
    }

    /// Deletes the Cluster, whose agent removes the works first, and then the agent's rights.
    pub(super) async fn leave_pull(&self, cluster: &Object, name: &str) -> Result<(), String> {
        // An instance that is gone has no Cluster object left.
        if self.directory.find(name).is_none() {
            return Ok(());
        }
        let instance_api = self.instance_api(name)?;
        let target = ResourceRef::cluster(&CLUSTERS.gvr(), cluster.name());
        let found = instance_api.find(target.clone()).await.map_err(|status| status.to_string())?;
        if let Some(found) = found {
            // Nothing of the inventory.
            if found.label(LABEL_INVENTORY) != Some(cluster.name()) {
                return Ok(());
            }
            if !found.is_deleting() {
                let deleted = instance_api.delete(target, DeleteOptions::default()).await;
                deleted.map_err(|status| status.to_string())?;
            }
            return Err(format!("it is being removed from {name}; its agent has to be running"));
        }
        AgentRights::new(cluster.name(), CLUSTER_NAMESPACE).revoke(&instance_api, &NoProgress).await;
        if let Ok(invitation) = Invitation::new(cluster.name(), CLUSTER_NAMESPACE) {
            invitation.revoke(&instance_api, &NoProgress).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use manager_kinds::MANAGED_CLUSTERS;

    use super::*;

    #[track_caller]
    fn check(known: &str, found: Option<(&str, &str)>, expected: Result<&str, &str>) {
        let mut cluster = MANAGED_CLUSTERS.object("", "m1");
        cluster.set(&["status", "systemID"], known);
        let found = found.map(|(mode, id)| {
            let mut found = CLUSTERS.object("", "m1");
            found.set(&["spec"], json!({"syncMode": mode, "id": id}));
            found
        });
        let judged = match judge(&cluster, found.as_ref()) {
            Registered::Waiting => Ok(String::new()),
            Registered::Own { system_id, .. } => Ok(system_id),
            Registered::Other(reason, _) => Err(reason),
        };
        assert_eq!(judged.as_deref().map_err(|reason| *reason), expected, "{known} {found:?}");
    }

    #[test]
    fn only_the_same_pull_cluster_is_adopted() {
        check("", None, Ok(""));
        check("", Some(("Pull", "a")), Ok("a"));
        check("a", Some(("Pull", "a")), Ok("a"));
        check("", Some(("Pull", "")), Ok(""));
        check("a", Some(("Pull", "b")), Err("OtherCluster"));
        check("", Some(("Push", "a")), Err("NameTaken"));
    }
}
