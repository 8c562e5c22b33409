//! Maps changes to the bindings they affect.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::names::{binding_name, cluster_of_execution_namespace};
use api::work::BindingSpec;
use object::Object;
use propagation::overrides::OverridePolicy;
use propagation::policy_selector::Selector;
use propagation::works::{self, BindingRef};
use reconcile::{Change, ObjectKey};

use crate::bindings::{binding_of_work, finalizer_of, kind_key, mirror_of};
use crate::plane::Plane;
use crate::templates::Template;

/// A binding whose spec changed, or that goes away. What others write into its status is of no concern, and neither is a
/// new binding that waits for the scheduler.
pub fn of_binding(plane: &Plane, change: &Change) -> Vec<ObjectKey> {
    if let (None, Some(new)) = (&change.before, &change.now)
        && is_unscheduled(new)
        && plane.works_by_binding.keys(BindingRef::of(new).id).is_empty()
    {
        return Vec::new();
    }
    let is_same = match (&change.before, &change.now) {
        (Some(before), Some(now)) => {
            before.generation() == now.generation()
                && before.is_deleting() == now.is_deleting()
                && before.uid() == now.uid()
        }
        _ => false,
    };
    if is_same { Vec::new() } else { vec![change.key.clone()] }
}

/// Reports whether there is nothing to deliver yet and nothing to clean up.
fn is_unscheduled(binding: &Object) -> bool {
    let targets: [&[&str]; 3] = [&["spec", "clusters"], &["spec", "requiredBy"], &["spec", "gracefulEvictionTasks"]];
    let finalizer = finalizer_of(&ObjectKey::of(binding));
    !binding.is_deleting()
        && binding.has_finalizer(finalizer)
        && targets.iter().all(|path| binding.items(path).is_empty())
}

/// A work that is gone though its binding means its member: it is made again. Or its binding waited for its end.
pub fn of_work(plane: &Plane, change: &Change) -> Vec<ObjectKey> {
    let (Some(before), None) = (&change.before, &change.now) else { return Vec::new() };
    let cluster = cluster_of_execution_namespace(before.namespace());
    let (Some(key), Some(cluster)) = (binding_of_work(before), cluster) else { return Vec::new() };
    let binding = mirror_of(plane, &key).get(&key).filter(|binding| !binding.is_deleting());
    let Some(Ok(spec)) = binding.map(|binding| api::read::<BindingSpec>(&binding)) else { return Vec::new() };
    let is_awaited = works::existing_clusters(&spec).contains(cluster) || works::purged_first(&spec).contains(cluster);
    if is_awaited { vec![key] } else { Vec::new() }
}

/// The bindings of templates that an override policy selects or selected.
pub fn of_policy(plane: &Plane, change: &Change) -> Vec<ObjectKey> {
    if change.is_initial {
        // All bindings come by themselves at the start.
        return Vec::new();
    }
    let mut keys = BTreeSet::new();
    for policy in [&change.before, &change.now].into_iter().flatten() {
        collect_selected(plane, policy, &mut keys);
    }
    keys.into_iter().collect()
}

fn collect_selected(plane: &Plane, policy: &Object, keys: &mut BTreeSet<ObjectKey>) {
    let Ok(policy) = OverridePolicy::read(policy) else { return };
    if policy.selectors.is_empty() {
        let (bindings, cluster_bindings) = match policy.namespace.as_str() {
            "" => (plane.bindings.list(), plane.cluster_bindings.list()),
            namespace => (plane.bindings.list_within(namespace), Vec::new()),
        };
        keys.extend(bindings.iter().chain(&cluster_bindings).map(|binding| ObjectKey::of(binding)));
        return;
    }
    for selector in &policy.selectors {
        collect_by_selector(plane, &policy.namespace, selector, keys);
    }
}

fn collect_by_selector(plane: &Plane, namespace: &str, selector: &Selector, keys: &mut BTreeSet<ObjectKey>) {
    let written = &selector.written;
    // The namespace of the template, if known: a namespaced policy reaches its own namespace only.
    let within = if namespace.is_empty() { written.namespace.as_str() } else { namespace };
    let candidates: Vec<Arc<Object>> = if !written.name.is_empty() && !within.is_empty() {
        let key = ObjectKey::new(within, &binding_name(&written.kind, &written.name));
        plane.bindings.get(&key).into_iter().collect()
    } else {
        let kind = kind_key(&written.api_version, &written.kind);
        let [namespaced, cluster_wide] = &plane.bindings_by_kind;
        let mut bindings = namespaced.list(&kind);
        if within.is_empty() {
            bindings.extend(cluster_wide.list(&kind));
        } else {
            bindings.retain(|binding| binding.namespace() == within);
        }
        bindings
    };
    let selected = candidates.iter().filter(|binding| may_select(plane, selector, binding));
    keys.extend(selected.map(|binding| ObjectKey::of(binding)));
}

/// By its template where that is at hand; where it is not, the reconcile finds out.
fn may_select(plane: &Plane, selector: &Selector, binding: &Object) -> bool {
    let reference = |field: &str| binding.str_at(&["spec", "resource", field]);
    let template = Template::new(reference("apiVersion"), reference("kind"), reference("namespace"), reference("name"));
    let object = plane.templates.mirror(&template.gvk()).and_then(|mirror| mirror.get(&template.key()));
    object.is_none_or(|object| selector.selects(&object).is_some())
}
