//! Rules of the instance kind on writes.

use kinds::strategy::Strategy;
use object::{FieldError, FieldPath, Object};

use crate::annotations::{self, MODE};
use crate::{instance, spec};

/// Rules of `operator.karmada.io/v1alpha1 Karmada`.
pub struct KarmadaStrategy;

impl Strategy for KarmadaStrategy {
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let (settings, mut errors) = annotations::read(object);
        errors.extend(spec::read(object, settings.mode).errors);
        errors
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = self.validate_create(new);
        let (before, after) = (annotations::read(old).0, annotations::read(new).0);
        if before.mode != after.mode {
            let path = FieldPath::new("metadata").child("annotations").key(MODE);
            errors.push(FieldError::forbidden(
                path,
                format!("cannot change: the instance was created {}", before.mode.name()),
            ));
        }
        let etcd = ["spec", "components", "etcd", "external"];
        if old.get(&etcd).is_some() != new.get(&etcd).is_some() {
            let path = FieldPath::new("spec").child("components").child("etcd");
            errors.push(FieldError::forbidden(
                path,
                "cannot change between local and external: move the data with backup and restore",
            ));
        }
        errors
    }

    fn warnings(&self, new: &Object, _old: Option<&Object>) -> Vec<String> {
        spec::read(new, annotations::read(new).0.mode).ignored
    }

    fn validate_name(&self, name: &str) -> Vec<String> {
        instance::name_problems(name)
    }

    fn counts_generation(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}
