//! Recounts the quota usage of namespaces. Admission only adds usage; this controller releases it after deletions.

mod count;

use std::sync::Arc;
use std::time::Duration;

use cluster_client::{ApiResource, ClusterClient, ListOptions, ResourceRef, RestMapper, WriteOptions};
use object::builtin;
use object::{GroupKind, GroupResource, Object, Status};
use parking_lot::RwLock;
use reconcile::{Controller, Mirror, MirrorSpec, ObjectKey, Outcome, Priority, ReconcileError, Source};
use tokio_util::sync::CancellationToken;

use crate::resource_watcher::{Listener, ResourceEvent};
use crate::resources::target;

/// Debounces bursts of deletions.
const SETTLE: Duration = Duration::from_millis(100);
const RECOUNT_EVERY: Duration = Duration::from_secs(300);
/// Maximum time from admission to storage of a write.
const BOOKED_IS_STORED: Duration = Duration::from_millis(100);
const WORKERS: usize = 4;

pub struct Recount {
    client: ClusterClient,
    controller: Controller<ObjectKey>,
    quotas: RwLock<Option<Mirror>>,
    mapper: RestMapper,
}

impl Recount {
    pub fn new(client: ClusterClient) -> Arc<Self> {
        let mapper = RestMapper::new(client.clone());
        Arc::new(Self { client, controller: Controller::new("resourcequota"), quotas: RwLock::default(), mapper })
    }

    pub async fn run(self: Arc<Self>, cancel: CancellationToken) {
        let quotas = Mirror::start(self.client.clone(), MirrorSpec::new(&builtin::resource_quotas()), cancel.clone());
        *self.quotas.write() = Some(quotas.clone());
        let source = Source::new(&quotas, |change| {
            // Admission updates the status all the time; only a new limit requires a recount.
            let part = |o: &Option<Arc<Object>>, path: &[&str]| o.as_ref().and_then(|q| q.get(path).cloned());
            let same = part(&change.before, &["spec"]) == part(&change.now, &["spec"])
                && part(&change.now, &["status", "hard"]) == part(&change.now, &["spec", "hard"]);
            if same || change.now.is_none() { Vec::new() } else { vec![change.key.clone()] }
        });
        let controller = self.controller.clone();
        controller.run(vec![source], WORKERS, cancel, move |key| reconcile(Arc::clone(&self), key)).await;
    }
}

impl Listener for Recount {
    fn see(&self, resource: &Arc<ApiResource>, seen: ResourceEvent<'_>) {
        let object = match seen {
            ResourceEvent::Deleted(object) => object,
            // Only these resources change their usage after creation.
            ResourceEvent::Modified(object) if resource.gvr.group.is_empty() => match resource.gvr.resource.as_str() {
                "pods" | "services" | "persistentvolumeclaims" => object,
                _ => return,
            },
            _ => return,
        };
        let Some(quotas) = self.quotas.read().clone() else { return };
        if object.namespace().is_empty() || quotas.is_empty() {
            return;
        }
        let counted = resource.gvr.group_resource();
        for quota in quotas.list_within(object.namespace()) {
            if count::resources(&quota).contains(&counted) {
                self.controller.queue().add_after(ObjectKey::of(&quota), SETTLE, Priority::NORMAL);
            }
        }
    }
}

async fn reconcile(recount: Arc<Recount>, key: ObjectKey) -> Result<Outcome, ReconcileError> {
    let place = target(&builtin::resource_quotas(), &key);
    let Some(quota) = recount.quotas.read().as_ref().and_then(|quotas| quotas.get(&key)) else {
        return Ok(Outcome::Done);
    };
    if quota.is_deleting() {
        return Ok(Outcome::Done);
    }
    // Admission charges the quota before it stores the object. Usage charged in the quota as read is stored by the
    // time of the count, and usage charged later makes the write fail: nothing in use is released.
    tokio::time::sleep(BOOKED_IS_STORED).await;
    let mut used = count::QuotaUsage::default();
    for resource in count::resources(&quota) {
        used.add(&quota, &resource, &recount.gather(&resource, &key.namespace).await?);
    }
    if let Some(desired) = used.into_status(&quota) {
        match recount.client.update_status(place, desired, WriteOptions::default()).await {
            Err(status) if !status.is_not_found() => return Err(status.into()),
            _ => {}
        }
    }
    Ok(Outcome::After(RECOUNT_EVERY))
}

impl Recount {
    /// Returns the objects of one resource in the namespace; none if the resource is not served.
    async fn gather(&self, resource: &GroupResource, namespace: &str) -> Result<Vec<Arc<Object>>, Status> {
        let found = match resource.group.is_empty() {
            true => Some(builtin::core(&resource.resource)),
            false => {
                let all = self.mapper.all().await?.resources;
                all.into_iter().map(|r| r.gvr).find(|gvr| gvr.group_resource() == *resource)
            }
        };
        let Some(gvr) = found else {
            // An unknown kind makes the mapper refresh discovery, so that the next count finds new resources.
            let _ = self.mapper.preferred_resource_of(&GroupKind::new(resource.group.clone(), "-")).await;
            return Ok(Vec::new());
        };
        match self.client.list_all(ResourceRef::within(&gvr, namespace), ListOptions::default()).await {
            Ok(list) => Ok(list.items),
            Err(status) if status.is_not_found() => Ok(Vec::new()),
            Err(status) => Err(status),
        }
    }
}
