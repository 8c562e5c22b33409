//! Probes the members of a Karmada from this machine, with the credentials that the new control plane will use.

use std::time::Duration;

use futures::StreamExt;
use member_sync::{Settings, connect};

use crate::import::ImportedCluster;

/// Maximum number of members probed concurrently.
const MEMBERS_AT_ONCE: usize = 8;
/// Timeout for one member.
const MEMBER_WAIT: Duration = Duration::from_secs(5);

/// Reachability of a member from this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// A push member answered with this version of Kubernetes.
    Answers(String),
    /// A push member did not answer, or its credentials are incomplete.
    Fails(String),
    /// A pull member connects by itself.
    ByAgent,
}

/// Probes all members; the answers are in the order of the clusters.
pub async fn probe(clusters: &[ImportedCluster]) -> Vec<Reach> {
    futures::stream::iter(clusters).map(probe_one).buffered(MEMBERS_AT_ONCE).collect().await
}

async fn probe_one(cluster: &ImportedCluster) -> Reach {
    if !cluster.is_push() {
        return Reach::ByAgent;
    }
    let settings = Settings::default();
    let client = match connect::connect(&cluster.name, &cluster.spec, cluster.secret.as_ref(), &settings) {
        Ok(client) => client,
        Err(error) => return Reach::Fails(error.to_string()),
    };
    match tokio::time::timeout(MEMBER_WAIT, client.get_json("/version")).await {
        Ok(Ok(version)) => Reach::Answers(version["gitVersion"].as_str().unwrap_or("unknown").to_owned()),
        Ok(Err(status)) => Reach::Fails(status.to_string()),
        Err(_) => Reach::Fails(format!("no answer within {} s", MEMBER_WAIT.as_secs())),
    }
}
