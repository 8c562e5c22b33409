//! Matching of clusters by affinity.

use object::Object;

use crate::cluster::ClusterSpec;
use crate::core::SelectorRequirement;
use crate::policy::ClusterAffinity;

impl ClusterAffinity {
    /// Reports whether the affinity matches this cluster. An excluded name never matches; otherwise all criteria that
    /// are set must match. An invalid selector matches nothing.
    pub fn matches(&self, cluster: &Object, spec: &ClusterSpec) -> bool {
        let name = cluster.name();
        if self.exclude.iter().any(|excluded| excluded == name) {
            return false;
        }
        if let Some(selector) = &self.label_selector
            && !selector.compile().is_ok_and(|selector| selector.matches(cluster))
        {
            return false;
        }
        if let Some(selector) = &self.field_selector
            && !selector.match_expressions.iter().all(|requirement| field_matches(requirement, spec))
        {
            return false;
        }
        self.cluster_names.is_empty() || self.cluster_names.iter().any(|wanted| wanted == name)
    }
}

/// A requirement on `provider`, `region` or `zone`. An unset field has no value.
pub fn field_matches(requirement: &SelectorRequirement, spec: &ClusterSpec) -> bool {
    let values: Vec<&str> = match requirement.key.as_str() {
        "zone" => spec.all_zones(),
        "provider" => vec![spec.provider.as_str()],
        "region" => vec![spec.region.as_str()],
        _ => return false,
    };
    let listed =
        values.iter().any(|value| !value.is_empty() && requirement.values.iter().any(|wanted| wanted == value));
    let is_set = values.iter().any(|value| !value.is_empty());
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => is_set,
        "DoesNotExist" => !is_set,
        _ => false,
    }
}
