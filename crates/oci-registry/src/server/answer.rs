//! Responses: common headers, and errors with the codes and bodies of the specification.

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::store::StoreError;

pub type Body = UnsyncBoxBody<Bytes, std::io::Error>;

pub const CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");
pub const UPLOAD_UUID: HeaderName = HeaderName::from_static("docker-upload-uuid");
pub const OCI_SUBJECT: HeaderName = HeaderName::from_static("oci-subject");
pub const OCI_TAG: HeaderName = HeaderName::from_static("oci-tag");
pub const FILTERS_APPLIED: HeaderName = HeaderName::from_static("oci-filters-applied");
const API_VERSION: HeaderName = HeaderName::from_static("docker-distribution-api-version");

pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

pub fn empty() -> Body {
    full(Bytes::new())
}

/// Builds a response from checked parts.
pub fn answer<const N: usize>(status: StatusCode, headers: [(HeaderName, String); N], body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    for (name, value) in headers {
        // Names, digests and numbers are valid header values; others are left out.
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

pub fn with_version(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(API_VERSION, HeaderValue::from_static("registry/2.0"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// A request that failed.
#[derive(Debug)]
pub struct OciError {
    status: StatusCode,
    code: &'static str,
    message: String,
    detail: Value,
    headers: Vec<(HeaderName, String)>,
}

impl OciError {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), detail: Value::Null, headers: Vec::new() }
    }

    pub fn with_header(mut self, name: HeaderName, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    fn with_detail(mut self, detail: Value) -> Self {
        self.detail = detail;
        self
    }

    pub fn denied(message: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "DENIED", message)
    }

    pub fn unsupported(message: &str) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "UNSUPPORTED", message)
    }

    pub fn not_allowed(allowed: &'static str) -> Self {
        Self::unsupported("this method is not allowed on this path").with_header(header::ALLOW, allowed.to_owned())
    }

    pub fn bad(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    pub fn internal(error: &dyn std::error::Error) -> Self {
        tracing::error!(error = %crate::said(error), "a request failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "UNKNOWN", "internal error; see the registry's log")
    }

    pub fn into_response(self) -> Response<Body> {
        let mut error = json!({"code": self.code, "message": self.message});
        if !self.detail.is_null() {
            error["detail"] = self.detail;
        }
        let body = json!({"errors": [error]}).to_string();
        let json = (header::CONTENT_TYPE, "application/json".to_owned());
        let mut response = answer(self.status, [json], full(body));
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

impl From<StoreError> for OciError {
    fn from(error: StoreError) -> Self {
        use StatusCode as S;
        let message = error.to_string();
        match error {
            StoreError::BlobUnknown(digest) => {
                Self::new(S::NOT_FOUND, "BLOB_UNKNOWN", message).with_detail(json!({"digest": digest}))
            }
            StoreError::ManifestUnknown(reference) => {
                Self::new(S::NOT_FOUND, "MANIFEST_UNKNOWN", message).with_detail(json!({"reference": reference}))
            }
            StoreError::RepositoryUnknown(name) => {
                Self::new(S::NOT_FOUND, "NAME_UNKNOWN", message).with_detail(json!({"name": name.as_str()}))
            }
            StoreError::UploadUnknown => Self::new(S::NOT_FOUND, "BLOB_UPLOAD_UNKNOWN", message),
            StoreError::DigestDiffers { expected, actual } => {
                Self::bad("DIGEST_INVALID", message).with_detail(json!({"expected": expected, "actual": actual}))
            }
            StoreError::ReferencesUnknown(missing) => {
                let digests: Vec<_> = missing.iter().take(100).map(|missing| &missing.digest).collect();
                Self::bad("MANIFEST_BLOB_UNKNOWN", message).with_detail(json!({"digests": digests}))
            }
            StoreError::TooManyUploads(_) => Self::new(S::TOO_MANY_REQUESTS, "TOOMANYREQUESTS", message)
                .with_header(header::RETRY_AFTER, "60".to_owned()),
            StoreError::BlobTooLarge(_) => Self::new(S::PAYLOAD_TOO_LARGE, "SIZE_INVALID", message),
            StoreError::Collecting => Self::new(S::CONFLICT, "TOOMANYREQUESTS", message),
            // The client should know that the disk is full.
            StoreError::Io { ref source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                tracing::error!(error = %crate::said(&error), "a request failed");
                Self::new(S::INSUFFICIENT_STORAGE, "UNKNOWN", "the registry's disk is full")
            }
            StoreError::Io { .. } | StoreError::Damaged { .. } | StoreError::InUse(_) => Self::internal(&error),
        }
    }
}
