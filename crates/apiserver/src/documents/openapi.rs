//! `/openapi/v2` and `/openapi/v3`, built on request and cached compressed until the kinds change.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Response, header};
use kinds::openapi::{Document, OpenApi, OpenApiEntry, V2_PROTOBUF, V2_PROTOBUF_OLD};
use object::Status;
use parking_lot::Mutex;

use crate::http::Incoming;
use crate::respond::{self, Body};
use crate::served_resources::Snapshot;
use crate::server::Server;

/// The documents of the newest registry snapshot that was requested.
#[derive(Default)]
pub struct OpenApiCache {
    current: Mutex<Option<(u64, Arc<OpenApi>)>>,
}

impl OpenApiCache {
    fn of(&self, snapshot: &Snapshot) -> Arc<OpenApi> {
        let mut current = self.current.lock();
        if let Some((generation, documents)) = &*current
            && *generation == snapshot.generation
        {
            return documents.clone();
        }
        let entries = snapshot.ordered.iter().map(|resource| OpenApiEntry {
            kind: resource.kind.clone(),
            schema: match &resource.kind.own_schema {
                Some(own) => Some(own.openapi.clone()),
                None => resource.custom.as_ref().and_then(|custom| custom.raw_schema.clone()),
            },
        });
        let entries = entries.collect();
        let documents = Arc::new(match &*current {
            Some((_, before)) => before.with_entries(entries),
            None => OpenApi::new(entries),
        });
        *current = Some((snapshot.generation, documents.clone()));
        documents
    }
}

pub async fn serve(server: &Arc<Server>, incoming: &Incoming, segments: &[&str]) -> Result<Response<Body>, Status> {
    let documents = server.openapi.of(&server.registry.snapshot());
    let headers = incoming.headers.clone();
    let name = segments[1..].join("/");
    if name == "v3" {
        let mut index = documents.v3_index();
        server.aggregator.add_openapi(&mut index);
        return Ok(respond::value(200, &index));
    }
    // One at a time, as large lists: clients that ask for much and read nothing leave the processors to others.
    let _turn = if accepts_gzip(&headers) { None } else { Some(server.limits.encoding_turn().await) };
    // Building a document takes tens of milliseconds the first time, and inflating one each time: not on a thread that serves others.
    let built = tokio::task::spawn_blocking(move || {
        let (document, content_type) = match name.as_str() {
            "v2" if accepts_protobuf(&headers) => (documents.v2_protobuf(), V2_PROTOBUF),
            "v2" => (documents.v2_json(), "application/json"),
            other => (documents.v3_document(other.strip_prefix("v3/")?)?, "application/json"),
        };
        Some(document_response(&document, content_type, &headers))
    });
    built.await.map_err(Status::internal)?.ok_or_else(Status::resource_not_served)
}

fn document_response(document: &Document, content_type: &'static str, headers: &HeaderMap) -> Response<Body> {
    let tag = document.etag();
    if headers.get(header::IF_NONE_MATCH).is_some_and(|v| v.as_bytes() == tag.as_bytes()) {
        return respond::not_modified(&tag);
    }
    let mut response = if accepts_gzip(headers) {
        let mut response = respond::text(200, content_type, document.gzip.clone());
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response
    } else {
        respond::text(200, content_type, document.inflate())
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding, Accept"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers.get(header::ACCEPT_ENCODING).and_then(|v| v.to_str().ok()).is_some_and(|v| v.contains("gzip"))
}

fn accepts_protobuf(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|v| v.to_str().ok());
    accepted.flat_map(|v| v.split(',')).any(|clause| {
        let media_type = clause.split(';').next().unwrap_or_default().trim();
        media_type == V2_PROTOBUF || media_type == V2_PROTOBUF_OLD
    })
}
