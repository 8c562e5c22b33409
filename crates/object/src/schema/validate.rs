//! Checks a custom resource against its schema, with the error texts clients of kube-apiserver know.

mod number;
mod ratchet;

use std::fmt::Write;

use serde_json::{Map, Value};

use self::ratchet::Old;
use super::format::has_format;
use super::{Rules, Schema, SchemaRef, SchemaType, list};
use crate::field::{FieldError, FieldErrorKind, FieldPath, go_quote};

/// Everything wrong with a new object: types, bounds, patterns, compositions, list duplicates and embedded resources.
pub fn validate(schema: &Schema, value: &Value, base: &FieldPath) -> Vec<FieldError> {
    let walk = Walk { base };
    let mut errors = walk.check(schema.root(), value, &Place::ROOT, None).errors;
    errors.extend(super::embedded::validate(schema.root(), value, base));
    errors.extend(list::duplicates(schema.root(), value, base));
    errors
}

/// Everything wrong with an update. What was wrong before and did not change is tolerated (validation ratcheting), so
/// that tightening a schema does not lock stored objects.
pub fn validate_update(schema: &Schema, value: &Value, old: &Value, base: &FieldPath) -> Vec<FieldError> {
    let walk = Walk { base };
    let before = Old { value: old, shape: schema.root() };
    let mut errors = walk.check(schema.root(), value, &Place::ROOT, Some(before)).errors;
    errors.extend(super::embedded::validate(schema.root(), value, base));
    if list::duplicates(schema.root(), old, base).is_empty() {
        errors.extend(list::duplicates(schema.root(), value, base));
    }
    errors
}

struct Walk<'a> {
    base: &'a FieldPath,
}

/// The position of the walk, linked towards the root so that a path is only written out for an error.
pub(super) enum Place<'a> {
    Root,
    Field(&'a Place<'a>, &'a str),
    Index(&'a Place<'a>, usize),
}

impl Place<'_> {
    const ROOT: Place<'static> = Place::Root;

    fn write(&self, out: &mut String) {
        match self {
            Self::Root => {}
            Self::Field(parent, name) => {
                parent.write(out);
                if !matches!(parent, Self::Root) {
                    out.push('.');
                }
                out.push_str(name);
            }
            Self::Index(parent, index) => {
                parent.write(out);
                write!(out, "[{index}]").expect("writing to a string");
            }
        }
    }

    fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }
}

/// Errors, and how many checks were met: of several failed alternatives the one with most met checks is reported.
#[derive(Default)]
struct Outcome {
    errors: Vec<FieldError>,
    met: u32,
}

impl Outcome {
    fn merge(&mut self, other: Outcome) {
        self.met += other.met;
        for error in other.errors {
            self.add(error);
        }
    }

    fn add(&mut self, error: FieldError) {
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }
}

impl Walk<'_> {
    /// Checks one value; on an update, errors of an unchanged value are dropped.
    fn check(&self, at: SchemaRef<'_>, value: &Value, place: &Place<'_>, old: Option<Old<'_>>) -> Outcome {
        let mut outcome = self.check_strictly(at, value, place, old);
        if !outcome.errors.is_empty() && old.is_some_and(|old| old.is_unchanged(value)) {
            outcome.errors.clear();
        }
        outcome
    }

    fn check_strictly(&self, at: SchemaRef<'_>, value: &Value, place: &Place<'_>, old: Option<Old<'_>>) -> Outcome {
        let mut outcome = Outcome::default();
        let rules = at.rules();
        match self.type_error(at, value, place) {
            Some(error) => outcome.add(error),
            None => outcome.met += 1,
        }
        if value.is_null() {
            rules.and_then(|rules| self.enum_error(rules, value, place)).into_iter().for_each(|e| outcome.add(e));
            return outcome;
        }
        if let Some(rules) = rules {
            self.check_compositions(at, rules, value, place, old, &mut outcome);
            match value {
                Value::String(text) => self.check_string(at, rules, text, place, &mut outcome),
                Value::Number(number) => self.check_number(at, rules, number, place, &mut outcome),
                _ => {}
            }
        }
        if let Value::Array(items) = value {
            self.check_array(at, items, place, old, &mut outcome);
        }
        rules.and_then(|rules| self.enum_error(rules, value, place)).into_iter().for_each(|e| outcome.add(e));
        if let Value::Object(map) = value {
            self.check_object(at, map, place, old, &mut outcome);
        }
        outcome.met += 3;
        outcome
    }

    // ---- errors ----

    fn path(&self, name: &str) -> FieldPath {
        let name = name.strip_prefix('.').unwrap_or(name);
        if name.is_empty() { self.base.clone() } else { self.base.child(name) }
    }

    fn invalid(&self, place: &Place<'_>, value: impl Into<Value>, complaint: &str) -> FieldError {
        let name = place.text();
        FieldError::invalid(self.path(&name), value, format!("{name} in body {complaint}"))
    }

    /// An error of a composition names its place in the text only.
    fn composite(&self, detail: String) -> FieldError {
        FieldError::invalid(self.base.clone(), "", detail)
    }

    // ---- one value ----

    fn type_error(&self, at: SchemaRef<'_>, value: &Value, place: &Place<'_>) -> Option<FieldError> {
        let expected = match at.ty() {
            SchemaType::Any => return None,
            SchemaType::Object => "object",
            SchemaType::Array => "array",
            SchemaType::String => "string",
            SchemaType::Integer => "integer",
            SchemaType::Number => "number",
            SchemaType::Boolean => "boolean",
            SchemaType::IntOrString => "integer,string",
        };
        let (actual, actual_format) = match value {
            Value::Null if at.node().nullable => return None,
            Value::Null => ("null", ""),
            Value::Bool(_) => ("boolean", ""),
            Value::String(_) => ("string", ""),
            Value::Array(_) => ("array", ""),
            Value::Object(_) => ("object", ""),
            Value::Number(number) if number.as_i64().is_none() => ("number", "float64"),
            Value::Number(_) => ("integer", "int64"),
        };
        let fits = expected.split(',').any(|expected| {
            expected == actual
                || (expected == "number" && actual == "integer")
                || (expected == "integer" && actual == "number" && number::is_integral(value))
        });
        if fits {
            return None;
        }
        // With a format, Go's library reports formats instead of types, and accepts lists as strings.
        let (expected, actual) = match (checked_format(at), value) {
            (Some(_), Value::Array(_)) if at.ty() == SchemaType::String => return None,
            (Some(format), Value::Number(_) | Value::Bool(_) | Value::Object(_)) => (format, actual_format),
            _ => (expected, actual),
        };
        let name = place.text();
        let detail = format!("{name} in body must be of type {expected}: {}", go_quote(actual));
        Some(FieldError::type_invalid(self.path(&name), actual, detail))
    }

    fn enum_error(&self, rules: &Rules, value: &Value, place: &Place<'_>) -> Option<FieldError> {
        if rules.enumeration.is_empty() || rules.enumeration.iter().any(|allowed| number::same(allowed, value)) {
            return None;
        }
        let words: Vec<String> =
            rules.enumeration.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Some(FieldError::not_supported(self.path(&place.text()), value.clone(), &words))
    }

    fn check_string(&self, at: SchemaRef<'_>, rules: &Rules, text: &str, place: &Place<'_>, outcome: &mut Outcome) {
        outcome.met += 1;
        let length =
            if rules.max_length.is_some() || rules.min_length.is_some() { text.chars().count() as u64 } else { 0 };
        if let Some(max) = rules.max_length.filter(|max| length > *max) {
            outcome.add(FieldError::too_long(self.path(&place.text()), max as usize));
        } else if let Some(min) = rules.min_length.filter(|min| length < *min) {
            outcome.add(self.invalid(place, text, &format!("should be at least {min} chars long")));
        } else if let Some(pattern) = &rules.pattern {
            match rules.compiled.is_match(pattern, text) {
                Ok(true) => {}
                Ok(false) => outcome.add(self.invalid(place, text, &format!("should match '{pattern}'"))),
                Err(why) => {
                    let complaint = format!("should match '{pattern}, but pattern is invalid: {why}'");
                    outcome.add(self.invalid(place, text, &complaint));
                }
            }
        }
        let Some(format) = &rules.format else { return };
        if matches!(at.ty(), SchemaType::String | SchemaType::Any) && has_format(format, text) == Some(false) {
            let name = place.text();
            let detail = format!("{name} in body must be of type {format}: {}", go_quote(text));
            outcome.add(FieldError::type_invalid(self.path(&name), text, detail));
        }
    }

    // ---- containers ----

    fn check_array(
        &self,
        at: SchemaRef<'_>,
        items: &[Value],
        place: &Place<'_>,
        old: Option<Old<'_>>,
        outcome: &mut Outcome,
    ) {
        if let Some(below) = at.items() {
            for (index, item) in items.iter().enumerate() {
                let before = old.and_then(|old| old.item(item));
                outcome.merge(self.check(below, item, &Place::Index(place, index), before));
            }
        }
        outcome.met += 2;
        let Some(rules) = at.rules() else { return };
        let size = items.len() as u64;
        if let Some(min) = rules.min_items.filter(|min| size < *min) {
            outcome.add(self.invalid(place, size, &format!("should have at least {min} items")));
        }
        if let Some(max) = rules.max_items.filter(|max| size > *max) {
            outcome.add(FieldError::too_many(self.path(&place.text()), items.len(), max as usize));
        }
        if rules.unique_items && list::has_duplicates(items) {
            outcome.add(self.invalid(place, "", "shouldn't contain duplicates"));
        }
    }

    fn check_object(
        &self,
        at: SchemaRef<'_>,
        map: &Map<String, Value>,
        place: &Place<'_>,
        old: Option<Old<'_>>,
        outcome: &mut Outcome,
    ) {
        let size = map.len() as u64;
        if let Some(rules) = at.rules() {
            if let Some(min) = rules.min_properties.filter(|min| size < *min) {
                outcome.add(self.invalid(place, size, &format!("should have at least {min} properties")));
            }
            if let Some(max) = rules.max_properties.filter(|max| size > *max) {
                outcome.add(FieldError::too_many(self.path(&place.text()), map.len(), max as usize));
            }
        }
        for (key, inner) in map {
            let Some(below) = at.field(key) else { continue };
            // Both versions were converted to the same apiVersion, so a change of it cannot be seen.
            let fixed = matches!(place, Place::Root) && matches!(key.as_str(), "apiVersion" | "kind");
            let before = old.filter(|_| !fixed).and_then(|old| old.field(key));
            outcome.merge(self.check(below, inner, &Place::Field(place, key), before));
        }
        outcome.met += 1;
        for name in &at.node().required {
            if !map.contains_key(&**name) {
                let path = self.path(&Place::Field(place, name).text());
                outcome.add(FieldError { kind: FieldErrorKind::Required, path, value: None, detail: String::new() });
            }
        }
    }

    // ---- compositions ----

    fn check_compositions(
        &self,
        at: SchemaRef<'_>,
        rules: &Rules,
        value: &Value,
        place: &Place<'_>,
        old: Option<Old<'_>>,
        outcome: &mut Outcome,
    ) {
        let branch = |id| self.check_strictly(at.at(id), value, place, old);
        if !rules.any_of.is_empty() {
            let tried = Alternatives::try_until_valid(rules.any_of.iter().map(|id| branch(*id)), 1);
            if tried.valid == 0 {
                let detail = format!("{} must validate at least one schema (anyOf)", go_quote(&place.text()));
                outcome.add(self.composite(detail));
            }
            outcome.merge(tried.best);
        }
        if !rules.one_of.is_empty() {
            let tried = Alternatives::try_until_valid(rules.one_of.iter().map(|id| branch(*id)), usize::MAX);
            if tried.valid != 1 {
                let found = match tried.valid {
                    0 => "Found none valid".to_owned(),
                    many => format!("Found {many} valid alternatives"),
                };
                let name = go_quote(&place.text());
                outcome.add(self.composite(format!("{name} must validate one and only one schema (oneOf). {found}")));
            }
            outcome.merge(tried.best);
        }
        let mut valid = 0;
        for id in &rules.all_of {
            let result = branch(*id);
            valid += usize::from(result.errors.is_empty());
            outcome.merge(result);
        }
        if valid != rules.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            let name = go_quote(&place.text());
            outcome.add(self.composite(format!("{name} must validate all the schemas (allOf){none}")));
        }
        if rules.not.is_some_and(|id| branch(id).errors.is_empty()) {
            outcome.add(self.composite(format!("{} must not validate the schema (not)", go_quote(&place.text()))));
        }
    }
}

/// The format of a place, when it is one that is checked for its type.
fn checked_format(at: SchemaRef<'_>) -> Option<&str> {
    let format = at.rules()?.format.as_deref()?;
    let known = match at.ty() {
        SchemaType::String => has_format(format, "").is_some(),
        SchemaType::Integer => matches!(format, "int32" | "int64"),
        SchemaType::Number => matches!(format, "float" | "double"),
        _ => false,
    };
    known.then_some(format)
}

/// The outcome of trying several schemas: how many held, and the first that held or the closest that did not.
struct Alternatives {
    valid: usize,
    best: Outcome,
}

impl Alternatives {
    fn try_until_valid(outcomes: impl Iterator<Item = Outcome>, valid_max: usize) -> Self {
        let mut valid = 0;
        let mut best: Option<Outcome> = None;
        for outcome in outcomes {
            if outcome.errors.is_empty() {
                if valid == 0 {
                    best = Some(outcome);
                }
                valid += 1;
                if valid >= valid_max {
                    break;
                }
            } else if valid == 0 && best.as_ref().is_none_or(|best| outcome.met > best.met) {
                best = Some(outcome);
            }
        }
        // Several valid alternatives are an error of their own, with nothing to add from any of them.
        Self { valid, best: best.unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests;
