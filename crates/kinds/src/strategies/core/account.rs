//! ServiceAccounts.

use object::{FieldError, Object};
use serde_json::{Value, json};

use crate::strategies::fields::Report;
use crate::strategies::metadata::validate_built_in_finalizers;
use crate::strategy::{Strategy, WriteContext};

const MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";

pub struct ServiceAccount;

impl Strategy for ServiceAccount {
    fn prepare_create(&self, object: &mut Object, _ctx: &WriteContext) {
        keep_names_of_secrets(object);
    }

    fn prepare_update(&self, new: &mut Object, _old: &Object, _ctx: &WriteContext) {
        keep_names_of_secrets(new);
    }

    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(object, &report);
        report.finish()
    }

    fn warnings(&self, new: &Object, old: Option<&Object>) -> Vec<String> {
        if old.is_some_and(|old| old.annotation(MOUNTABLE).is_some()) || new.annotation(MOUNTABLE).is_none() {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        )]
    }
}

/// Only the name of a secret reference is used.
fn keep_names_of_secrets(object: &mut Object) {
    let secrets = object.as_map_mut().get_mut("secrets").and_then(Value::as_array_mut);
    for secret in secrets.into_iter().flatten().filter(|s| s.as_object().is_some_and(|m| m.len() > 1)) {
        *secret = match secret.get("name") {
            Some(name) => json!({"name": name}),
            None => json!({}),
        };
    }
}
