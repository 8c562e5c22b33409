//! Answers that list: the ping, repositories, tags, referrers.

use std::sync::Arc;

use http::header::{CONTENT_TYPE, LINK};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use object::percent::encode;
use object::query::Query;
use serde_json::{Value, json};

use super::Server;
use super::answer::{Body, FILTERS_APPLIED, OciError, answer, full};
use crate::digest::Digest;
use crate::manifest::OCI_INDEX;
use crate::name::Repository;

/// Names on a page when the client does not say, and at most.
const PAGE_LEN_MAX: usize = 1_000;

pub fn ping(request: &Request<Incoming>) -> Result<Response<Body>, OciError> {
    reads_only(request)?;
    Ok(json_answer("application/json", &json!({})))
}

pub async fn catalog(
    server: &Arc<Server>,
    request: &Request<Incoming>,
    query: &Query,
) -> Result<Response<Body>, OciError> {
    reads_only(request)?;
    let (last, n) = page_wanted(query)?;
    let page = server.on_disk(move |store| store.catalog_page(last.as_deref(), n)).await?;
    let response = json_answer("application/json", &json!({"repositories": page.items}));
    Ok(linked(response, "/v2/_catalog", n, page.items.last().filter(|_| page.has_more)))
}

pub async fn tags(
    server: &Arc<Server>,
    request: &Request<Incoming>,
    query: &Query,
    repository: Repository,
) -> Result<Response<Body>, OciError> {
    reads_only(request)?;
    let (last, n) = page_wanted(query)?;
    let (path, name) = (format!("/v2/{repository}/tags/list"), repository.to_string());
    let page = server.on_disk(move |store| store.tag_page(&repository, last.as_deref(), n)).await?;
    let response = json_answer("application/json", &json!({"name": name, "tags": page.items}));
    Ok(linked(response, &path, n, page.items.last().filter(|_| page.has_more)))
}

pub async fn referrers(
    server: &Arc<Server>,
    request: &Request<Incoming>,
    query: &Query,
    repository: Repository,
    subject: Digest,
) -> Result<Response<Body>, OciError> {
    reads_only(request)?;
    let mut found = server.on_disk(move |store| store.referrers(&repository, &subject)).await?;
    let wanted = query.get("artifactType");
    if let Some(wanted) = wanted {
        found.retain(|descriptor| descriptor.artifact_type.as_deref() == Some(wanted));
    }
    let index = json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": found});
    let mut response = json_answer(OCI_INDEX, &index);
    if wanted.is_some() {
        response.headers_mut().insert(FILTERS_APPLIED, http::HeaderValue::from_static("artifactType"));
    }
    Ok(response)
}

pub fn reads_only(request: &Request<Incoming>) -> Result<(), OciError> {
    match *request.method() {
        Method::GET | Method::HEAD => Ok(()),
        _ => Err(OciError::not_allowed("GET, HEAD")),
    }
}

fn page_wanted(query: &Query) -> Result<(Option<String>, usize), OciError> {
    let n = match query.first("n") {
        None => PAGE_LEN_MAX,
        Some(text) => match text.parse::<usize>() {
            Ok(n) => n.min(PAGE_LEN_MAX),
            Err(_) => return Err(OciError::bad("PAGINATION_NUMBER_INVALID", "n must be a number, zero or more")),
        },
    };
    Ok((query.first("last").map(str::to_owned), n))
}

fn json_answer(media_type: &str, value: &Value) -> Response<Body> {
    answer(StatusCode::OK, [(CONTENT_TYPE, media_type.to_owned())], full(value.to_string()))
}

/// Adds the link to the next page.
fn linked(mut response: Response<Body>, path: &str, n: usize, last: Option<&String>) -> Response<Body> {
    if let Some(last) = last {
        let link = format!("<{path}?last={}&n={n}>; rel=\"next\"", encode(last));
        if let Ok(link) = link.parse() {
            response.headers_mut().insert(LINK, link);
        }
    }
    response
}
