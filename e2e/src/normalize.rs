//! Takes out of an output what differs from run to run: uids, times, ages, addresses, versions.

use std::sync::LazyLock;

use regex::Regex;

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
        (r"(nodePort: ?|:)3[0-2]\d{3}\b", "${1}NODE-PORT"),
    ];
    rules.into_iter().map(|(pattern, with)| (Regex::new(pattern).expect("a valid pattern"), with)).collect()
});

/// Ages stand alone at the end of a column; the rest of the line stays as it is.
static AGE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(^|\s)\d+(s|m|m\d+s)(\s|$)").expect("a valid pattern"));

pub fn normalize(text: &str) -> String {
    // The order of keys means nothing in JSON.
    let sorted = serde_json::from_str::<serde_json::Value>(text).ok().map(|value| format!("{value:#}"));
    let mut out = sorted.unwrap_or_else(|| text.to_owned());
    for (pattern, with) in RULES.iter() {
        out = pattern.replace_all(&out, *with).into_owned();
    }
    let lines = out.lines().map(|line| {
        let line = AGE.replace_all(line, "${1}AGE${3}");
        // Columns are as wide as their widest cell, which may be an age or an address.
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    });
    let indented = out.lines().map(|line| &line[..line.len() - line.trim_start().len()]);
    let mut lines: Vec<String> = lines.zip(indented).map(|(line, indent)| format!("{indent}{line}")).collect();
    // Several causes of one refusal come in the order of a Go map, and so do the resources of a described LimitRange.
    for prefix in ["* ", "Container ", "Pod ", "PersistentVolumeClaim "] {
        for rows in lines.chunk_by_mut(|a, b| a.starts_with(prefix) && b.starts_with(prefix)) {
            rows.sort();
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_taken_out() {
        let text = "web   ClusterIP   10.0.3.7   80/TCP   12s\n  resourceVersion: \"41\"\n";
        assert_eq!(normalize(text), "web ClusterIP CLUSTER-IP 80/TCP AGE\n  resourceVersion: \"RV\"");
    }

    #[test]
    fn rows_printed_in_the_order_of_a_go_map_are_put_in_one_order() {
        let text = "Type  Resource\n----\nContainer  memory\nContainer  cpu\n* b\n* a\n";
        assert_eq!(normalize(text), "Type Resource\n----\nContainer cpu\nContainer memory\n* a\n* b");
    }
}
