//! ResourceBinding, beside the quotas it is held to.

use api::config::DependentObjectReference;
use api::work::ANNOTATION_DEPENDENCIES;
use kinds::strategies::fields::Report;
use object::{FieldError, FieldPath, Object};

pub fn validate(binding: &Object, components: bool) -> Vec<FieldError> {
    if let Some(text) = binding.annotation(ANNOTATION_DEPENDENCIES)
        && serde_json::from_str::<Option<Vec<DependentObjectReference>>>(text).is_err()
    {
        let path = FieldPath::new("metadata").child("annotations").child(ANNOTATION_DEPENDENCIES);
        return vec![FieldError::invalid(path, text, "annotation value must be a valid JSON")];
    }
    if components { validate_components(binding) } else { Vec::new() }
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
