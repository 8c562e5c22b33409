//! Keeps a ServiceAccount called `default` in every active namespace.

use cluster_client::{ClusterClient, ResourceRef, WriteOptions};
use object::builtin;
use reconcile::{Controller, Mirror, MirrorSpec, ObjectKey, Outcome, ReconcileError};
use tokio_util::sync::CancellationToken;

use super::{is_active, per_namespace};
use crate::resources::core_object;

const NAME: &str = "default";

pub async fn run(reader: ClusterClient, writer: ClusterClient, namespaces: Mirror, cancel: CancellationToken) {
    let spec = MirrorSpec {
        field_selector: Some(format!("metadata.name={NAME}")),
        ..MirrorSpec::new(&builtin::service_accounts())
    };
    let accounts = Mirror::start(reader, spec, cancel.clone());
    let sources = per_namespace(&namespaces, &accounts);
    let reconcile = move |name: String| ensure(writer.clone(), namespaces.clone(), accounts.clone(), name);
    Controller::new("serviceaccount").run(sources, 2, cancel, reconcile).await;
}

async fn ensure(
    writer: ClusterClient,
    namespaces: Mirror,
    accounts: Mirror,
    namespace: String,
) -> Result<Outcome, ReconcileError> {
    let is_wanted = namespaces.get(&ObjectKey::new("", &namespace)).is_some_and(|found| is_active(&found));
    if !is_wanted || accounts.get(&ObjectKey::new(&namespace, NAME)).is_some() {
        return Ok(Outcome::Done);
    }
    let target = ResourceRef::within(accounts.gvr(), &namespace);
    let account = core_object("ServiceAccount", &namespace, NAME);
    match writer.create(target, account, WriteOptions::default()).await {
        Ok(_) => Ok(Outcome::Done),
        // It exists, or the namespace is terminating: no retry needed.
        Err(status) if status.is_already_exists() || status.is_not_found() || status.code == 403 => Ok(Outcome::Done),
        Err(status) => Err(status.into()),
    }
}
