//! Decides a write against the current version of its key: a pure function used by every local engine.

use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::kv::{KeyValue, LeaseId, Revision};
use crate::local::chain::Version;

/// A guarded write of one key.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    Create { key: Arc<str>, value: Bytes, lease: Option<LeaseId> },
    Update { key: Arc<str>, value: Bytes, expected: Revision, lease: Option<LeaseId> },
    Delete { key: Arc<str>, expected: Option<Revision> },
}

impl Write {
    pub fn key(&self) -> &Arc<str> {
        match self {
            Write::Create { key, .. } | Write::Update { key, .. } | Write::Delete { key, .. } => key,
        }
    }

    pub fn lease(&self) -> Option<LeaseId> {
        match self {
            Write::Create { lease, .. } | Write::Update { lease, .. } => *lease,
            Write::Delete { .. } => None,
        }
    }

    /// The version this write makes of `current` at `revision`, or the error.
    pub fn decide(&self, current: Option<&KeyValue>, revision: Revision) -> Result<Version> {
        let version = |create_revision, lease, value| Version { mod_revision: revision, create_revision, lease, value };
        match self {
            Write::Create { value, lease, .. } => match current {
                Some(current) => Err(Error::Exists { current: current.clone() }),
                None => Ok(version(revision, *lease, Some(value.clone()))),
            },
            Write::Update { value, expected, lease, .. } => match current {
                Some(current) if current.mod_revision == *expected => {
                    Ok(version(current.create_revision, *lease, Some(value.clone())))
                }
                _ => Err(Error::Conflict { current: current.cloned() }),
            },
            Write::Delete { expected, .. } => match current {
                None => Err(Error::NotFound),
                Some(current) if expected.is_none_or(|expected| expected == current.mod_revision) => {
                    Ok(version(0, None, None))
                }
                Some(current) => Err(Error::Conflict { current: Some(current.clone()) }),
            },
        }
    }
}
