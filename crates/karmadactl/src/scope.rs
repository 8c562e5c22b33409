//! `-s` and `-C`: select the control plane, members, or both.

use anyhow::bail;
use clap::ValueEnum;

use crate::plane::PlaneClient;

/// The scope of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    #[default]
    Karmada,
    Members,
    All,
}

/// The name of the control plane in lists of clusters.
pub const CONTROL_PLANE: &str = "Karmada";

impl Scope {
    pub fn has_plane(self) -> bool {
        matches!(self, Self::Karmada | Self::All)
    }

    pub fn has_members(self) -> bool {
        matches!(self, Self::Members | Self::All)
    }
}

/// Parses a scope, with Karmada's error message.
pub fn parse(text: &str) -> Result<Scope, String> {
    Scope::from_str(text, false).map_err(|_| format!("not support OperationScope: {text}; use karmada, members or all"))
}

/// Returns the named members, which must exist, or all.
pub async fn members(plane: &PlaneClient, scope: Scope, named: &[String]) -> anyhow::Result<Vec<String>> {
    if !scope.has_members() {
        return Ok(Vec::new());
    }
    let existing: Vec<String> = plane.clusters().await?.iter().map(|cluster| cluster.name().to_owned()).collect();
    if named.is_empty() {
        return Ok(existing);
    }
    let missing: Vec<&str> = named.iter().filter(|name| !existing.contains(name)).map(String::as_str).collect();
    if !missing.is_empty() {
        bail!("clusters don't exist: {}", missing.join(","));
    }
    let mut chosen: Vec<String> = Vec::new();
    for name in named {
        if !chosen.contains(name) {
            chosen.push(name.clone());
        }
    }
    Ok(chosen)
}

/// Returns the selected member; `None` for the control plane.
pub fn single_member(scope: Scope, cluster: Option<&str>) -> anyhow::Result<Option<&str>> {
    match (scope, cluster.filter(|name| !name.is_empty())) {
        (Scope::All, _) => bail!("not support operation scope: all"),
        (Scope::Members, None) => bail!("must specify a member cluster; use -C CLUSTER"),
        (Scope::Members, Some(cluster)) => Ok(Some(cluster)),
        (Scope::Karmada, _) => Ok(None),
    }
}
