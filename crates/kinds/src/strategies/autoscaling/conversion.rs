//! Conversion between v1 and v2 of an autoscaler. v1 has one metric; everything else is stored in annotations in
//! kube-apiserver's format, so that both servers read each other's objects.

use object::{GroupVersionKind, Object};
use serde_json::{Map, Value, json};

use super::{CPU_PERCENT, cpu_metric};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const ROUND_TRIP: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

pub(super) fn to_v1(mut autoscaler: Object) -> Object {
    autoscaler.set_gvk(&GroupVersionKind::new("autoscaling", "v1", "HorizontalPodAutoscaler"));
    drop_annotations(&mut autoscaler);
    let metrics = take_list(&mut autoscaler, &["spec", "metrics"]);
    let behavior = autoscaler.remove(&["spec", "behavior"]).filter(Value::is_object);
    let current = take_list(&mut autoscaler, &["status", "currentMetrics"]);
    let conditions = take_list(&mut autoscaler, &["status", "conditions"]);
    if let Some(percent) = metrics.iter().find_map(cpu_percent) {
        autoscaler.set(&["spec", "targetCPUUtilizationPercentage"], percent);
    }
    let is_cpu = |metric: &&Value| metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
    let mut usage =
        current.iter().filter(is_cpu).filter_map(|m| m["resource"]["current"]["averageUtilization"].as_i64());
    if let Some(percent) = usage.next_back() {
        autoscaler.set(&["status", "currentCPUUtilizationPercentage"], percent);
    }
    let others: Vec<String> = metrics.iter().filter(|m| cpu_percent(m).is_none()).map(spec_text).collect();
    keep_list(&mut autoscaler, METRICS, others);
    keep_list(&mut autoscaler, CURRENT_METRICS, current.iter().map(status_text).collect());
    if let Some(behavior) = behavior {
        autoscaler.set_annotation(BEHAVIOR, &behavior_text(&behavior));
    }
    keep_list(&mut autoscaler, CONDITIONS, conditions.iter().map(condition_text).collect());
    let status = autoscaler.as_map_mut().entry("status").or_insert_with(|| json!({}));
    for count in ["currentReplicas", "desiredReplicas"] {
        if status.get(count).is_none() {
            status[count] = 0.into();
        }
    }
    autoscaler
}

pub(super) fn to_v2(mut autoscaler: Object) -> Object {
    autoscaler.set_gvk(&GroupVersionKind::new("autoscaling", "v2", "HorizontalPodAutoscaler"));
    let kept = |key: &str| autoscaler.annotation(key).and_then(|text| serde_json::from_str::<Value>(text).ok());
    let (metrics, current, conditions, behavior) =
        (kept(METRICS), kept(CURRENT_METRICS), kept(CONDITIONS), kept(BEHAVIOR));
    drop_annotations(&mut autoscaler);
    let mut specs: Vec<Value> = list_of(metrics.as_ref()).iter().map(spec_from_v1).collect();
    let percent = autoscaler.remove(&["spec", "targetCPUUtilizationPercentage"]).and_then(|v| v.as_i64());
    specs.extend(percent.map(cpu_metric));
    if specs.is_empty() {
        specs.push(cpu_metric(CPU_PERCENT));
    }
    autoscaler.set(&["spec", "metrics"], specs);
    if let Some(behavior) = behavior.and_then(|behavior| behavior_from_v1(&behavior)) {
        autoscaler.set(&["spec", "behavior"], behavior);
    }
    let usage = autoscaler.remove(&["status", "currentCPUUtilizationPercentage"]).and_then(|v| v.as_i64());
    let usage =
        usage.map(|p| json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": p}}}]));
    let statuses = current.map(|c| Value::from(list_of(Some(&c)).iter().map(status_from_v1).collect::<Vec<_>>()));
    autoscaler.set(&["status", "currentMetrics"], statuses.or(usage).unwrap_or(Value::Null));
    if let Some(conditions) = conditions.filter(Value::is_array) {
        autoscaler.set(&["status", "conditions"], conditions);
    }
    if autoscaler.get(&["status", "desiredReplicas"]).is_none() {
        autoscaler.set(&["status", "desiredReplicas"], 0);
    }
    if autoscaler.i64_at(&["status", "currentReplicas"]) == Some(0) {
        autoscaler.remove(&["status", "currentReplicas"]);
    }
    autoscaler
}

fn drop_annotations(autoscaler: &mut Object) {
    for key in ROUND_TRIP {
        autoscaler.remove(&["metadata", "annotations", key]);
    }
    if autoscaler.get(&["metadata", "annotations"]) == Some(&json!({})) {
        autoscaler.remove(&["metadata", "annotations"]);
    }
}

fn take_list(autoscaler: &mut Object, path: &[&str]) -> Vec<Value> {
    match autoscaler.remove(path) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn list_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn keep_list(autoscaler: &mut Object, key: &str, items: Vec<String>) {
    if !items.is_empty() {
        autoscaler.set_annotation(key, &format!("[{}]", items.join(",")));
    }
}

/// The utilization target of a metric, if it is the one metric v1 supports.
fn cpu_percent(metric: &Value) -> Option<i64> {
    let resource = &metric["resource"];
    (metric["type"] == "Resource" && resource["name"] == "cpu").then_some(())?;
    resource["target"]["averageUtilization"].as_i64()
}

// ---- the texts in annotations: fields in the server's order ----

/// A JSON map whose fields keep the given order; absent ones are omitted.
fn ordered(fields: &[(&str, Option<String>)]) -> String {
    let present = fields.iter().filter_map(|(name, value)| Some(format!("\"{name}\":{}", value.as_ref()?)));
    format!("{{{}}}", present.collect::<Vec<_>>().join(","))
}

fn text_at(value: &Value, key: &str) -> Option<String> {
    value.get(key).filter(|v| !v.is_null()).map(Value::to_string)
}

fn text_or(value: &Value, key: &str, otherwise: &str) -> Option<String> {
    text_at(value, key).or_else(|| Some(otherwise.to_owned()))
}

fn selector_text(selector: Option<&Value>) -> Option<String> {
    let selector = selector.filter(|s| s.is_object())?;
    let expression = |e: &Value| {
        ordered(&[("key", text_at(e, "key")), ("operator", text_at(e, "operator")), ("values", text_at(e, "values"))])
    };
    let expressions = list_of(selector.get("matchExpressions")).iter().map(expression).collect::<Vec<_>>();
    let expressions = (!expressions.is_empty()).then(|| format!("[{}]", expressions.join(",")));
    Some(ordered(&[("matchLabels", text_at(selector, "matchLabels")), ("matchExpressions", expressions)]))
}

fn reference_text(reference: &Value) -> String {
    let part = |key: &str| text_at(reference, key);
    ordered(&[("kind", part("kind")), ("name", part("name")), ("apiVersion", part("apiVersion"))])
}

fn source_of(metric: &Value) -> (&'static str, &Value) {
    let field = super::SOURCES.iter().find(|(ty, _)| metric["type"] == *ty).map_or("resource", |(_, field)| *field);
    (field, &metric[field])
}

fn spec_text(metric: &Value) -> String {
    let (field, source) = source_of(metric);
    let (target, id) = (&source["target"], &source["metric"]);
    let name = text_at(id, "name");
    let selector = selector_text(id.get("selector"));
    let utilization = text_at(target, "averageUtilization");
    let average = text_at(target, "averageValue");
    let inner = match field {
        "pods" => {
            let average = text_or(target, "averageValue", "\"0\"");
            ordered(&[("metricName", name), ("targetAverageValue", average), ("selector", selector)])
        }
        "object" => ordered(&[
            ("target", Some(reference_text(&source["describedObject"]))),
            ("metricName", name),
            ("targetValue", text_or(target, "value", "\"0\"")),
            ("selector", selector),
            ("averageValue", average),
        ]),
        "external" => ordered(&[
            ("metricName", name),
            ("metricSelector", selector),
            ("targetValue", text_at(target, "value")),
            ("targetAverageValue", average),
        ]),
        _ => ordered(&[
            ("name", text_at(source, "name")),
            ("targetAverageUtilization", utilization),
            ("targetAverageValue", average),
            ("container", text_at(source, "container")),
        ]),
    };
    ordered(&[("type", text_at(metric, "type")), (field, Some(inner))])
}

fn status_text(metric: &Value) -> String {
    let (field, source) = source_of(metric);
    let (current, id) = (&source["current"], &source["metric"]);
    let name = text_at(id, "name");
    let selector = selector_text(id.get("selector"));
    let average = text_or(current, "averageValue", "\"0\"");
    let inner = match field {
        "pods" => ordered(&[("metricName", name), ("currentAverageValue", average), ("selector", selector)]),
        "object" => ordered(&[
            ("target", Some(reference_text(&source["describedObject"]))),
            ("metricName", name),
            ("currentValue", text_or(current, "value", "\"0\"")),
            ("selector", selector),
            ("averageValue", text_at(current, "averageValue")),
        ]),
        "external" => ordered(&[
            ("metricName", name),
            ("metricSelector", selector),
            ("currentValue", text_or(current, "value", "\"0\"")),
            ("currentAverageValue", text_at(current, "averageValue")),
        ]),
        _ => ordered(&[
            ("name", text_at(source, "name")),
            ("currentAverageUtilization", text_at(current, "averageUtilization")),
            ("currentAverageValue", average),
            ("container", text_at(source, "container")),
        ]),
    };
    ordered(&[("type", text_at(metric, "type")), (field, Some(inner))])
}

fn condition_text(condition: &Value) -> String {
    let part = |key: &'static str| (key, text_at(condition, key));
    ordered(&[part("type"), part("status"), part("lastTransitionTime"), part("reason"), part("message")])
}

fn behavior_text(behavior: &Value) -> String {
    let rules = |key: &str| match behavior.get(key).filter(|rules| rules.is_object()) {
        None => Some("null".to_owned()),
        Some(rules) => {
            let policy = |p: &Value| {
                ordered(&[
                    ("Type", text_at(p, "type")),
                    ("Value", text_at(p, "value")),
                    ("PeriodSeconds", text_at(p, "periodSeconds")),
                ])
            };
            let policies: Vec<String> = list_of(rules.get("policies")).iter().map(policy).collect();
            Some(ordered(&[
                ("StabilizationWindowSeconds", text_or(rules, "stabilizationWindowSeconds", "null")),
                ("SelectPolicy", text_or(rules, "selectPolicy", "null")),
                ("Policies", Some(format!("[{}]", policies.join(",")))),
                ("Tolerance", text_or(rules, "tolerance", "null")),
            ]))
        }
    };
    ordered(&[("ScaleUp", rules("scaleUp")), ("ScaleDown", rules("scaleDown"))])
}

// ---- and back ----

/// A map of the entries that are present.
fn present(entries: &[(&str, &Value)]) -> Value {
    let kept = entries.iter().filter(|(_, value)| !value.is_null());
    Value::Object(kept.map(|(key, value)| ((*key).to_owned(), (*value).clone())).collect::<Map<_, _>>())
}

fn metric_id(source: &Value, selector: &str) -> Value {
    present(&[("name", &source["metricName"]), ("selector", &source[selector])])
}

fn is_zero(quantity: &Value) -> bool {
    quantity.as_str().is_none_or(|text| text == "0")
}

fn spec_from_v1(metric: &Value) -> Value {
    let (field, source) = source_of(metric);
    let (utilization, average) = (&source["targetAverageUtilization"], &source["targetAverageValue"]);
    let inner = match field {
        "pods" => json!({
            "metric": metric_id(source, "selector"),
            "target": present(&[("type", &json!("AverageValue")), ("averageValue", average)]),
        }),
        "object" => {
            let (value, average) = (&source["targetValue"], &source["averageValue"]);
            let (ty, value) = match average.is_null() {
                true => ("Value", value),
                false if is_zero(value) => ("AverageValue", &Value::Null),
                false => ("AverageValue", value),
            };
            let target = present(&[("type", &json!(ty)), ("value", value), ("averageValue", average)]);
            json!({"metric": metric_id(source, "selector"), "describedObject": source["target"], "target": target})
        }
        "external" => {
            let value = &source["targetValue"];
            let ty = if value.is_null() { "AverageValue" } else { "Value" };
            let target = present(&[("type", &json!(ty)), ("value", value), ("averageValue", average)]);
            json!({"metric": metric_id(source, "metricSelector"), "target": target})
        }
        _ => {
            let ty = if utilization.is_null() { "AverageValue" } else { "Utilization" };
            let target =
                present(&[("type", &json!(ty)), ("averageUtilization", utilization), ("averageValue", average)]);
            present(&[("name", &source["name"]), ("container", &source["container"]), ("target", &target)])
        }
    };
    json!({"type": metric["type"], field: inner})
}

fn status_from_v1(metric: &Value) -> Value {
    let (field, source) = source_of(metric);
    let average = &source["currentAverageValue"];
    let inner = match field {
        "pods" => json!({"metric": metric_id(source, "selector"), "current": present(&[("averageValue", average)])}),
        "object" => {
            let current = present(&[("value", &source["currentValue"]), ("averageValue", &source["averageValue"])]);
            json!({"metric": metric_id(source, "selector"), "describedObject": source["target"], "current": current})
        }
        "external" => {
            let current = present(&[("value", &source["currentValue"]), ("averageValue", average)]);
            json!({"metric": metric_id(source, "metricSelector"), "current": current})
        }
        _ => {
            let current =
                present(&[("averageUtilization", &source["currentAverageUtilization"]), ("averageValue", average)]);
            present(&[("name", &source["name"]), ("container", &source["container"]), ("current", &current)])
        }
    };
    json!({"type": metric["type"], field: inner})
}

fn behavior_from_v1(behavior: &Value) -> Option<Value> {
    let rules = |key: &str| {
        let rules = behavior.get(key).filter(|rules| rules.is_object())?;
        let policies = list_of(rules.get("Policies")).iter().map(|policy| {
            present(&[
                ("type", &policy["Type"]),
                ("value", &policy["Value"]),
                ("periodSeconds", &policy["PeriodSeconds"]),
            ])
        });
        let policies = Value::from(policies.collect::<Vec<_>>());
        Some(present(&[
            ("stabilizationWindowSeconds", &rules["StabilizationWindowSeconds"]),
            ("selectPolicy", &rules["SelectPolicy"]),
            ("policies", &policies),
            ("tolerance", &rules["Tolerance"]),
        ]))
    };
    let (up, down) = (rules("ScaleUp").unwrap_or_default(), rules("ScaleDown").unwrap_or_default());
    let behavior = present(&[("scaleUp", &up), ("scaleDown", &down)]);
    (behavior != json!({})).then_some(behavior)
}
