//! The columns of each kind in `kubectl get`; by default the name and the creation time.

pub mod age;
mod apps;
mod batch;
mod cells;
mod cluster;
mod custom;
mod identity;
mod networking;
mod pod;
mod policy;
mod resources;
mod storage;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use object::{GroupVersionKind, Object};
use serde_json::Value;

use crate::kind::{Column, Printer};

pub use custom::CrdPrinter;

/// The printer of a built-in kind.
pub fn for_kind(gvk: &GroupVersionKind) -> Arc<dyn Printer> {
    let table = match gvk.group.as_str() {
        "" | "events.k8s.io" => cluster::table(&gvk.kind).or_else(|| networking::core_table(&gvk.kind)),
        "apps" => apps::table(&gvk.kind),
        "batch" => batch::table(&gvk.kind),
        "networking.k8s.io" | "discovery.k8s.io" => networking::table(&gvk.kind),
        "storage.k8s.io" => storage::table(&gvk.kind),
        "rbac.authorization.k8s.io" | "certificates.k8s.io" | "apiregistration.k8s.io" => identity::table(&gvk.kind),
        "resource.k8s.io" | "scheduling.k8s.io" | "node.k8s.io" | "coordination.k8s.io" => resources::table(&gvk.kind),
        "autoscaling"
        | "policy"
        | "admissionregistration.k8s.io"
        | "flowcontrol.apiserver.k8s.io"
        | "internal.apiserver.k8s.io"
        | "storagemigration.k8s.io" => policy::table(&gvk.kind),
        _ => None,
    };
    Arc::new(table.unwrap_or(PLAIN))
}

/// A built-in table: fixed columns, and a function that fills one row.
#[derive(Clone, Copy)]
pub struct PrinterTable {
    columns: &'static [Col],
    row: fn(&Object, Timestamp) -> Vec<Value>,
    conditions: fn(&Object) -> Vec<Value>,
}

impl PrinterTable {
    const fn new(columns: &'static [Col], row: fn(&Object, Timestamp) -> Vec<Value>) -> Self {
        Self { columns, row, conditions: |_| Vec::new() }
    }

    const fn with_conditions(mut self, conditions: fn(&Object) -> Vec<Value>) -> Self {
        self.conditions = conditions;
        self
    }
}

impl Printer for PrinterTable {
    fn columns(&self) -> Vec<Column> {
        self.columns.iter().copied().map(Col::to_column).collect()
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        (self.row)(object, now)
    }

    fn conditions(&self, object: &Object) -> Vec<Value> {
        (self.conditions)(object)
    }
}

/// The table of a kind without its own.
const PLAIN: PrinterTable = PrinterTable::new(&[NAME, Col::of("Created At", "date", CREATED)], |object, _| {
    vec![object.name().into(), cells::creation_time(object)]
});

const CREATED: &str = "When the server accepted the object, in UTC.";

/// One column in the notation of this module.
#[derive(Clone, Copy)]
struct Col {
    name: &'static str,
    ty: &'static str,
    format: &'static str,
    description: &'static str,
    priority: i32,
}

const NAME: Col = Col {
    name: "Name",
    ty: "string",
    format: "name",
    description: "The name of the object, unique among its kind in its namespace.",
    priority: 0,
};

const AGE: Col = text("Age", CREATED);

const CONTAINERS: Col = text("Containers", "The containers of the pod template, by name.").wide();
const IMAGES: Col = text("Images", "The images of the pod template's containers.").wide();
const SELECTOR: Col = text("Selector", "The labels of the pods that belong to the object.").wide();

const fn text(name: &'static str, description: &'static str) -> Col {
    Col::of(name, "string", description)
}

const fn integer(name: &'static str, description: &'static str) -> Col {
    Col::of(name, "integer", description)
}

const fn boolean(name: &'static str, description: &'static str) -> Col {
    Col::of(name, "boolean", description)
}

impl Col {
    const fn of(name: &'static str, ty: &'static str, description: &'static str) -> Self {
        Self { name, ty, format: "", description, priority: 0 }
    }

    /// Shown only with `-o wide`.
    const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }

    const fn as_name(mut self) -> Self {
        self.format = "name";
        self
    }

    fn to_column(self) -> Column {
        Column {
            name: self.name.to_owned(),
            ty: self.ty.to_owned(),
            format: self.format.to_owned(),
            description: self.description.to_owned(),
            priority: self.priority,
        }
    }
}
