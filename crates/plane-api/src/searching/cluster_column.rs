//! The column CLUSTER in tables of members' objects: which member each row is from.

use std::sync::Arc;

use api::search::ANNOTATION_CACHED_FROM;
use apiserver::served_resources::Resource;
use jiff::Timestamp;
use kinds::kind::Printer;
use kinds::{Column, Kind};
use object::Object;
use serde_json::Value;

/// The columns of a kind, with the member after the name, where `karmadactl get` has it.
struct ClusterPrinter {
    inner: Arc<dyn Printer>,
}

/// Returns the resource with the column added to its tables.
pub fn with_cluster_column(resource: &Resource) -> Arc<Resource> {
    let printer = ClusterPrinter { inner: Arc::clone(&resource.kind.printer) };
    let kind = Kind { printer: Arc::new(printer), ..(*resource.kind).clone() };
    Arc::new(Resource {
        kind: Arc::new(kind),
        cache: Arc::clone(&resource.cache),
        custom: resource.custom.as_ref().map(Arc::clone),
    })
}

/// The name is the first column of every kind; a table without columns gets only the member.
fn insert_second<T>(cells: &mut Vec<T>, cell: T) {
    cells.insert(cells.len().min(1), cell);
}

impl Printer for ClusterPrinter {
    fn columns(&self) -> Vec<Column> {
        let mut columns = self.inner.columns();
        let cluster = Column {
            name: "Cluster".to_owned(),
            ty: "string".to_owned(),
            format: String::new(),
            description: "The member cluster that has the object.".to_owned(),
            priority: 0,
        };
        insert_second(&mut columns, cluster);
        columns
    }

    fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let mut cells = self.inner.cells(object, now);
        insert_second(&mut cells, object.annotation(ANNOTATION_CACHED_FROM).unwrap_or_default().into());
        cells
    }

    fn conditions(&self, object: &Object) -> Vec<Value> {
        self.inner.conditions(object)
    }
}

#[cfg(test)]
mod tests {
    use object::GroupVersionKind;
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_name_their_member_after_the_object() {
        let printer = ClusterPrinter { inner: kinds::printers::for_kind(&GroupVersionKind::new("", "v1", "Pod")) };
        let plain: Vec<String> = printer.inner.columns().into_iter().map(|column| column.name).collect();
        let columns: Vec<String> = printer.columns().into_iter().map(|column| column.name).collect();
        assert_eq!(columns[..3], ["Name", "Cluster", "Ready"]);
        assert_eq!(columns.len(), plain.len() + 1);

        let pod = |annotations: Value| {
            let status = json!({"phase": "Succeeded"});
            let metadata = json!({"name": "web-1", "namespace": "shop", "annotations": annotations});
            Object::from_value(json!({"metadata": metadata, "status": status})).expect("an object")
        };
        let now = Timestamp::now();
        let cached = pod(json!({"resource.karmada.io/cached-from-cluster": "member2"}));
        let cells = printer.cells(&cached, now);
        assert_eq!(cells[..2], ["web-1", "member2"]);
        assert_eq!(cells.len(), columns.len());
        assert_eq!(printer.conditions(&cached), printer.inner.conditions(&cached));
        assert_eq!(printer.cells(&pod(json!({})), now)[1], "");
    }
}
