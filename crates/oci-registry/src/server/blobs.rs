//! Blobs: existence, content or a range of it, deletion.

use std::io::{Seek, SeekFrom};
use std::sync::Arc;

use futures::TryStreamExt;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_NONE_MATCH, RANGE,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

use super::Server;
use super::answer::{Body, CONTENT_DIGEST, OciError, answer as respond, empty};
use crate::digest::Digest;
use crate::name::Repository;
use crate::store::StoreError;

const READ_BUFFER: usize = 256 * 1024;

pub async fn answer(
    server: &Arc<Server>,
    request: &Request<Incoming>,
    repository: Repository,
    digest: Digest,
) -> Result<Response<Body>, OciError> {
    match *request.method() {
        Method::GET | Method::HEAD => read(server, request, repository, digest).await,
        Method::DELETE => {
            let dropped = digest.to_string();
            server.on_disk(move |store| store.delete_blob(&repository, &digest)).await?;
            Ok(respond(StatusCode::ACCEPTED, [(CONTENT_DIGEST, dropped)], empty()))
        }
        _ => Err(OciError::not_allowed("GET, HEAD, DELETE")),
    }
}

async fn read(
    server: &Arc<Server>,
    request: &Request<Incoming>,
    repository: Repository,
    digest: Digest,
) -> Result<Response<Body>, OciError> {
    let tag = format!("\"{digest}\"");
    let wanted = digest.clone();
    let (mut file, len) = server.on_disk(move |store| store.open_blob(&repository, &wanted)).await?;
    if request.headers().get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return Ok(respond(StatusCode::NOT_MODIFIED, [(ETAG, tag)], empty()));
    }
    let part = match part_wanted(request.headers(), len) {
        Wanted::All => None,
        Wanted::Part(first, last) => Some((first, last)),
        Wanted::Outside => {
            let fault = OciError::new(StatusCode::RANGE_NOT_SATISFIABLE, "SIZE_INVALID", "the blob has no such range");
            return Err(fault.with_header(CONTENT_RANGE, format!("bytes */{len}")));
        }
    };
    let (start, send) = part.map_or((0, len), |(first, last)| (first, last - first + 1));
    let body = if *request.method() == Method::HEAD {
        empty()
    } else {
        let path = digest.to_string();
        file.seek(SeekFrom::Start(start)).map_err(|source| StoreError::Io { doing: "cannot read", path, source })?;
        let file = tokio::fs::File::from_std(file).take(send);
        let frames = ReaderStream::with_capacity(file, READ_BUFFER).map_ok(Frame::data);
        BodyExt::boxed_unsync(StreamBody::new(frames))
    };
    let headers = [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (CONTENT_LENGTH, send.to_string()),
        (ACCEPT_RANGES, "bytes".to_owned()),
        (CACHE_CONTROL, "max-age=31536000".to_owned()),
        (CONTENT_DIGEST, digest.to_string()),
        (ETAG, tag),
    ];
    let status = if part.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let mut response = respond(status, headers, body);
    if let Some((first, last)) = part
        && let Ok(range) = HeaderValue::from_str(&format!("bytes {first}-{last}/{len}"))
    {
        response.headers_mut().insert(CONTENT_RANGE, range);
    }
    Ok(response)
}

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    All,
    /// First and last byte.
    Part(u64, u64),
    Outside,
}

/// Unknown units and several ranges at once are answered with the whole content, as HTTP allows.
fn part_wanted(headers: &HeaderMap, len: u64) -> Wanted {
    let Some(text) = headers.get(RANGE).and_then(|value| value.to_str().ok()) else { return Wanted::All };
    let Some((first, last)) = text.strip_prefix("bytes=").and_then(|range| range.split_once('-')) else {
        return Wanted::All;
    };
    let (first, last) = (first.trim(), last.trim());
    match (first.parse::<u64>(), last.parse::<u64>()) {
        (Err(_), Ok(0)) if first.is_empty() => Wanted::Outside,
        (Err(_), Ok(n)) if first.is_empty() && len > 0 => Wanted::Part(len.saturating_sub(n), len - 1),
        (Ok(first), _) if first >= len => Wanted::Outside,
        (Ok(first), Ok(last)) if last < first => Wanted::All,
        (Ok(first), Ok(last)) => Wanted::Part(first, last.min(len - 1)),
        (Ok(first), Err(_)) if last.is_empty() => Wanted::Part(first, len - 1),
        _ => Wanted::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_parsed_as_in_http() {
        let check = |text: &'static str, len: u64, expected: Wanted| {
            let mut headers = HeaderMap::new();
            headers.insert(RANGE, HeaderValue::from_static(text));
            assert_eq!(part_wanted(&headers, len), expected, "{text} of {len}");
        };
        check("bytes=0-", 10, Wanted::Part(0, 9));
        check("bytes=3-4", 10, Wanted::Part(3, 4));
        check("bytes=3-99", 10, Wanted::Part(3, 9));
        check("bytes=-3", 10, Wanted::Part(7, 9));
        check("bytes=-30", 10, Wanted::Part(0, 9));
        check("bytes=-0", 10, Wanted::Outside);
        check("bytes=10-", 10, Wanted::Outside);
        check("bytes=0-", 0, Wanted::Outside);
        check("bytes=5-4", 10, Wanted::All);
        check("bytes=0-1,3-4", 10, Wanted::All);
        check("lines=0-1", 10, Wanted::All);
        check("bytes=18446744073709551616-", 10, Wanted::All);
    }
}
