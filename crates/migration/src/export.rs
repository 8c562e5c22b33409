//! From the objects of a Flotilla to files that a Karmada accepts, in an order in which they can be applied.

use std::collections::BTreeMap;
use std::fmt::Write;

use api::names;
use kinds::Catalog;
use object::{Object, yaml};
use serde_json::{Map, Value};

use crate::import::{described, described_kind};
use crate::rules;

/// Fields of metadata that an API server sets itself. Owners are referenced by uid, which changes; Karmada's controllers set
/// them again.
const OWN_METADATA: [&str; 9] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "ownerReferences",
    "selfLink",
];
/// Domains of labels and annotations that only Flotilla reads.
const OWN_DOMAINS: [&str; 2] = ["flotilla.dev", "flotilla.io"];
/// Namespaces that every API server creates.
const KUBE_NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// Feature gates and settings without a counterpart, for the report: they are flags and not part of the data.
const OWN_GATES: [&str; 2] = ["ResilientFailover", "DeprecatedPurgeModes"];

/// The files of an export, in the order in which they are applied.
#[derive(Debug, Default)]
pub struct ExportPlan {
    pub files: Vec<ExportFile>,
    /// Counts by kind and reason.
    pub left_out: BTreeMap<(String, &'static str), u64>,
    /// Fields, labels and annotations without a counterpart, which were removed, with the number of objects.
    pub removed: BTreeMap<String, u64>,
    /// Objects whose deletion has begun.
    pub deleting: Vec<String>,
}

#[derive(Debug, PartialEq)]
pub struct ExportFile {
    /// Begins with a number, so that the order of names is the order of application.
    pub name: &'static str,
    pub objects: Vec<Object>,
}

impl ExportFile {
    /// All objects as YAML documents.
    pub fn text(&self) -> String {
        let documents: Vec<String> = self.objects.iter().map(|object| yaml::to_string(object.as_value())).collect();
        documents.join("---\n")
    }
}

/// The files in order. What others refer to comes first; works and bindings come before the policies and templates that would
/// otherwise create them again.
const FILES: [&str; 9] = [
    "10-namespaces.yaml",
    "20-definitions.yaml",
    "30-access.yaml",
    "40-credentials.yaml",
    "50-clusters.yaml",
    "60-works.yaml",
    "70-bindings.yaml",
    "80-policies.yaml",
    "90-templates.yaml",
];

/// Plans an export of all objects of a Flotilla, in the form they are stored in.
pub fn plan_export(catalog: &Catalog, objects: Vec<Object>) -> ExportPlan {
    let mut plan = ExportPlan::default();
    let mut files: BTreeMap<&'static str, Vec<Object>> = BTreeMap::new();
    for object in objects {
        if object.is_deleting() {
            plan.deleting.push(described(&object));
            continue;
        }
        if let Some(reason) = left_out(catalog, &object) {
            *plan.left_out.entry((described_kind(&object), reason)).or_default() += 1;
            continue;
        }
        let file = file_of(&object);
        let exported = to_karmada(object, &mut plan.removed);
        files.entry(file).or_default().push(exported);
    }
    plan.files = files.into_iter().map(|(name, objects)| ExportFile { name, objects }).collect();
    plan
}

fn left_out(catalog: &Catalog, object: &Object) -> Option<&'static str> {
    if let Some(reason) = rules::left_out(catalog, object) {
        return Some(reason.reason_here());
    }
    let gvk = object.gvk();
    let of_every_server = "every API server creates its own";
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Namespace") if KUBE_NAMESPACES.contains(&object.name()) => Some(of_every_server),
        ("rbac.authorization.k8s.io", _) if object.label("kubernetes.io/bootstrapping") == Some("rbac-defaults") => {
            Some(of_every_server)
        }
        ("flowcontrol.apiserver.k8s.io", _) if object.annotation("apf.kubernetes.io/autoupdate-spec").is_some() => {
            Some(of_every_server)
        }
        ("scheduling.k8s.io", "PriorityClass") if object.name().starts_with("system-") => Some(of_every_server),
        ("networking.k8s.io", "IPAddress" | "ServiceCIDR") => Some("the API server allocates addresses itself"),
        ("certificates.k8s.io", "CertificateSigningRequest") => Some("it has been answered, or its author repeats it"),
        ("", "Secret") => match object.str_at(&["type"]) {
            "kubernetes.io/service-account-token" => Some("it is bound to the uid of its account; create a new one"),
            ty if is_own(ty) => Some("it belongs to the web console"),
            _ => None,
        },
        ("", "ConfigMap") => match (object.namespace(), object.name()) {
            ("kube-public", "cluster-info") => Some("it has the address of this control plane"),
            (_, "kube-root-ca.crt") => Some(of_every_server),
            _ => None,
        },
        _ => None,
    }
}

/// Reports whether the domain of a qualified name is Flotilla's.
fn is_own(name: &str) -> bool {
    let domain = name.split('/').next().unwrap_or_default();
    name.contains('/') && OWN_DOMAINS.iter().any(|own| domain == *own || domain.ends_with(&format!(".{own}")))
}

fn file_of(object: &Object) -> &'static str {
    let gvk = object.gvk();
    let index = match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Namespace") => 0,
        ("apiextensions.k8s.io", _) => 1,
        ("rbac.authorization.k8s.io", _) | ("", "ServiceAccount") => 2,
        ("", _) if names::is_reserved_namespace(object.namespace()) => 3,
        ("cluster.karmada.io", _) => 4,
        ("work.karmada.io", "Work") => 5,
        ("work.karmada.io", _) => 6,
        (group, _) if group.ends_with(".karmada.io") => 7,
        _ => 8,
    };
    FILES[index]
}

/// Removes what the API server of a Karmada sets or does not know. `removed` counts what has no counterpart.
fn to_karmada(mut object: Object, removed: &mut BTreeMap<String, u64>) -> Object {
    for field in OWN_METADATA {
        object.remove(&["metadata", field]);
    }
    object.remove(&["status"]);
    for field in ["annotations", "labels"] {
        let Some(map) = object.get(&["metadata", field]).and_then(Value::as_object) else { continue };
        let own: Vec<String> = map.keys().filter(|key| is_own(key)).cloned().collect();
        for key in own {
            object.remove(&["metadata", field, &key]);
            *removed.entry(format!("metadata.{field}[{key}]")).or_default() += 1;
        }
    }
    match object.kind() {
        "Service" if object.str_at(&["spec", "clusterIP"]) != "None" => {
            // Each API server has its own range of addresses.
            object.remove(&["spec", "clusterIP"]);
            object.remove(&["spec", "clusterIPs"]);
        }
        "ResourceBinding" | "ClusterResourceBinding" => {
            object.remove(&["spec", "resource", "uid"]);
            object.remove(&["spec", "resource", "resourceVersion"]);
            remove_components(&mut object, removed);
        }
        _ => {}
    }
    object
}

/// Karmada 1.18 does not know the replicas of each component in a binding.
fn remove_components(binding: &mut Object, removed: &mut BTreeMap<String, u64>) {
    let clusters = binding.items(&["spec", "clusters"]);
    if !clusters.iter().any(|cluster| cluster.get("components").is_some()) {
        return;
    }
    let without = |cluster: &Value| {
        let fields = cluster.as_object().into_iter().flatten().filter(|(name, _)| *name != "components");
        Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>())
    };
    let clusters: Vec<Value> = clusters.iter().map(without).collect();
    binding.set(&["spec", "clusters"], clusters);
    *removed.entry("spec.clusters[].components".to_owned()).or_default() += 1;
}

/// Describes what is exported, and what has no counterpart.
pub fn export_report(plan: &ExportPlan) -> String {
    let mut text = String::from("Files, in the order in which they are applied:\n");
    for file in &plan.files {
        let _ = writeln!(text, "  {:20}  {} objects", file.name, file.objects.len());
    }
    text.push_str("\nLeft out:\n");
    for ((kind, reason), count) in &plan.left_out {
        let _ = writeln!(text, "  {count:>5}  {kind}: {reason}");
    }
    text.push_str("\nWithout a counterpart in Karmada, removed:\n");
    for (field, count) in &plan.removed {
        let _ = writeln!(text, "  {count:>5}  {field}");
    }
    let _ = writeln!(
        text,
        "      -  uids, owner references and status: the API server and the controllers of the Karmada set them\n      -  flags of \
         the server, and the feature gates {}",
        OWN_GATES.join(" and ")
    );
    for object in &plan.deleting {
        let _ = writeln!(text, "      -  {object}: it is being deleted");
    }
    text
}
