//! Gets, lists and watches of members' objects: parses options and writes responses in the requested format.

use std::sync::Arc;
use std::time::Duration;

use apiserver::http::Incoming;
use apiserver::respond::{self, Body, ForeignEvent, Format, ListHead, Shape};
use apiserver::served_resources::Resource;
use apiserver::server::Server;
use apiserver::subresource::ConnectRequest;
use apiserver::verbs::list::check_fields;
use futures::StreamExt;
use http::Response;
use object::query::Query;
use object::request::{Subresource, Verb};
use object::selector::{FieldSelector, FieldTerm, LabelSelector};
use object::{Object, Status};
use search::{Filter, ListRequest, ReadField, Search, SearchEvent, WatchRequest};
use serde_json::json;

use super::ProxiedRequest;
use super::cluster_column::with_cluster_column;

/// Serves `search/cache/PATH` with Karmada's responses.
pub async fn search(search: &Search, server: &Server, request: &ConnectRequest) -> Result<Response<Body>, Status> {
    let info = &request.incoming.info;
    let path = search::parse_path(&format!("{}/{}", Subresource::name_of(info.subresource.as_ref()), info.tail))
        .map_err(Status::bad_request)?;
    match request.target.name.as_str() {
        "cache" => {}
        // Karmada's response is empty.
        "opensearch" => return Ok(respond::text(200, "text/plain; charset=utf-8", "")),
        other => return Err(Status::bad_request(format!("connect with unrecognized search category {other}"))),
    }
    let labels = request.incoming.query.get("labelSelector").unwrap_or_default();
    let labels = match LabelSelector::parse(labels) {
        Ok(labels) => labels,
        Err(error) => return Ok(refusal(400, &error.to_string())),
    };
    let Some(resource) = server.registry.find(&path.gvr.group, &path.gvr.version, &path.gvr.resource) else {
        return Ok(refusal(500, &format!("no matches for {}", path.gvr)));
    };
    let filter = Filter { labels, ..Filter::everything(&path.namespace) };
    let items = search.find(&path.gvr, &path.name, &filter).await;
    let kind = &resource.kind.gvk;
    let mut out = format!(
        "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{{}},\"items\":[",
        kind.kind,
        kind.api_version()
    )
    .into_bytes();
    out.extend(items.join(&b","[..]));
    out.extend_from_slice(b"]}\n");
    Ok(respond::text(200, "application/json; charset=utf-8", out))
}

fn refusal(code: u16, problem: &str) -> Response<Body> {
    respond::text(code, "application/json", format!("{}\n", json!({"error": problem})))
}

/// Serves reads from the cached objects of all members.
pub async fn serve(
    search: &Search,
    server: &Arc<Server>,
    proxied: &ProxiedRequest,
    incoming: &Incoming,
) -> Result<Response<Body>, Status> {
    let query = &incoming.query;
    let format = Format::for_resource(&proxied.resource, &incoming.headers, query.flag("pretty"))?;
    let resource = match format.shape {
        Shape::Table => with_cluster_column(&proxied.resource),
        _ => Arc::clone(&proxied.resource),
    };
    match proxied.info.verb {
        Verb::Get => {
            let object = search.get(&proxied.gvr, &proxied.key(), query.get("resourceVersion")).await?;
            Ok(respond::foreign_object(&resource, &object, format))
        }
        Verb::List => list(search, proxied, &resource, query, format).await,
        _ => {
            let request = WatchRequest {
                filter: filter(proxied, query)?,
                version: text(query, "resourceVersion"),
                bookmarks: query.flag("allowWatchBookmarks"),
                initial_events: query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents")),
                duration: number(query, "timeoutSeconds")?.map(Duration::from_secs),
            };
            let watch = search.watch(&proxied.gvr, request).await;
            let events = futures::stream::unfold(watch, |mut watch| async move {
                let events = watch.next().await?;
                Some((events.into_iter().map(foreign).collect(), watch))
            });
            let events = events.take_until(server.stop.clone().cancelled_owned());
            respond::foreign_watch(resource, events, format)
        }
    }
}

async fn list(
    search: &Search,
    proxied: &ProxiedRequest,
    resource: &Resource,
    query: &Query,
    format: Format,
) -> Result<Response<Body>, Status> {
    let request = ListRequest {
        filter: filter(proxied, query)?,
        limit: number(query, "limit")?.unwrap_or(0) as usize,
        continue_token: text(query, "continue"),
        version: text(query, "resourceVersion"),
        is_exact: query.get("resourceVersionMatch") == Some("Exact"),
    };
    let listed = search.list(&proxied.gvr, &request).await?;
    let mut metadata = json!({"resourceVersion": listed.version});
    if !listed.continue_token.is_empty() {
        metadata["continue"] = listed.continue_token.into();
    }
    let kind = &resource.kind;
    let (api_version, kind) = match listed.is_cached {
        true => (kind.gvk.api_version(), kind.list_kind.clone()),
        false => ("v1".to_owned(), "List".to_owned()),
    };
    let head = ListHead { api_version, kind, metadata, is_kind_on_items: true };
    let answer = respond::foreign_list(resource, head, &listed.items, format, query.get("includeObject"));
    let mut answer = answer?;
    let warnings: Vec<String> = listed.unread.iter().map(|unread| format!("left out: {unread}")).collect();
    respond::add_warnings(&mut answer, &warnings);
    Ok(answer)
}

fn filter(proxied: &ProxiedRequest, query: &Query) -> Result<Filter, Status> {
    let refuse = |error: object::selector::SelectorError| Status::bad_request(error.to_string());
    let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default()).map_err(refuse)?;
    let mut fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default()).map_err(refuse)?;
    check_fields(&proxied.target(), &fields)?;
    if !proxied.info.name.is_empty() {
        fields.terms.push(FieldTerm { field: "metadata.name".into(), equal: true, value: proxied.info.name.clone() });
    }
    let namespace = proxied.key().namespace;
    Ok(Filter { namespace, labels, fields, read_field: read_field(&proxied.resource) })
}

fn read_field(resource: &Arc<Resource>) -> ReadField {
    let resource = Arc::clone(resource);
    Arc::new(move |object: &Object, name: &str| {
        let field = resource.kind.selectable_fields.iter().find(|field| field.name == name);
        field.map(|field| field.value(object)).unwrap_or_default()
    })
}

fn text(query: &Query, key: &str) -> String {
    query.get(key).unwrap_or_default().to_owned()
}

fn number(query: &Query, key: &str) -> Result<Option<u64>, Status> {
    let refuse = |text: &str| Status::bad_request(format!("query parameter {key}: {text:?} is not a whole number"));
    let parsed = query.get(key).map(|text| text.parse::<i64>().map_err(|_| refuse(text))).transpose()?;
    Ok(parsed.map(|number| number.max(0).unsigned_abs()))
}

fn foreign(event: SearchEvent) -> ForeignEvent {
    match event {
        SearchEvent::Added(object) => ForeignEvent::Change("ADDED", object),
        SearchEvent::Modified(object) => ForeignEvent::Change("MODIFIED", object),
        SearchEvent::Deleted(object) => ForeignEvent::Change("DELETED", object),
        SearchEvent::Bookmark { version, initial_events_end } => ForeignEvent::Bookmark { version, initial_events_end },
        SearchEvent::Error(status) => ForeignEvent::Error(status),
    }
}
