//! Descriptions of horizontal pod autoscalers, in kubectl's form.

use std::fmt::Write;

use object::Object;
use serde_json::Value;

use super::containers::items;
use super::text::{labels_and_annotations, line, name_and_namespace, scalar, time};

const UNKNOWN: &str = "<unknown>";

pub fn autoscaler(text: &mut String, autoscaler: &Object) {
    name_and_namespace(text, autoscaler);
    labels_and_annotations(text, autoscaler);
    line(text, "CreationTimestamp", time(autoscaler.creation_timestamp()));
    let kind = autoscaler.str_at(&["spec", "scaleTargetRef", "kind"]);
    line(text, "Reference", format_args!("{kind}/{}", autoscaler.str_at(&["spec", "scaleTargetRef", "name"])));
    line(text, "Metrics", "( current / target )");
    let measured = autoscaler.items(&["status", "currentMetrics"]);
    for (index, metric) in autoscaler.items(&["spec", "metrics"]).iter().enumerate() {
        let _ = writeln!(text, "  {}", metric_text(metric, measured.get(index).unwrap_or(&Value::Null)));
    }
    let minimum = autoscaler.get(&["spec", "minReplicas"]).map_or_else(|| "<unset>".to_owned(), scalar);
    line(text, "Min replicas", minimum);
    line(text, "Max replicas", autoscaler.i64_at(&["spec", "maxReplicas"]).unwrap_or(0));
    if let Some(behavior) = autoscaler.get(&["spec", "behavior"]) {
        text.push_str("Behavior:\n");
        write_rules(text, "Scale Up", &behavior["scaleUp"]);
        write_rules(text, "Scale Down", &behavior["scaleDown"]);
    }
    let replicas = |field: &str| autoscaler.i64_at(&["status", field]).unwrap_or(0);
    let (current, desired) = (replicas("currentReplicas"), replicas("desiredReplicas"));
    line(text, &format!("{kind} pods"), format_args!("{current} current / {desired} desired"));
    let conditions = autoscaler.items(&["status", "conditions"]);
    if !conditions.is_empty() {
        text.push_str("Conditions:\n  Type\tStatus\tReason\tMessage\n  ----\t------\t------\t-------\n");
    }
    for condition in conditions {
        let field = |name: &str| scalar(&condition[name]);
        let _ = writeln!(text, "  {}\t{}\t{}\t{}", field("type"), field("status"), field("reason"), field("message"));
    }
}

/// A metric with its current and its target value.
fn metric_text(metric: &Value, measured: &Value) -> String {
    let kind = scalar(&metric["type"]);
    let field = match kind.as_str() {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        other => return format!("<unknown metric type {other:?}>"),
    };
    let (source, target, current) = (&metric[field], &metric[field]["target"], &measured[field]["current"]);
    let name = scalar(&source["metric"]["name"]);
    let compared = |which: &str| {
        let current = if current[which].is_null() { UNKNOWN.to_owned() } else { scalar(&current[which]) };
        format!("{current} / {}", scalar(&target[which]))
    };
    let is_average =
        if field == "object" { target["type"] == "AverageValue" } else { target["averageValue"].is_string() };
    match (field, is_average) {
        ("external", true) => format!("{name:?} (target average value):\t{}", compared("averageValue")),
        ("external", false) => format!("{name:?} (target value):\t{}", compared("value")),
        ("pods", _) => format!("{name:?} on pods:\t{}", compared("averageValue")),
        ("object", _) => {
            let on = &source["describedObject"];
            let (what, which) =
                if is_average { ("target average value", "averageValue") } else { ("target value", "value") };
            format!("{name:?} on {}/{} ({what}):\t{}", scalar(&on["kind"]), scalar(&on["name"]), compared(which))
        }
        (_, is_average) => {
            let container = match field {
                "containerResource" => format!(" of container {:?}", scalar(&source["container"])),
                _ => String::new(),
            };
            let about = format!("resource {}{container} on pods", scalar(&source["name"]));
            if is_average {
                return format!("{about}:\t{}", compared("averageValue"));
            }
            format!("{about}  (as a percentage of request):\t{}", utilization(current, target))
        }
    }
}

fn utilization(current: &Value, target: &Value) -> String {
    let percent = |value: &Value| value["averageUtilization"].as_i64().map(|percent| format!("{percent}%"));
    let current = match percent(current) {
        Some(percent) => format!("{percent} ({})", scalar(&current["averageValue"])),
        None => UNKNOWN.to_owned(),
    };
    format!("{current} / {}", percent(target).unwrap_or_else(|| "<auto>".to_owned()))
}

fn write_rules(text: &mut String, direction: &str, rules: &Value) {
    if !rules.is_object() {
        return;
    }
    let _ = writeln!(text, "  {direction}:");
    if let Some(seconds) = rules["stabilizationWindowSeconds"].as_i64() {
        let _ = writeln!(text, "    Stabilization Window: {seconds} seconds");
    }
    let policies = items(rules, "policies");
    if policies.is_empty() {
        return;
    }
    let _ = writeln!(text, "    Select Policy: {}", rules["selectPolicy"].as_str().unwrap_or("Max"));
    text.push_str("    Policies:\n");
    for policy in policies {
        let (kind, value) = (scalar(&policy["type"]), scalar(&policy["value"]));
        let _ = writeln!(
            text,
            "      - Type: {kind}\tValue: {value}\tPeriod: {} seconds",
            scalar(&policy["periodSeconds"])
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metrics_have_their_current_and_target_values() {
        let check = |metric: Value, measured: Value, expected: &str| {
            assert_eq!(metric_text(&metric, &measured), expected);
        };
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}});
        check(cpu.clone(), Value::Null, "resource cpu on pods  (as a percentage of request):\t<unknown> / 80%");
        check(
            cpu,
            json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 40, "averageValue": "4m"}}}),
            "resource cpu on pods  (as a percentage of request):\t40% (4m) / 80%",
        );
        check(
            json!({"type": "Pods", "pods": {"metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "10"}}}),
            json!({"type": "Pods", "pods": {"current": {"averageValue": "5"}}}),
            "\"hits\" on pods:\t5 / 10",
        );
        check(
            json!({"type": "Object", "object": {"metric": {"name": "load"}, "describedObject": {"kind": "Ingress", "name": "web"},
                "target": {"type": "Value", "value": "3"}}}),
            Value::Null,
            "\"load\" on Ingress/web (target value):\t<unknown> / 3",
        );
        check(
            json!({"type": "External", "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "30"}}}),
            json!({"type": "External", "external": {"current": {"averageValue": "12"}}}),
            "\"queue\" (target average value):\t12 / 30",
        );
    }
}
