//! `-s` and `-C`: whether a command is about the control plane, its members, or both.

use anyhow::bail;
use clap::ValueEnum;

use crate::plane::Plane;

/// What a command is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    #[default]
    Karmada,
    Members,
    All,
}

/// The name the control plane has where clusters are listed.
pub const CONTROL_PLANE: &str = "Karmada";

impl Scope {
    pub fn has_plane(self) -> bool {
        matches!(self, Self::Karmada | Self::All)
    }

    pub fn has_members(self) -> bool {
        matches!(self, Self::Members | Self::All)
    }
}

/// For clap: the names Karmada knows, and its words for others.
pub fn parse(text: &str) -> Result<Scope, String> {
    Scope::from_str(text, false)
        .map_err(|_| format!("not support OperationScope: {text}; it is karmada, members or all"))
}

/// The members a command is about: those named, which must exist, or all.
pub async fn members(plane: &Plane, scope: Scope, named: &[String]) -> anyhow::Result<Vec<String>> {
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

/// The one member a command is about, when it is not about the control plane.
pub fn single_member(scope: Scope, cluster: Option<&str>) -> anyhow::Result<Option<&str>> {
    match (scope, cluster.filter(|name| !name.is_empty())) {
        (Scope::All, _) => bail!("not support operation scope: all"),
        (Scope::Members, None) => bail!("must specify a member cluster; say which with -C CLUSTER"),
        (Scope::Members, Some(cluster)) => Ok(Some(cluster)),
        (Scope::Karmada, _) => Ok(None),
    }
}
