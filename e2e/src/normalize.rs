//! Replaces parts of an output that differ between runs: uids, times, ages, addresses, versions.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

static RULES: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let rules = [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} UTC", "TIME"),
        (r#"(resourceVersion"?: ?"?)\d+"#, "${1}RV"),
        (r"(LIVE|MERGED)-\d+", "$1"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}", "TIME"),
        (r"https://127\.0\.0\.1:\d+", "https://SERVER"),
        (r"\b10\.0\.\d{1,3}\.\d{1,3}\b", "CLUSTER-IP"),
        (r"(kube-api-access-)[a-z0-9]{5}", "${1}XXXXX"),
        (r"v1\.36\.4(\+[\w.-]+)?", "VERSION"),
        (r#"(nodePort"?: ?|:)3[0-2]\d{3}\b"#, "${1}NODE-PORT"),
        // Log lines of kubectl have a timestamp and a pid.
        (r"(?m)^([IWEF])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", "${1} LOGGED "),
    ];
    rules.into_iter().map(|(pattern, with)| (Regex::new(pattern).expect("a valid pattern"), with)).collect()
});

/// Ages are separate words; the rest of the line is unchanged.
static AGE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(\d+[hms]){1,2}$").expect("a valid pattern"));

pub fn normalize(text: &str) -> String {
    let mut out = document(text).map_or_else(|| text.to_owned(), |value| format!("{value:#}"));
    for (pattern, with) in RULES.iter() {
        out = pattern.replace_all(&out, *with).into_owned();
    }
    let lines = out.lines().map(|line| {
        // Columns are as wide as their widest cell, which may be an age or an address.
        line.split_whitespace().map(|word| if AGE.is_match(word) { "AGE" } else { word }).collect::<Vec<_>>().join(" ")
    });
    let indented = out.lines().map(|line| &line[..line.len() - line.trim_start().len()]);
    let mut lines: Vec<String> = lines.zip(indented).map(|(line, indent)| format!("{indent}{line}")).collect();
    // Multiple causes of an error are in the order of a Go map, and so are the resources of a described LimitRange.
    for prefix in ["* ", "Container ", "Pod ", "PersistentVolumeClaim "] {
        for rows in lines.chunk_by_mut(|a, b| a.starts_with(prefix) && b.starts_with(prefix)) {
            rows.sort();
        }
    }
    lines.join("\n")
}

/// Parses an object or a list as JSON or YAML and removes random order.
fn document(text: &str) -> Option<Value> {
    let mut value = match text.starts_with("apiVersion:") {
        true => serde_saphyr::from_str(text).ok()?,
        false => serde_json::from_str(text).ok()?,
    };
    put_in_order(&mut value);
    Some(value)
}

/// Keys of maps are sorted already. Managed fields are in the order of their last writes, to the second; conditions
/// in the order of their first appearance.
fn put_in_order(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(put_in_order);
            let lists =
                [("managedFields", &["manager", "operation", "subresource"][..]), ("conditions", &["type"][..])];
            for (list, keys) in lists {
                if let Some(Value::Array(entries)) = map.get_mut(list) {
                    entries.sort_by_key(|entry| keys.iter().map(|key| entry[*key].to_string()).collect::<Vec<_>>());
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(put_in_order),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_differ_between_runs_are_replaced() {
        let text = "web   ClusterIP   10.0.3.7   80/TCP   12s\n  resourceVersion: \"41\"\n";
        assert_eq!(normalize(text), "web ClusterIP CLUSTER-IP 80/TCP AGE\n  resourceVersion: \"RV\"");
        assert_eq!(
            normalize("a 2m10s 7s\nI1116 10:12:17.123 42 request.go:1] x"),
            "a AGE AGE\nI LOGGED request.go:1] x"
        );
    }

    #[test]
    fn managers_and_conditions_are_put_in_one_order() {
        let text = |first: &str, second: &str| {
            let of = |name: &str| format!("  - {{manager: {name}, time: \"2026-11-16T10:00:00Z\"}}\n");
            let types = format!("status:\n  conditions: [{{type: {first}}}, {{type: {second}}}]\n");
            format!("apiVersion: v1\nmetadata:\n  managedFields:\n{}{}{types}", of(first), of(second))
        };
        assert_eq!(normalize(&text("a", "b")), normalize(&text("b", "a")));
        assert_ne!(normalize(&text("a", "b")), normalize(&text("b", "c")));
    }

    #[test]
    fn rows_printed_in_the_order_of_a_go_map_are_put_in_one_order() {
        let text = "Type  Resource\n----\nContainer  memory\nContainer  cpu\n* b\n* a\n";
        assert_eq!(normalize(text), "Type Resource\n----\nContainer cpu\nContainer memory\n* a\n* b");
    }
}
