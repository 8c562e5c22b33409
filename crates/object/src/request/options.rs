//! The options of requests. The server reads them from queries and bodies, clients write them there.

use std::time::Duration;

use serde_json::{Value, json};

use crate::Status;

/// Options of lists, watches and deletes of collections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    pub label_selector: Option<String>,
    pub field_selector: Option<String>,
    /// Objects per page; `None` requests all at once.
    pub limit: Option<u64>,
    pub continue_token: Option<String>,
    /// `None` means the newest state, `0` any. A watch starts after this version, or without one with existing objects.
    pub resource_version: Option<String>,
    pub resource_version_match: Option<VersionMatch>,
    /// For watches: send bookmarks.
    pub bookmarks: bool,
    /// For watches: true starts with existing objects and ends them by a bookmark, false sends none of them.
    pub send_initial_events: Option<bool>,
    /// For watches: their duration; `None` lets the server decide.
    pub timeout: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    Exact,
    NotOlderThan,
}

/// Options of creates, updates and patches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    pub field_manager: Option<String>,
    pub dry_run: bool,
    /// `None` leaves it to the server, which warns.
    pub field_validation: Option<FieldValidation>,
    /// Do not record the managers of fields. For callers in the server's process that write many short-lived objects; no
    /// request over the network can ask for it.
    pub is_untracked: bool,
}

impl WriteOptions {
    pub fn managed_by(field_manager: &str) -> Self {
        Self { field_manager: Some(field_manager.to_owned()), ..Self::default() }
    }

    pub fn untracked(self) -> Self {
        Self { is_untracked: true, ..self }
    }
}

/// The handling of fields that the kind does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    Json,
    Merge,
    Strategic,
    /// Server-side apply; `force` takes over fields from their managers.
    Apply {
        force: bool,
    },
}

impl PatchKind {
    /// The content types of all kinds, as messages list them.
    pub const CONTENT_TYPES: [&str; 4] = [
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ];

    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => Self::CONTENT_TYPES[0],
            Self::Merge => Self::CONTENT_TYPES[1],
            Self::Strategic => Self::CONTENT_TYPES[2],
            Self::Apply { .. } => Self::CONTENT_TYPES[3],
        }
    }

    /// Reads the header of a patch; an apply without force. 415 for other types.
    pub fn of_content_type(header: Option<&str>) -> Result<Self, Status> {
        let name = header.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        let kinds = [Self::Json, Self::Merge, Self::Strategic, Self::Apply { force: false }];
        let found = kinds.into_iter().find(|kind| kind.content_type() == name);
        found.ok_or_else(|| Status::unsupported_media_type(&Self::CONTENT_TYPES))
    }

    pub fn is_apply(self) -> bool {
        matches!(self, Self::Apply { .. })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    pub preconditions: Preconditions,
    pub grace_period_seconds: Option<i64>,
    pub propagation_policy: Option<PropagationPolicy>,
    pub dry_run: bool,
}

/// Preconditions of a delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

/// The handling of dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropagationPolicy {
    Orphan,
    Background,
    Foreground,
}

impl DeleteOptions {
    /// The body of a delete.
    pub fn to_value(&self) -> Value {
        let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if let Some(seconds) = self.grace_period_seconds {
            body["gracePeriodSeconds"] = seconds.into();
        }
        if let Some(policy) = self.propagation_policy {
            body["propagationPolicy"] = policy.as_str().into();
        }
        if self.dry_run {
            body["dryRun"] = json!(["All"]);
        }
        if let Some(uid) = &self.preconditions.uid {
            body["preconditions"]["uid"] = uid.clone().into();
        }
        if let Some(version) = &self.preconditions.resource_version {
            body["preconditions"]["resourceVersion"] = version.clone().into();
        }
        body
    }
}

macro_rules! wire_names {
    ($type:ty, $($variant:ident),+) => {
        impl $type {
            /// The names of all values, as messages list them.
            pub const NAMES: &[&str] = &[$(stringify!($variant)),+];

            /// The name in queries and bodies.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant),)+
                }
            }

            pub fn parse(text: &str) -> Option<Self> {
                match text {
                    $(stringify!($variant) => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

wire_names!(VersionMatch, Exact, NotOlderThan);
wire_names!(FieldValidation, Ignore, Strict, Warn);
wire_names!(PropagationPolicy, Foreground, Background, Orphan);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_kinds_are_read_from_their_content_types() {
        for kind in [PatchKind::Json, PatchKind::Merge, PatchKind::Strategic, PatchKind::Apply { force: false }] {
            let header = format!("{}; charset=utf-8", kind.content_type());
            assert_eq!(PatchKind::of_content_type(Some(&header)), Ok(kind));
        }
        for unknown in [None, Some("application/json")] {
            assert_eq!(PatchKind::of_content_type(unknown).map_err(|status| status.code), Err(415));
        }
    }

    #[test]
    fn delete_options_are_written_as_a_body() {
        let options = DeleteOptions {
            preconditions: Preconditions { uid: Some("u".into()), resource_version: Some("5".into()) },
            grace_period_seconds: Some(0),
            propagation_policy: Some(PropagationPolicy::Foreground),
            dry_run: true,
        };
        let expected = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "dryRun": ["All"],
            "propagationPolicy": "Foreground", "preconditions": {"uid": "u", "resourceVersion": "5"}});
        assert_eq!(options.to_value(), expected);
    }
}
