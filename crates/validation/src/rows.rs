//! Every Karmada kind as a row: names, columns, subresources and the type its schema has in the tables.

use std::sync::Arc;

use api::features::Features;
use api::{Resource, apps, autoscaling, cluster, config, multicluster, networking, policy, remedy, search, work};
use kinds::kind::Printer;
use kinds::printers::CrdPrinter;
use kinds::strategy::Strategy;
use kinds::{Kind, OwnSchema, Priority, SelectableField, ServedSubresource, SubresourceKind};
use object::request::{Subresource, Verb};
use object::schema::Schema;
use object::{GroupResource, GroupVersionKind, Object};
use serde_json::{Value, json};

use crate::bindings;
use crate::cluster::{ClusterPrinter, ClusterStrategy};
use crate::schema::Schemas;
use crate::search::RegistryStrategy;

const PART_VERBS: &[Verb] = &[Verb::Get, Verb::Patch, Verb::Update];
const PROXY_VERBS: &[Verb] = &[Verb::Create, Verb::Delete, Verb::Get, Verb::Patch, Verb::Update];

/// Default priority of Karmada's CustomResourceDefinitions.
const CUSTOM: Priority = Priority { group: 1000, version: 100 };
/// Priority that the APIServices of Karmada's aggregated servers request.
const AGGREGATED: Priority = Priority { group: 2000, version: 10 };

/// A kind that behaves as if a CustomResourceDefinition defined it.
pub struct Row {
    pub resource: Resource,
    /// The name of the type in the tables.
    pub ty: &'static str,
    pub short: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub status: bool,
    /// Heading, type and path of each column in addition to the name.
    pub columns: &'static [(&'static str, &'static str, &'static str)],
}

const AGE: (&str, &str, &str) = ("AGE", "date", ".metadata.creationTimestamp");
const MINE: &[&str] = &["karmada-io"];

/// A kind with a status, in the category of Karmada's kinds, without columns of its own.
const fn row(resource: Resource, short: &'static [&'static str]) -> Row {
    Row { resource, ty: resource.kind, short, categories: MINE, status: true, columns: &[] }
}

const POLICY_COLUMNS: &[(&str, &str, &str)] =
    &[("CONFLICT-RESOLUTION", "string", ".spec.conflictResolution"), ("PRIORITY", "string", ".spec.priority"), AGE];
const BINDING_COLUMNS: &[(&str, &str, &str)] = &[
    ("SCHEDULED", "string", ".status.conditions[?(@.type==\"Scheduled\")].status"),
    ("FULLYAPPLIED", "string", ".status.conditions[?(@.type==\"FullyApplied\")].status"),
    AGE,
];
const WORK_COLUMNS: &[(&str, &str, &str)] = &[
    ("WORKLOAD-KIND", "string", ".spec.workload.manifests[*].kind"),
    ("APPLIED", "string", ".status.conditions[?(@.type==\"Applied\")].status"),
    AGE,
];
const CUSTOMIZATION_COLUMNS: &[(&str, &str, &str)] =
    &[("TARGET-API-VERSION", "string", ".spec.target.apiVersion"), ("TARGET-KIND", "string", ".spec.target.kind"), AGE];
const QUOTA_COLUMNS: &[(&str, &str, &str)] =
    &[("OVERALL", "string", ".status.overall"), ("OVERALL_USED", "string", ".status.overallUsed")];
const HPA_COLUMNS: &[(&str, &str, &str)] = &[
    ("REFERENCE-KIND", "string", ".spec.scaleTargetRef.kind"),
    ("REFERENCE-NAME", "string", ".spec.scaleTargetRef.name"),
    ("MINPODS", "integer", ".spec.minReplicas"),
    ("MAXPODS", "integer", ".spec.maxReplicas"),
    ("REPLICAS", "integer", ".status.currentReplicas"),
    AGE,
];
const CRON_COLUMNS: &[(&str, &str, &str)] = &[
    ("REFERENCE-KIND", "string", ".spec.scaleTargetRef.kind"),
    ("REFERENCE-NAME", "string", ".spec.scaleTargetRef.name"),
    AGE,
];
const EXPORT_COLUMNS: &[(&str, &str, &str)] = &[("Age", "date", ".metadata.creationTimestamp")];
const IMPORT_COLUMNS: &[(&str, &str, &str)] =
    &[("Type", "string", ".spec.type"), ("IP", "string", ".spec.ips"), ("Age", "date", ".metadata.creationTimestamp")];

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { status: false, columns: POLICY_COLUMNS, ..row(policy::PROPAGATION_POLICIES, &["pp"]) },
    Row { status: false, columns: POLICY_COLUMNS, ..row(policy::CLUSTER_PROPAGATION_POLICIES, &["cpp"]) },
    Row { status: false, ..row(policy::OVERRIDE_POLICIES, &["op"]) },
    Row { status: false, ..row(policy::CLUSTER_OVERRIDE_POLICIES, &["cop"]) },
    Row { columns: QUOTA_COLUMNS, ..row(policy::FEDERATED_RESOURCE_QUOTAS, &[]) },
    Row { status: false, categories: &[], ..row(policy::CLUSTER_TAINT_POLICIES, &[]) },
    Row { columns: WORK_COLUMNS, ..row(work::WORKS, &["wk"]) },
    Row { columns: BINDING_COLUMNS, ..row(work::RESOURCE_BINDINGS, &["rb"]) },
    Row { columns: BINDING_COLUMNS, ..row(work::CLUSTER_RESOURCE_BINDINGS, &["crb"]) },
    Row { ty: "OldResourceBinding", ..row(work::RESOURCE_BINDINGS_V1ALPHA1, &["rb"]) },
    Row { ty: "OldClusterResourceBinding", ..row(work::CLUSTER_RESOURCE_BINDINGS_V1ALPHA1, &["crb"]) },
    Row { status: false, columns: CUSTOMIZATION_COLUMNS, ..row(config::INTERPRETER_CUSTOMIZATIONS, &["ric"]) },
    Row { status: false, ..row(config::INTERPRETER_WEBHOOKS, &[]) },
    row(networking::MULTI_CLUSTER_INGRESSES, &["mci"]),
    row(networking::MULTI_CLUSTER_SERVICES, &["mcs"]),
    Row { columns: HPA_COLUMNS, ..row(autoscaling::FEDERATED_HPAS, &["fhpa"]) },
    Row { columns: CRON_COLUMNS, ..row(autoscaling::CRON_FEDERATED_HPAS, &["cronfhpa"]) },
    Row { status: false, ..row(remedy::REMEDIES, &[]) },
    Row { categories: &[], ..row(apps::WORKLOAD_REBALANCERS, &[]) },
    Row { categories: &[], columns: EXPORT_COLUMNS, ..row(multicluster::SERVICE_EXPORTS, &["svcex"]) },
    Row { categories: &[], columns: IMPORT_COLUMNS, ..row(multicluster::SERVICE_IMPORTS, &["svcim"]) },
];

/// All of Karmada's kinds, ready to be served.
pub fn kinds(features: &Features) -> Vec<Kind> {
    let schemas = Schemas::read();
    let mut kinds = vec![cluster(&schemas, features), registry(&schemas)];
    kinds.push(connect_kind(&schemas, &search::SEARCHES, &[Verb::Get]));
    kinds.push(connect_kind(&schemas, &search::PROXYINGS, PROXY_VERBS));
    kinds.extend(ROWS.iter().map(|row| custom(&schemas, row)));
    if !features.deprecated_purge_modes {
        for own in kinds.iter_mut().filter_map(|kind| kind.own_schema.as_mut()) {
            remove_purge_modes(Arc::make_mut(&mut own.openapi));
        }
    }
    kinds
}

/// Removes the purge modes that Karmada 1.19 no longer has.
fn remove_purge_modes(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    if let Some(modes) = map.get_mut("purgeMode").and_then(|field| field.get_mut("enum")).and_then(Value::as_array_mut)
    {
        modes.retain(|mode| mode != "Immediately" && mode != "Graciously");
    }
    map.values_mut().for_each(remove_purge_modes);
}

/// A kind Karmada defines by CustomResourceDefinition: its schema is enforced, and it behaves as custom objects do.
fn custom(schemas: &Schemas, row: &Row) -> Kind {
    let is_binding = row.resource.plural.ends_with("resourcebindings");
    custom_kind(schemas, row, if is_binding { Arc::new(Bindings) } else { Arc::new(Custom) })
}

/// Builds such a kind with the rules of a strategy.
pub fn custom_kind(schemas: &Schemas, row: &Row, strategy: Arc<dyn Strategy>) -> Kind {
    let columns = row.columns.iter().map(|(name, ty, path)| json!({ "name": name, "type": ty, "jsonPath": path }));
    let status = row.status.then(|| status(&row.resource)).into_iter().collect();
    Kind {
        short_names: owned(row.short),
        categories: owned(row.categories),
        subresources: status,
        strategy,
        ..served(schemas, &row.resource, row.ty, true, Arc::new(CrdPrinter::new(&columns.collect::<Value>())))
    }
}

fn cluster(schemas: &Schemas, features: &Features) -> Kind {
    let resource = &cluster::CLUSTERS;
    let proxy = ServedSubresource {
        name: Subresource::Proxy,
        kind: SubresourceKind::Connect,
        gvk: GroupVersionKind::new(resource.group, resource.version, "ClusterProxyOptions"),
        verbs: PROXY_VERBS.to_vec(),
    };
    Kind {
        subresources: vec![proxy, status(resource)],
        strategy: Arc::new(ClusterStrategy { models: features.resource_modeling }),
        ..served(schemas, resource, resource.kind, false, Arc::new(ClusterPrinter))
    }
}

fn registry(schemas: &Schemas) -> Kind {
    let resource = &search::RESOURCE_REGISTRIES;
    Kind {
        subresources: vec![status(resource)],
        strategy: Arc::new(RegistryStrategy),
        ..served(schemas, resource, resource.kind, false, Arc::new(CrdPrinter::new(&Value::Null)))
    }
}

/// A kind of which there are no objects: what follows its name is led to members.
fn connect_kind(schemas: &Schemas, resource: &Resource, verbs: &[Verb]) -> Kind {
    let printer = Arc::new(CrdPrinter::new(&Value::Null));
    Kind { stored: false, verbs: verbs.to_vec(), ..served(schemas, resource, resource.kind, false, printer) }
}

/// Builds a served kind with the fields that all of them share.
fn served(schemas: &Schemas, resource: &Resource, ty: &str, enforced: bool, printer: Arc<dyn Printer>) -> Kind {
    let gvk = resource.gvk();
    let openapi = schemas.openapi(ty);
    let schema = if enforced {
        Schema::from_openapi(&openapi).expect("the tables are shallow and their references are written out")
    } else {
        schemas.typed(ty)
    };
    Kind {
        list_kind: format!("{}List", resource.kind),
        plural: resource.plural.to_owned(),
        singular: resource.kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: resource.namespaced,
        storage: storage(resource),
        storage_resource: GroupResource::new(resource.group, resource.plural),
        stored: true,
        verbs: Verb::OF_CUSTOM_RESOURCES.to_vec(),
        subresources: Vec::new(),
        schema,
        definition: kinds::openapi::definition_name(resource.group, resource.version, resource.kind),
        selectable_fields: ["metadata.name", "metadata.namespace"].into_iter().map(SelectableField::path).collect(),
        strategy: Arc::new(Custom),
        printer,
        deprecation: None,
        own_schema: Some(OwnSchema {
            openapi: Arc::new(openapi),
            priority: if enforced { CUSTOM } else { AGGREGATED },
            enforced,
        }),
        gvk,
    }
}

/// Only bindings are served in a version other than the one they are kept in.
fn storage(resource: &Resource) -> GroupVersionKind {
    let version = if resource.plural.ends_with("resourcebindings") { "v1alpha2" } else { resource.version };
    GroupVersionKind::new(resource.group, version, resource.kind)
}

fn status(resource: &Resource) -> ServedSubresource {
    ServedSubresource {
        name: Subresource::Status,
        kind: SubresourceKind::Status,
        gvk: resource.gvk(),
        verbs: PART_VERBS.to_vec(),
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The rules all custom objects share; what else Karmada asks of its kinds it asks at admission.
struct Custom;

impl Strategy for Custom {
    fn counts_generation(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

struct Bindings;

impl Strategy for Bindings {
    fn counts_generation(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn to_storage(&self, object: Object) -> Object {
        if object.api_version() == work::RESOURCE_BINDINGS.api_version() { object } else { bindings::upgrade(object) }
    }

    fn from_storage(&self, object: Object) -> Object {
        bindings::downgrade(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_kinds_share_a_name_and_all_are_found_by_short_ones() {
        let kinds = kinds(&Features::default());
        let mut resources: Vec<String> = kinds.iter().map(|kind| kind.gvr().to_string()).collect();
        resources.sort();
        resources.dedup();
        assert_eq!(resources.len(), kinds.len());
        let by_short = |short: &str| kinds.iter().find(|kind| kind.short_names.iter().any(|name| name == short));
        assert_eq!(by_short("pp").map(|kind| kind.plural.as_str()), Some("propagationpolicies"));
    }

    #[test]
    fn the_table_of_clusters_shows_what_karmada_shows() {
        let cluster = Object::from_value(json!({
            "metadata": {"name": "member1", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"syncMode": "Push", "zones": ["a", "b"], "apiEndpoint": "https://h:1"},
            "status": {"kubernetesVersion": "v1.36.4", "conditions": [{"type": "Ready", "status": "True"}]},
        }));
        let now = "2026-01-01T00:05:00Z".parse().expect("a time");
        let cells = ClusterPrinter.cells(&cluster.expect("an object"), now);
        let expected = ["member1", "v1.36.4", "Push", "True", "5m", "a,b", "<none>", "<none>", "https://h:1", "<none>"];
        assert_eq!(cells, expected.map(Value::from));
    }

    #[test]
    fn names_of_clusters_fit_a_namespace() {
        assert!(crate::cluster::name_problems("member1").is_empty());
        for bad in ["", "Member", &"m".repeat(49)] {
            assert!(!crate::cluster::name_problems(bad).is_empty(), "{bad}");
        }
    }
}
