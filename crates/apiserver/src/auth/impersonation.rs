//! Reads the `Impersonate-*` headers.

use access::impersonation::Impersonation;
use http::{HeaderMap, HeaderValue};
use object::Status;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA_PREFIX: &str = "impersonate-extra-";

/// Whom the headers ask to be; `None` when they ask nothing.
pub fn read(headers: &HeaderMap) -> Result<Option<Impersonation>, Status> {
    let mut wanted = Impersonation::default();
    for (header, value) in headers {
        match header.as_str() {
            USER if wanted.user.is_empty() => wanted.user = text(value)?,
            UID if wanted.uid.is_empty() => wanted.uid = text(value)?,
            GROUP => wanted.groups.push(text(value)?),
            other => {
                if let Some(key) = other.strip_prefix(EXTRA_PREFIX) {
                    wanted.extra.entry(unescape_key(key)).or_default().push(text(value)?);
                }
            }
        }
    }
    if wanted.is_empty() {
        return Ok(None);
    }
    wanted.check().map_err(Status::bad_request)?;
    Ok(Some(wanted))
}

/// Skipping what cannot be read would act as someone other than asked for, so it is refused.
fn text(value: &HeaderValue) -> Result<String, Status> {
    let text = std::str::from_utf8(value.as_bytes());
    text.map(str::to_owned).map_err(|_| Status::bad_request("an impersonation header is not valid UTF-8"))
}

/// Header names hold few characters, so others in a key come percent-encoded; a bad encoding is kept as it is.
pub fn unescape_key(key: &str) -> String {
    let bytes = key.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'%' {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        let digits = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match digits.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => out.push(byte),
            None => return key.to_owned(),
        }
        at += 3;
    }
    String::from_utf8(out).unwrap_or_else(|_| key.to_owned())
}
