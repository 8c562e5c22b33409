//! Questions to a member: is it well, which version is it, what does it serve.

use std::collections::BTreeMap;
use std::time::Duration;

use api::cluster::{ApiEnablement, CONDITION_COMPLETE_APIS, CONDITION_READY, EnabledResource};
use api::core::Condition;
use api::failover::{CONDITION_SCHEDULABLE_NODES, REASON_NODES_CORDONED, REASON_NODES_NOT_READY};
use bytes::Bytes;
use cluster_client::{ApiResources, ClusterClient};
use object::Status;

use crate::status::capacity::Nodes;

/// Maximum and minimum timeout of a health check.
const ANSWER_MAX: Duration = Duration::from_secs(10);
const ANSWER_MIN: Duration = Duration::from_secs(2);

/// Returns the timeout of a health check: several checks fit into the time after which a member counts as failed.
pub fn health_timeout(failure_threshold: Duration) -> Duration {
    (failure_threshold / 3).clamp(ANSWER_MIN, ANSWER_MAX)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// No client could be made.
    Unconnected(String),
    Offline,
    Unhealthy,
    Healthy,
}

/// Asks `/readyz`, or `/healthz` where that is all there is.
pub async fn health(member: &ClusterClient, timeout: Duration) -> Health {
    let mut code = ask(member, "/readyz", timeout).await;
    if code == Ok(404) {
        code = ask(member, "/healthz", timeout).await;
    }
    match code {
        Err(_) => Health::Offline,
        Ok(200) => Health::Healthy,
        Ok(_) => Health::Unhealthy,
    }
}

async fn ask(member: &ClusterClient, path: &str, timeout: Duration) -> Result<u16, Status> {
    let request = http::Request::get(path).body(Bytes::new()).map_err(Status::internal)?;
    match tokio::time::timeout(timeout, member.raw(request)).await {
        Ok(response) => Ok(response?.status().as_u16()),
        Err(_) => Err(Status::timeout(format!("no answer to {path} within {timeout:?}"))),
    }
}

pub async fn version(member: &ClusterClient) -> Result<String, Status> {
    let version = member.get_json("/version").await?;
    Ok(version["gitVersion"].as_str().unwrap_or_default().to_owned())
}

pub fn ready_condition(health: &Health, now: &str) -> Condition {
    let (status, reason, message) = match health {
        Health::Unconnected(problem) => {
            ("False", "StatusCollectionFailed", format!("failed to create a ClusterClient: {problem}"))
        }
        Health::Offline => ("False", "ClusterNotReachable", "cluster is not reachable".to_owned()),
        Health::Unhealthy => {
            ("False", "ClusterNotReady", "cluster is reachable but health endpoint responded without ok".to_owned())
        }
        Health::Healthy => ("True", "ClusterReady", "cluster is healthy and ready to accept workloads".to_owned()),
    };
    condition(CONDITION_READY, status, reason, message, now)
}

/// Returns the condition that shows how completely the APIs of the member are known.
pub fn apis_condition(count: usize, is_complete: bool, now: &str) -> Condition {
    let (status, reason, message) = match (count, is_complete) {
        (0, _) => ("False", "Empty", "collected empty APIEnablements from the cluster".to_owned()),
        (_, false) => ("False", "Partial", format!("might collect partial APIEnablements({count}) from the cluster")),
        (_, true) => ("True", "Complete", "collected complete APIEnablements from the cluster".to_owned()),
    };
    condition(CONDITION_COMPLETE_APIS, status, reason, message, now)
}

/// Has the member a node that new pods can run on?
pub fn nodes_condition(nodes: Nodes, now: &str) -> Condition {
    let (status, reason, message) = match nodes {
        Nodes::None => ("Unknown", "NoNodes", "the cluster has no nodes".to_owned()),
        Nodes::Usable => ("True", "NodesUsable", "a node is ready and takes pods".to_owned()),
        Nodes::Cordoned => ("False", REASON_NODES_CORDONED, "every node that is ready is cordoned".to_owned()),
        Nodes::NotReady => ("False", REASON_NODES_NOT_READY, "no node is ready".to_owned()),
    };
    condition(CONDITION_SCHEDULABLE_NODES, status, reason, message, now)
}

fn condition(kind: &str, status: &str, reason: &str, message: String, now: &str) -> Condition {
    Condition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        observed_generation: None,
        last_transition_time: now.to_owned(),
        reason: reason.to_owned(),
        message,
    }
}

/// Served resources, by group version and name.
pub fn enablements(served: &ApiResources) -> Vec<ApiEnablement> {
    let mut groups: BTreeMap<String, Vec<EnabledResource>> = BTreeMap::new();
    for resource in &served.resources {
        let found = EnabledResource { name: resource.gvr.resource.clone(), kind: resource.kind.clone() };
        groups.entry(resource.gvr.group_version().to_string()).or_default().push(found);
    }
    let sorted = groups.into_iter().map(|(group_version, mut resources)| {
        resources.sort_by(|a, b| a.name.cmp(&b.name));
        ApiEnablement { group_version, resources }
    });
    sorted.collect()
}

#[cfg(test)]
mod tests {
    use cluster_client::ApiResource;
    use object::GroupVersionResource;

    use super::*;

    #[test]
    fn several_health_checks_fit_into_the_failure_threshold() {
        let timeout = |seconds| health_timeout(Duration::from_secs(seconds)).as_secs();
        assert_eq!((timeout(30), timeout(6), timeout(0), timeout(300)), (10, 2, 2, 10));
    }

    #[test]
    fn served_apis_are_sorted_by_group_version_and_name() {
        let resource = |group: &str, name: &str, kind: &str| ApiResource {
            gvr: GroupVersionResource::new(group, "v1", name),
            kind: kind.into(),
            ..ApiResource::default()
        };
        let served = ApiResources {
            resources: vec![
                resource("", "services", "Service"),
                resource("apps", "deployments", "Deployment"),
                resource("", "pods", "Pod"),
            ],
            incomplete: vec![],
        };
        let found: Vec<String> = enablements(&served)
            .into_iter()
            .flat_map(|group| group.resources.into_iter().map(move |r| format!("{} {}", group.group_version, r.kind)))
            .collect();
        assert_eq!(found, ["apps/v1 Deployment", "v1 Pod", "v1 Service"]);
    }

    #[test]
    fn conditions_describe_the_known_state() {
        let text = |c: Condition| format!("{} {} {}: {}", c.kind, c.status, c.reason, c.message);
        for (health, expected) in [
            (Health::Healthy, "Ready True ClusterReady: cluster is healthy and ready to accept workloads"),
            (Health::Offline, "Ready False ClusterNotReachable: cluster is not reachable"),
            (
                Health::Unhealthy,
                "Ready False ClusterNotReady: cluster is reachable but health endpoint responded without ok",
            ),
            (
                Health::Unconnected("x".into()),
                "Ready False StatusCollectionFailed: failed to create a ClusterClient: x",
            ),
        ] {
            assert_eq!(text(ready_condition(&health, "")), expected);
        }
        for (count, is_complete, expected) in [
            (0, true, "CompleteAPIEnablements False Empty: collected empty APIEnablements from the cluster"),
            (
                3,
                false,
                "CompleteAPIEnablements False Partial: might collect partial APIEnablements(3) from the cluster",
            ),
            (3, true, "CompleteAPIEnablements True Complete: collected complete APIEnablements from the cluster"),
        ] {
            assert_eq!(text(apis_condition(count, is_complete, "")), expected);
        }
    }
}
