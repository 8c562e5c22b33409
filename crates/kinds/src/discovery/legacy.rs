//! The lists of `/api`, `/apis`, `/apis/GROUP` and `/apis/GROUP/VERSION`.

use std::sync::Arc;

use base64::Engine;
use object::{GroupVersion, GroupVersionKind};
use ring::digest;
use serde_json::{Value, json};

use super::{DiscoveryGroup, kinds_of};
use crate::kind::{Kind, ServedSubresource};

/// `/api`. The address is the external one, `host:port`.
pub fn api_versions(server_address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": server_address }],
    })
}

/// `/apis`: every group except the core one.
pub fn api_group_list(groups: &[DiscoveryGroup]) -> Value {
    let groups: Vec<Value> = groups.iter().filter(|group| !group.name.is_empty()).map(group_fields).collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

/// `/apis/GROUP`.
pub fn api_group(group: &DiscoveryGroup) -> Value {
    let mut document = group_fields(group);
    document["kind"] = json!("APIGroup");
    document["apiVersion"] = json!("v1");
    document
}

fn group_fields(group: &DiscoveryGroup) -> Value {
    let entry = |version: &String| {
        let gv = GroupVersion::new(group.name.clone(), version.clone());
        json!({ "groupVersion": gv.to_string(), "version": version })
    };
    let versions: Vec<Value> = group.versions.iter().map(entry).collect();
    let preferred = versions.first().cloned().unwrap_or(Value::Null);
    json!({ "name": group.name, "versions": versions, "preferredVersion": preferred })
}

/// `/api/v1` and `/apis/GROUP/VERSION`; `None` if nothing is served there.
pub fn api_resource_list(kinds: &[Arc<Kind>], gv: &GroupVersion) -> Option<Value> {
    let kinds = kinds_of(kinds, gv);
    if kinds.is_empty() {
        return None;
    }
    let resources: Vec<Value> = kinds
        .iter()
        .flat_map(|kind| {
            std::iter::once(resource(kind)).chain(kind.subresources.iter().map(|sub| subresource(kind, sub)))
        })
        .collect();
    let mut document = json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": gv.to_string(), "resources": resources });
    // The list of the core group predates apiVersion on these lists and still omits it.
    if let (true, Some(map)) = (gv.group.is_empty(), document.as_object_mut()) {
        map.remove("apiVersion");
    }
    Some(document)
}

fn resource(kind: &Kind) -> Value {
    let mut entry = json!({
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.gvk.kind,
        "verbs": kind.verbs,
    });
    if !kind.short_names.is_empty() {
        entry["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        entry["categories"] = json!(kind.categories);
    }
    if kind.stored {
        entry["storageVersionHash"] = json!(storage_version_hash(&kind.storage));
    }
    entry
}

fn subresource(kind: &Kind, sub: &ServedSubresource) -> Value {
    let mut entry = json!({
        "name": format!("{}/{}", kind.plural, sub.name),
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": sub.gvk.kind,
        "verbs": sub.verbs,
    });
    if sub.gvk.group_version() != kind.gvk.group_version() {
        entry["group"] = json!(sub.gvk.group);
        entry["version"] = json!(sub.gvk.version);
    }
    entry
}

/// Lets storage migrators detect a changed storage version: eight bytes of SHA-256 over the stored kind's name.
pub fn storage_version_hash(storage: &GroupVersionKind) -> String {
    let name = format!("{}/{}/{}", storage.group, storage.version, storage.kind);
    let digest = digest::digest(&digest::SHA256, name.as_bytes());
    base64::engine::general_purpose::STANDARD.encode(&digest.as_ref()[..8])
}
