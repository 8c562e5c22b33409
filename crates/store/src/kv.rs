//! Basic types of the store: revisions, key-values, events and range requests.

use std::sync::Arc;

use bytes::Bytes;

/// A point in the history of the whole store. An empty store is at 1; every write takes the next one.
pub type Revision = u64;

pub type LeaseId = i64;

/// One version of one key. Cloning shares the key and the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    pub key: Arc<str>,
    pub value: Bytes,
    /// Revision of the key's creation, after its last deletion if there was one.
    pub create_revision: Revision,
    /// Revision at which this version was written.
    pub mod_revision: Revision,
    pub lease: Option<LeaseId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Put,
    Delete,
}

/// One change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub kind: EventKind,
    /// The version written. For a delete: the key, the revision of the delete, `create_revision` 0 and no value.
    pub kv: KeyValue,
    /// The version replaced or removed. Engines may omit it if its history was compacted before the event was read.
    pub prev: Option<KeyValue>,
}

impl Event {
    pub fn is_create(&self) -> bool {
        self.kind == EventKind::Put && self.kv.create_revision == self.kv.mod_revision
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeEnd<'a> {
    /// All keys beginning with `start`.
    Prefix,
    /// Keys from `start` up to but not including this one.
    Exclusive(&'a str),
    /// Only the key `start`.
    Key,
}

#[derive(Clone, Copy, Debug)]
pub struct RangeRequest<'a> {
    pub start: &'a str,
    pub end: RangeEnd<'a>,
    /// 0 means all.
    pub limit: usize,
    /// `None` means the newest.
    pub revision: Option<Revision>,
}

impl<'a> RangeRequest<'a> {
    /// All keys beginning with `prefix`, at the latest revision.
    pub fn prefix(prefix: &'a str) -> Self {
        RangeRequest { start: prefix, end: RangeEnd::Prefix, limit: 0, revision: None }
    }

    /// From `start` up to but not including `end`, at the latest revision.
    pub fn between(start: &'a str, end: &'a str) -> Self {
        RangeRequest { start, end: RangeEnd::Exclusive(end), limit: 0, revision: None }
    }

    pub fn limit(self, limit: usize) -> Self {
        RangeRequest { limit, ..self }
    }

    pub fn at(self, revision: Revision) -> Self {
        RangeRequest { revision: Some(revision), ..self }
    }
}

#[derive(Clone, Debug, Default)]
pub struct RangeResult {
    pub kvs: Vec<KeyValue>,
    /// The limit cut off more keys.
    pub more: bool,
    /// Number of keys cut off.
    pub remaining: u64,
    /// The revision of the store when it was read; with [`RangeRequest::revision`] set, the pages still show that one.
    pub revision: Revision,
}

/// The smallest string greater than every string beginning with `prefix`; `None` when there is no such string.
///
/// Strings compare by code point in UTF-8, so it is the prefix with its last character replaced by the next one.
pub fn prefix_end(prefix: &str) -> Option<String> {
    let mut end = prefix.to_string();
    while let Some(last) = end.pop() {
        // Skips the surrogates, which are not characters.
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            other => char::from_u32(other as u32 + 1),
        };
        if let Some(next) = next {
            end.push(next);
            return Some(end);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_end_is_the_first_key_after_the_prefix() {
        let check =
            |prefix: &str, expected: Option<&str>| assert_eq!(prefix_end(prefix).as_deref(), expected, "{prefix:?}");
        check("/pods/", Some("/pods0"));
        check("a", Some("b"));
        check("", None);
        check("a\u{10ffff}", Some("b"));
        check("\u{10ffff}", None);
        check("\u{d7ff}", Some("\u{e000}"));
        check("é", Some("ê"));
    }
}
