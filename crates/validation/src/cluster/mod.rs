//! Cluster as Karmada's aggregated server serves it: its preparation on writes, its rules and its table.

mod models;
mod printer;
mod rules;

pub use printer::ClusterPrinter;

use kinds::strategy::{Strategy, WriteContext};
use object::{FieldError, Object};
use serde_json::{Value, json};

/// Karmada prefixes the name to get the namespace of the member's works, which leaves this much.
const NAME_MAX: usize = 48;

/// Returns the problems of a cluster name, by Karmada's rules.
pub fn name_problems(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["must be not empty".to_owned()];
    }
    if name.len() > NAME_MAX {
        return vec![format!("must be no more than {NAME_MAX} characters")];
    }
    object::names::dns1123_label(name)
}

pub struct ClusterStrategy {
    /// The feature gate CustomizedClusterResourceModeling.
    pub models: bool,
}

impl Strategy for ClusterStrategy {
    fn default(&self, cluster: &mut Object) {
        for part in ["spec", "status"] {
            drop_zeros(cluster, part);
        }
    }

    fn prepare_create(&self, cluster: &mut Object, ctx: &WriteContext) {
        if self.models {
            if cluster.items(&["spec", "resourceModels"]).is_empty() {
                cluster.set(&["spec", "resourceModels"], models::defaults());
            } else {
                models::standardize(cluster);
            }
        }
        canonicalize(cluster, ctx);
        show_status(cluster);
    }

    fn validate_create(&self, cluster: &Object) -> Vec<FieldError> {
        rules::validate(cluster)
    }

    fn prepare_update(&self, new: &mut Object, _old: &Object, ctx: &WriteContext) {
        if self.models {
            models::standardize(new);
        }
        canonicalize(new, ctx);
        show_status(new);
    }

    fn validate_name(&self, name: &str) -> Vec<String> {
        name_problems(name)
    }

    fn counts_generation(&self) -> bool {
        true
    }
}

/// A typed server prints the status even when nothing is known.
fn show_status(cluster: &mut Object) {
    if cluster.get(&["status"]).is_none() {
        cluster.set(&["status"], json!({}));
    }
}

/// A typed server does not distinguish an empty string, list or map, or a false flag, from an absent field.
fn drop_zeros(cluster: &mut Object, part: &str) {
    let part = cluster.as_map_mut().get_mut(part).and_then(Value::as_object_mut);
    if let Some(part) = part {
        part.retain(|name, value| match value {
            Value::String(text) => !text.is_empty() || name == "syncMode",
            Value::Array(items) => !items.is_empty(),
            Value::Object(fields) => !fields.is_empty() || name.ends_with("Ref") || name.ends_with("Summary"),
            Value::Bool(flag) => *flag,
            _ => true,
        });
    }
}

/// Evictions are counted from when a taint came; `zone` is the older spelling of `zones`.
fn canonicalize(cluster: &mut Object, ctx: &WriteContext) {
    let Some(spec) = cluster.as_map_mut().get_mut("spec").and_then(Value::as_object_mut) else { return };
    for taint in spec.get_mut("taints").and_then(Value::as_array_mut).into_iter().flatten() {
        if taint["effect"] == "NoExecute" && taint.get("timeAdded").is_none_or(Value::is_null) {
            taint["timeAdded"] = object::time::format_seconds(ctx.now).into();
        }
    }
    let has_zones = spec.get("zones").and_then(Value::as_array).is_some_and(|zones| !zones.is_empty());
    let zone = spec.get("zone").and_then(Value::as_str).filter(|zone| !zone.is_empty()).map(str::to_owned);
    if let Some(zone) = zone.filter(|_| !has_zones) {
        spec.remove("zone");
        spec.insert("zones".to_owned(), json!([zone]));
    }
}

#[cfg(test)]
mod tests;
