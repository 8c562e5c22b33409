//! `remedy.karmada.io`: actions on a member with a given condition.

use serde::{Deserialize, Serialize};

use crate::resource::Resource;

pub const GROUP: &str = "remedy.karmada.io";
pub const REMEDIES: Resource = Resource::cluster(GROUP, "v1alpha1", "Remedy", "remedies");

/// `spec` of Remedy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RemedySpec {
    /// `None` means every member.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<RemedyClusters>,
    /// One match is enough; an empty list matches at once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decision_matches: Vec<DecisionMatch>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RemedyClusters {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cluster_names: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DecisionMatch {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_condition_match: Option<ClusterConditionRequirement>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterConditionRequirement {
    pub condition_type: String,
    /// `Equal` or `NotEqual`.
    pub operator: String,
    pub condition_status: String,
}
