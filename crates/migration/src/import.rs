//! From the objects of a Karmada to the objects of a Flotilla, in the form they are stored in.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use api::cluster::{CLUSTERS, ClusterSpec, SyncMode};
use api::features::Features;
use jiff::{SignedDuration, Timestamp};
use kinds::Catalog;
use object::{GroupKind, GroupResource, Object, conditions, depth};

use crate::definitions;
use crate::foreign::ForeignPlane;
use crate::rules::{self, LeftOut};

/// Karmada's components that act on members or bindings, by their leases.
const ACTING_COMPONENTS: [&str; 3] = ["karmada-controller-manager", "karmada-scheduler", "karmada-descheduler"];

/// The kinds that Flotilla serves without a definition.
pub type ServedKinds = Catalog;

/// Returns all of them.
pub fn served_kinds() -> ServedKinds {
    let kinds = kinds::builtin().into_iter().chain(validation::kinds(&Features::flotilla()));
    Catalog::new(kinds.map(Arc::new))
}

/// The outcome of a planned import.
#[derive(Debug, Default)]
pub struct ImportPlan {
    /// In the form they are stored in.
    pub objects: Vec<ImportedObject>,
    /// Counts by kind and reason.
    pub left_out: BTreeMap<(String, LeftOut), u64>,
    /// Objects that cannot be taken over, with the reason.
    pub unsupported: Vec<UnsupportedObject>,
    pub clusters: Vec<ImportedCluster>,
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ImportedObject {
    /// Group and plural of the storage key.
    pub resource: GroupResource,
    /// Without resourceVersion.
    pub object: Object,
    /// The revision at which the object was last written, 0 if unknown. Bindings refer to the one of their template.
    pub revision: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedObject {
    /// Kind, namespace and name, or the key in etcd.
    pub what: String,
    pub reason: String,
}

/// A member of the Karmada.
#[derive(Clone, Debug)]
pub struct ImportedCluster {
    pub name: String,
    pub spec: ClusterSpec,
    /// Ready in the status that the Karmada last reported.
    pub was_ready: bool,
    /// The credentials of a push member.
    pub secret: Option<Object>,
}

impl ImportedCluster {
    pub fn is_push(&self) -> bool {
        self.spec.sync_mode == SyncMode::Push
    }
}

impl ImportPlan {
    /// Objects by kind.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for imported in &self.objects {
            *counts.entry(described_resource(&imported.resource)).or_default() += 1;
        }
        counts
    }
}

/// Kind of a resource, by its storage key.
struct Storage {
    resource: GroupResource,
    is_namespaced: bool,
}

/// Plans an import at the time `now`, which decides whether components of the Karmada are still active.
pub fn plan_import(catalog: &Catalog, foreign: ForeignPlane, now: Timestamp) -> ImportPlan {
    let mut plan = ImportPlan { warnings: foreign.warnings, ..ImportPlan::default() };
    plan.unsupported.extend(
        foreign.unreadable.into_iter().map(|value| UnsupportedObject { what: value.key, reason: value.reason }),
    );
    plan.warnings.extend(active_components(&foreign.objects, now));
    let custom = custom_kinds(&foreign.objects);
    let mut seen = HashSet::new();
    for object in foreign.objects {
        if let Some(reason) = rules::left_out(catalog, &object) {
            *plan.left_out.entry((described_kind(&object), reason)).or_default() += 1;
            continue;
        }
        match plan_object(catalog, &custom, definitions::to_v1(object)) {
            Err(unsupported) => plan.unsupported.push(unsupported),
            Ok(imported) => {
                let key = (
                    imported.resource.clone(),
                    imported.object.namespace().to_owned(),
                    imported.object.name().to_owned(),
                );
                if seen.insert(key) {
                    plan.objects.push(imported);
                }
            }
        }
    }
    plan.clusters = clusters(&plan.objects);
    let warnings = warnings(&plan);
    plan.warnings.extend(warnings);
    plan
}

fn plan_object(
    catalog: &Catalog,
    custom: &HashMap<GroupKind, Storage>,
    mut object: Object,
) -> Result<ImportedObject, UnsupportedObject> {
    let unsupported =
        |object: &Object, reason: &str| UnsupportedObject { what: described(object), reason: reason.to_owned() };
    let gvk = object.gvk();
    let (resource, is_namespaced) = if let Some(kind) = catalog.find_kind(&gvk) {
        if !kind.stored {
            return Err(unsupported(&object, "objects of this kind are not stored"));
        }
        let storage = (kind.storage_resource.clone(), kind.namespaced);
        if kind.gvk != kind.storage {
            object = kind.strategy.to_storage(object);
        }
        storage
    } else if let Some(storage) = custom.get(&GroupKind { group: gvk.group, kind: gvk.kind }) {
        (storage.resource.clone(), storage.is_namespaced)
    } else {
        return Err(unsupported(&object, "Flotilla does not serve this kind or version"));
    };
    if object.name().is_empty() {
        return Err(unsupported(&object, "metadata.name is empty"));
    }
    // A part of the storage key: with a slash it would be the key of another object.
    if object.name().contains('/') || object.namespace().contains('/') {
        return Err(unsupported(&object, "metadata.name or metadata.namespace contains a slash"));
    }
    if depth::of(object.as_value()) > depth::DEPTH_MAX {
        return Err(unsupported(&object, "it has more levels than an object may have"));
    }
    if is_namespaced == object.namespace().is_empty() {
        return Err(unsupported(&object, "metadata.namespace does not match the scope of its kind"));
    }
    rules::without_karmadas(&mut object);
    let revision = object.resource_version().parse().unwrap_or_default();
    object.remove(&["metadata", "resourceVersion"]);
    Ok(ImportedObject { resource, object, revision })
}

/// The custom kinds by the definitions of the foreign plane.
fn custom_kinds(objects: &[Object]) -> HashMap<GroupKind, Storage> {
    let read = |object: &Object| {
        let text = |path: &[&str]| object.str_at(path).to_owned();
        let group = text(&["spec", "group"]);
        let resource = GroupResource { group: group.clone(), resource: text(&["spec", "names", "plural"]) };
        let is_namespaced = object.str_at(&["spec", "scope"]) == "Namespaced";
        (GroupKind { group, kind: text(&["spec", "names", "kind"]) }, Storage { resource, is_namespaced })
    };
    objects.iter().filter(|object| definitions::is_definition(object)).map(read).collect()
}

fn clusters(objects: &[ImportedObject]) -> Vec<ImportedCluster> {
    let secrets: HashMap<(&str, &str), &Object> = objects
        .iter()
        .filter(|imported| imported.object.kind() == "Secret" && imported.resource.group.is_empty())
        .map(|imported| ((imported.object.namespace(), imported.object.name()), &imported.object))
        .collect();
    let of_cluster = |imported: &&ImportedObject| {
        imported.resource.group == CLUSTERS.group && imported.resource.resource == CLUSTERS.plural
    };
    let read = |imported: &ImportedObject| {
        let spec: ClusterSpec = api::read(&imported.object).unwrap_or_default();
        let secret = spec.secret_ref.as_ref().and_then(|of| secrets.get(&(of.namespace.as_str(), of.name.as_str())));
        ImportedCluster {
            name: imported.object.name().to_owned(),
            was_ready: conditions::is_true(&imported.object, api::cluster::CONDITION_READY),
            secret: secret.map(|secret| (*secret).clone()),
            spec,
        }
    };
    objects.iter().filter(of_cluster).map(read).collect()
}

/// Components that hold a lease which has not expired.
fn active_components(objects: &[Object], now: Timestamp) -> Vec<String> {
    let is_active = |lease: &Object| {
        let seconds = lease.i64_at(&["spec", "leaseDurationSeconds"]).unwrap_or_default();
        let renewed: Option<Timestamp> = lease.str_at(&["spec", "renewTime"]).parse().ok();
        renewed.is_some_and(|renewed| renewed + SignedDuration::from_secs(seconds.clamp(0, 3600)) > now)
    };
    let leases = objects.iter().filter(|object| object.kind() == "Lease" && ACTING_COMPONENTS.contains(&object.name()));
    leases
        .filter(|lease| is_active(lease))
        .map(|lease| format!("{} is running: stop it, or later changes of it are not part of the import", lease.name()))
        .collect()
}

fn warnings(plan: &ImportPlan) -> Vec<String> {
    let mut warnings = Vec::new();
    for imported in plan.objects.iter().filter(|imported| rules::calls_out(&imported.object)) {
        let object = described(&imported.object);
        warnings.push(format!(
            "{object} is taken over: the server it points to must be reachable from the new control plane"
        ));
    }
    let deleting = plan.objects.iter().filter(|imported| imported.object.is_deleting()).count();
    if deleting > 0 {
        warnings.push(format!("{deleting} objects are being deleted; their deletion continues when safe mode ends"));
    }
    for cluster in plan.clusters.iter().filter(|cluster| !cluster.was_ready) {
        warnings.push(format!("cluster {} is not ready in the old control plane", cluster.name));
    }
    warnings
}

/// Kind, namespace and name.
pub(crate) fn described(object: &Object) -> String {
    match object.namespace() {
        "" => format!("{} {}", described_kind(object), object.name()),
        namespace => format!("{} {namespace}/{}", described_kind(object), object.name()),
    }
}

/// The kind with its group, such as `Work.work.karmada.io`.
pub(crate) fn described_kind(object: &Object) -> String {
    match object.gvk() {
        gvk if gvk.group.is_empty() => gvk.kind,
        gvk => format!("{}.{}", gvk.kind, gvk.group),
    }
}

fn described_resource(resource: &GroupResource) -> String {
    match resource.group.as_str() {
        "" => resource.resource.clone(),
        group => format!("{}.{group}", resource.resource),
    }
}
