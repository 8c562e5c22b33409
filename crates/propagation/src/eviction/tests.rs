//! Evictions: copies that go, that wait, and that stay.

use api::work::TargetCluster;

use super::*;

const NOW: &str = "2026-11-16T12:00:00Z";

fn now() -> Timestamp {
    parse(NOW).expect("a time")
}

fn item(cluster: &str, health: &str) -> AggregatedStatusItem {
    AggregatedStatusItem { cluster_name: cluster.to_owned(), health: health.to_owned(), ..Default::default() }
}

fn began(time: &str) -> GracefulEvictionTask {
    GracefulEvictionTask {
        from_cluster: "old".to_owned(),
        creation_timestamp: Some(time.to_owned()),
        ..Default::default()
    }
}

struct Case {
    task: GracefulEvictionTask,
    clusters: &'static [&'static str],
    health: &'static [(&'static str, &'static str)],
    observed: i64,
}

fn case(task: GracefulEvictionTask) -> Case {
    Case { task, clusters: &["new"], health: &[("new", "Unhealthy")], observed: 3 }
}

#[track_caller]
fn check(case: Case, expected: TaskOutcome) {
    let target = |name: &&str| TargetCluster { name: (*name).to_owned(), replicas: 1, ..TargetCluster::default() };
    let spec = BindingSpec {
        clusters: case.clusters.iter().map(target).collect(),
        graceful_eviction_tasks: vec![case.task],
        ..Default::default()
    };
    let status = BindingStatus {
        scheduler_observed_generation: Some(case.observed),
        aggregated_status: case.health.iter().map(|(cluster, health)| item(cluster, health)).collect(),
        ..Default::default()
    };
    let assessment = assess(&spec, &status, 3, now(), GRACEFUL_TIMEOUT);
    assert_eq!(assessment.outcomes, [expected], "{spec:?}");
}

#[test]
fn a_copy_stays_until_its_replacements_are_healthy_or_it_times_out() {
    let minute = "2026-11-16T11:59:00Z";
    let waits = |seconds: u64| TaskOutcome::Wait { remaining: Duration::from_secs(seconds) + Duration::from_millis(1) };
    check(case(GracefulEvictionTask::default()), TaskOutcome::Begin);
    check(case(began(minute)), waits(540));
    check(case(began("2026-11-16T11:50:00Z")), waits(0));
    check(case(began("2026-11-16T11:49:59Z")), TaskOutcome::TimedOut);
    let short = GracefulEvictionTask { grace_period_seconds: Some(30), ..began(minute) };
    check(case(short), TaskOutcome::TimedOut);
    let long = GracefulEvictionTask { grace_period_seconds: Some(3600), ..began("2026-11-16T11:30:00Z") };
    check(case(long), waits(1800));
    let kept = GracefulEvictionTask { suppress_deletion: Some(true), ..began("2020-01-01T00:00:00Z") };
    check(case(kept), TaskOutcome::KeptByUser);
    let released = GracefulEvictionTask { suppress_deletion: Some(false), ..began(minute) };
    check(case(released), TaskOutcome::ReleasedByUser);
    check(Case { health: &[("new", "Healthy")], ..case(began(minute)) }, TaskOutcome::HealthyElsewhere);
    check(Case { health: &[("new", "Healthy")], observed: 2, ..case(began(minute)) }, waits(540));
    check(Case { health: &[], ..case(began(minute)) }, waits(540));
    let two = Case { clusters: &["new", "newer"], health: &[("new", "Healthy")], ..case(began(minute)) };
    check(two, waits(540));
    // Nowhere is everywhere: what is scheduled to no member holds nothing back.
    check(Case { clusters: &[], health: &[], ..case(began(minute)) }, TaskOutcome::HealthyElsewhere);
}

#[test]
fn the_next_check_is_at_the_first_timeout() {
    let spec = BindingSpec {
        clusters: vec![TargetCluster { name: "new".to_owned(), replicas: 1, ..TargetCluster::default() }],
        graceful_eviction_tasks: vec![
            began("2026-11-16T11:58:00Z"),
            GracefulEvictionTask { grace_period_seconds: Some(60), ..Default::default() },
            GracefulEvictionTask { suppress_deletion: Some(true), ..Default::default() },
        ],
        ..Default::default()
    };
    let assessment = assess(&spec, &BindingStatus::default(), 1, now(), GRACEFUL_TIMEOUT);
    assert_eq!(assessment.again_in, Some(Duration::from_secs(60)));
    let none = assess(&BindingSpec::default(), &BindingStatus::default(), 1, now(), GRACEFUL_TIMEOUT);
    assert_eq!(none, Assessment::default());
}

fn binding(spec: Value) -> Object {
    Object::from_value(json!({"spec": spec})).expect("a map")
}

#[test]
fn new_tasks_get_a_creation_time_and_keep_other_fields() {
    let binding = binding(json!({"gracefulEvictionTasks": [
        {"fromCluster": "a", "unknown": 1}, {"fromCluster": "b", "creationTimestamp": "t"}, {"fromCluster": "c"}]}));
    let assessment = Assessment {
        outcomes: vec![TaskOutcome::Begin, TaskOutcome::TimedOut, TaskOutcome::KeptByUser],
        again_in: None,
    };
    let settled = settle(&binding, &assessment, now());
    assert_eq!(
        json!(settled.tasks),
        json!([{"fromCluster": "a", "unknown": 1, "creationTimestamp": NOW}, {"fromCluster": "c"}])
    );
    assert_eq!(settled.ended, [("b".to_owned(), TaskOutcome::TimedOut)]);
    assert_eq!(settled.clusters, None);
}

#[test]
fn an_evicted_cluster_is_removed_from_the_targets_and_gets_one_task() {
    let eviction = || Eviction {
        purge_mode: "Gracefully".to_owned(),
        reason: "TaintUntolerated".to_owned(),
        producer: "TaintManager".to_owned(),
        ..Default::default()
    };
    let mut scheduled = binding(json!({"clusters": [{"name": "a", "replicas": 2}, {"name": "b"}]}));
    assert!(!evict(&mut scheduled, "c", eviction()));
    assert!(evict(&mut scheduled, "a", eviction()));
    let task = json!({"fromCluster": "a", "purgeMode": "Gracefully", "replicas": 2, "reason": "TaintUntolerated",
        "producer": "TaintManager"});
    let once = json!({"spec": {"clusters": [{"name": "b"}], "gracefulEvictionTasks": [task]}});
    assert_eq!(scheduled.to_value(), once);
    // It came back and goes again: the task there is counts.
    scheduled.set(&["spec", "clusters"], vec![json!({"name": "b"}), json!({"name": "a"})]);
    assert!(evict(&mut scheduled, "a", eviction()));
    assert_eq!(scheduled.to_value(), once);
    assert!(evict(&mut scheduled, "b", eviction()));
    assert_eq!(scheduled.get(&["spec", "clusters"]), None);
    assert_eq!(scheduled.items(&["spec", "gracefulEvictionTasks"])[1]["replicas"], Value::Null);
}

#[test]
fn dependencies_of_a_kept_copy_are_kept() {
    let task = |from: &str, mode: &str| json!({"fromCluster": from, "purgeMode": mode});
    let leaving = binding(json!({"clusters": [{"name": "new", "replicas": 2}],
        "gracefulEvictionTasks": [task("old", "Gracefully"), task("purged", "Directly"), task("new", "Gracefully")]}));
    let whole = with_staying_copies(&leaving).expect("a copy stays");
    assert_eq!(json!(whole.items(&["spec", "clusters"])), json!([{"name": "new", "replicas": 2}, {"name": "old"}]));
    assert_eq!(with_staying_copies(&binding(json!({"gracefulEvictionTasks": [task("x", "Immediately")]}))), None);
}

#[test]
fn an_eviction_is_recorded_once() {
    let eviction = || Eviction { reason: "TaintUntolerated".to_owned(), ..Default::default() };
    let mut scheduled = binding(json!({"clusters": [{"name": "a", "replicas": 2}]}));
    assert!(!evict_on_record(&mut scheduled, "z", eviction(), now()));
    assert!(evict_on_record(&mut scheduled, "a", eviction(), now()));
    scheduled.set(&["spec", "clusters"], vec![json!({"name": "a"})]);
    assert!(evict_on_record(&mut scheduled, "a", eviction(), now()));
    let moves = History::of(&scheduled).0;
    assert_eq!((moves.len(), moves[0].from.as_str(), moves[0].replicas), (1, "a", Some(2)));
}

#[test]
fn a_cluster_whose_eviction_was_cancelled_is_a_target_again() {
    let binding = binding(json!({"clusters": [{"name": "b"}],
        "gracefulEvictionTasks": [{"fromCluster": "a", "replicas": 3}, {"fromCluster": "c"}]}));
    let assessment = Assessment { outcomes: vec![TaskOutcome::Returned, TaskOutcome::InDoubt], again_in: None };
    let settled = settle(&binding, &assessment, now());
    assert_eq!(settled.clusters, Some(vec![json!({"name": "b"}), json!({"name": "a", "replicas": 3})]));
    assert_eq!(settled.tasks, [json!({"fromCluster": "c"})]);
}

#[test]
fn a_workload_is_evicted_after_being_unhealthy_too_long() {
    let target = |name: &str| TargetCluster { name: name.to_owned(), replicas: 1, ..TargetCluster::default() };
    let spec = BindingSpec { clusters: vec![target("a"), target("b")], ..Default::default() };
    let mut unhealthy = Unhealthy::new();
    let tolerated = Duration::from_secs(60);
    let mut look = |seconds: i64, health: &[(&str, &str)], spec: &BindingSpec| {
        let items: Vec<AggregatedStatusItem> = health.iter().map(|(c, h)| item(c, h)).collect();
        let at = now() + SignedDuration::from_secs(seconds);
        detect_failures(spec, &items, &mut unhealthy, tolerated, at)
    };
    let soon = |seconds: u64| Some(Duration::from_secs(seconds) + Duration::from_millis(1));
    let both = [("a", "Unhealthy"), ("b", "Healthy")];
    assert_eq!(look(0, &both, &spec), Failover { evicted: vec![], again_in: soon(60) });
    assert_eq!(look(50, &both, &spec), Failover { evicted: vec![], again_in: soon(10) });
    // Healthy for a moment: the time starts over.
    assert_eq!(look(55, &[("a", "Unknown"), ("b", "Healthy")], &spec), Failover::default());
    assert_eq!(look(61, &both, &spec), Failover { evicted: vec![], again_in: soon(60) });
    assert_eq!(look(122, &both, &spec), Failover { evicted: vec!["a".to_owned()], again_in: None });
    let leaving = BindingSpec {
        clusters: vec![target("b")],
        graceful_eviction_tasks: vec![GracefulEvictionTask { from_cluster: "a".to_owned(), ..Default::default() }],
        ..Default::default()
    };
    assert_eq!(look(123, &both, &leaving), Failover::default());
    assert_eq!(unhealthy, Unhealthy::new());
}

#[test]
fn the_policy_sets_the_purge_mode_of_an_unhealthy_workload() {
    let features = |text: &str| Features::parse(text).expect("gates");
    let behavior = |purge_mode: &str| -> ApplicationFailoverBehavior {
        serde_json::from_value(json!({"purgeMode": purge_mode, "gracePeriodSeconds": 30, "statePreservation":
            {"rules": [{"aliasLabelName": "state", "jsonPath": "{.phase}"}]}}))
        .expect("a behavior")
    };
    let target = |name: &str| TargetCluster { name: name.to_owned(), replicas: 1, ..TargetCluster::default() };
    let spec = BindingSpec { clusters: vec![target("a"), target("b")], ..Default::default() };
    let items = [AggregatedStatusItem { status: Some(json!({"phase": "running"})), ..item("a", "Unhealthy") }];
    let leave = |purge_mode: &str, cluster: &str, gates: &str| {
        application_eviction(&behavior(purge_mode), &spec, &items, cluster, &features(gates))
    };
    let plain = |purge_mode: &str| Eviction {
        purge_mode: purge_mode.to_owned(),
        reason: "ApplicationFailure".to_owned(),
        ..Default::default()
    };
    for mode in ["Directly", "Immediately"] {
        assert_eq!(leave(mode, "a", ""), Ok(plain(mode)));
    }
    assert_eq!(leave("Never", "a", ""), Ok(Eviction { suppress_deletion: Some(true), ..plain("Never") }));
    for mode in ["Gracefully", "Graciously"] {
        assert_eq!(leave(mode, "a", ""), Ok(Eviction { grace_period_seconds: Some(30), ..plain(mode) }));
        let error = leave(mode, "a", "GracefulEviction=false").expect_err("the gate is off");
        assert_eq!(error.to_string(), format!("GracefulEviction featureGate must be enabled when purgeMode is {mode}"));
    }
    let stateful = "StatefulFailoverInjection=true";
    let moved = Eviction {
        preserved_label_state: BTreeMap::from([("state".to_owned(), "running".to_owned())]),
        clusters_before_failover: vec!["a".to_owned(), "b".to_owned()],
        ..plain("Directly")
    };
    assert_eq!(leave("Directly", "a", stateful), Ok(moved));
    let error = leave("Directly", "b", stateful).expect_err("nothing is known of b");
    assert_eq!(error.to_string(), "the application status has not yet been collected from Cluster(b)");
}
