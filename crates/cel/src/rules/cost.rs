//! Limits on the total cost of the rules of a schema, checked when the schema is written.

use object::{FieldError, FieldPath};

/// Maximum estimated cost of one rule, times the number of values it can apply to.
pub const RULE_COST_LIMIT: u64 = 10_000_000;
/// Maximum estimated cost of all rules of a schema.
pub const SCHEMA_COST_LIMIT: u64 = 100_000_000;

/// Rules named in the error when the total is too large.
const SHOWN_MAX: usize = 4;

#[derive(Default)]
pub(super) struct TotalCost {
    total: u64,
    /// The most expensive rules, in descending order.
    expensive: Vec<(u64, FieldPath)>,
}

impl TotalCost {
    pub(super) fn observe(&mut self, path: FieldPath, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_COST_LIMIT / 100 {
            self.expensive.push((cost, path));
            self.expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.expensive.truncate(SHOWN_MAX);
        }
    }

    pub(super) fn errors(self, schema_path: &FieldPath) -> Vec<FieldError> {
        if self.total <= SCHEMA_COST_LIMIT {
            return Vec::new();
        }
        const CONTRIBUTED: &str =
            "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let mut errors: Vec<FieldError> =
            self.expensive.into_iter().map(|(_, path)| FieldError::forbidden(path, CONTRIBUTED)).collect();
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(schema_path.clone(), too_expensive(what, self.total, SCHEMA_COST_LIMIT)));
        errors
    }
}

pub(super) fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let shown = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems, maxProperties, \
         and maxLength where arrays, maps, and strings are declared)"
    )
}
