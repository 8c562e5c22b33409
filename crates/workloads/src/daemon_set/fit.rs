//! Decides whether a node should run a daemon pod, and whether a running one may stay.

use object::Object;
use serde_json::{Value, json};

/// Tolerations of every daemon pod.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// Pods on the host network tolerate a missing pod network.
const TOLERATED_ON_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    pub should_run: bool,
    pub may_stay: bool,
}

/// The node requirements of a DaemonSet, parsed once for all nodes.
pub struct Demands<'a> {
    spec: &'a Value,
    tolerations: Vec<Value>,
}

impl<'a> Demands<'a> {
    pub fn of(template: &'a Value) -> Self {
        Self { spec: &template["spec"], tolerations: tolerations_of(&template["spec"]) }
    }

    pub fn fit(&self, node: &Object) -> Fit {
        let named = self.spec["nodeName"].as_str().unwrap_or_default();
        if !(named.is_empty() || named == node.name()) || !self.matches_labels(node) {
            return Fit { should_run: false, may_stay: false };
        }
        let taints = node.items(&["spec", "taints"]);
        let tolerates = |taint: &Value| self.tolerations.iter().any(|toleration| is_tolerated(toleration, taint));
        let is_free_of = |effects: &[&str]| {
            let matters = |taint: &&Value| taint["effect"].as_str().is_some_and(|effect| effects.contains(&effect));
            taints.iter().filter(matters).all(tolerates)
        };
        Fit { should_run: is_free_of(&["NoSchedule", "NoExecute"]), may_stay: is_free_of(&["NoExecute"]) }
    }

    fn matches_labels(&self, node: &Object) -> bool {
        let selector = self.spec["nodeSelector"].as_object().into_iter().flatten();
        if !selector.into_iter().all(|(key, value)| node.label(key) == value.as_str()) {
            return false;
        }
        let affinity = &self.spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let Some(terms) = affinity["nodeSelectorTerms"].as_array() else { return true };
        terms.iter().any(|term| matches_term(term, node))
    }
}

/// An empty term matches nothing.
fn matches_term(term: &Value, node: &Object) -> bool {
    let list = |field: &str| term[field].as_array().map(Vec::as_slice).unwrap_or_default();
    let (expressions, fields) = (list("matchExpressions"), list("matchFields"));
    let label = |requirement: &Value| requirement["key"].as_str().and_then(|key| node.label(key));
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|requirement| meets(requirement, label(requirement)))
        && fields
            .iter()
            .all(|requirement| requirement["key"] == "metadata.name" && meets(requirement, Some(node.name())))
}

fn meets(requirement: &Value, label: Option<&str>) -> bool {
    let values = requirement["values"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_in = || label.is_some_and(|label| values.iter().any(|value| value == label));
    let numbers = || {
        let bound = values.first()?.as_str()?.parse::<i64>().ok()?;
        Some((label?.parse::<i64>().ok()?, bound))
    };
    match requirement["operator"].as_str().unwrap_or_default() {
        "In" => is_in(),
        "NotIn" => !is_in(),
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        "Gt" => numbers().is_some_and(|(label, bound)| label > bound),
        "Lt" => numbers().is_some_and(|(label, bound)| label < bound),
        _ => false,
    }
}

fn is_tolerated(toleration: &Value, taint: &Value) -> bool {
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let is_same = |field: &str| {
        let wanted = text(toleration, field);
        wanted.is_empty() || wanted == text(taint, field)
    };
    let has_value = match text(toleration, "operator").as_str() {
        "Exists" => true,
        "" | "Equal" => text(toleration, "value") == text(taint, "value"),
        _ => false,
    };
    is_same("effect") && is_same("key") && has_value
}

/// Returns the tolerations of a template plus those of every daemon pod.
pub fn tolerations_of(spec: &Value) -> Vec<Value> {
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    let host_network = (spec["hostNetwork"] == true).then_some(TOLERATED_ON_HOST_NETWORK);
    for (key, effect) in TOLERATED.into_iter().chain(host_network) {
        let added = json!({"key": key, "operator": "Exists", "effect": effect});
        let is_same = |old: &&mut Value| {
            old["key"] == key && old["effect"] == effect && old["operator"] == "Exists" && old.get("value").is_none()
        };
        match tolerations.iter_mut().find(is_same) {
            Some(old) => *old = added,
            None => tolerations.push(added),
        }
    }
    tolerations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(spec: Value, node: Value, expected: (bool, bool)) {
        let template = json!({"spec": spec});
        let node = Object::from_value(node).expect("a map");
        let fit = Demands::of(&template).fit(&node);
        assert_eq!((fit.should_run, fit.may_stay), expected, "{template} on {node:?}");
    }

    #[test]
    fn labels_and_names_select_nodes() {
        let node = || json!({"metadata": {"name": "n1", "labels": {"zone": "a", "cores": "8"}}});
        let term = |term: Value| {
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [term]}}}})
        };
        let expression = |operator: &str, key: &str, values: Value| {
            term(json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}))
        };
        let (yes, no) = ((true, true), (false, false));
        check(json!({}), node(), yes);
        check(json!({"nodeName": "n2"}), node(), no);
        check(json!({"nodeSelector": {"zone": "a"}}), node(), yes);
        check(json!({"nodeSelector": {"zone": "b"}}), node(), no);
        check(term(json!({})), node(), no);
        check(expression("In", "zone", json!(["a", "b"])), node(), yes);
        check(expression("NotIn", "zone", json!(["a"])), node(), no);
        check(expression("NotIn", "missing", json!(["a"])), node(), yes);
        check(expression("DoesNotExist", "zone", json!([])), node(), no);
        check(expression("Gt", "cores", json!(["4"])), node(), yes);
        check(expression("Lt", "cores", json!(["4"])), node(), no);
        let named =
            |name: &str| term(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}));
        check(named("n1"), node(), yes);
        check(named("n2"), node(), no);
    }

    #[test]
    fn taints_prevent_pods_and_no_execute_evicts_them() {
        let tainted = |key: &str, effect: &str| json!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": key, "value": "v", "effect": effect}]}});
        check(json!({}), tainted("x", "NoSchedule"), (false, true));
        check(json!({}), tainted("x", "NoExecute"), (false, false));
        check(json!({}), tainted("x", "PreferNoSchedule"), (true, true));
        check(json!({}), tainted("node.kubernetes.io/not-ready", "NoExecute"), (true, true));
        check(json!({}), tainted("node.kubernetes.io/unschedulable", "NoSchedule"), (true, true));
        check(json!({}), tainted("node.kubernetes.io/network-unavailable", "NoSchedule"), (false, true));
        let host = json!({"hostNetwork": true});
        check(host, tainted("node.kubernetes.io/network-unavailable", "NoSchedule"), (true, true));
        check(json!({"tolerations": [{"key": "x", "value": "v"}]}), tainted("x", "NoSchedule"), (true, true));
        check(json!({"tolerations": [{"key": "x", "value": "w"}]}), tainted("x", "NoSchedule"), (false, true));
        check(json!({"tolerations": [{"operator": "Exists"}]}), tainted("x", "NoExecute"), (true, true));
    }
}
