//! Cases decided by Karmada's own scheduler (tools/scheduler); ours must decide the same.

use std::io::{BufRead, BufReader};
use std::sync::Arc;

use api::work::{BindingSpec, BindingStatus};
use object::Object;
use scheduler::{ClusterSnapshot, Peers, Request, ScheduleError, SchedulerOptions};
use serde_json::Value;

/// An additional file of cases.
const MORE: &str = "SCHEDULER_CASES";

/// The difference, if there is one.
fn difference(line: &str) -> Option<String> {
    let case: Value = serde_json::from_str(line).expect("json");
    let clusters: Vec<Arc<Object>> = case["clusters"]
        .as_array()
        .expect("clusters")
        .iter()
        .map(|cluster| Arc::new(Object::from_value(cluster.clone()).expect("a map")))
        .collect();
    let spec: BindingSpec = serde_json::from_value(case["spec"].clone()).expect("a spec");
    let status: BindingStatus = serde_json::from_value(case["status"].clone()).expect("a status");
    let snapshot = ClusterSnapshot::of(&clusters).expect("clusters");
    let (peers, options) = (Peers::default(), SchedulerOptions::default());
    let request = Request { spec: &spec, status: &status, peers: &peers, options: &options, answers: None };
    let decision = scheduler::schedule(&snapshot, &request);
    let text = match decision.result {
        Ok(mut targets) => {
            targets.sort_by(|a, b| a.name.cmp(&b.name));
            let list: Vec<String> = targets.iter().map(|t| format!("{}:{}", t.name, t.replicas)).collect();
            list.join(", ")
        }
        // Karmada reports one of several reasons in random order.
        Err(ScheduleError::NoFit(_)) => "no cluster fits".to_owned(),
        Err(error) => error.to_string(),
    };
    let expected = case["expected"].as_str().expect("text");
    (text != expected).then(|| format!("{text:?} and not {expected:?}: {line}"))
}

#[track_caller]
fn check(lines: impl Iterator<Item = String>) {
    let mut count = 0;
    let differing: Vec<String> = lines.inspect(|_| count += 1).filter_map(|line| difference(&line)).collect();
    assert!(count >= 200, "the cases are there");
    let some: Vec<&String> = differing.iter().take(3).collect();
    assert!(differing.is_empty(), "{} of {count} differ, such as {some:#?}", differing.len());
}

#[test]
fn decisions_are_those_of_karmada() {
    check(include_str!("conformance.jsonl").lines().map(str::to_owned));
    if let Some(file) = std::env::var_os(MORE) {
        let file = std::fs::File::open(file).expect("the file of cases");
        check(BufReader::new(file).lines().map(|line| line.expect("a line")));
    }
}
