//! Aggregated discovery (`apidiscovery.k8s.io/v2`): every group, version and resource in one response.

use std::sync::Arc;

use object::{GroupVersion, GroupVersionKind};
use serde_json::{Value, json};

use super::{DiscoveryGroup, is_custom, kinds_of};
use crate::kind::{Kind, ServedSubresource};

/// The response to `/api` (core group only) or `/apis` (all others) for clients that request `APIGroupDiscoveryList`.
pub fn group_discovery_list(items: Vec<Value>) -> Value {
    json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items })
}

/// One group of that response.
pub fn group_discovery(kinds: &[Arc<Kind>], group: &DiscoveryGroup) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| {
            let gv = GroupVersion::new(group.name.clone(), version.clone());
            let resources: Vec<Value> = kinds_of(kinds, &gv).into_iter().map(|kind| resource(kind)).collect();
            json!({ "version": version, "resources": resources, "freshness": "Current" })
        })
        .collect();
    let metadata = if group.name.is_empty() { json!({}) } else { json!({ "name": group.name }) };
    json!({ "metadata": metadata, "versions": versions })
}

fn resource(kind: &Kind) -> Value {
    let mut entry = json!({
        "resource": kind.plural,
        "responseKind": response_kind(kind, &kind.gvk),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.verbs,
    });
    if !kind.short_names.is_empty() {
        entry["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        entry["categories"] = json!(kind.categories);
    }
    if !kind.subresources.is_empty() {
        entry["subresources"] = kind.subresources.iter().map(|sub| subresource(kind, sub)).collect();
    }
    entry
}

fn subresource(kind: &Kind, sub: &ServedSubresource) -> Value {
    json!({ "subresource": sub.name, "responseKind": response_kind(kind, &sub.gvk), "verbs": sub.verbs })
}

fn response_kind(kind: &Kind, gvk: &GroupVersionKind) -> Value {
    if !is_custom(kind) && gvk.group_version() == kind.gvk.group_version() {
        return json!({ "group": "", "version": "", "kind": gvk.kind });
    }
    json!({ "group": gvk.group, "version": gvk.version, "kind": gvk.kind })
}
