//! The vocabulary of rules: a [`Report`] collects errors, a [`Field`] is a value with its path.
//!
//! Paths are only formatted for errors, so a valid object costs a walk and no text.

use std::cell::RefCell;

use object::{FieldError, FieldErrorKind, FieldPath, Object, names};
use serde_json::Value;

use super::internal;

pub const IMMUTABLE: &str = "field is immutable";
pub const NEGATIVE: &str = "must be greater than or equal to 0";

/// The errors found in one object so far.
#[derive(Default)]
pub struct Report<'a> {
    nodes: RefCell<Vec<PathNode<'a>>>,
    errors: RefCell<Vec<FieldError>>,
}

#[derive(Clone, Copy)]
struct PathNode<'a> {
    parent: u32,
    step: PathStep<'a>,
}

#[derive(Clone, Copy)]
enum PathStep<'a> {
    Child(&'a str),
    Index(usize),
    Key(&'a str),
}

const ROOT: u32 = u32::MAX;

/// A position in an object: its path and, unless it is absent or null, its value.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    report: &'a Report<'a>,
    node: u32,
    value: Option<&'a Value>,
}

impl<'a> Report<'a> {
    pub fn new() -> Self {
        Self::default()
    }

    /// A top-level field of the object.
    pub fn field(&'a self, object: &'a Object, name: &'a str) -> Field<'a> {
        let value = object.as_map().get(name).filter(|v| !v.is_null());
        Field { report: self, node: self.add(ROOT, PathStep::Child(name)), value }
    }

    /// A field with the path of one position and the value of another.
    pub fn at(&'a self, path: &'a str, value: Option<&'a Value>) -> Field<'a> {
        let node = if path.is_empty() { ROOT } else { self.add(ROOT, PathStep::Child(path)) };
        Field { report: self, node, value: value.filter(|v| !v.is_null()) }
    }

    pub fn push(&self, error: FieldError) {
        self.errors.borrow_mut().push(error);
    }

    pub fn extend(&self, errors: Vec<FieldError>) {
        self.errors.borrow_mut().extend(errors);
    }

    pub fn len(&self) -> usize {
        self.errors.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.errors.borrow().is_empty()
    }

    /// Returns the errors found.
    pub fn finish(&self) -> Vec<FieldError> {
        self.errors.take()
    }

    fn add(&self, parent: u32, step: PathStep<'a>) -> u32 {
        let mut nodes = self.nodes.borrow_mut();
        nodes.push(PathNode { parent, step });
        (nodes.len() - 1) as u32
    }

    fn path(&self, node: u32) -> FieldPath {
        let nodes = self.nodes.borrow();
        let mut steps = Vec::new();
        let mut at = node;
        while at != ROOT {
            steps.push(nodes[at as usize].step);
            at = nodes[at as usize].parent;
        }
        steps.iter().rev().fold(FieldPath::root(), |path, step| match step {
            PathStep::Child(name) => path.child(name),
            PathStep::Index(index) => path.index(*index),
            PathStep::Key(key) => path.key(key),
        })
    }
}

// ---- walking ----

impl<'a> Field<'a> {
    /// A child, as in `spec.replicas`.
    pub fn field(self, name: &'a str) -> Field<'a> {
        let value = self.value.and_then(|v| v.get(name)).filter(|v| !v.is_null());
        Field { node: self.report.add(self.node, PathStep::Child(name)), value, ..self }
    }

    /// A child reached by several names, as in `template.spec`.
    pub fn path(self, names: &[&'a str]) -> Field<'a> {
        names.iter().fold(self, |field, name| field.field(name))
    }

    /// An entry of a map, as in `data[key]`.
    pub fn key(self, key: &'a str) -> Field<'a> {
        let value = self.value.and_then(|v| v.get(key)).filter(|v| !v.is_null());
        Field { node: self.report.add(self.node, PathStep::Key(key)), value, ..self }
    }

    pub fn index(self, index: usize) -> Field<'a> {
        let value = self.value.and_then(|v| v.get(index)).filter(|v| !v.is_null());
        Field { node: self.report.add(self.node, PathStep::Index(index)), value, ..self }
    }

    pub fn items(self) -> impl Iterator<Item = Field<'a>> {
        (0..self.len_of_list()).map(move |index| self.index(index))
    }

    /// The entries of a map with their keys; the path of each is `[key]`.
    pub fn entries(self) -> impl Iterator<Item = (&'a str, Field<'a>)> {
        self.value.and_then(Value::as_object).into_iter().flatten().map(move |(key, _)| (key.as_str(), self.key(key)))
    }

    /// The same path with another value, for rules that compare or substitute.
    pub fn with(self, value: Option<&'a Value>) -> Field<'a> {
        Field { value: value.filter(|v| !v.is_null()), ..self }
    }

    pub fn report(self) -> &'a Report<'a> {
        self.report
    }

    pub fn field_path(self) -> FieldPath {
        self.report.path(self.node)
    }

    fn len_of_list(self) -> usize {
        self.value.and_then(Value::as_array).map_or(0, Vec::len)
    }
}

// ---- reading ----

impl<'a> Field<'a> {
    pub fn value(self) -> Option<&'a Value> {
        self.value
    }

    pub fn is_set(self) -> bool {
        self.value.is_some()
    }

    /// Absent, `""`, `[]` and `{}` are the same where Kubernetes checks a length.
    pub fn is_empty(self) -> bool {
        match self.value {
            None => true,
            Some(Value::String(s)) => s.is_empty(),
            Some(Value::Array(a)) => a.is_empty(),
            Some(Value::Object(m)) => m.is_empty(),
            Some(_) => false,
        }
    }

    pub fn len(self) -> usize {
        match self.value {
            Some(Value::String(s)) => s.len(),
            Some(Value::Array(a)) => a.len(),
            Some(Value::Object(m)) => m.len(),
            _ => 0,
        }
    }

    /// The text, or `""`.
    pub fn text(self) -> &'a str {
        self.value.and_then(Value::as_str).unwrap_or_default()
    }

    pub fn int(self) -> Option<i64> {
        self.value.and_then(Value::as_i64)
    }

    pub fn int_or(self, default: i64) -> i64 {
        self.int().unwrap_or(default)
    }

    /// The flag, or false.
    pub fn flag(self) -> bool {
        self.value.and_then(Value::as_bool).unwrap_or(false)
    }

    pub fn texts(self) -> impl Iterator<Item = &'a str> {
        self.value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    /// The names of all entries that are not null: for unions of which one member must be set.
    pub fn names(self) -> impl Iterator<Item = &'a str> {
        let map = self.value.and_then(Value::as_object);
        map.into_iter().flatten().filter(|(_, v)| !v.is_null()).map(|(k, _)| k.as_str())
    }
}

// ---- errors ----

impl<'a> Field<'a> {
    pub fn push(self, error: FieldError) {
        self.report.push(error);
    }

    pub fn required(self, detail: &str) {
        self.push(FieldError::required(self.field_path(), detail));
    }

    /// Rejects the value (`""` if absent).
    pub fn invalid(self, detail: impl Into<String>) {
        let value = self.value.cloned().unwrap_or_else(|| Value::from(""));
        self.push(FieldError::invalid(self.field_path(), value, detail));
    }

    pub fn invalid_as(self, value: impl Into<Value>, detail: impl Into<String>) {
        self.push(FieldError::invalid(self.field_path(), value, detail));
    }

    /// Rejects a value with the given text, where Kubernetes shows an internal type.
    pub fn invalid_shown(self, shown: &str, detail: &str) {
        let detail = if detail.is_empty() { shown.to_owned() } else { format!("{shown}: {detail}") };
        self.push(FieldError { kind: FieldErrorKind::Invalid, path: self.field_path(), value: None, detail });
    }

    /// Rejects the value, shown as the named internal type.
    pub fn invalid_internal(self, kind: &str, detail: &str) {
        self.invalid_shown(&internal::compact(kind, self.value), detail);
    }

    pub fn forbidden(self, detail: impl Into<String>) {
        self.push(FieldError::forbidden(self.field_path(), detail));
    }

    pub fn duplicate(self) {
        self.duplicate_as(self.value.cloned().unwrap_or_else(|| Value::from("")));
    }

    pub fn duplicate_as(self, value: impl Into<Value>) {
        self.push(FieldError::duplicate(self.field_path(), value));
    }

    pub fn not_supported(self, supported: &[&str]) {
        self.push(FieldError::not_supported(self.field_path(), self.text(), supported));
    }

    pub fn not_found(self, value: impl Into<Value>) {
        self.push(FieldError::not_found(self.field_path(), value));
    }

    pub fn too_long(self, bytes_max: usize) {
        self.push(FieldError::too_long(self.field_path(), bytes_max));
    }

    pub fn too_many(self, actual: usize, items_max: usize) {
        self.push(FieldError::too_many(self.field_path(), actual, items_max));
    }

    /// One error per problem of a name rule, all for this value.
    pub fn problems(self, problems: Vec<String>) {
        for problem in problems {
            self.invalid(problem);
        }
    }

    pub fn problems_as(self, value: &str, problems: Vec<String>) {
        for problem in problems {
            self.invalid_as(value, problem);
        }
    }
}

// ---- checks ----

impl<'a> Field<'a> {
    /// Requires a value; returns true if there is one.
    pub fn require(self) -> bool {
        self.require_because("")
    }

    pub fn require_because(self, detail: &str) -> bool {
        if self.is_empty() {
            self.required(detail);
        }
        !self.is_empty()
    }

    /// The text must be one of these; empty is not supported.
    pub fn one_of(self, supported: &[&str]) {
        if !supported.contains(&self.text()) {
            self.not_supported(supported);
        }
    }

    /// The text must be one of these; a missing one is reported as required.
    pub fn required_one_of(self, supported: &[&str]) {
        if self.require() {
            self.one_of(supported);
        }
    }

    /// Refuses a list in which `*` is not the only item.
    pub fn exclusive_wildcard(self, what: &str) {
        if self.len() > 1 && self.texts().any(|item| item == "*") {
            self.invalid(format!("if '*' is present, must not specify other {what}"));
        }
    }

    pub fn optional_one_of(self, supported: &[&str]) {
        if self.is_set() {
            self.one_of(supported);
        }
    }

    pub fn non_negative(self) {
        if self.int().is_some_and(|n| n < 0) {
            self.invalid(NEGATIVE);
        }
    }

    pub fn positive(self) {
        if self.int().is_some_and(|n| n <= 0) {
            self.invalid("must be greater than 0");
        }
    }

    pub fn in_range(self, min: i64, max: i64) {
        if self.int().is_some_and(|n| n < min || n > max) {
            self.invalid(format!("must be between {min} and {max}, inclusive"));
        }
    }

    pub fn port_number(self) {
        self.with_int(|field, n| field.problems(names::port_number(n)));
    }

    fn with_int(self, check: impl FnOnce(Self, i64)) {
        if let Some(n) = self.int() {
            check(self, n);
        }
    }

    pub fn dns1123_label(self) {
        self.problems(names::dns1123_label(self.text()));
    }

    pub fn dns1123_subdomain(self) {
        self.problems(names::dns1123_subdomain(self.text()));
    }

    pub fn qualified_name(self) {
        self.problems(names::qualified_name(self.text()));
    }

    /// Rejects any change of the stored value.
    pub fn immutable(self, old: Option<&Value>) -> bool {
        let same = same(self.value, old);
        if !same {
            match self.value {
                Some(_) => self.invalid(IMMUTABLE),
                None => self.invalid_as(Value::Null, IMMUTABLE),
            }
        }
        same
    }

    /// The map must be labels.
    pub fn labels(self) {
        for (key, value) in self.entries() {
            self.problems_as(key, names::qualified_name(key));
            self.problems_as(value.text(), names::label_value(value.text()));
        }
    }

    /// The map must be annotations: any text under qualified names, up to a total size.
    pub fn annotations(self) {
        let mut size = 0;
        for (key, value) in self.entries() {
            size += key.len() + value.len();
            let lowered = key.bytes().any(|b| b.is_ascii_uppercase()).then(|| key.to_lowercase());
            self.problems_as(key, names::qualified_name(lowered.as_deref().unwrap_or(key)));
        }
        if size > ANNOTATIONS_BYTES_MAX {
            self.too_long(ANNOTATIONS_BYTES_MAX);
        }
    }

    /// The map must be a `metav1.LabelSelector`.
    pub fn label_selector(self) {
        self.field("matchLabels").labels();
        for expression in self.field("matchExpressions").items() {
            let values = expression.field("values");
            match expression.field("operator").text() {
                "In" | "NotIn" => {
                    values.require_because("must be specified when `operator` is 'In' or 'NotIn'");
                }
                "Exists" | "DoesNotExist" => {
                    if !values.is_empty() {
                        values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
                    }
                }
                _ => expression.field("operator").invalid("not a valid selector operator"),
            }
            expression.field("key").qualified_name();
            for value in values.items() {
                value.problems(names::label_value(value.text()));
            }
        }
    }

    /// Rejects any change of a label selector, shown in the order of its type.
    pub fn immutable_selector(self, old: Option<&Value>) {
        if !same(self.value, old) {
            self.invalid_internal("*SLabelSelector", IMMUTABLE);
        }
    }

    /// A selector that selects everything: no labels and no expressions.
    pub fn is_empty_selector(self) -> bool {
        self.field("matchLabels").is_empty() && self.field("matchExpressions").is_empty()
    }
}

pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Equality as in Kubernetes' `Semantic.DeepEqual`: an empty list, map or null equals an absent one.
pub fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    fn empty(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Array(a) => a.is_empty(),
            Value::Object(m) => m.values().all(empty),
            _ => false,
        }
    }
    match (a, b) {
        (None, None) => true,
        (None, Some(value)) | (Some(value), None) => empty(value),
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            a.iter().all(|(key, value)| same(Some(value), b.get(key)))
                && b.iter().all(|(key, value)| a.contains_key(key) || empty(value))
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(Some(a), Some(b)))
        }
        (Some(a), Some(b)) => a == b,
    }
}

/// An `IntOrString`: a number, or text such as `25%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntOrText<'a> {
    Int(i64),
    Text(&'a str),
}

impl<'a> Field<'a> {
    pub fn int_or_text(self) -> Option<IntOrText<'a>> {
        match self.value? {
            Value::String(text) => Some(IntOrText::Text(text)),
            other => other.as_i64().map(IntOrText::Int),
        }
    }

    /// A non-negative number or a percentage.
    pub fn positive_int_or_percent(self) {
        match self.int_or_text() {
            Some(IntOrText::Int(n)) if n < 0 => self.invalid(NEGATIVE),
            Some(IntOrText::Text(text)) if percent(text).is_none() => self.problems(vec![names::regex_message(
                "a valid percent string must be a numeric string followed by an ending '%'",
                "[0-9]+%",
                &["1%", "93%"],
            )]),
            _ => {}
        }
    }

    /// Rejects a percentage above 100.
    pub fn at_most_hundred_percent(self) {
        if let Some(IntOrText::Text(text)) = self.int_or_text()
            && percent(text).is_some_and(|n| n > 100)
        {
            self.invalid("must not be greater than 100%");
        }
    }
}

/// The number in `25%`; `None` if the text is not a percentage.
pub fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%').filter(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))?;
    Some(digits.parse().unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_name_their_field() {
        let object =
            Object::from_value(json!({"spec": {"ports": [{"port": 0}], "selector": {"a/b/c": "x"}}})).expect("a map");
        let report = Report::new();
        let spec = report.field(&object, "spec");
        for port in spec.field("ports").items() {
            port.field("port").port_number();
            port.field("name").require();
        }
        spec.field("template").field("spec").require();
        spec.field("selector").key("a/b/c").forbidden("no");
        let texts: Vec<String> = report.finish().iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[0].name: Required value",
                "spec.template.spec: Required value",
                "spec.selector[a/b/c]: Forbidden: no",
            ]
        );
    }

    #[test]
    fn absent_and_empty_are_equal() {
        let cases = [
            (json!({"a": 1}), json!({"a": 1, "b": []}), true),
            (json!({"a": 1}), json!({"a": 1, "b": null}), true),
            (json!({"a": {"c": {}}}), json!({}), true),
            (json!({"a": 1}), json!({"a": 2}), false),
            (json!([1]), json!([1, 2]), false),
        ];
        for (a, b, expected) in cases {
            assert_eq!(same(Some(&a), Some(&b)), expected, "{a} {b}");
            assert_eq!(same(Some(&b), Some(&a)), expected, "{b} {a}");
        }
    }
}
