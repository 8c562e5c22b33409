//! Labels as a small sorted list, and node selectors over them.

use object::Object;
use object::selector::{LabelRequirement, LabelSelector, Operator};
use serde_json::Value;

/// Few entries, read often: a sorted list is faster than a map.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Box<[(Box<str>, Box<str>)]>);

impl Labels {
    pub fn of(object: &Object) -> Self {
        Self::from_pairs(object.labels())
    }

    pub fn from_pairs<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut labels: Vec<(Box<str>, Box<str>)> = pairs.map(|(k, v)| (k.into(), v.into())).collect();
        labels.sort();
        Self(labels.into())
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| **known == *key).map(|(_, value)| &**value)
    }

    pub fn are_matched_by(&self, selector: &LabelSelector) -> bool {
        selector.matches_with(|key| self.get(key))
    }
}

/// `nodeSelectorTerms`: any one term is enough. An empty term matches nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSelector {
    pub terms: Vec<NodeTerm>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeTerm {
    expressions: Vec<LabelRequirement>,
    /// Requirements on `metadata.name`, the only supported field.
    fields: Vec<LabelRequirement>,
    /// The term is valid and not empty.
    is_sound: bool,
}

impl NodeSelector {
    pub fn read(value: &Value) -> Self {
        let terms = value["nodeSelectorTerms"].as_array().into_iter().flatten().map(NodeTerm::read).collect();
        Self { terms }
    }

    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        self.terms.iter().any(|term| term.matches(name, labels))
    }

    /// The only nodes it can match, if every term names some.
    pub fn named_nodes(&self) -> Option<Vec<&str>> {
        let mut names = Vec::new();
        for term in &self.terms {
            let mut listed = term.fields.iter().filter(|field| field.operator == Operator::In);
            let first = listed.next()?;
            let rest: Vec<_> = listed.collect();
            let common = first.values.iter().filter(|name| rest.iter().all(|field| field.values.contains(name)));
            names.extend(common.map(String::as_str));
        }
        (!self.terms.is_empty()).then_some(names)
    }
}

impl NodeTerm {
    pub fn read(value: &Value) -> Self {
        let mut is_sound = true;
        let mut requirements = |field: &str, read: fn(&Value) -> Option<LabelRequirement>| -> Vec<LabelRequirement> {
            let items = value[field].as_array().into_iter().flatten();
            let read: Vec<Option<LabelRequirement>> = items.map(read).collect();
            is_sound &= read.iter().all(Option::is_some);
            read.into_iter().flatten().collect()
        };
        let expressions = requirements("matchExpressions", read_requirement);
        let fields = requirements("matchFields", read_parts);
        let says_something = !(expressions.is_empty() && fields.is_empty());
        is_sound &= says_something && fields.iter().all(|field| field.key == "metadata.name");
        Self { expressions, fields, is_sound }
    }

    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        self.is_sound
            && self.fields.iter().all(|field| field.matches(Some(name)))
            && self.expressions.iter().all(|wanted| wanted.matches(labels.get(&wanted.key)))
    }
}

fn read_requirement(value: &Value) -> Option<LabelRequirement> {
    let parts = read_parts(value)?;
    LabelRequirement::new(parts.key, parts.operator, parts.values).ok()
}

/// Skips label validation: a node's name may be longer than a label's value.
fn read_parts(value: &Value) -> Option<LabelRequirement> {
    let operator = match value["operator"].as_str()? {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::GreaterThan,
        "Lt" => Operator::LessThan,
        _ => return None,
    };
    let values = value["values"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    Some(LabelRequirement { key: value["key"].as_str()?.to_owned(), operator, values: values.collect() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(term: Value, expected: bool) {
        let labels = Labels::from_pairs([("zone", "a"), ("cores", "8")].into_iter());
        let selector = NodeSelector::read(&json!({"nodeSelectorTerms": [term]}));
        assert_eq!(selector.matches("n1", &labels), expected, "{term}");
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
    }

    #[test]
    fn terms_match_by_labels_and_by_name() {
        check(expression("zone", "In", &["a", "b"]), true);
        check(expression("zone", "NotIn", &["a"]), false);
        check(expression("gpu", "NotIn", &["x"]), true);
        check(expression("zone", "Exists", &[]), true);
        check(expression("gpu", "DoesNotExist", &[]), true);
        check(expression("cores", "Gt", &["7"]), true);
        check(expression("cores", "Lt", &["8"]), false);
        check(expression("zone", "Gt", &["1"]), false);
        check(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}), true);
        check(json!({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}), false);
        check(json!({"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["n1"]}]}), false);
    }

    #[test]
    fn empty_and_invalid_terms_match_nothing() {
        check(json!({}), false);
        check(expression("zone", "Like", &["a"]), false);
        check(expression("zone", "In", &[]), false);
    }

    #[test]
    fn only_terms_that_all_name_nodes_narrow_the_search() {
        let by_name =
            |names: &[&str]| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": names}]});
        let selector = |terms: Vec<Value>| NodeSelector::read(&json!({"nodeSelectorTerms": terms}));
        assert_eq!(selector(vec![by_name(&["a"]), by_name(&["b", "c"])]).named_nodes(), Some(vec!["a", "b", "c"]));
        assert_eq!(selector(vec![by_name(&["a"]), expression("zone", "Exists", &[])]).named_nodes(), None);
        assert_eq!(selector(vec![]).named_nodes(), None);
    }
}
