//! ResourceBinding and ClusterResourceBinding.

use api::config::DependentObjectReference;
use api::work::ANNOTATION_DEPENDENCIES;
use kinds::strategies::fields::Report;
use object::{FieldError, FieldPath, Object};
use propagation::binding_scope::check_reference;

/// The fields that say which object a binding propagates.
const IDENTITY: [&str; 4] = ["apiVersion", "kind", "namespace", "name"];

pub fn validate(binding: &Object, components: bool) -> Vec<FieldError> {
    if let Some(text) = binding.annotation(ANNOTATION_DEPENDENCIES)
        && serde_json::from_str::<Option<Vec<DependentObjectReference>>>(text).is_err()
    {
        let path = FieldPath::new("metadata").child("annotations").child(ANNOTATION_DEPENDENCIES);
        return vec![FieldError::invalid(path, text, "annotation value must be a valid JSON")];
    }
    if components { validate_components(binding) } else { Vec::new() }
}

/// Reports whether a write makes a binding reference another object than before. A binding that was stored with a wrong
/// reference can still be changed elsewhere and deleted.
pub fn changes_reference(binding: &Object, old: Option<&Object>) -> bool {
    let field = |binding: &Object, name: &str| binding.str_at(&["spec", "resource", name]).to_owned();
    old.is_none_or(|old| IDENTITY.iter().any(|name| field(binding, name) != field(old, name)))
}

/// A binding references objects of its own scope only: controllers act on it with rights its author may not have.
pub fn validate_reference(binding: &Object, namespace: &str) -> Vec<FieldError> {
    let found = binding.str_at(&["spec", "resource", "namespace"]);
    let path = FieldPath::new("spec").child("resource").child("namespace");
    let error = check_reference(namespace, found).err();
    error.map(|error| FieldError::invalid(path, found, error.to_string())).into_iter().collect()
}

fn validate_components(binding: &Object) -> Vec<FieldError> {
    let report = Report::new();
    let mut seen: Vec<&str> = Vec::new();
    for component in report.field(binding, "spec").field("components").items() {
        let name = component.field("name");
        match name.text() {
            "" => name.invalid_as("", "component names must be non-empty"),
            text if seen.contains(&text) => name.invalid("component names must be unique"),
            text => seen.push(text),
        }
    }
    report.finish()
}
