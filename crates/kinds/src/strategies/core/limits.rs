//! LimitRanges: derived defaults, and bounds that must be consistent.

use std::collections::BTreeSet;

use object::{FieldError, Object, names};
use serde_json::{Map, Value};

use crate::strategies::amount::{Amount, canonicalize_list};
use crate::strategies::defaults::{map_at, map_or_new, maps_in, show_empty};
use crate::strategies::fields::{Field, Report};
use crate::strategies::metadata::validate_built_in_finalizers;
use crate::strategies::pod_spec::resources;
use crate::strategy::Strategy;

pub struct LimitRange;

const LISTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

impl Strategy for LimitRange {
    fn default(&self, object: &mut Object) {
        show_empty(object, "spec");
        let Some(spec) = map_at(object.as_map_mut(), "spec") else { return };
        for item in maps_in(spec, "limits") {
            LISTS.iter().for_each(|list| canonicalize_list(item, list));
            if item.get("type").and_then(Value::as_str) == Some("Container") {
                fill(item, "default", "max");
                fill(item, "defaultRequest", "default");
                fill(item, "defaultRequest", "min");
            }
        }
    }

    fn validate_create(&self, object: &Object) -> Vec<FieldError> {
        let report = Report::new();
        validate_built_in_finalizers(object, &report);
        let mut types = BTreeSet::new();
        for limit in report.field(object, "spec").field("limits").items() {
            let kind = limit.field("type");
            validate_type(kind);
            if !types.insert(kind.text()) {
                kind.duplicate();
            }
            validate_limit(limit, kind.text());
        }
        report.finish()
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }
}

/// Copies missing resources from `from` to `to`.
fn fill(item: &mut Map<String, Value>, to: &str, from: &str) {
    let source = item.get(from).and_then(Value::as_object).cloned().unwrap_or_default();
    if source.is_empty() {
        return;
    }
    if let Some(target) = map_or_new(item, to) {
        for (name, value) in source {
            target.entry(name).or_insert(value);
        }
    }
}

fn validate_type(kind: Field<'_>) {
    let problems = names::qualified_name(kind.text());
    if problems.is_empty() {
        if !kind.text().contains('/') && !matches!(kind.text(), "Pod" | "Container" | "PersistentVolumeClaim") {
            kind.invalid("must be a standard limit type or fully qualified");
        }
    } else {
        kind.problems_as(kind.text(), problems);
    }
}

fn validate_limit(limit: Field<'_>, kind: &str) {
    let mut keys = BTreeSet::new();
    for list in LISTS {
        let amounts = limit.field(list);
        if kind == "Pod" && list.starts_with("default") {
            if !amounts.is_empty() {
                amounts.forbidden("may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for (name, amount) in amounts.entries() {
            match kind {
                "Pod" | "Container" => resources::validate_container_name(amount, name),
                _ => {
                    resources::validate_name(amount, name);
                }
            }
            keys.insert(name);
        }
    }
    let bounds_storage = ["min", "max"].iter().any(|list| limit.field(list).key("storage").is_set());
    if kind == "PersistentVolumeClaim" && !bounds_storage {
        limit.field("limits").required("either minimum or maximum storage value is required, but neither was provided");
    }
    for key in keys {
        validate_bounds(limit, key, kind);
    }
}

struct Bound<'a> {
    at: Field<'a>,
    amount: Option<Amount>,
}

fn validate_bounds<'a>(limit: Field<'a>, key: &'a str, kind: &str) {
    let bound = |list: &'static str| {
        let at = limit.field(list).key(key);
        let ignored = kind == "Pod" && list.starts_with("default");
        Bound { at, amount: at.value().filter(|_| !ignored).and_then(Amount::of) }
    };
    let (min, max, default, request) = (bound("min"), bound("max"), bound("default"), bound("defaultRequest"));
    // Reported at the third, showing the fourth.
    let checks = [
        (&min, "min", &max, "max", &min, &min),
        (&min, "min", &request, "default request", &request, &request),
        (&request, "default request", &max, "max", &request, &request),
        (&request, "default request", &default, "default limit", &request, &request),
        (&min, "min", &default, "default", &default, &min),
        (&default, "default", &max, "max", &default, &max),
    ];
    for (low, low_name, high, high_name, at, shown) in checks {
        if let (Some(low), Some(high)) = (low.amount, high.amount)
            && low > high
        {
            let shown = shown.amount.unwrap_or(low).to_string();
            at.at.invalid_as(shown, format!("{low_name} value {low} is greater than {high_name} value {high}"));
        }
    }
    validate_ratio(bound("maxLimitRequestRatio"), min.amount, max.amount);
    if let (Some(default), Some(wanted)) = (default.amount, request.amount)
        && !resources::allows_overcommit(key)
        && !default.same_as(wanted)
    {
        request.at.invalid_as(
            wanted.to_string(),
            format!("default value {default} must equal to defaultRequest value {wanted} in {key}"),
        );
    }
}

fn validate_ratio(ratio: Bound<'_>, min: Option<Amount>, max: Option<Amount>) {
    let Some(amount) = ratio.amount else { return };
    if amount.thousandths() < 1000 {
        ratio.at.invalid_as(amount.to_string(), format!("ratio {amount} is less than 1"));
    }
    if let (Some(min), Some(max)) = (min, max) {
        let most = max.thousandths() as f64 / min.thousandths() as f64;
        if amount.thousandths() as f64 / 1000.0 > most {
            ratio.at.invalid_as(amount.to_string(), format!("ratio {amount} is greater than max/min = {most:.6}"));
        }
    }
}
