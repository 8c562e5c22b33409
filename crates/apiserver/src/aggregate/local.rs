//! The APIServices of groups this server answers for itself, so that `kubectl get apiservices` shows everything there is.

use std::collections::BTreeMap;

use kinds::Priority;
use kinds::strategies::apiregistration;
use object::{GroupVersion, GroupVersionKind, Object, Status};

use super::services;
use crate::resources::Resources;
use crate::storage;

const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Creates missing APIServices and removes those CRDs no longer serve. APIServices of other owners stay as they are.
pub async fn register(resources: Resources<'_>) -> Result<(), Status> {
    let Some(resource) = resources.registry.find("apiregistration.k8s.io", "v1", "apiservices") else { return Ok(()) };
    let snapshot = resources.registry.snapshot();
    let served: BTreeMap<GroupVersion, (bool, Option<Priority>)> = snapshot
        .ordered
        .iter()
        .map(|r| {
            let own = r.kind.own_schema.as_ref().map(|own| own.priority);
            (r.kind.gvk.group_version(), (r.custom.is_some(), own))
        })
        .collect();
    let existing = services(resources.registry).await?;
    let mut writes = Vec::new();
    for (gv, (custom, own)) in &served {
        let name = name_of(gv);
        if !existing.iter().any(|service| service.name() == name) {
            let object = service(gv, *custom, *own);
            let key = resource.key("", &name);
            writes
                .push(async move { resources.objects.create(&key, storage::encode(&object), None).await.map(|_| ()) });
        }
    }
    for result in futures::future::join_all(writes).await {
        result?;
    }
    for gone in existing.iter().filter(|s| s.label(AUTOMANAGED) == Some("true")) {
        let gv = GroupVersion::new(gone.str_at(&["spec", "group"]), gone.str_at(&["spec", "version"]));
        if !snapshot.serves_version(&gv.group, &gv.version) {
            let revision = gone.resource_version().parse().unwrap_or(0);
            resources.objects.delete(&resource.key("", gone.name()), revision).await?;
        }
    }
    Ok(())
}

fn name_of(gv: &GroupVersion) -> String {
    format!("{}.{}", gv.version, gv.group)
}

fn service(gv: &GroupVersion, custom: bool, own: Option<Priority>) -> Object {
    let now = jiff::Timestamp::now();
    let mut object =
        Object::new(&GroupVersionKind::new("apiregistration.k8s.io", "v1", "APIService"), None, &name_of(gv));
    object.set_label(AUTOMANAGED, if custom { "true" } else { "onstart" });
    object.set(&["metadata", "uid"], uuid::Uuid::new_v4().to_string());
    object.set(&["metadata", "creationTimestamp"], object::time::format_seconds(now));
    if !gv.group.is_empty() {
        object.set(&["spec", "group"], gv.group.as_str());
    }
    object.set(&["spec", "version"], gv.version.as_str());
    let priority = match own {
        Some(own) => own,
        None if gv.group.is_empty() => Priority { group: 18_000, version: 15 },
        None if custom => Priority { group: 1000, version: 100 },
        None => Priority { group: 17_000, version: 15 },
    };
    object.set(&["spec", "groupPriorityMinimum"], priority.group);
    object.set(&["spec", "versionPriority"], priority.version);
    apiregistration::set_local(&mut object, now);
    object
}
