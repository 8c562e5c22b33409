//! Maps the store's keys and messages to those of etcd.

use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::etcd::messages;
use crate::kv::{Event, EventKind, KeyValue, RangeEnd};

/// Keys of the store begin with a slash; in etcd they follow a prefix. So two stores with different prefixes on one
/// etcd never overlap, even if one prefix begins with the other.
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub fn new(prefix: &str) -> Keys {
        Keys { prefix: prefix.trim_end_matches('/').to_string() }
    }

    pub fn key(&self, key: &str) -> Result<Bytes> {
        if !key.starts_with('/') {
            return Err(Error::Invalid(format!("key {key:?} does not begin with a slash")));
        }
        Ok(Bytes::from(format!("{}{key}", self.prefix)))
    }

    /// A key outside all those of the store.
    pub fn epoch(&self) -> Bytes {
        Bytes::from(format!("{}-epoch", self.prefix))
    }

    /// First key and end of all keys beginning with `prefix`; an empty prefix means all.
    pub fn prefix(&self, prefix: &str) -> Result<(Bytes, Bytes)> {
        let start = self.key(if prefix.is_empty() { "/" } else { prefix })?;
        let end = after(&start);
        Ok((start, end))
    }

    pub fn range(&self, start: &str, end: &RangeEnd<'_>) -> Result<(Bytes, Bytes)> {
        match end {
            RangeEnd::Prefix => self.prefix(start),
            RangeEnd::Key => Ok((self.key(start)?, Bytes::new())),
            RangeEnd::Exclusive(end) => {
                let start = self.key(if start.is_empty() { "/" } else { start })?;
                // The end may lie beyond the slash, as the end of all keys does.
                let end = Bytes::from(format!("{}{end}", self.prefix)).min(after(self.prefix("/")?.0.as_ref()));
                Ok((start, end))
            }
        }
    }

    /// Returns `None` for a key that the store cannot have written.
    pub fn kv(&self, kv: messages::KeyValue) -> Option<KeyValue> {
        let key = std::str::from_utf8(&kv.key).ok()?.strip_prefix(&self.prefix)?;
        Some(KeyValue {
            key: Arc::from(key),
            value: kv.value,
            create_revision: kv.create_revision as u64,
            mod_revision: kv.mod_revision as u64,
            lease: (kv.lease != 0).then_some(kv.lease),
        })
    }

    pub fn event(&self, event: messages::Event) -> Option<Event> {
        let kind = match event.r#type {
            1 => EventKind::Delete,
            _ => EventKind::Put,
        };
        Some(Event { kind, kv: self.kv(event.kv?)?, prev: event.prev_kv.and_then(|prev| self.kv(prev)) })
    }
}

/// The smallest key greater than all that begin with `prefix`.
fn after(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return Bytes::from(end);
        }
    }
    // etcd's notation for no end.
    Bytes::from_static(&[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_stay_within_the_prefix() {
        let keys = Keys::new("/registry/");
        let check = |start: &str, end: RangeEnd<'_>, expected: (&str, &str)| {
            let (from, to) = keys.range(start, &end).unwrap();
            assert_eq!((&*from, &*to), (expected.0.as_bytes(), expected.1.as_bytes()), "{start:?} {end:?}");
        };
        check("", RangeEnd::Prefix, ("/registry/", "/registry0"));
        check("/pods/", RangeEnd::Prefix, ("/registry/pods/", "/registry/pods0"));
        check("/pods/a", RangeEnd::Key, ("/registry/pods/a", ""));
        check("/pods/a", RangeEnd::Exclusive("/pods0"), ("/registry/pods/a", "/registry/pods0"));
        check("/pods/a", RangeEnd::Exclusive("0"), ("/registry/pods/a", "/registry0"));
        check("/pods/a", RangeEnd::Exclusive("zzz"), ("/registry/pods/a", "/registry0"));
        assert!(keys.key("pods").is_err());
    }
}
