//! The life cycle as a table: what is known about an instance, and the step that follows.

use super::*;

fn settings() -> InstanceSettings {
    InstanceSettings::default()
}

/// A started in-process instance without joined clusters.
fn running(settings: &InstanceSettings) -> RunningFacts {
    let started_with = StartedWith {
        fingerprint: "a".into(),
        restarted_at: settings.restarted_at.clone(),
        hibernated_at: settings.hibernated_at.clone(),
    };
    RunningFacts { started_with, ..RunningFacts::default() }
}

#[track_caller]
fn check(name: &str, change: impl FnOnce(&mut Inputs<'_>), expected: (Step, Phase, &str)) {
    let (settings, spec) = (settings(), PlaneSpec::default());
    check_with(name, &settings, &spec, change, expected);
}

#[track_caller]
fn check_with<'a>(
    name: &str,
    settings: &'a InstanceSettings,
    spec: &'a PlaneSpec,
    change: impl FnOnce(&mut Inputs<'a>),
    expected: (Step, Phase, &str),
) {
    let mut inputs = Inputs {
        is_deleting: false,
        has_finalizer: true,
        keeps_plane: false,
        was_hibernated: false,
        settings,
        spec,
        spec_problem: None,
        fingerprint: "a".into(),
        running: None,
        clusters: Clusters::NotAsked,
        is_woken: false,
        failure: None,
        missing_data: None,
    };
    change(&mut inputs);
    let decision = decide(&inputs);
    assert_eq!((decision.step, decision.phase, decision.reason), expected, "{name}: {}", decision.message);
    assert!(!decision.is_ready || inputs.running.is_some(), "{name}: ready without a plane");
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn an_instance_is_adopted_started_and_kept_running() {
    check("new", |i| i.has_finalizer = false, (Step::Adopt, Phase::Pending, "Progressing"));
    check("adopted", |_| {}, (Step::Start, Phase::Starting, "Progressing"));
    check("started", |i| i.running = Some(running(i.settings)), (Step::Nothing, Phase::Running, "Completed"));
    let changed = |i: &mut Inputs<'_>| {
        i.running = Some(RunningFacts {
            started_with: StartedWith { fingerprint: "b".into(), ..Default::default() },
            ..running(i.settings)
        })
    };
    check("settings changed", changed, (Step::Restart, Phase::Starting, "Progressing"));
    let broken =
        |i: &mut Inputs<'_>| i.running = Some(RunningFacts { broken: Some("disk full".into()), ..running(i.settings) });
    check("ended early", broken, (Step::GiveUp, Phase::Failed, "Failed"));
    let stable = |i: &mut Inputs<'_>| {
        i.running =
            Some(RunningFacts { broken: Some("disk full".into()), ran_for: STABLE_AFTER, ..running(i.settings) })
    };
    check("ended after a long time", stable, (Step::Restart, Phase::Starting, "Progressing"));
    let restarted = InstanceSettings { restarted_at: Some("now".into()), ..settings() };
    let old = |i: &mut Inputs<'_>| i.running = Some(running(&settings()));
    check_with("restart", &restarted, &PlaneSpec::default(), old, (Step::Restart, Phase::Starting, "Progressing"));
    let full = |i: &mut Inputs<'_>| {
        i.running = Some(RunningFacts { full_storage: Some("16 MiB in use".into()), ..running(i.settings) })
    };
    check("storage full", full, (Step::Nothing, Phase::Degraded, STORAGE_FULL));
    let unreachable = |i: &mut Inputs<'_>| i.running = Some(RunningFacts { failed_probes: 2, ..running(i.settings) });
    check("unreachable", unreachable, (Step::Nothing, Phase::Degraded, "Unreachable"));
    let hung = |i: &mut Inputs<'_>| {
        let unanswered = RunningFacts { failed_probes: 6, unanswered_probes: 6, ..running(i.settings) };
        i.running = Some(unanswered);
    };
    check("hung", hung, (Step::GiveUp, Phase::Degraded, "Unreachable"));
    let imported = InstanceSettings { mode: Mode::Imported, ..settings() };
    let spec = PlaneSpec::default();
    check_with("hung elsewhere", &imported, &spec, hung, (Step::Nothing, Phase::Degraded, "Unreachable"));
    let on_etcd = PlaneSpec { etcd: Some(Default::default()), ..PlaneSpec::default() };
    let waits = (Step::Nothing, Phase::Degraded, "Unreachable");
    let s = settings();
    check_with("waits for its etcd", &s, &on_etcd, hung, waits);
    let invalid = |i: &mut Inputs<'_>| i.spec_problem = Some("bad".into());
    check("stored before it was refused", invalid, (Step::Nothing, Phase::Failed, "ValidationError"));
}

#[test]
fn failed_starts_are_retried_with_backoff() {
    let failed = |count: u32, wait: Duration| {
        move |i: &mut Inputs<'_>| {
            let tried_with = StartedWith { fingerprint: "a".into(), ..StartedWith::default() };
            i.failure = Some(FailedStart { count, message: "no".into(), wait, tried_with });
        }
    };
    check("waiting", failed(1, SECOND), (Step::Nothing, Phase::Failed, "Failed"));
    check("waiting long", failed(5, SECOND), (Step::Nothing, Phase::Degraded, "Failed"));
    check("again", failed(3, Duration::ZERO), (Step::Start, Phase::Starting, "Progressing"));
    let changed = |i: &mut Inputs<'_>| {
        failed(3, SECOND)(i);
        i.fingerprint = "b".into();
    };
    check("the settings were corrected", changed, (Step::Start, Phase::Starting, "Progressing"));
    let restarted = InstanceSettings { restarted_at: Some("now".into()), ..settings() };
    let asked = (Step::Start, Phase::Starting, "Progressing");
    check_with("a restart was requested", &restarted, &PlaneSpec::default(), failed(3, SECOND), asked);
}

#[test]
fn an_instance_without_its_data_is_not_started() {
    let missing = |i: &mut Inputs<'_>| i.missing_data = Some("the data is elsewhere".into());
    check("missing", missing, (Step::Nothing, Phase::Failed, "DataMissing"));
    let deleted = |i: &mut Inputs<'_>| {
        missing(i);
        i.is_deleting = true;
    };
    check("deleted", deleted, (Step::Remove { keeps_plane: false }, Phase::Deleting, "Deleting"));
    let runs = |i: &mut Inputs<'_>| {
        missing(i);
        i.running = Some(running(i.settings));
    };
    check("runs", runs, (Step::Nothing, Phase::Running, "Completed"));
}

#[test]
fn a_suspended_instance_is_left_as_it_is() {
    let suspended = PlaneSpec { is_suspended: true, ..PlaneSpec::default() };
    let stopped = PlaneSpec { is_stopped: true, ..PlaneSpec::default() };
    let s = settings();
    let old = |i: &mut Inputs<'_>| {
        i.running = Some(RunningFacts {
            started_with: StartedWith { fingerprint: "b".into(), ..Default::default() },
            ..running(i.settings)
        })
    };
    check_with("not started", &s, &suspended, |_| {}, (Step::Nothing, Phase::Suspended, "Suspended"));
    check_with("not restarted", &s, &suspended, old, (Step::Nothing, Phase::Suspended, "Suspended"));
    check_with("zero replicas", &s, &stopped, old, (Step::Stop, Phase::Suspended, "Stopped"));
    check_with("stopped", &s, &stopped, |_| {}, (Step::Nothing, Phase::Suspended, "Stopped"));
    let deleted = |i: &mut Inputs<'_>| i.is_deleting = true;
    let removed = (Step::Remove { keeps_plane: false }, Phase::Deleting, "Deleting");
    check_with("deleted while suspended", &s, &suspended, deleted, removed);
}

#[test]
fn an_idle_instance_without_clusters_hibernates_and_wakes() {
    let sleepy = InstanceSettings { hibernate_after: Some(SECOND), ..settings() };
    let spec = PlaneSpec::default();
    let idle = |idle: Duration, clusters: Clusters| {
        move |i: &mut Inputs<'_>| {
            i.running = Some(RunningFacts { idle, ..running(i.settings) });
            i.clusters = clusters;
        }
    };
    let (stays, sleeps) = ((Step::Nothing, Phase::Running, "Completed"), (Step::Stop, Phase::Hibernated, "Hibernated"));
    check_with("busy", &sleepy, &spec, idle(Duration::ZERO, Clusters::Count(0)), stays);
    check_with("idle", &sleepy, &spec, idle(SECOND, Clusters::Count(0)), sleeps);
    check_with("has members", &sleepy, &spec, idle(SECOND, Clusters::Count(1)), stays);
    check_with("members unknown", &sleepy, &spec, idle(SECOND, Clusters::Unknown("x".into())), stays);
    let asleep = |i: &mut Inputs<'_>| i.was_hibernated = true;
    check_with("asleep", &sleepy, &spec, asleep, (Step::Nothing, Phase::Hibernated, "Hibernated"));
    let woken = |i: &mut Inputs<'_>| (i.was_hibernated, i.is_woken) = (true, true);
    check_with("woken", &sleepy, &spec, woken, (Step::Start, Phase::Starting, "Progressing"));
    check("annotation removed", asleep, (Step::Start, Phase::Starting, "Progressing"));

    // On request: once, and not before the last cluster has left.
    let requested = InstanceSettings { hibernated_at: Some("now".into()), ..settings() };
    let before = |clusters: Clusters| {
        move |i: &mut Inputs<'_>| {
            i.running = Some(running(&settings()));
            i.clusters = clusters;
        }
    };
    check_with("requested", &requested, &spec, before(Clusters::Count(0)), sleeps);
    check_with("requested with members", &requested, &spec, before(Clusters::Count(1)), stays);
    check_with("requested, asleep", &requested, &spec, asleep, (Step::Nothing, Phase::Hibernated, "Hibernated"));
    check_with("requested, woken", &requested, &spec, woken, (Step::Start, Phase::Starting, "Progressing"));
    check_with("requested before this start", &requested, &spec, idle(SECOND, Clusters::Count(0)), stays);
    let imported = InstanceSettings { mode: Mode::Imported, ..requested.clone() };
    check_with("imported", &imported, &spec, before(Clusters::Count(0)), stays);
}

#[test]
fn deletion_waits_for_clusters_and_respects_the_label() {
    let deleting = |clusters: Clusters| {
        move |i: &mut Inputs<'_>| {
            i.is_deleting = true;
            i.running = Some(running(i.settings));
            i.clusters = clusters;
        }
    };
    let removed = (Step::Remove { keeps_plane: false }, Phase::Deleting, "Deleting");
    let kept = (Step::Remove { keeps_plane: true }, Phase::Deleting, "Deleting");
    check("empty", deleting(Clusters::Count(0)), removed);
    check("not running", |i| i.is_deleting = true, removed);
    check("members", deleting(Clusters::Count(2)), (Step::Nothing, Phase::Deleting, "ClustersJoined"));
    let unknown = deleting(Clusters::Unknown("timeout".into()));
    check("cannot count", unknown, (Step::Nothing, Phase::Deleting, "ClustersUnknown"));
    let keep = |i: &mut Inputs<'_>| {
        deleting(Clusters::Count(2))(i);
        i.keeps_plane = true;
    };
    check("kept with members", keep, kept);
    let by_hand = |i: &mut Inputs<'_>| (i.is_deleting, i.has_finalizer) = (true, false);
    check("finalizer removed by hand", by_hand, (Step::Forget, Phase::Deleting, "Deleting"));
    let imported = InstanceSettings { mode: Mode::Imported, ..settings() };
    let unreachable = |i: &mut Inputs<'_>| i.is_deleting = true;
    check_with("unreachable import", &imported, &PlaneSpec::default(), unreachable, kept);
    assert!(!needs_clusters(true, false, &imported), "deleting an import never asks the plane");
    assert!(needs_clusters(true, false, &settings()) && !needs_clusters(true, true, &settings()));
}
