//! Discovery: which groups, versions and resources there are, in the plain and the aggregated form.

use std::sync::Arc;

use data_encoding::HEXUPPER;
use http::{HeaderMap, HeaderValue, Response, header};
use kinds::Kind;
use kinds::discovery as documents;
use object::{GroupVersion, Status};
use serde_json::Value;

use crate::http::Incoming;
use crate::respond::{self, Body, Format};
use crate::server::Server;

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
    {
        return Ok(respond::no_such_page());
    }
    let not_found = Status::resource_not_served;
    let mut groups = documents::groups(&kinds);
    groups.extend(server.aggregator.groups());
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
        ["apis", group, version] => {
            documents::api_resource_list(&kinds, &GroupVersion::new(*group, *version)).ok_or_else(not_found)?
        }
        _ => return Err(not_found()),
    };
    Ok(respond::encoded(200, &document, format))
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
    }
    let bytes = documents::group_discovery_list(items).to_string();
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
