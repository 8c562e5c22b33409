//! The instance-registry controller: keeps one Registration for each instance, and one for each namespace that belongs to a
//! workspace. Others read them through the API or get them by webhooks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cluster_client::{ClusterClient, DeleteOptions, ResourceRef, WriteOptions};
use instances::lifecycle::path_name;
use manager_kinds::REGISTRATIONS;
use object::{Object, Status};
use reconcile::{Mirror, MirrorSpec, ObjectKey};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const FIELD_MANAGER: &str = "flotilla-manager";
const PRODUCT: &str = "flotilla";
/// Time until a failed write is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// The registrations, and the objects they come from.
#[derive(Clone)]
pub struct InstanceRegistry {
    client: ClusterClient,
    karmadas: Mirror,
    workspaces: Mirror,
    /// The published registrations.
    pub registrations: Mirror,
}

impl InstanceRegistry {
    pub fn new(client: &ClusterClient, karmadas: &Mirror, workspaces: &Mirror, cancel: &CancellationToken) -> Self {
        let registrations = Mirror::start(client.clone(), MirrorSpec::new(&REGISTRATIONS.gvr()), cancel.clone());
        Self { client: client.clone(), karmadas: karmadas.clone(), workspaces: workspaces.clone(), registrations }
    }

    pub async fn run(self, cancel: CancellationToken) {
        let mut followers = [&self.karmadas, &self.workspaces, &self.registrations].map(Mirror::subscribe);
        for mirror in [&self.karmadas, &self.workspaces, &self.registrations] {
            mirror.synced().await;
        }
        loop {
            let has_failed = match self.settle().await {
                Ok(()) => false,
                Err(status) => {
                    tracing::warn!(%status, "cannot update the registrations; will retry");
                    true
                }
            };
            let changed = futures::future::select_all(followers.iter_mut().map(|follower| Box::pin(follower.next())));
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(RETRY), if has_failed => {}
                _ = changed => {}
            }
        }
    }

    async fn settle(&self) -> Result<(), Status> {
        let mut wanted = desired(&self.karmadas.list(), &self.workspaces.list());
        for present in self.registrations.list() {
            let spec = wanted.remove(present.name());
            let target = ResourceRef::cluster(&REGISTRATIONS.gvr(), present.name());
            match spec {
                None => match self.client.delete(target, DeleteOptions::default()).await {
                    Err(status) if !status.is_not_found() => return Err(status),
                    _ => self.registrations.note_gone(&present),
                },
                Some(spec) if present.get(&["spec"]) != Some(&spec) => {
                    let mut changed = (*present).clone();
                    changed.set(&["spec"], spec);
                    let options = WriteOptions::managed_by(FIELD_MANAGER);
                    self.registrations.note(&self.client.update(target, changed, options).await?);
                }
                Some(_) => {}
            }
        }
        for (name, spec) in wanted {
            let mut registration = REGISTRATIONS.object("", &name);
            registration.set(&["spec"], spec);
            let options = WriteOptions::managed_by(FIELD_MANAGER);
            let created = self.client.create(ResourceRef::all(&REGISTRATIONS.gvr()), registration, options).await?;
            self.registrations.note(&created);
        }
        Ok(())
    }
}

/// Returns the registrations by name. An instance is withdrawn as soon as its deletion begins.
fn desired(karmadas: &[Arc<Object>], workspaces: &[Arc<Object>]) -> BTreeMap<String, Value> {
    let mut wanted = BTreeMap::new();
    let mut states = BTreeMap::new();
    for instance in karmadas.iter().filter(|instance| !instance.is_deleting()) {
        let name = path_name(&ObjectKey::of(instance));
        let phase = instance.str_at(&["status", "phase"]);
        let state = if phase.is_empty() { "Pending" } else { phase };
        let spec = json!({"product": PRODUCT, "type": "instance", "name": name, "uid": instance.uid(), "state": state});
        wanted.insert(format!("instance-{}", instance.uid()), spec);
        states.insert(name, (instance.uid().to_owned(), state.to_owned()));
    }
    for namespace in workspaces.iter().flat_map(|workspace| workspace.items(&["spec", "namespaces"]).to_vec()) {
        let field = |name: &str| namespace[name].as_str().unwrap_or_default().to_owned();
        let (instance, name) = (field("instance"), field("namespace"));
        let Some((uid, state)) = states.get(&instance) else { continue };
        let id = pki::token::hash(&format!("{uid}/{name}"));
        let spec = json!({
            "product": PRODUCT, "type": "namespace", "name": name, "uid": &id[..32], "scope": instance, "state": state,
        });
        wanted.insert(format!("namespace-{}", &id[..32]), spec);
    }
    wanted
}

#[cfg(test)]
mod tests {
    use manager_kinds::{KARMADAS, WORKSPACES};

    use super::*;

    #[test]
    fn instances_and_bound_namespaces_are_published_until_they_are_deleted() {
        let instance = |name: &str, phase: &str, is_deleting: bool| {
            let mut object = KARMADAS.object("karmada-system", name);
            object.set(&["metadata", "uid"], format!("uid-{name}"));
            object.set(&["status", "phase"], phase);
            if is_deleting {
                object.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
            }
            Arc::new(object)
        };
        let mut workspace = WORKSPACES.object("", "shop");
        let namespaces = json!([{"instance": "east", "namespace": "a"}, {"instance": "gone", "namespace": "b"}]);
        workspace.set(&["spec", "namespaces"], namespaces);
        let karmadas =
            [instance("east", "Running", false), instance("new", "", false), instance("gone", "Running", true)];
        let found = desired(&karmadas, &[Arc::new(workspace)]);
        let shown: Vec<(&str, &str, &str)> = found
            .values()
            .map(|spec| {
                let field = |name: &str| spec[name].as_str().unwrap_or_default();
                (field("type"), field("name"), field("state"))
            })
            .collect();
        let expected = [("instance", "east", "Running"), ("instance", "new", "Pending"), ("namespace", "a", "Running")];
        assert_eq!(shown, expected);
    }
}
