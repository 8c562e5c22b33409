//! Node constraints of a pod: node selector, required node affinity, tolerations.

use api::capacity::NodeCapacity;
use api::work::NodeClaim;
use object::taints::{Taint, Toleration};
use serde_json::Value;

/// A node claim, parsed once for many nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    selector: Vec<(String, String)>,
    /// One of these must match; `None` without an affinity.
    terms: Option<Vec<Term>>,
    tolerations: Vec<Toleration>,
}

/// All requirements must match; an empty term matches no node.
#[derive(Clone, Debug, Default, PartialEq)]
struct Term {
    labels: Vec<Requirement>,
    fields: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    key: String,
    operator: String,
    values: Vec<String>,
}

impl Claim {
    pub fn new(claim: Option<&NodeClaim>) -> Self {
        let Some(claim) = claim else { return Self::default() };
        Self {
            selector: claim.node_selector.clone().into_iter().collect(),
            terms: claim.hard_node_affinity.as_ref().map(|affinity| {
                affinity["nodeSelectorTerms"].as_array().into_iter().flatten().map(Term::read).collect()
            }),
            tolerations: claim.tolerations.clone(),
        }
    }

    pub fn accepts(&self, node: &NodeCapacity) -> bool {
        self.tolerates(node)
            && self.selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.holds(node)))
    }

    fn tolerates(&self, node: &NodeCapacity) -> bool {
        let tolerated = |taint: &Taint| self.tolerations.iter().any(|toleration| toleration.tolerates(taint));
        let cordon = || Taint {
            key: "node.kubernetes.io/unschedulable".to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        };
        if node.is_unschedulable && !tolerated(&cordon()) {
            return false;
        }
        node.taints.iter().filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")).all(tolerated)
    }
}

impl Term {
    fn read(value: &Value) -> Self {
        let list = |name: &str| value[name].as_array().into_iter().flatten().map(Requirement::read).collect();
        Self { labels: list("matchExpressions"), fields: list("matchFields") }
    }

    fn holds(&self, node: &NodeCapacity) -> bool {
        let named = |requirement: &Requirement| {
            requirement.key == "metadata.name" && requirement.holds(Some(node.name.as_str()))
        };
        !(self.labels.is_empty() && self.fields.is_empty())
            && self.labels.iter().all(|label| label.holds(node.labels.get(&label.key).map(String::as_str)))
            && self.fields.iter().all(named)
    }
}

impl Requirement {
    fn read(value: &Value) -> Self {
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let values = value["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Self { key: text("key"), operator: text("operator"), values: values.map(str::to_owned).collect() }
    }

    fn holds(&self, value: Option<&str>) -> bool {
        let listed = value.is_some_and(|value| self.values.iter().any(|wanted| wanted == value));
        let compared = || {
            let number: i64 = value?.parse().ok()?;
            let limit: i64 = self.values.first()?.parse().ok()?;
            Some(number.cmp(&limit))
        };
        match self.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => compared().is_some_and(std::cmp::Ordering::is_gt),
            "Lt" => compared().is_some_and(std::cmp::Ordering::is_lt),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node() -> NodeCapacity {
        NodeCapacity {
            name: "n1".to_owned(),
            labels: [("zone", "a"), ("cores", "16")].map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            ..NodeCapacity::default()
        }
    }

    #[track_caller]
    fn check(claim: Value, node: &NodeCapacity, expected: bool) {
        let read: NodeClaim = serde_json::from_value(claim.clone()).expect("a claim");
        assert_eq!(Claim::new(Some(&read)).accepts(node), expected, "{claim}");
    }

    fn affinity(terms: Value) -> Value {
        json!({"hardNodeAffinity": {"nodeSelectorTerms": terms}})
    }

    #[test]
    fn nodes_are_matched_as_kube_scheduler_matches_them() {
        let node = node();
        check(json!({}), &node, true);
        check(json!({"nodeSelector": {"zone": "a"}}), &node, true);
        check(json!({"nodeSelector": {"zone": "b"}}), &node, false);
        check(affinity(json!([])), &node, false);
        check(affinity(json!([{}])), &node, false);
        let zone = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "zone", "operator": operator, "values": values}]});
        check(affinity(json!([zone("In", json!(["b"])), zone("In", json!(["a"]))])), &node, true);
        check(affinity(json!([zone("NotIn", json!(["a"]))])), &node, false);
        check(affinity(json!([zone("Exists", json!([]))])), &node, true);
        check(affinity(json!([{"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}])), &node, true);
        let cores =
            |operator: &str| json!({"matchExpressions": [{"key": "cores", "operator": operator, "values": ["8"]}]});
        check(affinity(json!([cores("Gt")])), &node, true);
        check(affinity(json!([cores("Lt")])), &node, false);
        let name = |name: &str| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]});
        check(affinity(json!([name("n1")])), &node, true);
        check(affinity(json!([name("n2")])), &node, false);
    }

    #[test]
    fn untolerated_taints_and_cordons_exclude_nodes() {
        let taint = |effect: &str| Taint {
            key: "k".to_owned(),
            value: "v".to_owned(),
            effect: effect.to_owned(),
            ..Taint::default()
        };
        let soft = NodeCapacity { taints: vec![taint("PreferNoSchedule")], ..node() };
        check(json!({}), &soft, true);
        let hard = NodeCapacity { taints: vec![taint("NoSchedule")], ..node() };
        check(json!({}), &hard, false);
        check(json!({"tolerations": [{"key": "k", "value": "v"}]}), &hard, true);
        check(json!({"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute"}]}), &hard, false);
        let cordoned = NodeCapacity { is_unschedulable: true, ..node() };
        check(json!({}), &cordoned, false);
        check(json!({"tolerations": [{"operator": "Exists"}]}), &cordoned, true);
    }
}
