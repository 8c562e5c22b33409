//! Aggregates ClusterRoles: fills in the rules of the roles they select.

use access::aggregation::{aggregate, is_aggregated};
use access::rule::PolicyRule;
use cluster_client::{ClusterClient, WriteOptions};
use object::Object;
use object::builtin;
use reconcile::{Controller, Mirror, MirrorSpec, ObjectKey, Outcome, ReconcileError, Source};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub async fn run(reader: ClusterClient, writer: ClusterClient, cancel: CancellationToken) {
    let roles = Mirror::start(reader, MirrorSpec::new(&builtin::cluster_roles()), cancel.clone());
    let all = roles.clone();
    // Any role may match any aggregation rule.
    let source = Source::new(&roles, move |change| {
        if change.is_initial {
            return vec![change.key.clone()];
        }
        all.list().iter().filter(|role| is_aggregated(role)).map(|role| ObjectKey::of(role)).collect()
    });
    let reconcile = move |key: ObjectKey| reconcile(writer.clone(), roles.clone(), key);
    Controller::new("clusterrole-aggregation").run(vec![source], 1, cancel, reconcile).await;
}

async fn reconcile(writer: ClusterClient, roles: Mirror, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let Some(role) = roles.get(&key).filter(|role| is_aggregated(role)) else { return Ok(Outcome::Done) };
    let all = roles.list();
    let Some(rules) = aggregate(&role, all.iter().map(|role| &**role)) else { return Ok(Outcome::Done) };
    let mut desired = Object::clone(&role);
    desired.set(&["rules"], rules.iter().map(PolicyRule::to_value).collect::<Vec<Value>>());
    match writer.update(roles.target(&key), desired, WriteOptions::default()).await {
        Err(status) if !status.is_not_found() => Err(status.into()),
        _ => Ok(Outcome::Done),
    }
}
