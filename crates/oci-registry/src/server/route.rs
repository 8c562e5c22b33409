//! Which thing a path names. Names hold slashes, so paths are read from their end.

use http::StatusCode;
use object::percent;
use uuid::Uuid;

use super::answer::OciError;
use crate::digest::Digest;
use crate::name::{Repository, Selector, Tag};

#[derive(Debug, PartialEq, Eq)]
pub enum Route {
    Ping,
    Catalog,
    Tags(Repository),
    Referrers(Repository, Digest),
    Blob(Repository, Digest),
    Uploads(Repository),
    Upload(Repository, Uuid),
    Manifest(Repository, Selector),
}

impl Route {
    pub fn parse(path: &str) -> Result<Self, OciError> {
        let nothing = || OciError::new(StatusCode::NOT_FOUND, "UNSUPPORTED", "there is nothing at this path");
        let path = percent::decode(path).ok().and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(nothing)?;
        if path == "/v2" || path == "/v2/" {
            return Ok(Self::Ping);
        }
        let rest = path.strip_prefix("/v2/").ok_or_else(nothing)?;
        if rest == "_catalog" {
            return Ok(Self::Catalog);
        }
        let (rest, last) = rest.rsplit_once('/').ok_or_else(nothing)?;
        // `…/blobs/uploads/` and `…/blobs/uploads` are the same.
        let (rest, last) = match rest.strip_suffix("/blobs") {
            Some(name) if last == "uploads" => return Ok(Self::Uploads(repository(name)?)),
            _ => (rest, last),
        };
        if let Some(name) = rest.strip_suffix("/blobs/uploads") {
            return match last {
                "" => Ok(Self::Uploads(repository(name)?)),
                id => Ok(Self::Upload(repository(name)?, upload(id)?)),
            };
        }
        let (name, what) = rest.rsplit_once('/').ok_or_else(nothing)?;
        match what {
            "blobs" => Ok(Self::Blob(repository(name)?, digest(last)?)),
            "manifests" => Ok(Self::Manifest(repository(name)?, selector(last)?)),
            "referrers" => Ok(Self::Referrers(repository(name)?, digest(last)?)),
            "tags" if last == "list" => Ok(Self::Tags(repository(name)?)),
            _ => Err(nothing()),
        }
    }
}

pub fn repository(name: &str) -> Result<Repository, OciError> {
    name.parse().map_err(|error: crate::name::NameError| OciError::bad("NAME_INVALID", error.to_string()))
}

pub fn digest(text: &str) -> Result<Digest, OciError> {
    text.parse().map_err(|error: crate::digest::NotADigest| OciError::bad("DIGEST_INVALID", error.to_string()))
}

/// Malformed digests get an error about digests, not about tags.
fn selector(text: &str) -> Result<Selector, OciError> {
    if text.contains(':') {
        return digest(text).map(Selector::Digest);
    }
    tag(text).map(Selector::Tag)
}

pub fn tag(text: &str) -> Result<Tag, OciError> {
    text.parse().map_err(|error: crate::name::NameError| OciError::bad("TAG_INVALID", error.to_string()))
}

fn upload(id: &str) -> Result<Uuid, OciError> {
    let unknown = || OciError::new(StatusCode::NOT_FOUND, "BLOB_UPLOAD_UNKNOWN", "there is no such upload");
    // Only the one form we give out names an upload.
    Uuid::try_parse(id).ok().filter(|found| found.to_string() == id).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const ID: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

    #[test]
    fn paths_follow_the_specification() {
        let name = |text: &str| text.parse::<Repository>().unwrap();
        let sum = || SUM.parse::<Digest>().unwrap();
        let cases = [
            ("/v2/".to_owned(), Route::Ping),
            ("/v2/_catalog".to_owned(), Route::Catalog),
            ("/v2/a/b/tags/list".to_owned(), Route::Tags(name("a/b"))),
            (format!("/v2/a/referrers/{SUM}"), Route::Referrers(name("a"), sum())),
            (format!("/v2/a/blobs/{SUM}"), Route::Blob(name("a"), sum())),
            (format!("/v2/a%2Fb/blobs/{}", SUM.replace(':', "%3A")), Route::Blob(name("a/b"), sum())),
            ("/v2/a/blobs/uploads/".to_owned(), Route::Uploads(name("a"))),
            ("/v2/a/blobs/uploads".to_owned(), Route::Uploads(name("a"))),
            ("/v2/blobs/uploads/blobs/uploads/".to_owned(), Route::Uploads(name("blobs/uploads"))),
            (format!("/v2/a/blobs/uploads/{ID}"), Route::Upload(name("a"), ID.parse().unwrap())),
            ("/v2/a/manifests/v1".to_owned(), Route::Manifest(name("a"), "v1".parse().unwrap())),
            (format!("/v2/a/manifests/{SUM}"), Route::Manifest(name("a"), Selector::Digest(sum()))),
            ("/v2/tags/list/tags/list".to_owned(), Route::Tags(name("tags/list"))),
        ];
        for (path, expected) in cases {
            assert_eq!(Route::parse(&path).map_err(|fault| format!("{fault:?}")), Ok(expected), "{path}");
        }
    }

    #[test]
    fn hostile_paths_are_refused() {
        for path in [
            "/",
            "/v1/",
            "/v2/x",
            "//v2/",
            "/v2/../v2/_catalog",
            "/v2/a/../../etc/manifests/passwd",
            "/v2/a/%2e%2e/manifests/x",
            "/v2/a/manifests/..",
            "/v2/a/manifests/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
            "/v2/a/manifests/a%00b",
            "/v2/a/blobs/sha256:..%2f..",
            "/v2/a/blobs/uploads/../../../lock",
            "/v2/a/blobs/uploads/67E55044-10B1-426F-9247-BB680E5FE0C8",
            "/v2/a/blobs/uploads/67e5504410b1426f9247bb680e5fe0c8",
            "/v2/_layers/x/manifests/a",
            "/v2//manifests/a",
            "/v2/manifests/a",
            "/v2/a/%ff/manifests/a",
        ] {
            assert!(Route::parse(path).is_err(), "{path}");
        }
    }
}
