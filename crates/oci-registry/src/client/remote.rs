//! One repository of one registry: what can be asked of it and put into it.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderName, LINK, LOCATION, RANGE};
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt, BodyStream, Limited};
use hyper::body::Incoming;
use serde::Deserialize;

use super::{Call, Client, ClientError, address, resolve, text_of};
use crate::copy::{ByteStream, RawManifest};
use crate::digest::Digest;
use crate::manifest::{Descriptor, MANIFEST_LEN_MAX, READABLE};
use crate::name::{Repository, Selector};

/// Sent in one request; a piece that is lost is sent again from memory.
pub const PIECE_LEN: usize = 8 * 1024 * 1024;
/// Repeats of one piece of an upload.
const PIECE_RETRIES_MAX: u32 = 5;
const PIECE_RETRY_AFTER: Duration = Duration::from_millis(200);
/// A blob that sends nothing for this long has broken off.
const BLOB_IDLE_MAX: Duration = Duration::from_secs(60);
/// Pages of tags followed.
pub(super) const PAGES_MAX: usize = 10_000;
const ERROR_TEXT_MAX: usize = 500;

pub struct Remote {
    client: Arc<Client>,
    scheme: &'static str,
    host: String,
    repository: Repository,
}

impl Remote {
    pub(super) fn new(client: Arc<Client>, scheme: &'static str, host: String, repository: Repository) -> Self {
        Self { client, scheme, host, repository }
    }

    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    pub async fn manifest(&self, selector: &Selector) -> Result<RawManifest, ClientError> {
        let mut call = self.call(Method::GET, &format!("manifests/{selector}"), Rights::Pull);
        call.headers.push((ACCEPT, READABLE.join(", ")));
        let what = call.what.clone();
        let answer = expect(self.client.send(call).await?, &what, &[StatusCode::OK]).await?;
        let media_type = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let media_type = media_type.split(';').next().unwrap_or_default().trim().to_owned();
        let body = Limited::new(answer.into_body(), MANIFEST_LEN_MAX).collect().await;
        let bytes = body.map_err(|source| ClientError::Broken { what: what.clone(), source })?.to_bytes();
        let digest = match selector {
            Selector::Digest(digest) => digest.like(&bytes),
            Selector::Tag(_) => Digest::of(&bytes),
        };
        if let Selector::Digest(asked) = selector
            && *asked != digest
        {
            return Err(ClientError::Protocol { what, why: format!("what came is {digest}") });
        }
        Ok(RawManifest { digest, media_type, bytes })
    }

    /// A blob's bytes from an offset on; not verified yet.
    pub async fn blob(&self, digest: &Digest, from: u64) -> Result<ByteStream, ClientError> {
        let mut call = self.call(Method::GET, &format!("blobs/{digest}"), Rights::Pull);
        if from > 0 {
            call.headers.push((RANGE, format!("bytes={from}-")));
        }
        let what = call.what.clone();
        let accepted = [StatusCode::OK, StatusCode::PARTIAL_CONTENT, StatusCode::RANGE_NOT_SATISFIABLE];
        let answer = expect(self.client.send(call).await?, &what, &accepted).await?;
        // Nothing is left behind the last byte.
        if answer.status() == StatusCode::RANGE_NOT_SATISFIABLE {
            return Ok(Box::pin(futures::stream::empty()));
        }
        // A registry that does not know ranges sends all of it.
        let mut skip = if answer.status() == StatusCode::OK { from } else { 0 };
        let frames = BodyStream::new(answer.into_body());
        let frames = futures::stream::unfold(Some(frames), |frames| async {
            let mut frames = frames?;
            match tokio::time::timeout(BLOB_IDLE_MAX, frames.next()).await {
                Ok(frame) => frame.map(|frame| (frame.map_err(std::io::Error::other), Some(frames))),
                Err(_) => Some((Err(std::io::ErrorKind::TimedOut.into()), None)),
            }
        });
        let bytes = frames.filter_map(move |frame| {
            let bytes = frame.map(|frame| {
                let mut bytes = frame.into_data().unwrap_or_default();
                let cut = usize::try_from(skip).unwrap_or(usize::MAX).min(bytes.len());
                skip -= cut as u64;
                bytes.split_off(cut)
            });
            std::future::ready(Some(bytes).filter(|bytes| !bytes.as_ref().is_ok_and(Bytes::is_empty)))
        });
        Ok(Box::pin(bytes))
    }

    pub async fn has_blob(&self, digest: &Digest) -> Result<bool, ClientError> {
        let call = self.call(Method::HEAD, &format!("blobs/{digest}"), Rights::Pull);
        let what = call.what.clone();
        let answer = self.client.send(call).await?;
        match answer.status() {
            StatusCode::NOT_FOUND => Ok(false),
            _ => expect(answer, &what, &[StatusCode::OK]).await.map(|_| true),
        }
    }

    /// Takes a blob over from another repository of the same registry.
    pub async fn mount(&self, digest: &Digest, from: &Repository) -> Result<bool, ClientError> {
        let call = self.call(Method::POST, &format!("blobs/uploads/?mount={digest}&from={from}"), Rights::Push);
        let what = call.what.clone();
        let answer = self.client.send(call).await?;
        let answer = expect(answer, &what, &[StatusCode::CREATED, StatusCode::ACCEPTED]).await?;
        if answer.status() == StatusCode::CREATED {
            return Ok(true);
        }
        // It began an upload instead, which we do not go on with here.
        if let Some(location) = self.location(&answer) {
            Upload { remote: self, location, sent: 0, waiting: BytesMut::new() }.cancel().await;
        }
        Ok(false)
    }

    pub async fn begin_upload(&self) -> Result<Upload<'_>, ClientError> {
        let call = self.call(Method::POST, "blobs/uploads/", Rights::Push);
        let what = call.what.clone();
        let answer = expect(self.client.send(call).await?, &what, &[StatusCode::ACCEPTED]).await?;
        let why = "it does not say where to send the blob".to_owned();
        let location = self.location(&answer).ok_or(ClientError::Protocol { what, why })?;
        Ok(Upload { remote: self, location, sent: 0, waiting: BytesMut::new() })
    }

    pub async fn put_manifest(&self, selector: &Selector, manifest: &RawManifest) -> Result<(), ClientError> {
        let mut call = self.call(Method::PUT, &format!("manifests/{selector}"), Rights::Push);
        call.headers.push((CONTENT_TYPE, manifest.media_type.clone()));
        call.body = manifest.bytes.clone();
        call.may_repeat = true;
        let what = call.what.clone();
        let answer = expect(self.client.send(call).await?, &what, &[StatusCode::CREATED, StatusCode::OK]).await?;
        let kept = answer.headers().get(HeaderName::from_static("docker-content-digest"));
        match kept.and_then(|kept| kept.to_str().ok()).and_then(|kept| kept.parse::<Digest>().ok()) {
            Some(kept) if kept != manifest.digest => {
                Err(ClientError::Protocol { what, why: format!("it kept the manifest as {kept}") })
            }
            _ => Ok(()),
        }
    }

    pub async fn delete_manifest(&self, selector: &Selector) -> Result<(), ClientError> {
        let call = self.call(Method::DELETE, &format!("manifests/{selector}"), Rights::All);
        let what = call.what.clone();
        expect(self.client.send(call).await?, &what, &[StatusCode::ACCEPTED, StatusCode::OK]).await.map(|_| ())
    }

    pub async fn tags(&self) -> Result<Vec<String>, ClientError> {
        #[derive(Deserialize)]
        struct Page {
            tags: Option<Vec<String>>,
        }
        let mut call = self.call(Method::GET, "tags/list", Rights::Pull);
        let mut tags = Vec::new();
        for _ in 0..PAGES_MAX {
            let (what, base) = (call.what.clone(), address(&call.url)?);
            let answer = expect(self.client.send(call).await?, &what, &[StatusCode::OK]).await?;
            let next = answer.headers().get(LINK).and_then(|link| link.to_str().ok()).and_then(next_page);
            let next = next.map(|next| resolve(&base, &next));
            let page: Page = serde_json::from_slice(&text_of(answer).await)
                .map_err(|error| ClientError::Protocol { what, why: error.to_string() })?;
            tags.extend(page.tags.unwrap_or_default());
            match next {
                Some(url) => call = Call { url, ..self.call(Method::GET, "tags/list", Rights::Pull) },
                None => break,
            }
        }
        Ok(tags)
    }

    /// Returns true when all blobs and manifests of an image are present.
    pub async fn verify(&self, selector: &Selector, expected: &Digest) -> Result<(), ClientError> {
        let found = self.manifest(selector).await?;
        let what = format!("{}/{}", self.host, self.repository);
        if found.digest != *expected {
            let why = format!("{selector} is {}, not {expected}", found.digest);
            return Err(ClientError::Protocol { what, why });
        }
        let manifest = crate::manifest::Manifest::parse(Some(&found.media_type), &found.bytes)
            .map_err(|error| ClientError::Protocol { what: what.clone(), why: error.to_string() })?;
        let is_index = matches!(manifest.kind, crate::manifest::Kind::Index { .. });
        let parts: Vec<&Descriptor> = manifest.references().filter(|part| !part.is_foreign()).collect();
        for part in parts {
            if is_index {
                Box::pin(self.verify(&Selector::Digest(part.digest.clone()), &part.digest)).await?;
            } else if !self.has_blob(&part.digest).await? {
                return Err(ClientError::NotFound { what: format!("{what}@{}", part.digest) });
            }
        }
        Ok(())
    }

    fn call(&self, method: Method, path: &str, rights: Rights) -> Call<'_> {
        let may_repeat = matches!(method, Method::GET | Method::HEAD);
        Call {
            url: format!("{}://{}/v2/{}/{path}", self.scheme, self.host, self.repository),
            headers: Vec::new(),
            body: Bytes::new(),
            host: &self.host,
            scope: format!("repository:{}:{}", self.repository, rights.actions()),
            what: format!("{}/{}/{path}", self.host, self.repository),
            may_repeat,
            method,
        }
    }

    fn location(&self, answer: &Response<Incoming>) -> Option<String> {
        let location = answer.headers().get(LOCATION)?.to_str().ok()?;
        let base = format!("{}://{}/v2/{}/blobs/uploads/", self.scheme, self.host, self.repository);
        Some(resolve(&address(&base).ok()?, location))
    }
}

#[derive(Clone, Copy)]
enum Rights {
    Pull,
    Push,
    All,
}

impl Rights {
    fn actions(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "pull,push",
            Self::All => "pull,push,delete",
        }
    }
}

/// A blob being sent in pieces.
pub struct Upload<'a> {
    remote: &'a Remote,
    location: String,
    sent: u64,
    waiting: BytesMut,
}

impl Upload<'_> {
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), ClientError> {
        self.waiting.extend_from_slice(&bytes);
        while self.waiting.len() >= PIECE_LEN {
            let piece = self.waiting.split_to(PIECE_LEN).freeze();
            self.send(piece).await?;
        }
        Ok(())
    }

    pub async fn finish(mut self, digest: &Digest) -> Result<(), ClientError> {
        let rest = self.waiting.split().freeze();
        if !rest.is_empty() {
            self.send(rest).await?;
        }
        let separator = if self.location.contains('?') { '&' } else { '?' };
        let mut call = self.call(Method::PUT);
        call.url = format!("{}{separator}digest={digest}", self.location);
        call.may_repeat = true;
        let what = call.what.clone();
        let finished = match self.remote.client.send(call).await {
            Ok(answer) => expect(answer, &what, &[StatusCode::CREATED, StatusCode::NO_CONTENT]).await.map(|_| ()),
            Err(error) => Err(error),
        };
        match finished {
            // The first answer may have been lost behind a blob that is there.
            Err(
                error @ (ClientError::NotFound { .. } | ClientError::Unreachable { .. } | ClientError::Silent { .. }),
            ) => {
                if self.remote.has_blob(digest).await? {
                    Ok(())
                } else {
                    Err(error)
                }
            }
            finished => finished,
        }
    }

    /// Cancels the upload; if that fails, it expires.
    pub async fn cancel(self) {
        let call = self.call(Method::DELETE);
        let _ = self.remote.client.send(call).await;
    }

    /// Sends a piece; what the registry missed of it is sent again.
    async fn send(&mut self, piece: Bytes) -> Result<(), ClientError> {
        let (start, mut rest) = (self.sent, piece.clone());
        let mut retries = 0;
        loop {
            let mut call = self.call(Method::PATCH);
            call.headers.push((CONTENT_TYPE, "application/octet-stream".to_owned()));
            call.headers.push((CONTENT_LENGTH, rest.len().to_string()));
            let last = self.sent + rest.len() as u64 - 1;
            call.headers.push((CONTENT_RANGE, format!("{}-{last}", self.sent)));
            call.body = rest.clone();
            let what = call.what.clone();
            let error = match self.remote.client.send(call).await {
                Ok(answer) if matches!(answer.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT) => {
                    self.location = self.remote.location(&answer).unwrap_or_else(|| self.location.clone());
                    self.sent = last + 1;
                    return Ok(());
                }
                Ok(answer)
                    if answer.status().is_client_error() && answer.status() != StatusCode::RANGE_NOT_SATISFIABLE =>
                {
                    return Err(refusal(answer, &what).await);
                }
                Ok(answer) => refusal(answer, &what).await,
                Err(error @ (ClientError::Unreachable { .. } | ClientError::Silent { .. })) => error,
                Err(error) => return Err(error),
            };
            retries += 1;
            if retries > PIECE_RETRIES_MAX {
                return Err(error);
            }
            tokio::time::sleep(PIECE_RETRY_AFTER * 2_u32.pow(retries)).await;
            // It is not there again yet: the same piece is tried once more.
            let Ok(arrived) = self.arrived().await else { continue };
            let end = start + piece.len() as u64;
            if arrived < start || arrived > end {
                return Err(error);
            }
            self.sent = arrived;
            if arrived == end {
                return Ok(());
            }
            rest = piece.slice(usize::try_from(arrived - start).unwrap_or(0)..);
        }
    }

    /// Bytes the registry has of it.
    async fn arrived(&self) -> Result<u64, ClientError> {
        let mut call = self.call(Method::GET);
        call.may_repeat = true;
        let what = call.what.clone();
        let accepted = [StatusCode::NO_CONTENT, StatusCode::ACCEPTED, StatusCode::OK];
        let answer = expect(self.remote.client.send(call).await?, &what, &accepted).await?;
        let range = answer.headers().get(RANGE).and_then(|range| range.to_str().ok());
        let last = range.and_then(|range| range.rsplit('-').next()?.parse::<u64>().ok());
        // `0-0` stands for no byte and for one byte; our pieces are never one byte long unless they are the last.
        Ok(last.map_or(0, |last| if last == 0 { 0 } else { last + 1 }))
    }

    fn call(&self, method: Method) -> Call<'_> {
        Call { url: self.location.clone(), ..self.remote.call(method, "blobs/uploads/", Rights::Push) }
    }
}

/// The answer, if it is one of those that mean success.
pub(super) async fn expect(
    answer: Response<Incoming>,
    what: &str,
    accepted: &[StatusCode],
) -> Result<Response<Incoming>, ClientError> {
    if accepted.contains(&answer.status()) { Ok(answer) } else { Err(refusal(answer, what).await) }
}

async fn refusal(answer: Response<Incoming>, what: &str) -> ClientError {
    let (what, status) = (what.to_owned(), answer.status());
    let host = || what.split('/').next().unwrap_or_default().to_owned();
    match status {
        StatusCode::NOT_FOUND => ClientError::NotFound { what },
        StatusCode::FORBIDDEN => ClientError::Denied { host: host(), what },
        _ => {
            let said = said(&text_of(answer).await);
            ClientError::Refused { what, status, said }
        }
    }
}

/// The message in a registry's error document.
fn said(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Errors {
        errors: Vec<Said>,
    }
    #[derive(Deserialize)]
    struct Said {
        code: String,
        #[serde(default)]
        message: String,
    }
    let text = match serde_json::from_slice::<Errors>(body) {
        Ok(found) => found.errors.iter().map(|e| format!("{} {}", e.code, e.message)).collect::<Vec<_>>().join(", "),
        Err(_) => String::from_utf8_lossy(body).trim().to_owned(),
    };
    let text: String = text.chars().filter(|c| !c.is_control()).take(ERROR_TEXT_MAX).collect();
    if text.is_empty() { text } else { format!(": {text}") }
}

/// `</v2/…>; rel="next"`.
pub(super) fn next_page(link: &str) -> Option<String> {
    let (target, rest) = link.strip_prefix('<')?.split_once('>')?;
    rest.contains("rel=\"next\"").then(|| target.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_registry_are_reported() {
        let document = br#"{"errors":[{"code":"DIGEST_INVALID","message":"no"},{"code":"UNKNOWN"}]}"#;
        assert_eq!(said(document), ": DIGEST_INVALID no, UNKNOWN ");
        assert_eq!(said(b"\x1b[31mbad gateway\n"), ": [31mbad gateway");
        assert_eq!(said(b""), "");
    }

    #[test]
    fn the_next_page_is_found() {
        assert_eq!(
            next_page("</v2/a/tags/list?last=b&n=1>; rel=\"next\"").as_deref(),
            Some("/v2/a/tags/list?last=b&n=1")
        );
        assert_eq!(next_page("</x>; rel=\"prev\""), None);
        assert_eq!(next_page("x"), None);
    }
}
