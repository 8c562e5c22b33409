//! Aggregated cluster roles: their rules are collected from other roles by label.

use object::Object;
use object::selector::LabelSelector;
use serde_json::Value;

use crate::rule::{PolicyRule, rules_of};

/// The rules an aggregated role must have, or `None` if it is not aggregated, has them already, or has an invalid
/// selector.
pub fn aggregate<'a>(role: &Object, all: impl IntoIterator<Item = &'a Object>) -> Option<Vec<PolicyRule>> {
    let selectors = role.get(&["aggregationRule", "clusterRoleSelectors"]).and_then(Value::as_array)?;
    let mut others: Vec<&Object> = all.into_iter().filter(|r| r.name() != role.name()).collect();
    others.sort_by(|a, b| a.name().cmp(b.name()));
    let mut rules: Vec<PolicyRule> = Vec::new();
    for selector in selectors {
        let selector = LabelSelector::from_value(Some(selector)).ok()?;
        for rule in others.iter().filter(|r| selector.matches(r)).flat_map(|r| rules_of(r)) {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    (rules != rules_of(role)).then_some(rules)
}

/// Reports whether the role's rules come from aggregation rather than its author.
pub fn is_aggregated(role: &Object) -> bool {
    !role.items(&["aggregationRule", "clusterRoleSelectors"]).is_empty()
}
