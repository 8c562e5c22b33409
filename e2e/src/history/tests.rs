//! Histories with a planted violation are detected, and correct ones are accepted.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::applied::{Binding, FinalState, Observation, ObservedWork, Template, Work, check_final_state, check_steps};
use super::writes::check;
use super::{HistoryEntry, Operation, Revision, Version, WatchRecord, WriteOutcome};

fn version(revision: Revision, value: &str) -> Version {
    Version { revision, value: value.to_owned() }
}

fn write(times: (u64, u64), operation: Operation, outcome: WriteOutcome) -> HistoryEntry {
    let (invoked, returned) = times;
    HistoryEntry::Write { session: "s".into(), invoked, returned, key: "k".into(), operation, outcome }
}

fn create(times: (u64, u64), value: &str, at: Revision) -> HistoryEntry {
    write(times, Operation::Create { value: value.into() }, WriteOutcome::Acknowledged(Some(at)))
}

fn update(times: (u64, u64), value: &str, expected: Revision, at: Revision) -> HistoryEntry {
    write(times, Operation::Update { value: value.into(), expected }, WriteOutcome::Acknowledged(Some(at)))
}

fn maybe(times: (u64, u64), value: &str) -> HistoryEntry {
    write(times, Operation::Patch { value: value.into() }, WriteOutcome::Unknown("timeout".into()))
}

fn delete(times: (u64, u64), expected: Revision) -> HistoryEntry {
    write(times, Operation::Delete { expected }, WriteOutcome::Acknowledged(None))
}

fn read(times: (u64, u64), found: Option<Version>) -> HistoryEntry {
    HistoryEntry::Read { session: "r".into(), invoked: times.0, returned: times.1, key: "k".into(), found }
}

fn list(times: (u64, u64), revision: Revision, items: &[(&str, Version)]) -> HistoryEntry {
    let items = items.iter().map(|(key, version)| ((*key).to_owned(), version.clone())).collect();
    HistoryEntry::List { session: "l".into(), invoked: times.0, returned: times.1, revision, items }
}

fn saw(watcher: &str, at: u64, seen: WatchRecord) -> HistoryEntry {
    HistoryEntry::Watch { watcher: watcher.into(), at, seen }
}

fn put(watcher: &str, at: u64, revision: Revision, value: &str) -> HistoryEntry {
    saw(watcher, at, WatchRecord::Put { key: "k".into(), version: version(revision, value) })
}

fn gone(watcher: &str, at: u64, revision: Revision) -> HistoryEntry {
    saw(watcher, at, WatchRecord::Gone { key: "k".into(), revision })
}

fn from(watcher: &str, revision: Revision) -> HistoryEntry {
    saw(watcher, 0, WatchRecord::From(revision))
}

#[track_caller]
fn finds(name: &str, expected: &[&str], entries: Vec<HistoryEntry>) {
    let found = check(&entries);
    let mut rules: Vec<&str> = found.iter().map(|violation| violation.rule).collect();
    rules.dedup();
    assert_eq!(rules, expected, "{name}: {found:#?}");
}

#[test]
fn a_correct_history_has_no_violations() {
    finds(
        "one writer",
        &[],
        vec![
            from("w", 1),
            create((1, 2), "a", 2),
            update((3, 4), "b", 2, 5),
            read((5, 6), Some(version(5, "b"))),
            list((5, 6), 5, &[("k", version(5, "b"))]),
            delete((7, 8), 5),
            read((9, 10), None),
            create((11, 12), "c", 9),
            put("w", 3, 2, "a"),
            put("w", 5, 5, "b"),
            saw("w", 6, WatchRecord::Bookmark(6)),
            gone("w", 9, 7),
            put("w", 13, 9, "c"),
        ],
    );
    finds(
        "an unknown write that happened, later than its client waited",
        &[],
        vec![
            from("w", 1),
            create((1, 2), "a", 2),
            maybe((3, 4), "b"),
            read((5, 6), Some(version(2, "a"))),
            put("w", 3, 2, "a"),
            put("w", 9, 4, "b"),
            read((10, 11), Some(version(4, "b"))),
        ],
    );
    finds(
        "an unknown write that did not happen",
        &[],
        vec![
            from("w", 1),
            create((1, 2), "a", 2),
            maybe((3, 4), "b"),
            put("w", 3, 2, "a"),
            read((5, 6), Some(version(2, "a"))),
        ],
    );
    finds(
        "a read while the key is being deleted",
        &[],
        vec![
            from("w", 1),
            create((1, 2), "a", 2),
            put("w", 3, 2, "a"),
            delete((4, 9), 2),
            read((5, 6), None),
            gone("w", 10, 3),
        ],
    );
    finds(
        "a watch that goes on elsewhere",
        &[],
        vec![
            from("w", 1),
            create((1, 2), "a", 2),
            put("w", 3, 2, "a"),
            saw("w", 4, WatchRecord::Ended("reset".into())),
            update((5, 6), "b", 2, 3),
            from("w", 2),
            put("w", 7, 3, "b"),
        ],
    );
}

#[test]
fn each_planted_violation_of_a_history_is_detected() {
    let base = || vec![from("w", 1), create((1, 2), "a", 2), put("w", 3, 2, "a")];
    let cases: Vec<(&str, &[&str], Vec<HistoryEntry>)> = vec![
        (
            "acknowledged, then never seen",
            &["lost write"],
            vec![
                update((4, 5), "b", 2, 3),
                put("w", 7, 4, "x"),
                write((6, 7), Operation::Patch { value: "x".into() }, WriteOutcome::Acknowledged(Some(4))),
            ],
        ),
        (
            "acknowledged at a revision that is another's",
            &["lost write"],
            vec![update((4, 5), "b", 2, 3), maybe((4, 5), "c"), put("w", 6, 3, "c")],
        ),
        (
            "two updates of one revision",
            &["compare and set"],
            vec![update((4, 9), "b", 2, 3), update((4, 9), "c", 2, 4), put("w", 10, 3, "b"), put("w", 11, 4, "c")],
        ),
        (
            "an unknown update that jumped over another",
            &["compare and set"],
            vec![
                update((4, 9), "b", 2, 3),
                write(
                    (4, 9),
                    Operation::Update { value: "c".into(), expected: 2 },
                    WriteOutcome::Unknown("reset".into()),
                ),
                put("w", 10, 3, "b"),
                put("w", 11, 4, "c"),
            ],
        ),
        ("a create over what is there", &["compare and set"], vec![create((4, 5), "b", 3), put("w", 6, 3, "b")]),
        (
            "a deletion that did not happen",
            &["lost write"],
            vec![delete((4, 5), 2), maybe((6, 7), "b"), put("w", 8, 3, "b")],
        ),
        (
            "two deletions of one state",
            &["compare and set"],
            vec![delete((4, 5), 2), delete((4, 5), 2), gone("w", 6, 3)],
        ),
        (
            "refused and done",
            &["refused but done"],
            vec![
                write((4, 5), Operation::Patch { value: "b".into() }, WriteOutcome::Unsupported(409)),
                put("w", 6, 3, "b"),
            ],
        ),
        ("done twice", &["happened twice"], vec![maybe((4, 5), "b"), put("w", 6, 3, "b"), put("w", 7, 4, "b")]),
        ("from nowhere", &["invented"], vec![put("w", 6, 3, "z")]),
        (
            "a read of what never was",
            &["invented"],
            vec![maybe((4, 5), "b"), put("w", 6, 4, "b"), read((4, 5), Some(version(3, "y")))],
        ),
        (
            "a read behind an acknowledged write",
            &["stale read"],
            vec![update((4, 5), "b", 2, 3), read((6, 7), Some(version(2, "a"))), put("w", 8, 3, "b")],
        ),
        (
            "a read behind another session's read",
            &["stale read"],
            vec![
                maybe((4, 20), "b"),
                read((6, 7), Some(version(3, "b"))),
                read((8, 9), Some(version(2, "a"))),
                put("w", 30, 3, "b"),
            ],
        ),
        ("a key is missing without a delete", &["stale read"], vec![read((4, 5), None)]),
        (
            "revisions that begin again",
            &["lost write", "revisions grow"],
            vec![
                update((4, 5), "b", 2, 9),
                put("w", 6, 9, "b"),
                write((7, 8), Operation::Patch { value: "c".into() }, WriteOutcome::Acknowledged(Some(5))),
            ],
        ),
        (
            "an old list",
            &["stale list"],
            vec![update((4, 5), "b", 2, 3), put("w", 6, 3, "b"), list((7, 8), 2, &[("k", version(2, "a"))])],
        ),
        ("a list without what is there", &["wrong list"], vec![list((4, 5), 2, &[])]),
        (
            "a list with what is gone",
            &["wrong list"],
            vec![delete((4, 5), 2), gone("w", 6, 3), list((7, 8), 3, &[("k", version(2, "a"))])],
        ),
        (
            "a watch that skips",
            &["watch gap"],
            vec![from("v", 1), update((4, 5), "b", 2, 3), put("w", 6, 3, "b"), put("v", 6, 3, "b")],
        ),
        (
            "a watch that skips while it goes on elsewhere",
            &["watch gap"],
            vec![from("v", 2), update((4, 5), "b", 2, 3), put("w", 6, 3, "b"), saw("v", 7, WatchRecord::Bookmark(3))],
        ),
        ("a watch that repeats", &["watch order"], vec![put("w", 6, 2, "a")]),
        ("two watches that disagree", &["one history"], vec![from("v", 1), maybe((1, 2), "b"), put("v", 5, 2, "b")]),
    ];
    for (name, expected, more) in cases {
        finds(name, expected, base().into_iter().chain(more).collect());
    }
}

fn manifest(value: &str, replicas: i64) -> Value {
    json!({"kind": "Deployment", "metadata": {"name": "web", "annotations": {"soak/value": value}},
           "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "main", "image": value}]}}}})
}

/// One template, divided over two members, completely applied.
fn rest() -> FinalState {
    let targets: BTreeMap<String, Option<i64>> = [("m1".into(), Some(2)), ("m2".into(), Some(1))].into();
    let binding = Binding {
        id: "id".into(),
        template: "Deployment/web".into(),
        template_uid: "u".into(),
        targets,
        is_applied: true,
        ..Binding::default()
    };
    let work = |cluster: &str, replicas| Work {
        uid: format!("work-{cluster}"),
        cluster: cluster.into(),
        binding: "id".into(),
        object: "Deployment/web".into(),
        manifest: manifest("a", replicas),
        is_applied: true,
        is_going: false,
    };
    let held = |replicas| {
        let mut object = manifest("a", replicas);
        object["spec"]["paused"] = json!(false);
        BTreeMap::from([("Deployment/web".to_owned(), object)])
    };
    FinalState {
        templates: [(
            "Deployment/web".into(),
            Template { uid: "u".into(), object: manifest("a", 3), ..Template::default() },
        )]
        .into(),
        bindings: [("web-deployment".into(), binding)].into(),
        works: vec![work("m1", 2), work("m2", 1)],
        members: [("m1".into(), held(2)), ("m2".into(), held(1))].into(),
    }
}

#[test]
fn differences_from_the_decided_state_are_detected() {
    assert_eq!(check_final_state(&rest()), []);
    type Plant = fn(&mut FinalState);
    let cases: Vec<(&str, &str, Plant)> = vec![
        ("a template without a binding", "has no binding", |rest| {
            rest.templates.insert("Deployment/x".into(), Template::default());
        }),
        ("a binding of an earlier template", "an earlier", |rest| {
            rest.templates.values_mut().for_each(|template| template.uid = "v".into());
        }),
        ("a binding that stays", "does not exist", |rest| rest.templates.clear()),
        ("a binding that does not know that it is done", "is not reported", |rest| {
            rest.bindings.values_mut().for_each(|binding| binding.is_applied = false);
        }),
        ("an eviction without an end", "still evicts from", |rest| {
            rest.bindings.values_mut().for_each(|binding| binding.evicting = ["m3".to_owned()].into());
        }),
        ("a work too many", "is not a target", |rest| {
            rest.bindings.values_mut().for_each(|binding| binding.targets.retain(|name, _| name == "m1"));
        }),
        ("a work too few", "has no work for m2", |rest| drop(rest.works.pop())),
        ("a work of another time", "does not match its template", |rest| rest.works[0].manifest = manifest("old", 2)),
        ("an override left out", "the override is nothing", |rest| {
            rest.templates.values_mut().for_each(|template| drop(template.overrides.insert("m1".into(), "o".into())));
        }),
        ("other replicas than decided", "replicas are", |rest| rest.works[0].manifest = manifest("a", 3)),
        ("a member without", "m1 has no", |rest| drop(rest.members.remove("m1"))),
        ("a member with another", "has a different", |rest| {
            rest.members.insert("m1".into(), [("Deployment/web".into(), manifest("old", 2))].into());
        }),
        ("a member with more", "which is in no work", |rest| {
            rest.members.get_mut("m1").expect("m1").insert("ConfigMap/x".into(), json!({}));
        }),
        ("a work that was not applied", "not applied", |rest| rest.works[1].is_applied = false),
    ];
    for (name, expected, plant) in cases {
        let mut rest = rest();
        plant(&mut rest);
        let found = check_final_state(&rest);
        assert!(found.iter().any(|violation| violation.what.contains(expected)), "{name}: {found:#?}");
    }
}

fn worked(at: u64, revision: Revision, print: &str, is_going: bool) -> Observation {
    worked_by("work-m1", at, revision, print, is_going)
}

fn worked_by(uid: &str, at: u64, revision: Revision, print: &str, is_going: bool) -> Observation {
    let work = ObservedWork {
        uid: uid.into(),
        generation: i64::try_from(revision).expect("small"),
        print: print.into(),
        is_going,
    };
    Observation::Worked {
        at,
        revision,
        cluster: "m1".into(),
        object: "Deployment/web".into(),
        binding: "id".into(),
        work,
    }
}

fn held(at: u64, generation: i64, print: &str) -> Observation {
    Observation::Held {
        at,
        cluster: "m1".into(),
        object: "Deployment/web".into(),
        uid: "o".into(),
        generation,
        print: print.into(),
    }
}

fn bound(at: u64, revision: Revision) -> Observation {
    let binding = rest().bindings.remove("web-deployment");
    Observation::Bound { at, revision, name: "web-deployment".into(), binding }
}

#[test]
fn undecided_changes_are_detected() {
    let dropped = || Observation::Dropped {
        at: 9_000_000,
        cluster: "m1".into(),
        object: "Deployment/web".into(),
        uid: "o".into(),
    };
    let cases: Vec<(&str, &[&str], Vec<Observation>)> = vec![
        ("in order", &[], vec![worked(1, 1, "a", false), worked(2, 2, "b", false), held(3, 1, "a"), held(4, 2, "b")]),
        ("one left out", &[], vec![worked(1, 1, "a", false), worked(2, 2, "b", false), held(4, 1, "b")]),
        (
            "back and forth",
            &["applied what was decided"],
            vec![worked(1, 1, "a", false), worked(2, 3, "b", false), held(3, 1, "a"), held(4, 2, "b"), held(5, 3, "a")],
        ),
        ("an undecided state", &["applied what was decided"], vec![worked(1, 1, "a", false), held(3, 1, "z")]),
        ("written more often than decided", &["applied once"], vec![worked(1, 1, "a", false), held(3, 4, "a")]),
        ("dropped by mistake", &["deleted while decided"], vec![worked(1, 1, "a", false), held(3, 1, "a"), dropped()]),
        (
            "dropped for the work before, seen a moment later",
            &[],
            vec![
                worked_by("before", 1, 1, "a", false),
                held(3, 1, "a"),
                worked_by("before", 8_900_000, 2, "a", true),
                worked(8_950_000, 3, "b", false),
                dropped(),
            ],
        ),
        (
            "dropped for the work before, over what the new one wrote",
            &["deleted while decided"],
            vec![
                worked_by("before", 1, 1, "a", false),
                held(3, 1, "a"),
                worked_by("before", 8_900_000, 2, "a", true),
                worked(8_950_000, 3, "b", false),
                held(8_980_000, 2, "b"),
                dropped(),
            ],
        ),
        (
            "a work taken by mistake",
            &["deleted while decided"],
            vec![bound(1, 1), worked(2, 2, "a", false), worked(8_000_000, 5, "a", true)],
        ),
        (
            "a work taken with its member",
            &[],
            vec![
                bound(1, 1),
                worked(2, 2, "a", false),
                Observation::Member { at: 7_000_000, revision: 4, cluster: "m1".into(), is_going: true },
                worked(8_000_000, 5, "a", true),
            ],
        ),
        (
            "a history with a gap is not checked for its order",
            &[],
            vec![Observation::Missed { at: 1, what: "compacted".into() }, worked(1, 1, "a", false), held(3, 1, "z")],
        ),
    ];
    for (name, expected, steps) in cases {
        let found = check_steps(&steps, &rest());
        let rules: Vec<&str> = found.iter().map(|violation| violation.rule).collect();
        assert_eq!(rules, expected, "{name}: {found:#?}");
    }
}
