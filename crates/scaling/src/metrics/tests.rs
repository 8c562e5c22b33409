//! Tables of metrics and their results.

use std::time::Duration;

use jiff::Timestamp;

use super::*;
use crate::calculator::UsageSample;

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().expect("a time")
}

fn pods(count: usize) -> Vec<Arc<ScaledPod>> {
    let pod = |number: usize| ScaledPod {
        cluster: "m1".to_owned(),
        name: format!("p{number}"),
        phase: "Running".to_owned(),
        is_deleting: false,
        ready: Some((true, Some("2026-01-01T00:00:10Z".parse().expect("a time")))),
        started: Some("2026-01-01T00:00:00Z".parse().expect("a time")),
        requests: vec![("main".into(), "cpu".into(), 1000)],
        containers: vec!["main".into()],
        pod_requests: Vec::new(),
    };
    (0..count).map(|number| Arc::new(pod(number))).collect()
}

fn samples(values: &[i64]) -> Result<Reading, String> {
    let sample = |value: &i64| UsageSample { value: *value, at: Some(now()), window: Duration::from_secs(30) };
    let named = values.iter().enumerate().map(|(number, value)| (format!("m1/p{number}"), sample(value)));
    Ok(Reading::Samples(named.collect()))
}

fn computed(specs: &[Value], readings: Vec<Result<Reading, String>>, current: i64, calibration: f64) -> Computed {
    let pods = pods((current as f64 * calibration) as usize);
    let settings = ScalingSettings { dialect: Dialect::Karmada, ..ScalingSettings::default() };
    let tolerance = Tolerance { up: 0.1, down: 0.1 };
    let limits = Limits { tolerance, settings: &settings, calibration, now: now() };
    let workload = Workload { namespace: "shop", pods: &pods, current, reported_pods: pods.len() as i64 };
    let metrics = specs.iter().zip(readings).map(|(spec, reading)| MeasuredMetric { spec, reading });
    compute(metrics.collect(), &workload, limits)
}

fn cpu(target: Value) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

fn object(target: Value) -> Value {
    json!({"type": "Object", "object": {"describedObject": {"apiVersion": "v1", "kind": "Service", "name": "web"},
        "metric": {"name": "hits"}, "target": target}})
}

fn external(target: Value) -> Value {
    json!({"type": "External", "external": {"metric": {"name": "depth", "selector": {"matchLabels": {"q": "a"}}},
        "target": target}})
}

#[track_caller]
fn check(spec: Value, reading: Result<Reading, String>, calibration: f64, expected: (i64, &str, Value)) {
    let found = computed(&[spec], vec![reading], 2, calibration);
    assert_eq!(found.error, None);
    let status = found.statuses[0].as_object().and_then(|status| status.values().find(|v| v.is_object())).cloned();
    let current = status.map(|status| status["current"].clone()).unwrap_or_default();
    assert_eq!((found.replicas, found.metric.as_str(), current), (Some(expected.0), expected.1, expected.2));
}

#[test]
fn every_type_of_metric_is_evaluated() {
    let percent = cpu(json!({"averageUtilization": 50}));
    let name = "cpu resource utilization (percentage of request)";
    let shown = json!({"averageUtilization": 100, "averageValue": "1"});
    check(percent.clone(), samples(&[1000, 1000]), 1.0, (4, name, shown.clone()));
    check(percent, samples(&[1000, 1000, 1000, 1000]), 2.0, (4, name, shown));
    let amount = cpu(json!({"averageValue": "250m"}));
    check(amount, samples(&[500, 500]), 1.0, (4, "cpu resource", json!({"averageValue": "500m"})));
    let container = json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "main",
        "target": {"averageUtilization": 50}}});
    let name = "cpu container resource utilization (percentage of request)";
    check(container, samples(&[250, 250]), 1.0, (1, name, json!({"averageUtilization": 25, "averageValue": "250m"})));
    let of_pods = json!({"type": "Pods", "pods": {"metric": {"name": "hits"}, "target": {"averageValue": "10"}}});
    check(of_pods, samples(&[30_000, 10_000]), 1.0, (4, "pods metric hits", json!({"averageValue": "20"})));
    let value = |milli| Ok(Reading::Value(milli));
    let whole = object(json!({"type": "Value", "value": "10"}));
    check(whole, value(25_000), 1.0, (5, "Service metric hits", json!({"value": "25"})));
    let share = object(json!({"type": "AverageValue", "averageValue": "10"}));
    check(share.clone(), value(60_000), 1.0, (6, "external metric hits(nil)", json!({"averageValue": "30"})));
    check(share, value(60_000), 2.0, (3, "external metric hits(nil)", json!({"averageValue": "15"})));
    let selector =
        "&LabelSelector{MatchLabels:map[string]string{q: a,},MatchExpressions:[]LabelSelectorRequirement{},}";
    let name = format!("external metric depth({selector})");
    check(external(json!({"value": "10"})), value(25_000), 1.0, (5, &name, json!({"value": "25"})));
    check(external(json!({"averageValue": "10"})), value(5_000), 1.0, (1, &name, json!({"averageValue": "2500m"})));
}

#[test]
fn the_highest_proposal_wins() {
    let specs = [cpu(json!({"averageUtilization": 50})), external(json!({"averageValue": "10"}))];
    let found = computed(&specs, vec![samples(&[1000, 1000]), Ok(Reading::Value(70_000))], 2, 1.0);
    assert_eq!((found.replicas, found.statuses.len()), (Some(7), 2));
    assert!(found.metric.starts_with("external metric depth("), "{}", found.metric);
}

#[test]
fn a_metric_that_is_missing_only_prevents_fewer_replicas() {
    let specs = [cpu(json!({"averageUtilization": 50})), external(json!({"averageValue": "10"}))];
    let missing = || Err("no metrics returned from external metrics API".to_owned());
    let more = computed(&specs, vec![samples(&[1000, 1000]), missing()], 2, 1.0);
    assert_eq!((more.replicas, more.failures.len()), (Some(4), 1));
    let fewer = computed(&specs, vec![samples(&[10, 10]), missing()], 2, 1.0);
    assert_eq!(fewer.replicas, None);
}

#[test]
fn failures_are_worded_as_in_karmada() {
    let error = || Err("it is down".to_owned());
    let selector =
        "&LabelSelector{MatchLabels:map[string]string{q: a,},MatchExpressions:[]LabelSelectorRequirement{},}";
    let of_pods = json!({"type": "Pods", "pods": {"metric": {"name": "hits"}, "target": {"averageValue": "10"}}});
    // Metric, reason, message of the event, message in the summary.
    let cases = [
        (cpu(json!({"averageUtilization": 50})), "FailedGetResourceMetric",
            "failed to get cpu utilization: unable to get metrics for resource cpu: it is down".to_owned(),
            "failed to get cpu resource metric value: failed to get cpu utilization: unable to get metrics for resource cpu: it is down".to_owned()),
        (of_pods, "FailedGetPodsMetric", "unable to get metric hits: it is down".to_owned(),
            "failed to get pods metric value: unable to get metric hits: it is down".to_owned()),
        (object(json!({"value": "10"})), "FailedGetObjectMetric",
            "unable to get metric hits: Service on shop web/it is down".to_owned(),
            "failed to get object metric value: unable to get metric hits: Service on shop web/it is down".to_owned()),
        (object(json!({"averageValue": "10"})), "FailedGetObjectMetric",
            "unable to get metric hits: Service on shop web/it is down".to_owned(),
            "failed to get object metric value: failed to get hits object metric: unable to get metric hits: Service on shop web/it is down".to_owned()),
        (external(json!({"value": "10"})), "FailedGetExternalMetric",
            format!("unable to get external metric shop/depth/{selector}: it is down"),
            format!("failed to get external metric value: failed to get depth external metric: unable to get external metric shop/depth/{selector}: it is down")),
        (json!({"type": "Odd"}), "InvalidMetricSourceType", "unknown metric source type \"Odd\"".to_owned(),
            "unknown metric source type \"Odd\"".to_owned()),
    ];
    for (spec, reason, message, summary) in cases {
        let found = computed(&[spec], vec![error()], 2, 1.0);
        assert_eq!((found.failures[0].reason, found.failures[0].message.as_str()), (reason, message.as_str()));
        let expected = format!("invalid metrics (1 invalid out of 1), first error is: {summary}");
        assert_eq!((found.replicas, found.error), (None, Some(expected)));
    }
    let unready = computed(&[cpu(json!({"averageUtilization": 50}))], vec![samples(&[])], 2, 1.0);
    let text = "failed to get cpu utilization: did not receive metrics for any ready pods";
    assert_eq!(unready.failures[0].message, text);
}

#[test]
fn queries_name_what_is_read() {
    let text = |spec: &Value| query(spec).map(|found| found.map(|query| format!("{query:?}")));
    let expected = r#"External { metric: "depth", selector: "q=a" }"#;
    assert_eq!(text(&external(json!({}))), Some(Ok(expected.to_owned())));
    let expected = r#"Object { api_version: "v1", kind: "Service", name: "web", metric: "hits", selector: "" }"#;
    assert_eq!(text(&object(json!({}))), Some(Ok(expected.to_owned())));
    assert_eq!(text(&cpu(json!({}))), Some(Ok(r#"Usage { resource: "cpu", container: "" }"#.to_owned())));
    let mut bad = external(json!({}));
    bad["external"]["metric"]["selector"] = json!({"matchExpressions": [{"key": "a", "operator": "Odd"}]});
    assert!(text(&bad).is_some_and(|found| found.is_err()));
    assert_eq!(text(&json!({"type": "Odd"})), None);
}
