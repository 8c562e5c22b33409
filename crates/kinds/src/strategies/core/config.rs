//! ConfigMaps.

use object::{FieldError, FieldPath, Object, names};
use serde_json::Value;

use super::secret::{BYTES_MAX, decoded_len, validate_immutable};
use crate::strategies::fields::Report;
use crate::strategies::metadata::validate_built_in_finalizers;
use crate::strategy::Strategy;

pub struct ConfigMap;

impl Strategy for ConfigMap {
    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(object, &report);
        let (data, binary) = (report.field(object, "data"), report.field(object, "binaryData"));
        let mut size = 0;
        for (key, value) in data.entries() {
            value.problems_as(key, names::config_map_key(key));
            if binary.value().and_then(|b| b.get(key)).is_some_and(|v| !v.is_null()) {
                value.invalid_as(key, "duplicate of key present in binaryData");
            }
            size += value.len();
        }
        for (key, value) in binary.entries() {
            value.problems_as(key, names::config_map_key(key));
            size += value.value().and_then(Value::as_str).map_or(0, decoded_len);
        }
        if size > BYTES_MAX {
            report.push(FieldError::too_long(FieldPath::new("[]"), BYTES_MAX));
        }
        report.finish()
    }

    fn validate_update(&self, new: &Object, old: &Object) -> Vec<FieldError> {
        let mut errors = validate_immutable(new, old, &["data", "binaryData"]);
        errors.extend(self.validate_create(new));
        errors
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_config_map_holds_at_most_one_mebibyte() {
        let refused = |bytes: usize| {
            let object = Object::from_value(json!({"data": {"a": "x".repeat(bytes)}})).expect("a map");
            ConfigMap.validate_create(&object).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(refused(BYTES_MAX), Vec::<String>::new());
        assert_eq!(refused(BYTES_MAX + 1), ["[]: Too long: may not be more than 1048576 bytes"]);
    }
}
