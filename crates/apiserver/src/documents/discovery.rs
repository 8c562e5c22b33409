//! Discovery: which groups, versions and resources there are, in the plain and the aggregated form.

use std::collections::BTreeMap;
use std::sync::Arc;

use data_encoding::HEXUPPER;
use http::{HeaderMap, HeaderValue, Response, header};
use kinds::Kind;
use kinds::discovery as documents;
use kinds::discovery::DiscoveryGroup;
use object::{GroupVersion, Status};
use serde_json::{Value, json};

use super::field_order::InOrder;
use crate::dynamic_group::{DynamicGroup, DynamicResource};
use crate::http::Incoming;
use crate::respond::{self, Body, Encoding, Format};
use crate::server::Server;

/// As the APIServices of metrics adapters say.
const DYNAMIC_PRIORITY: i32 = 100;
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

pub async fn serve(
    server: &Arc<Server>,
    incoming: &Incoming,
    segments: &[&str],
    format: Result<Format, Status>,
) -> Result<Response<Body>, Status> {
    let kinds: Vec<Arc<Kind>> = server.registry.snapshot().ordered.iter().map(|r| r.kind.clone()).collect();
    if wants_aggregated(&incoming.headers) && segments.len() == 1 {
        return aggregated(server, &kinds, incoming, segments[0] == "api").await;
    }
    let format = format?;
    if let ["apis", group, ..] = segments
        && !group.is_empty()
        && !server.registry.snapshot().serves_group(group)
        && !server.aggregator.groups().iter().any(|found| found.name == *group)
        && server.handlers().dynamic_group(group).is_none()
    {
        return Ok(respond::no_such_page());
    }
    let not_found = Status::resource_not_served;
    let mut groups = documents::groups(&kinds);
    groups.extend(server.aggregator.groups());
    groups.extend(dynamic_groups(&server.handlers().groups, &groups));
    documents::sort_groups(&mut groups);
    let document = match segments {
        ["api"] => documents::api_versions(&server.address()),
        ["api", version] => {
            documents::api_resource_list(&kinds, &GroupVersion::new("", *version)).ok_or_else(not_found)?
        }
        ["apis"] => {
            let named: Vec<_> = groups.into_iter().filter(|group| !group.name.is_empty()).collect();
            documents::api_group_list(&named)
        }
        ["apis", group] => {
            let found = groups.iter().find(|g| g.name == *group && !group.is_empty()).ok_or_else(not_found)?;
            documents::api_group(found)
        }
        ["apis", group, version] => match server.handlers().dynamic_group(group) {
            Some(found) => dynamic_resources(found, version).await,
            None => documents::api_resource_list(&kinds, &GroupVersion::new(*group, *version)),
        }
        .ok_or_else(not_found)?,
        _ => return Err(not_found()),
    };
    Ok(in_order(&document, format))
}

async fn aggregated(
    server: &Arc<Server>,
    kinds: &[Arc<Kind>],
    incoming: &Incoming,
    core: bool,
) -> Result<Response<Body>, Status> {
    let groups = documents::groups(kinds);
    let chosen = groups.iter().filter(|group| group.name.is_empty() == core);
    let mut items: Vec<Value> = chosen.map(|group| documents::group_discovery(kinds, group)).collect();
    if !core {
        items.extend(server.aggregator.discovery(server.resources()).await);
        let mut all = groups.clone();
        all.extend(server.aggregator.groups());
        let handlers = server.handlers();
        let listed = dynamic_groups(&handlers.groups, &all);
        items.extend(
            listed
                .iter()
                .filter_map(|group| Some(dynamic_discovery(group, &handlers.dynamic_group(&group.name)?.known()))),
        );
    }
    let list = documents::group_discovery_list(items);
    let bytes = serde_json::to_string(&InOrder(&list)).map_err(Status::internal)?;
    let tag =
        format!("\"{}\"", HEXUPPER.encode(ring::digest::digest(&ring::digest::SHA512, bytes.as_bytes()).as_ref()));
    if incoming.headers.get(header::IF_NONE_MATCH).is_some_and(|v| v.as_bytes() == tag.as_bytes()) {
        return Ok(respond::not_modified(&tag));
    }
    let mut response = respond::json(200, bytes);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    Ok(response)
}

fn in_order(document: &Value, format: Format) -> Response<Body> {
    let encoded = match (format.encoding, format.pretty) {
        (Encoding::Json, false) => serde_json::to_vec(&InOrder(document)),
        (Encoding::Json, true) => serde_json::to_vec_pretty(&InOrder(document)),
        _ => return respond::encoded(200, document, format),
    };
    match encoded {
        Ok(bytes) => respond::finish(200, bytes.into(), format),
        Err(error) => respond::status(&Status::internal(error)),
    }
}

/// Groups with changing resources that have some, unless another server answers for them.
fn dynamic_groups(handlers: &[Box<dyn DynamicGroup>], others: &[DiscoveryGroup]) -> Vec<DiscoveryGroup> {
    let own = handlers.iter().filter(|group| others.iter().all(|other| other.name != group.group()));
    own.filter(|group| !group.known().is_empty())
        .map(|group| DiscoveryGroup {
            name: group.group().to_owned(),
            versions: group.versions().iter().map(|version| (*version).to_owned()).collect(),
            priority: DYNAMIC_PRIORITY,
        })
        .collect()
}

/// `/apis/GROUP/VERSION` of such a group; `None` if nothing is served there.
async fn dynamic_resources(found: &dyn DynamicGroup, version: &str) -> Option<Value> {
    if !found.versions().contains(&version) {
        return None;
    }
    let resources = found.resources().await;
    let entry = |resource: &DynamicResource| {
        json!({"name": resource.name, "singularName": "", "namespaced": resource.namespaced, "kind": resource.kind,
            "verbs": ["get"]})
    };
    let resources: Vec<Value> = resources.iter().map(entry).collect();
    Some(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{}/{version}", found.group()),
        "resources": resources}))
}

/// The same in the aggregated form: subresources under their resource.
fn dynamic_discovery(group: &DiscoveryGroup, known: &[DynamicResource]) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| {
            let kind = |kind: &str| json!({"group": group.name, "version": version, "kind": kind});
            let mut resources: BTreeMap<&str, Value> = BTreeMap::new();
            for found in known {
                let (resource, subresource) = found.name.split_once('/').unwrap_or((&found.name, ""));
                let scope = if found.namespaced { "Namespaced" } else { "Cluster" };
                let entry = resources.entry(resource).or_insert_with(|| {
                    let verbs: &[&str] = if subresource.is_empty() { &["get"] } else { &[] };
                    json!({"resource": resource, "responseKind": kind(found.kind), "scope": scope,
                        "singularResource": "", "verbs": verbs})
                });
                if !subresource.is_empty() {
                    let part = json!({"subresource": subresource, "responseKind": kind(found.kind), "verbs": ["get"]});
                    match entry["subresources"].as_array_mut() {
                        Some(parts) => parts.push(part),
                        None => entry["subresources"] = json!([part]),
                    }
                }
            }
            let resources: Vec<Value> = resources.into_values().collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    json!({"metadata": {"name": group.name}, "versions": versions})
}

fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|v| v.to_str().ok());
    accepted.flat_map(|v| v.split(',')).any(|clause| {
        let parts: Vec<&str> = clause.split(';').map(str::trim).collect();
        let asks = |parameter: &str| parts.contains(&parameter);
        parts.first() == Some(&"application/json")
            && asks("as=APIGroupDiscoveryList")
            && asks("g=apidiscovery.k8s.io")
            && asks("v=v2")
    })
}
