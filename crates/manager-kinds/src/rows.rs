//! Every kind of the manager as a row: names, columns, and the type its schema has in the tables.

use std::sync::Arc;

use api::Resource;
use kinds::Kind;
use kinds::strategy::Strategy;
use validation::schema::Schemas;
use validation::{Row, custom_kind};

use crate::access_rules::AccessStrategy;
use crate::karmada::KarmadaStrategy;

const TABLES: &[&str] = &[include_str!("../schemas/operator.schema"), include_str!("../schemas/manager.schema")];

type Columns = &'static [(&'static str, &'static str, &'static str)];

const AGE: (&str, &str, &str) = ("AGE", "date", ".metadata.creationTimestamp");
const KARMADA_COLUMNS: Columns = &[("READY", "string", ".status.conditions[?(@.type==\"Ready\")].status"), AGE];
const CLUSTER_COLUMNS: Columns = &[
    ("VERSION", "string", ".status.kubernetesVersion"),
    ("READY", "string", ".status.conditions[?(@.type==\"Ready\")].status"),
    ("REGION", "string", ".spec.region"),
    ("INSTANCES", "string", ".spec.instances"),
    AGE,
];
const WORKSPACE_COLUMNS: Columns =
    &[("FOLDER", "string", ".spec.folder"), ("INSTANCES", "string", ".spec.instances"), AGE];
const FOLDER_COLUMNS: Columns = &[("PARENT", "string", ".spec.parent"), AGE];
const USER_COLUMNS: Columns = &[("SOURCE", "string", ".spec.source"), ("DISABLED", "boolean", ".spec.disabled"), AGE];
const GROUP_COLUMNS: Columns = &[("MEMBERS", "string", ".spec.members"), AGE];
const ROLE_COLUMNS: Columns = &[("GRANTS", "string", ".spec.grants"), AGE];
const BINDING_COLUMNS: Columns = &[
    ("ROLE", "string", ".spec.role"),
    ("SUBJECT", "string", ".spec.subject.name"),
    ("INSTANCE", "string", ".spec.target.instance"),
    ("WORKSPACE", "string", ".spec.target.workspace"),
    ("FOLDER", "string", ".spec.target.folder"),
    AGE,
];
const REGISTRATION_COLUMNS: Columns =
    &[("TYPE", "string", ".spec.type"), ("NAME", "string", ".spec.name"), ("STATE", "string", ".spec.state"), AGE];
const WEBHOOK_COLUMNS: Columns = &[("URL", "string", ".spec.url"), AGE];

const fn row(resource: Resource, short: &'static [&'static str], columns: Columns) -> Row {
    Row { resource, ty: resource.kind, short, categories: &["flotilla-manager"], status: false, columns }
}

/// Returns the kinds, ready to be served.
pub fn kinds() -> Vec<Kind> {
    let schemas = Schemas::with_shared(TABLES);
    let access: Arc<dyn Strategy> = Arc::new(AccessStrategy);
    let karmada = Row { status: true, categories: &["karmada-io"], ..row(crate::KARMADAS, &[], KARMADA_COLUMNS) };
    let mut kinds = vec![custom_kind(&schemas, &karmada, Arc::new(KarmadaStrategy))];
    let rows = [
        Row { status: true, ..row(crate::MANAGED_CLUSTERS, &["mcl"], CLUSTER_COLUMNS) },
        row(crate::WORKSPACES, &["ws"], WORKSPACE_COLUMNS),
        row(crate::FOLDERS, &[], FOLDER_COLUMNS),
        row(crate::USERS, &[], USER_COLUMNS),
        row(crate::GROUPS, &[], GROUP_COLUMNS),
        row(crate::ROLES, &[], ROLE_COLUMNS),
        row(crate::BINDINGS, &[], BINDING_COLUMNS),
        row(crate::REGISTRATIONS, &[], REGISTRATION_COLUMNS),
        row(crate::WEBHOOKS, &[], WEBHOOK_COLUMNS),
    ];
    kinds.extend(rows.iter().map(|row| custom_kind(&schemas, row, Arc::clone(&access))));
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_schema_and_a_unique_name() {
        let kinds = kinds();
        let mut names: Vec<String> = kinds.iter().map(|kind| kind.gvr().to_string()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), kinds.len());
        let karmada = kinds.iter().find(|kind| kind.plural == "karmadas").expect("the instance kind");
        assert!(karmada.namespaced && karmada.has_status());
        assert!(karmada.schema.root().property("spec").is_some());
    }
}
