//! Event sources of the distributor: scheduled and deleted bindings, and changes of dependencies.

use std::collections::HashSet;
use std::sync::Arc;

use api::work::{ANNOTATION_DEPENDENCIES, FINALIZER_DEPENDENCIES, ObjectReference};
use object::Object;
use propagation::binding_trigger::is_specification_changed;
use propagation::dependency::{recorded_dependencies, refers_to};
use reconcile::Source;
use reconcile::mirror::{Change, ObjectKey};
use reconcile::queue::Priority;

use crate::dependencies::{Distributor, propagates_dependencies};
use crate::templates::{Template, Watched};

/// Index values of what a binding was found to need: one per reference. A reference by labels has no name.
pub fn dependency_keys(binding: &Object) -> Vec<String> {
    let dependencies = recorded_dependencies(binding).unwrap_or_default();
    let key =
        |d: &api::config::DependentObjectReference| dependency_key(&d.api_version, &d.kind, &d.namespace, &d.name);
    dependencies.iter().map(key).collect()
}

fn dependency_key(api_version: &str, kind: &str, namespace: &str, name: &str) -> String {
    format!("{api_version}|{kind}|{namespace}|{name}")
}

pub fn binding_source(distributor: &Arc<Distributor>) -> Source<ObjectKey> {
    Source::new(&distributor.plane.bindings, |change| {
        let mut keys = dependents_left_behind(change);
        if concerns_dependencies(change) {
            keys.push(change.key.clone());
        }
        keys
    })
}

/// Does the change of a binding change what it takes along, or where to?
fn concerns_dependencies(change: &Change) -> bool {
    let Some(now) = &change.now else { return false };
    let Some(before) = &change.before else {
        let is_scheduled = !now.items(&["spec", "clusters"]).is_empty();
        // With the finalizer, something may be attached that no longer should be.
        return now.has_finalizer(FINALIZER_DEPENDENCIES) || (propagates_dependencies(now) && is_scheduled);
    };
    if !propagates_dependencies(before) && !propagates_dependencies(now) {
        return false;
    }
    // The dependencies are in the index only now; objects created before that were not noticed.
    let annotation = |binding: &Object| binding.annotation(ANNOTATION_DEPENDENCIES).map(str::to_owned);
    before.generation() != now.generation()
        || before.is_deleting() != now.is_deleting()
        || annotation(before) != annotation(now)
}

/// Returns the dependents of a deleted attached binding, which must be created again.
fn dependents_left_behind(change: &Change) -> Vec<ObjectKey> {
    let Some(gone) = change.before.as_ref().filter(|_| change.now.is_none()) else { return Vec::new() };
    let text = |value: &serde_json::Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let snapshots = gone.items(&["spec", "requiredBy"]).iter();
    snapshots.map(|snapshot| ObjectKey::new(&text(snapshot, "namespace"), &text(snapshot, "name"))).collect()
}

impl Distributor {
    /// Follows the changes of a kind from now on; once is enough.
    pub fn follow_changes(self: &Arc<Self>, watched: Watched) {
        if self.followed.lock().insert(watched.resource.gvk()) {
            tokio::spawn(follow_one(Arc::clone(self), watched));
        }
    }

    /// The bindings that need a changed object, by what it is called and by the labels it has or had.
    fn dependents_of(&self, watched: &Watched, change: &Change) -> HashSet<ObjectKey> {
        let gvk = watched.resource.gvk();
        let ObjectKey { namespace, name } = &change.key;
        let template = Template::new(&gvk.api_version(), &gvk.kind, namespace, name);
        let target = ObjectReference {
            api_version: template.api_version,
            kind: template.kind,
            namespace: template.namespace,
            name: template.name,
            ..ObjectReference::default()
        };
        let key = |name: &str| dependency_key(&target.api_version, &target.kind, namespace, name);
        let bindings = &self.plane.bindings_by_dependency;
        let named = bindings.list(&key(name)).into_iter();
        let labeled = bindings.list(&key("")).into_iter().filter(|binding| {
            let dependencies = recorded_dependencies(binding).unwrap_or_default();
            let mut states = [&change.before, &change.now].into_iter().flatten();
            states.any(|state| dependencies.iter().any(|dependency| refers_to(dependency, &target, Some(state))))
        });
        named.chain(labeled).map(|binding| ObjectKey::of(&binding)).collect()
    }
}

async fn follow_one(distributor: Arc<Distributor>, watched: Watched) {
    tokio::select! {
        () = watched.cancel.cancelled() => {}
        () = watched.mirror.synced() => {}
    }
    let mut changes = watched.mirror.subscribe();
    while let Some(change) = changes.next().await {
        if let (Some(before), Some(now)) = (&change.before, &change.now)
            && !is_specification_changed(before, now)
        {
            continue;
        }
        let priority = if change.is_initial { Priority::LOW } else { Priority::NORMAL };
        for key in distributor.dependents_of(&watched, &change) {
            distributor.controller.queue().add(key, priority).await;
        }
    }
    // The kind is no longer served; if it is served again, its dependents request it again.
    distributor.followed.lock().remove(&watched.resource.gvk());
}
