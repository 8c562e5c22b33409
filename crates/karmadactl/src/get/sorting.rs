//! The order of rows with `--sort-by`.

use std::cmp::Ordering;

use object::jsonpath::{JsonPath, text_of};
use serde_json::Value;

/// Compares two objects by the first value a path finds in each: numbers by size, objects without a value first.
pub fn compare(path: &JsonPath, a: &Value, b: &Value) -> Ordering {
    let first = |object| path.find(object).unwrap_or_default().first().copied();
    match (first(a), first(b)) {
        (Some(a), Some(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            _ => text_of(a).cmp(&text_of(b)),
        },
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_compared_by_size_and_missing_values_come_first() {
        let path = JsonPath::parse_relaxed(".a").expect("valid");
        let mut values = vec![json!({"a": 10}), json!({"a": 9}), json!({}), json!({"a": "x"})];
        values.sort_by(|a, b| compare(&path, a, b));
        assert_eq!(values, [json!({}), json!({"a": 9}), json!({"a": 10}), json!({"a": "x"})]);
    }
}
