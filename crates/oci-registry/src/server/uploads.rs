//! Uploads: started, continued in one or several pieces, queried, finished, cancelled; or replaced by a mount.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, LOCATION, RANGE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use object::query::Query;
use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;

use super::Server;
use super::answer::{Body, CONTENT_DIGEST, OciError, UPLOAD_UUID, answer as respond, empty};
use super::route;
use crate::digest::{Algorithm, Digest};
use crate::name::Repository;
use crate::store::{StoreError, UploadSession};

/// Bytes collected before a write.
const BATCH_LEN: usize = 1024 * 1024;
/// Time a client may pause within a body.
const BODY_IDLE_MAX: Duration = Duration::from_secs(60);
/// Time to wait for another request on the same upload, usually the client's own broken connection.
const BUSY_MAX: Duration = Duration::from_secs(15);

pub async fn begin(
    server: &Arc<Server>,
    client: IpAddr,
    request: Request<Incoming>,
    query: &Query,
    repository: Repository,
) -> Result<Response<Body>, OciError> {
    if *request.method() != Method::POST {
        return Err(OciError::not_allowed("POST"));
    }
    if let Some(mount) = query.first("mount") {
        let digest = route::digest(mount)?;
        if let Some(from) = query.first("from") {
            let (from, to, wanted) = (route::repository(from)?, repository.clone(), digest.clone());
            if server.on_disk(move |store| store.mount(&from, &to, &wanted)).await? {
                return Ok(created(&repository, &digest));
            }
        }
    }
    let digest = query.first("digest").map(route::digest).transpose()?;
    let algorithm = match (&digest, query.first("digest-algorithm")) {
        (Some(digest), _) => digest.algorithm(),
        (None, Some(name)) => Algorithm::by_name(name)
            .ok_or_else(|| OciError::bad("DIGEST_INVALID", "digests are made by sha256 or sha512"))?,
        (None, None) => Algorithm::Sha256,
    };
    let of = repository.clone();
    let id = server.on_disk(move |store| store.begin_upload(&of, algorithm, Some(client))).await?;
    match digest {
        None => Ok(under_way(StatusCode::ACCEPTED, &repository, id, 0)),
        Some(digest) => {
            let session = lock(server, &repository, id).await?;
            match receive(session, None, request).await {
                Ok(session) => finish(server, session, digest).await,
                Err(fault) => {
                    // The client does not know its id, so it cannot be continued.
                    if let Ok(session) = lock(server, &repository, id).await {
                        server.on_disk(move |store| store.end_upload(session)).await?;
                    }
                    Err(fault)
                }
            }
        }
    }
}

pub async fn answer(
    server: &Arc<Server>,
    request: Request<Incoming>,
    query: &Query,
    repository: Repository,
    id: Uuid,
) -> Result<Response<Body>, OciError> {
    let method = request.method().clone();
    if ![Method::GET, Method::HEAD, Method::PATCH, Method::PUT, Method::DELETE].contains(&method) {
        return Err(OciError::not_allowed("GET, PATCH, PUT, DELETE"));
    }
    let session = lock(server, &repository, id).await?;
    match method {
        Method::PATCH => {
            let piece = Piece::of(request.headers())?;
            check_start(&session, piece)?;
            let session = receive(session, piece, request).await?;
            Ok(under_way(StatusCode::ACCEPTED, &repository, id, session.offset()))
        }
        Method::PUT => {
            let text = query.first("digest");
            let text = text
                .ok_or_else(|| OciError::bad("DIGEST_INVALID", "the query must have ?digest=… to finish an upload"))?;
            let digest = route::digest(text)?;
            let piece = Piece::of(request.headers())?;
            check_start(&session, piece)?;
            let session = receive(session, piece, request).await?;
            finish(server, session, digest).await
        }
        Method::DELETE => {
            server.on_disk(move |store| store.end_upload(session)).await?;
            Ok(respond(StatusCode::NO_CONTENT, [], empty()))
        }
        _ => Ok(under_way(StatusCode::NO_CONTENT, &repository, id, session.offset())),
    }
}

/// Locks an upload of this repository for adding to it.
async fn lock(
    server: &Arc<Server>,
    repository: &Repository,
    id: Uuid,
) -> Result<OwnedMutexGuard<UploadSession>, OciError> {
    let session = server.store.upload(id)?;
    let busy =
        || OciError::new(StatusCode::CONFLICT, "BLOB_UPLOAD_INVALID", "another request is adding to this upload");
    let session = tokio::time::timeout(BUSY_MAX, session.lock_owned()).await.map_err(|_| busy())?;
    if session.is_over() || session.repository() != repository {
        return Err(StoreError::UploadUnknown.into());
    }
    Ok(session)
}

/// The piece of a blob that Content-Range names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    start: u64,
    len: u64,
}

impl Piece {
    /// `0-99`, and `bytes 0-99/200` as HTTP has it.
    fn of(headers: &HeaderMap) -> Result<Option<Self>, OciError> {
        let Some(value) = headers.get(CONTENT_RANGE) else { return Ok(None) };
        let wrong = || OciError::bad("BLOB_UPLOAD_INVALID", "Content-Range must be FIRST-LAST");
        let text = value.to_str().map_err(|_| wrong())?;
        let text = text.strip_prefix("bytes").unwrap_or(text).trim_start_matches(['=', ' ']);
        let (first, last) = text.split('/').next().and_then(|range| range.split_once('-')).ok_or_else(wrong)?;
        let (first, last): (u64, u64) =
            (first.trim().parse().map_err(|_| wrong())?, last.trim().parse().map_err(|_| wrong())?);
        let len = last.checked_sub(first).and_then(|len| len.checked_add(1)).ok_or_else(wrong)?;
        let said = headers.get(CONTENT_LENGTH).and_then(|said| said.to_str().ok()?.parse::<u64>().ok());
        if said.is_some_and(|said| said != len) {
            return Err(OciError::bad("SIZE_INVALID", "Content-Length is not the length of Content-Range"));
        }
        Ok(Some(Self { start: first, len }))
    }
}

/// Requires pieces in order and without gaps; the error carries the offset to continue from.
fn check_start(session: &UploadSession, piece: Option<Piece>) -> Result<(), OciError> {
    match piece {
        Some(piece) if piece.start != session.offset() => {
            let message = format!("the upload has {} bytes, the piece begins at {}", session.offset(), piece.start);
            let fault = OciError::new(StatusCode::RANGE_NOT_SATISFIABLE, "BLOB_UPLOAD_INVALID", message);
            Err(fault
                .with_header(RANGE, range(session.offset()))
                .with_header(LOCATION, location(session.repository(), session.id()))
                .with_header(UPLOAD_UUID, session.id().to_string()))
        }
        _ => Ok(()),
    }
}

/// Reads the body in a task of its own, so that a broken connection keeps the received part for a retry.
async fn receive(
    session: OwnedMutexGuard<UploadSession>,
    piece: Option<Piece>,
    request: Request<Incoming>,
) -> Result<OwnedMutexGuard<UploadSession>, OciError> {
    match tokio::spawn(receive_body(session, piece, request.into_body())).await {
        Ok(received) => received,
        Err(broken) => Err(OciError::internal(&broken)),
    }
}

async fn receive_body(
    mut session: OwnedMutexGuard<UploadSession>,
    piece: Option<Piece>,
    mut body: Incoming,
) -> Result<OwnedMutexGuard<UploadSession>, OciError> {
    let start = session.offset();
    let (mut batch, mut batched, mut received) = (Vec::new(), 0, 0_u64);
    let ended = loop {
        let frame = match tokio::time::timeout(BODY_IDLE_MAX, body.frame()).await {
            Ok(None) => break Ok(()),
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => break Err(format!("the body broke off: {error}")),
            Err(_) => break Err(format!("nothing was sent for {BODY_IDLE_MAX:?}")),
        };
        let Ok(data) = frame.into_data() else { continue };
        received += data.len() as u64;
        if piece.is_some_and(|piece| received > piece.len) {
            break Ok(());
        }
        batched += data.len();
        batch.push(data);
        if batched >= BATCH_LEN {
            session = append(session, std::mem::take(&mut batch)).await?;
            batched = 0;
        }
    };
    if piece.is_some_and(|piece| received > piece.len) || (ended.is_ok() && piece.is_some_and(|p| received < p.len)) {
        // The length is wrong, so none of it can be trusted.
        let truncated = tokio::task::spawn_blocking(move || session.truncate(start)).await;
        truncated.map_err(|broken| OciError::internal(&broken))??;
        return Err(OciError::bad("SIZE_INVALID", "the body is not as long as Content-Range says"));
    }
    session = append(session, batch).await?;
    match ended {
        Ok(()) => Ok(session),
        Err(why) => Err(OciError::bad("BLOB_UPLOAD_INVALID", why)),
    }
}

async fn append(
    mut session: OwnedMutexGuard<UploadSession>,
    batch: Vec<Bytes>,
) -> Result<OwnedMutexGuard<UploadSession>, OciError> {
    if batch.is_empty() {
        return Ok(session);
    }
    let written = tokio::task::spawn_blocking(move || session.append(&batch).map(|()| session)).await;
    Ok(written.map_err(|broken| OciError::internal(&broken))??)
}

async fn finish(
    server: &Arc<Server>,
    session: OwnedMutexGuard<UploadSession>,
    digest: Digest,
) -> Result<Response<Body>, OciError> {
    let repository = session.repository().clone();
    let wanted = digest.clone();
    server.on_disk(move |store| store.commit_upload(session, &wanted)).await?;
    Ok(created(&repository, &digest))
}

fn created(repository: &Repository, digest: &Digest) -> Response<Body> {
    let location = (LOCATION, format!("/v2/{repository}/blobs/{digest}"));
    respond(StatusCode::CREATED, [location, (CONTENT_DIGEST, digest.to_string())], empty())
}

fn under_way(status: StatusCode, repository: &Repository, id: Uuid, offset: u64) -> Response<Body> {
    let headers = [(LOCATION, location(repository, id)), (RANGE, range(offset)), (UPLOAD_UUID, id.to_string())];
    respond(status, headers, empty())
}

fn location(repository: &Repository, id: Uuid) -> String {
    format!("/v2/{repository}/blobs/uploads/{id}")
}

/// First and last byte; `0-0` for an empty upload, as other registries do.
fn range(offset: u64) -> String {
    format!("0-{}", offset.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_read_in_both_forms() {
        let check = |range: &'static str, len: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_RANGE, range.parse().unwrap());
            len.map(|len| headers.insert(CONTENT_LENGTH, len.parse().unwrap()));
            Piece::of(&headers).ok().flatten().map(|piece| (piece.start, piece.len))
        };
        assert_eq!(check("0-99", None), Some((0, 100)));
        assert_eq!(check("bytes 100-199/400", Some("100")), Some((100, 100)));
        assert_eq!(check("bytes=5-5", None), Some((5, 1)));
        assert_eq!(check("0-99", Some("98")), None);
        assert_eq!(check("9-3", None), None);
        assert_eq!(check("0-18446744073709551615", None), None);
        assert_eq!(check("-5", None), None);
    }
}
