//! The order of preference of versions.

use std::cmp::Reverse;

use object::GroupVersion;

use super::VERSION_PRIORITY_CUSTOM;
use crate::builtin;

/// Sorts the preferred version first: by registered priority, then v2 before v1 before v1beta2 before v1alpha1 before
/// names that are not Kubernetes versions, those in alphabetical order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VersionRank {
    priority: Reverse<i32>,
    name: NameRank,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NameRank {
    /// Stability (2 stable, 1 beta, 0 alpha), major, minor: all larger first.
    Version(Reverse<(u8, u64, u64)>),
    Other(String),
}

impl VersionRank {
    pub fn of(gv: &GroupVersion) -> Self {
        let priority = builtin::priority(gv).map_or(VERSION_PRIORITY_CUSTOM, |priority| priority.version);
        Self { priority: Reverse(priority), name: rank_name(&gv.version) }
    }

    /// By name alone, as the versions of a CustomResourceDefinition are ordered.
    pub fn of_name(version: &str) -> Self {
        Self { priority: Reverse(0), name: rank_name(version) }
    }
}

fn rank_name(version: &str) -> NameRank {
    match parse(version) {
        Some(parts) => NameRank::Version(Reverse(parts)),
        None => NameRank::Other(version.to_owned()),
    }
}

fn parse(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let (major, tail) = digits(rest)?;
    if tail.is_empty() {
        return Some((2, major, 0));
    }
    let (stability, tail) = match (tail.strip_prefix("beta"), tail.strip_prefix("alpha")) {
        (Some(tail), _) => (1, tail),
        (_, Some(tail)) => (0, tail),
        _ => return None,
    };
    let (minor, tail) = digits(tail)?;
    tail.is_empty().then_some((stability, major, minor))
}

/// A number and the rest of the text.
fn digits(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}
