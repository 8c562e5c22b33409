//! Requests without credentials.

use std::collections::BTreeSet;

use object::request::Verb;

use crate::request::RequestInfo;

/// The requests that callers without credentials may send; the authorizers still decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnonymousAccess {
    Off,
    /// Health checks, the version and `kube-public/cluster-info`.
    Default,
    /// Exactly these paths.
    Paths(BTreeSet<String>),
}

impl AnonymousAccess {
    pub fn of_flag(is_on: bool) -> Self {
        if is_on { Self::Default } else { Self::Off }
    }

    pub(super) fn covers(&self, info: &RequestInfo) -> bool {
        match self {
            Self::Off => false,
            Self::Default => is_open_to_all(info),
            Self::Paths(paths) => paths.contains(&info.path),
        }
    }
}

fn is_open_to_all(info: &RequestInfo) -> bool {
    if info.is_resource {
        return info.verb == Verb::Get
            && info.group.is_empty()
            && info.resource == "configmaps"
            && info.subresource.is_none()
            && (info.namespace.as_str(), info.name.as_str()) == ("kube-public", "cluster-info");
    }
    let first = info.path.trim_start_matches('/').split('/').next().unwrap_or_default();
    matches!(first, "healthz" | "livez" | "readyz" | "version")
}
