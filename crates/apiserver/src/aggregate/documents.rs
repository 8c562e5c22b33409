//! Discovery and OpenAPI documents of aggregated servers.

use std::collections::BTreeMap;

use kinds::discovery::DiscoveryGroup;
use serde_json::{Value, json};

use super::{Aggregator, External, fetch};
use crate::resources::Resources;

impl Aggregator {
    /// Groups other servers answer for, for discovery.
    pub fn groups(&self) -> Vec<DiscoveryGroup> {
        let mut groups: BTreeMap<String, DiscoveryGroup> = BTreeMap::new();
        for external in self.all() {
            let fresh = || DiscoveryGroup {
                name: external.group.clone(),
                versions: Vec::new(),
                priority: external.group_priority,
            };
            groups.entry(external.group.clone()).or_insert_with(fresh).versions.push(external.version.clone());
        }
        groups.into_values().collect()
    }

    /// Their aggregated discovery documents; a server that does not answer shows as stale.
    pub async fn discovery(&self, resources: Resources<'_>) -> Vec<Value> {
        let externals = self.all();
        let versions = externals.iter().map(|external| self.version_document(resources, external));
        let versions = futures::future::join_all(versions).await;
        let mut groups: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for (external, document) in externals.iter().zip(versions) {
            groups.entry(&external.group).or_default().push(document);
        }
        let documents = groups.into_iter();
        documents.map(|(name, versions)| json!({"metadata": {"name": name}, "versions": versions})).collect()
    }

    async fn version_document(&self, resources: Resources<'_>, external: &External) -> Value {
        let path = format!("/apis/{}/{}", external.group, external.version);
        match fetch(self, resources, external, &path).await {
            Ok(list) => {
                json!({"version": external.version, "freshness": "Current", "resources": resources_of(external, &list)})
            }
            Err(_) => json!({"version": external.version, "freshness": "Stale"}),
        }
    }

    /// Adds the OpenAPI documents other servers publish to the index.
    pub fn add_openapi(&self, index: &mut Value) {
        for external in self.all() {
            let name = format!("apis/{}/{}", external.group, external.version);
            index["paths"][&name] = json!({"serverRelativeURL": format!("/openapi/v3/{name}")});
        }
    }
}

/// A plain resource list in the form of aggregated discovery: subresources under their resource.
fn resources_of(external: &External, list: &Value) -> Vec<Value> {
    let items = list["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
    let kind_of = |item: &Value| {
        let group = item["group"].as_str().unwrap_or(&external.group);
        let version = item["version"].as_str().unwrap_or(&external.version);
        json!({"group": group, "version": version, "kind": item["kind"]})
    };
    let mut found: Vec<Value> = Vec::new();
    for item in items.iter().filter(|i| !i["name"].as_str().unwrap_or_default().contains('/')) {
        let scope = if item["namespaced"] == true { "Namespaced" } else { "Cluster" };
        let mut resource = json!({
            "resource": item["name"], "responseKind": kind_of(item), "scope": scope,
            "singularResource": item["singularName"], "verbs": item["verbs"],
        });
        for key in ["shortNames", "categories"] {
            if let Some(value) = item.get(key) {
                resource[key] = value.clone();
            }
        }
        let prefix = format!("{}/", item["name"].as_str().unwrap_or_default());
        let parts = items.iter().filter_map(|i| Some((i, i["name"].as_str()?.strip_prefix(&prefix)?)));
        let parts: Vec<Value> = parts
            .map(|(i, name)| json!({"subresource": name, "responseKind": kind_of(i), "verbs": i["verbs"]}))
            .collect();
        if !parts.is_empty() {
            resource["subresources"] = parts.into();
        }
        found.push(resource);
    }
    found
}
