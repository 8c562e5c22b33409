//! Manifests: put, read by tag or digest, deleted.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use object::query::Query;

use super::Server;
use super::answer::{Body, CONTENT_DIGEST, OCI_SUBJECT, OCI_TAG, OciError, answer as respond, empty, full};
use super::route;
use crate::digest::Digest;
use crate::manifest::{MANIFEST_LEN_MAX, Manifest, ManifestError};
use crate::name::{Repository, Selector, Tag};
use crate::store::PutManifest;

pub async fn answer(
    server: &Arc<Server>,
    request: Request<Incoming>,
    query: &Query,
    repository: Repository,
    selector: Selector,
) -> Result<Response<Body>, OciError> {
    match *request.method() {
        Method::GET | Method::HEAD => read(server, &request, repository, selector).await,
        Method::PUT => put(server, request, query, repository, selector).await,
        Method::DELETE => {
            server.on_disk(move |store| store.delete_manifest(&repository, &selector)).await?;
            Ok(respond(StatusCode::ACCEPTED, [], empty()))
        }
        _ => Err(OciError::not_allowed("GET, HEAD, PUT, DELETE")),
    }
}

async fn read(
    server: &Arc<Server>,
    request: &Request<Incoming>,
    repository: Repository,
    selector: Selector,
) -> Result<Response<Body>, OciError> {
    let found = server.on_disk(move |store| store.manifest(&repository, &selector)).await?;
    let tag = format!("\"{}\"", found.digest);
    let digest = (CONTENT_DIGEST, found.digest.to_string());
    if request.headers().get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return Ok(respond(StatusCode::NOT_MODIFIED, [digest, (ETAG, tag)], empty()));
    }
    let headers =
        [(CONTENT_TYPE, found.media_type), (CONTENT_LENGTH, found.bytes.len().to_string()), digest, (ETAG, tag)];
    let body = if *request.method() == Method::HEAD { empty() } else { full(found.bytes) };
    Ok(respond(StatusCode::OK, headers, body))
}

async fn put(
    server: &Arc<Server>,
    request: Request<Incoming>,
    query: &Query,
    repository: Repository,
    selector: Selector,
) -> Result<Response<Body>, OciError> {
    let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let bytes = read_body(request).await?;
    let manifest = Manifest::parse(content_type.as_deref(), &bytes).map_err(invalid)?;
    let said = match (&selector, query.first("digest")) {
        (Selector::Digest(digest), _) => Some(digest.clone()),
        (Selector::Tag(_), Some(text)) => Some(route::digest(text)?),
        (Selector::Tag(_), None) => None,
    };
    let digest = said.as_ref().map_or_else(|| Digest::of(&bytes), |said| said.like(&bytes));
    if let Some(said) = said.filter(|said| *said != digest) {
        return Err(OciError::bad("DIGEST_INVALID", format!("the manifest is {digest}, not {said}")));
    }
    let subject = manifest.subject.as_ref().map(|subject| subject.digest.to_string());
    let location = (LOCATION, format!("/v2/{repository}/manifests/{digest}"));
    // By digest, any number of tags can be put on it at once.
    let (tags, said_tags): (Vec<Tag>, Vec<Tag>) = match selector {
        Selector::Tag(tag) => (vec![tag], Vec::new()),
        Selector::Digest(_) => {
            let tags = query.all("tag").map(route::tag).collect::<Result<Vec<_>, _>>()?;
            (tags.clone(), tags)
        }
    };
    let kept = digest.clone();
    let keep = move |store: &crate::store::Store| {
        let put =
            PutManifest { repository: &repository, tags: &tags, digest: &kept, bytes: &bytes, manifest: &manifest };
        store.put_manifest(&put)
    };
    server.on_disk(keep).await?;
    let mut response = respond(StatusCode::CREATED, [location, (CONTENT_DIGEST, digest.to_string())], empty());
    for tag in said_tags.iter().filter_map(|tag| HeaderValue::from_str(tag.as_str()).ok()) {
        response.headers_mut().append(OCI_TAG, tag);
    }
    // Shows clients that this registry supports referrers.
    if let Some(subject) = subject.and_then(|subject| HeaderValue::from_str(&subject).ok()) {
        response.headers_mut().insert(OCI_SUBJECT, subject);
    }
    Ok(response)
}

async fn read_body(request: Request<Incoming>) -> Result<Bytes, OciError> {
    match Limited::new(request.into_body(), MANIFEST_LEN_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let message = format!("manifests may have {MANIFEST_LEN_MAX} bytes at most");
            Err(OciError::new(StatusCode::PAYLOAD_TOO_LARGE, "MANIFEST_INVALID", message))
        }
        Err(error) => Err(OciError::bad("MANIFEST_INVALID", format!("the body broke off: {error}"))),
    }
}

fn invalid(error: ManifestError) -> OciError {
    OciError::bad("MANIFEST_INVALID", crate::said(&error))
}
