//! Compares every table with the rows of a real kube-apiserver 1.36 for the same object.

use jiff::SignedDuration;
use object::Object;
use serde_json::Value;

use super::*;

/// Rows recorded from kube-apiserver: `{now, object, cells, conditions}`, one list per group.
const ROWS: &[(&str, &str)] = &[
    ("core", include_str!("../../testdata/tables/core.json")),
    ("other", include_str!("../../testdata/tables/other.json")),
];

/// Columns recorded from kube-apiserver: `group/version Kind name:type:format:priority|…`.
const COLUMNS: &str = include_str!("../../testdata/tables/columns.txt");

/// The clock moved between the server's response and its Date header, so a second either way is accepted.
fn check(group: &str, case: &Value) {
    let object = Object::from_value(case["object"].clone()).expect("an object");
    let now = object::time::parse(case["now"].as_str().expect("a time")).expect("a time");
    let printer = match case.get("columns") {
        Some(columns) => Arc::new(CrdPrinter::new(columns)) as Arc<dyn Printer>,
        None => for_kind(&object.gvk()),
    };
    let at = |seconds: i64| Value::from(printer.cells(&object, now + SignedDuration::from_secs(seconds)));
    let close = [0, -1, 1].into_iter().map(at).find(|cells| *cells == case["cells"]);
    assert_eq!(close.unwrap_or_else(|| at(0)), case["cells"], "{group}: {} {}", object.kind(), object.name());
    assert_eq!(Value::from(printer.conditions(&object)), case["conditions"], "{group}: {}", object.name());
}

#[test]
fn rows_are_those_of_kube_apiserver() {
    for (group, rows) in ROWS {
        let rows: Vec<Value> = serde_json::from_str(rows).expect("recorded rows are JSON");
        assert!(!rows.is_empty());
        rows.iter().for_each(|case| check(group, case));
    }
}

#[test]
fn columns_are_those_of_kube_apiserver() {
    for line in COLUMNS.lines() {
        let (group_version, rest) = line.split_once(' ').expect("group, kind, columns");
        let (kind, expected) = rest.split_once(' ').expect("kind, columns");
        let gvk = object::GroupVersion::parse(group_version).expect("a group and version").kind(kind);
        let columns = for_kind(&gvk).columns();
        let shown: Vec<String> =
            columns.iter().map(|c| format!("{}:{}:{}:{}", c.name, c.ty, c.format, c.priority)).collect();
        assert_eq!(shown.join("|"), expected, "{line}");
    }
}
