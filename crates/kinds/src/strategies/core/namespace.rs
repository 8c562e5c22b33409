//! Namespaces: created active, finalized by the namespace controller.

use object::{FieldError, Object, names};
use serde_json::{Value, json};

use crate::strategies::defaults::{map_or_new, show_empty};
use crate::strategies::fields::Report;
use crate::strategies::metadata::{UNQUALIFIED_FINALIZER, is_standard_or_qualified, validate_built_in_finalizers};
use crate::strategy::{Strategy, WriteContext};

pub const NAME_LABEL: &str = "kubernetes.io/metadata.name";
pub const FINALIZER: &str = "kubernetes";

pub struct Namespace;

impl Strategy for Namespace {
    fn default(&self, object: &mut Object) {
        show_empty(object, "spec");
        show_empty(object, "status");
        if object.str_at(&["status", "phase"]).is_empty() {
            object.set(&["status", "phase"], "Active");
        }
        set_name_label(object);
    }

    fn prepare_create(&self, object: &mut Object, _ctx: &WriteContext) {
        object.set(&["status"], json!({"phase": "Active"}));
        let mut finalizers = object.items(&["spec", "finalizers"]).to_vec();
        if !finalizers.iter().any(|f| f.as_str() == Some(FINALIZER)) {
            finalizers.push(FINALIZER.into());
            object.set(&["spec", "finalizers"], finalizers);
        }
        // A generated name is only known now.
        set_name_label(object);
    }

    fn prepare_update(&self, new: &mut Object, old: &Object, _ctx: &WriteContext) {
        match old.get(&["spec", "finalizers"]) {
            Some(kept) => new.set(&["spec", "finalizers"], kept.clone()),
            None => {
                new.remove(&["spec", "finalizers"]);
            }
        }
        set_name_label(new);
    }

    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(object, &report);
        let finalizers = report.field(object, "spec").field("finalizers");
        for name in finalizers.texts() {
            finalizers.problems_as(name, names::qualified_name(name));
            if !is_standard_or_qualified(name) {
                finalizers.invalid_as(name, UNQUALIFIED_FINALIZER);
            }
        }
        report.finish()
    }

    fn validate_status(&self, new: &Object, _old: &Object) -> Vec<FieldError> {
        let report = Report::new();
        let phase = report.field(new, "status").field("phase");
        let shown = report.field(new, "status").field("Phase").with(phase.value());
        if !new.is_deleting() && phase.text() != "Active" {
            shown.invalid("may only be 'Active' if `deletionTimestamp` is empty");
        }
        if new.is_deleting() && phase.text() != "Terminating" {
            shown.invalid("may only be 'Terminating' if `deletionTimestamp` is not empty");
        }
        report.finish()
    }

    fn validate_name(&self, name: &str) -> Vec<String> {
        names::dns1123_label(name)
    }

    fn blocks_removal(&self, object: &Object) -> bool {
        object.finalizers().next().is_some() || !object.items(&["spec", "finalizers"]).is_empty()
    }

    fn begin_deletion(&self, object: &mut Object) {
        object.set(&["status", "phase"], "Terminating");
    }
}

fn set_name_label(object: &mut Object) {
    let name = object.name().to_owned();
    if name.is_empty() || object.label(NAME_LABEL) == Some(&name) {
        return;
    }
    let metadata = map_or_new(object.as_map_mut(), "metadata");
    if let Some(labels) = metadata.and_then(|m| map_or_new(m, "labels")) {
        labels.insert(NAME_LABEL.to_owned(), Value::String(name));
    }
}

/// Rules for the `finalize` subresource.
pub fn validate_finalize(new: &Object) -> Vec<FieldError> {
    let report = Report::new();
    for finalizer in report.field(new, "spec").field("finalizers").items() {
        finalizer.qualified_name();
        if !is_standard_or_qualified(finalizer.text()) {
            finalizer.invalid(UNQUALIFIED_FINALIZER);
        }
    }
    report.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_stays_until_finalized_by_its_controller() {
        let mut namespace = Object::from_value(json!({"spec": {"finalizers": ["kubernetes"]}})).expect("a map");
        Namespace.begin_deletion(&mut namespace);
        assert_eq!(namespace.str_at(&["status", "phase"]), "Terminating");
        assert!(Namespace.blocks_removal(&namespace));
        namespace.remove(&["spec", "finalizers"]);
        assert!(!Namespace.blocks_removal(&namespace));
    }
}
