//! Rows of policy kinds: autoscalers, disruption budgets, admission, request priorities, migrations.

use jiff::Timestamp;
use object::conditions::{ConditionView, all_in, find_in};
use object::{GroupResource, Object};
use serde_json::Value;

use super::cells::{age_of, count_at, first_three, int_or_string, items_of, number_at, str_of};
use super::{AGE, Col, NAME, PrinterTable, integer, text};

pub(super) fn table(kind: &str) -> Option<PrinterTable> {
    Some(match kind {
        "HorizontalPodAutoscaler" => AUTOSCALER,
        "Scale" => SCALE,
        "PodDisruptionBudget" => DISRUPTION_BUDGET,
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => WEBHOOKS,
        "ValidatingAdmissionPolicy" => VALIDATING_POLICY,
        "MutatingAdmissionPolicy" => MUTATING_POLICY,
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => POLICY_BINDING,
        "FlowSchema" => FLOW_SCHEMA,
        "PriorityLevelConfiguration" => PRIORITY_LEVEL,
        "StorageVersion" => STORAGE_VERSION,
        "StorageVersionMigration" => STORAGE_VERSION_MIGRATION,
        _ => return None,
    })
}

const AUTOSCALER: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Reference", "What is scaled."),
        text("Targets", "Where each metric stands and where it should be."),
        text("MinPods", "The fewest pods."),
        text("MaxPods", "The most pods."),
        text("Replicas", "How many pods there are."),
        AGE,
    ],
    autoscaler_row,
);

fn autoscaler_row(autoscaler: &Object, now: Timestamp) -> Vec<Value> {
    let target = |key: &str| autoscaler.str_at(&["spec", "scaleTargetRef", key]);
    let metrics = autoscaler.items(&["spec", "metrics"]);
    let targets = match autoscaler.i64_at(&["spec", "targetCPUUtilizationPercentage"]) {
        // The v1 form supports only one metric, under its own names.
        Some(wanted) if metrics.is_empty() => {
            let current = autoscaler.i64_at(&["status", "currentCPUUtilizationPercentage"]);
            format!("cpu: {}/{wanted}%", percent(current, "<unknown>"))
        }
        _ => metric_targets(metrics, autoscaler.items(&["status", "currentMetrics"])),
    };
    let fewest = autoscaler.i64_at(&["spec", "minReplicas"]);
    vec![
        autoscaler.name().into(),
        format!("{}/{}", target("kind"), target("name")).into(),
        targets.into(),
        fewest.map_or_else(|| "<unset>".to_owned(), |n| n.to_string()).into(),
        count_at(autoscaler, &["spec", "maxReplicas"]),
        count_at(autoscaler, &["status", "currentReplicas"]),
        age_of(autoscaler, now),
    ]
}

fn metric_targets(specs: &[Value], statuses: &[Value]) -> String {
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let status = |index: usize| statuses.get(index).unwrap_or(&Value::Null);
    let shown: Vec<String> = specs.iter().enumerate().take(2).map(|(i, spec)| metric(spec, status(i))).collect();
    match specs.len() {
        more @ 3.. => format!("{} + {} more...", shown.join(", "), more - 2),
        _ => shown.join(", "),
    }
}

fn metric(spec: &Value, status: &Value) -> String {
    let (field, named) = match str_of(spec, "type") {
        "External" => ("external", false),
        "Object" => ("object", false),
        "Pods" => ("pods", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".to_owned(),
    };
    let (source, target) = (&spec[field], &spec[field]["target"]);
    let current = &status[field]["current"];
    // A status without the number is printed like a nil number.
    let current_of = |key: &str, strict: bool| match current.get(key) {
        Some(value) => int_or_string(value),
        None if status.get(field).is_some_and(Value::is_object) && !strict => "<nil>".to_owned(),
        None => "<unknown>".to_owned(),
    };
    let wanted_of = |key: &str| target.get(key).map_or_else(|| "<nil>".to_owned(), int_or_string);
    let has_average = target.get("averageValue").is_some();
    if named {
        let name = str_of(source, "name");
        if has_average {
            return format!("{name}: {}/{}", current_of("averageValue", false), wanted_of("averageValue"));
        }
        let current = percent(current["averageUtilization"].as_i64(), "<unknown>");
        return format!("{name}: {current}/{}", percent(target["averageUtilization"].as_i64(), "<auto>"));
    }
    match field {
        "pods" => format!("{}/{}", current_of("averageValue", false), wanted_of("averageValue")),
        _ if has_average => format!("{}/{} (avg)", current_of("averageValue", true), wanted_of("averageValue")),
        _ => format!("{}/{}", current_of("value", false), wanted_of("value")),
    }
}

fn percent(value: Option<i64>, otherwise: &str) -> String {
    value.map_or_else(|| otherwise.to_owned(), |value| format!("{value}%"))
}

const SCALE: PrinterTable = PrinterTable::new(
    &[
        Col::of("Name", "string", NAME.description),
        integer("Desired", "How many replicas are wanted."),
        integer("Available", "How many replicas there are."),
        AGE,
    ],
    |scale, now| {
        let replicas = |part: &str| count_at(scale, &[part, "replicas"]);
        vec![scale.name().into(), replicas("spec"), replicas("status"), age_of(scale, now)]
    },
);

const DISRUPTION_BUDGET: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Min Available", "How many pods must stay."),
        text("Max Unavailable", "How many pods may be gone."),
        integer("Allowed Disruptions", "How many pods may be evicted now."),
        AGE,
    ],
    |budget, now| {
        let bound = |key: &str| {
            let value = budget.get(&["spec", key]).filter(|v| !v.is_null());
            Value::from(value.map_or_else(|| "N/A".to_owned(), int_or_string))
        };
        vec![
            budget.name().into(),
            bound("minAvailable"),
            bound("maxUnavailable"),
            count_at(budget, &["status", "disruptionsAllowed"]),
            age_of(budget, now),
        ]
    },
);

const WEBHOOKS: PrinterTable =
    PrinterTable::new(&[NAME, integer("Webhooks", "How many webhooks are configured."), AGE], |webhooks, now| {
        vec![webhooks.name().into(), webhooks.items(&["webhooks"]).len().into(), age_of(webhooks, now)]
    });

const PARAM_KIND: Col = text("ParamKind", "The kind of object that parameterizes the policy.");

const VALIDATING_POLICY: PrinterTable = PrinterTable::new(
    &[NAME, integer("Validations", "How many rules the policy has."), PARAM_KIND, AGE],
    |policy, now| {
        let rules = policy.items(&["spec", "validations"]).len();
        vec![policy.name().into(), rules.into(), param_kind(policy), age_of(policy, now)]
    },
);

const MUTATING_POLICY: PrinterTable = PrinterTable::new(
    &[NAME, integer("Mutations", "How many changes the policy makes."), PARAM_KIND, AGE],
    |policy, now| {
        let mutations = policy.items(&["spec", "mutations"]).len();
        vec![policy.name().into(), mutations.into(), param_kind(policy), age_of(policy, now)]
    },
);

fn param_kind(policy: &Object) -> Value {
    match policy.get(&["spec", "paramKind"]).filter(|k| k.is_object()) {
        Some(kind) => format!("{}/{}", str_of(kind, "apiVersion"), str_of(kind, "kind")).into(),
        None => "<unset>".into(),
    }
}

const POLICY_BINDING: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("PolicyName", "The policy that is put to use."),
        text("ParamRef", "The object with the policy's parameters."),
        AGE,
    ],
    |binding, now| {
        let policy = binding.str_at(&["spec", "policyName"]);
        vec![binding.name().into(), policy.into(), param_ref(binding).into(), age_of(binding, now)]
    },
);

fn param_ref(binding: &Object) -> String {
    let Some(param) = binding.get(&["spec", "paramRef"]).filter(|p| p.is_object()) else {
        return "<unset>".to_owned();
    };
    match (str_of(param, "name"), str_of(param, "namespace"), param.get("selector")) {
        ("", _, None) => "<unset>".to_owned(),
        ("", _, Some(selector)) => selector_dump(selector),
        (name, "", _) => format!("*/{name}"),
        (name, namespace, _) => format!("{namespace}/{name}"),
    }
}

/// A selector as printed by Go's `%v` of the struct, which kube-apiserver shows here.
fn selector_dump(selector: &Value) -> String {
    let labels = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let labels: String = labels.map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default())).collect();
    let expressions = items_of(selector, "matchExpressions").iter().map(|e| {
        let values: Vec<&str> = items_of(e, "values").iter().filter_map(Value::as_str).collect();
        let (key, operator) = (str_of(e, "key"), str_of(e, "operator"));
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{}],}},", values.join(" "))
    });
    let expressions: String = expressions.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

const FLOW_SCHEMA: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("PriorityLevel", "The priority level matching requests get."),
        text("MatchingPrecedence", "Which schema wins when several match; the lowest does."),
        text("DistinguisherMethod", "How requests are distinguished into flows."),
        AGE,
        text("MissingPL", "Whether the priority level does not exist."),
    ],
    |schema, now| {
        let method = schema.get(&["spec", "distinguisherMethod"]).filter(|m| m.is_object());
        let dangling = find_in(schema.items(&["status", "conditions"]), "Dangling");
        vec![
            schema.name().into(),
            schema.str_at(&["spec", "priorityLevelConfiguration", "name"]).into(),
            number_at(schema, &["spec", "matchingPrecedence"]).into(),
            method.map_or("<none>", |m| str_of(m, "type")).into(),
            age_of(schema, now),
            dangling.map_or("?", ConditionView::status).into(),
        ]
    },
);

const PRIORITY_LEVEL: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Type", "Whether the level is limited."),
        text("NominalConcurrencyShares", "The level's share of the server."),
        text("Queues", "How many queues the level has."),
        text("HandSize", "How many queues one flow may use."),
        text("QueueLengthLimit", "How many requests may wait in one queue."),
        AGE,
    ],
    |level, now| {
        let limited = level.get(&["spec", "limited"]).filter(|l| l.is_object());
        let queuing = limited.and_then(|l| l["limitResponse"].get("queuing")).filter(|q| q.is_object());
        let number = |part: Option<&Value>, key: &str| match part {
            Some(part) => part[key].as_i64().unwrap_or(0).into(),
            None => Value::from("<none>"),
        };
        vec![
            level.name().into(),
            level.str_at(&["spec", "type"]).into(),
            number(limited, "nominalConcurrencyShares"),
            number(queuing, "queues"),
            number(queuing, "handSize"),
            number(queuing, "queueLengthLimit"),
            age_of(level, now),
        ]
    },
);

const STORAGE_VERSION: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("CommonEncodingVersion", "The version all servers write, if they agree."),
        text("StorageVersions", "The version each server writes."),
        AGE,
    ],
    |version, now| {
        let common = version.get(&["status", "commonEncodingVersion"]).and_then(Value::as_str).unwrap_or("<unset>");
        let versions = version.items(&["status", "storageVersions"]).iter();
        let versions: Vec<String> =
            versions.map(|v| format!("{}={}", str_of(v, "apiServerID"), str_of(v, "encodingVersion"))).collect();
        vec![version.name().into(), common.into(), first_three(&versions, "<unset>").into(), age_of(version, now)]
    },
);

const STORAGE_VERSION_MIGRATION: PrinterTable = PrinterTable::new(
    &[
        Col::of("Name", "string", NAME.description),
        text("Resource", "The resource whose objects are rewritten."),
        text("Status", "How far the migration is."),
    ],
    |migration, _| {
        let resource = |key: &str| migration.str_at(&["spec", "resource", key]);
        let resource = GroupResource::new(resource("group"), resource("resource")).to_string();
        let conditions = all_in(migration.items(&["status", "conditions"])).filter(|c| c.is_true());
        let known = conditions.map(ConditionView::kind).filter(|ty| ["Running", "Failed", "Succeeded"].contains(ty));
        vec![migration.name().into(), resource.into(), known.last().unwrap_or("Unknown").into()]
    },
);
