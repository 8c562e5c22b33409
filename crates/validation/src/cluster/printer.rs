//! The table of `kubectl get clusters`.

use jiff::Timestamp;
use kinds::Column;
use kinds::kind::Printer;
use kinds::printers::age;
use object::{Object, conditions};
use serde_json::Value;

pub struct ClusterPrinter;

/// Name, description, and whether it shows only with `-o wide`.
const COLUMNS: &[(&str, &str, bool)] = &[
    ("Name", "The name of the member.", false),
    ("Version", "The Kubernetes version the member runs.", false),
    ("Mode", "The component that applies objects: this control plane (Push) or an agent in the member (Pull).", false),
    ("Ready", "Whether the member can take workloads.", false),
    ("Age", "How long the member has been known.", false),
    ("Zones", "The zones the member is in.", true),
    ("Region", "The region the member is in.", true),
    ("Provider", "Who runs the member.", true),
    ("API-Endpoint", "Where the API server of the member is reached.", true),
    ("Proxy-URL", "The proxy in between.", true),
];

impl Printer for ClusterPrinter {
    fn columns(&self) -> Vec<Column> {
        let columns = COLUMNS.iter().map(|(name, description, wide)| Column {
            name: (*name).to_owned(),
            ty: "string".to_owned(),
            format: if *name == "Name" { "name".to_owned() } else { String::new() },
            description: (*description).to_owned(),
            priority: i32::from(*wide),
        });
        columns.collect()
    }

    fn cells(&self, cluster: &Object, now: Timestamp) -> Vec<Value> {
        let spec = |field: &str| cluster.str_at(&["spec", field]).to_owned();
        let zones: Vec<&str> = cluster.items(&["spec", "zones"]).iter().filter_map(Value::as_str).collect();
        let cells = [
            cluster.name().to_owned(),
            cluster.str_at(&["status", "kubernetesVersion"]).to_owned(),
            spec("syncMode"),
            ready(cluster).to_owned(),
            age::since(cluster.creation_timestamp(), now),
            or_none(zones.join(",")),
            or_none(spec("region")),
            or_none(spec("provider")),
            spec("apiEndpoint"),
            or_none(spec("proxyURL")),
        ];
        cells.into_iter().map(Value::from).collect()
    }
}

fn ready(cluster: &Object) -> &str {
    let status = conditions::find(cluster, "Ready").map(|ready| ready.status()).unwrap_or_default();
    if status.is_empty() { "Unknown" } else { status }
}

fn or_none(text: String) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text }
}
