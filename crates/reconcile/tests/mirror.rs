//! Mirrors: complete, current, indexed, and recovering from every kind of interruption.

use std::sync::Arc;
use std::time::Duration;

use cluster_client::testing::MemoryApi;
use cluster_client::{ApiRequest, ClusterClient, DeleteOptions, Patch, ResourceRef, WriteOptions};
use object::builtin;
use object::{GroupVersionKind, GroupVersionResource, Object, Status};
use reconcile::{Change, Follower, Mirror, MirrorSpec, ObjectKey, Subscription, TooOld};
use serde_json::json;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

fn pods() -> GroupVersionResource {
    builtin::pods()
}

fn pod(namespace: &str, name: &str, node: &str) -> Object {
    let mut pod = Object::new(&GroupVersionKind::new("", "v1", "Pod"), Some(namespace), name);
    pod.set(&["spec", "nodeName"], node);
    pod.set_label("app", name);
    pod
}

async fn create(client: &ClusterClient, namespace: &str, name: &str, node: &str) {
    let target = ResourceRef::within(&pods(), namespace);
    client.create(target, pod(namespace, name, node), WriteOptions::default()).await.expect("created");
}

async fn move_to(client: &ClusterClient, namespace: &str, name: &str, node: &str) {
    let patch = Patch::merge(json!({"spec": {"nodeName": node}}));
    let target = ResourceRef::namespaced(&pods(), namespace, name);
    client.patch(target, patch, WriteOptions::default()).await.expect("patched");
}

async fn delete(client: &ClusterClient, namespace: &str, name: &str) {
    let target = ResourceRef::namespaced(&pods(), namespace, name);
    client.delete(target, DeleteOptions::default()).await.expect("deleted");
}

fn by_node(object: &Object) -> Vec<String> {
    vec![object.str_at(&["spec", "nodeName"]).to_owned()]
}

async fn start(api: &MemoryApi, spec: MirrorSpec) -> (Mirror, CancellationToken) {
    let cancel = CancellationToken::new();
    let mirror = Mirror::start(api.client(), spec, cancel.clone());
    timeout(Duration::from_secs(300), mirror.synced()).await.expect("complete in time");
    (mirror, cancel)
}

fn names(objects: Vec<Arc<Object>>) -> Vec<String> {
    objects.iter().map(|object| ObjectKey::of(object).to_string()).collect()
}

async fn next(changes: &mut Subscription) -> String {
    let change = timeout(Duration::from_secs(300), changes.next()).await.expect("a change in time");
    let Change { key, before, now, is_initial } = change.expect("the mirror continues");
    let node = |object: Option<Arc<Object>>| object.map_or("-".into(), |o| o.str_at(&["spec", "nodeName"]).to_owned());
    format!("{key} {}>{}{}", node(before), node(now), if is_initial { " initial" } else { "" })
}

#[tokio::test(start_paused = true)]
async fn a_mirror_copies_the_api_and_is_indexed() {
    let api = MemoryApi::default();
    let client = api.client();
    create(&client, "a", "x", "n1").await;
    let (mirror, _cancel) = start(&api, MirrorSpec::new(&pods())).await;
    let nodes = mirror.index(by_node);
    let mut changes = mirror.subscribe();
    assert_eq!(next(&mut changes).await, "a/x ->n1 initial");
    create(&client, "a", "y", "n1").await;
    assert_eq!(next(&mut changes).await, "a/y ->n1");
    create(&client, "b", "z", "n2").await;
    assert_eq!(next(&mut changes).await, "b/z ->n2");
    assert_eq!(names(mirror.list()), ["a/x", "a/y", "b/z"]);
    assert_eq!(names(mirror.list_within("a")), ["a/x", "a/y"]);
    assert_eq!(names(nodes.list("n1")), ["a/x", "a/y"]);
    move_to(&client, "a", "x", "n2").await;
    assert_eq!(next(&mut changes).await, "a/x n1>n2");
    assert_eq!(names(nodes.list("n1")), ["a/y"]);
    assert_eq!(names(nodes.list("n2")), ["a/x", "b/z"]);
    delete(&client, "a", "x").await;
    assert_eq!(next(&mut changes).await, "a/x n2>-");
    assert_eq!(mirror.get(&ObjectKey::new("a", "x")), None);
    assert_eq!(names(nodes.list("n2")), ["b/z"]);
    // One streaming list was enough.
    assert_eq!((mirror.relists(), api.watches().len()), (1, 1));
    assert!(!api.calls().iter().any(|call| call.starts_with("list")));
}

#[tokio::test(start_paused = true)]
async fn a_mirror_can_be_limited_by_selectors() {
    let api = MemoryApi::default();
    for (namespace, name) in [("a", "x"), ("a", "y"), ("b", "x")] {
        create(&api.client(), namespace, name, "n").await;
    }
    let (mirror, _cancel) = start(&api, MirrorSpec::new(&pods()).within("a").labels("app=x")).await;
    assert_eq!(names(mirror.list()), ["a/x"]);
}

#[tokio::test(start_paused = true)]
async fn a_mirror_trims_listed_and_watched_objects() {
    for streams in [true, false] {
        let api = MemoryApi::default();
        if !streams {
            api.refuse_streaming_lists();
        }
        let client = api.client();
        create(&client, "a", "old", "n1").await;
        let spec = MirrorSpec::new(&pods()).trim(|pod| drop(pod.remove(&["spec"])));
        let (mirror, _cancel) = start(&api, spec).await;
        let mut changes = mirror.subscribe();
        next(&mut changes).await;
        create(&client, "a", "new", "n1").await;
        next(&mut changes).await;
        let kept = mirror.list();
        assert_eq!(kept.len(), 2);
        assert!(kept.iter().all(|pod| pod.get(&["spec"]).is_none() && !pod.resource_version().is_empty()));
        let stored = client.get(mirror.target(&ObjectKey::new("a", "new"))).await.expect("there");
        assert!(stored.get(&["spec"]).is_some(), "the API's object was not modified");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_is_shared_with_the_api_not_copied() {
    let api = MemoryApi::default();
    let stored = api.seed(&pods(), pod("a", "x", "n"));
    let (mirror, _cancel) = start(&api, MirrorSpec::new(&pods())).await;
    assert!(Arc::ptr_eq(&stored, &mirror.get(&ObjectKey::new("a", "x")).expect("mirrored")));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_resumes_from_its_version() {
    let api = MemoryApi::default();
    let (mirror, _cancel) = start(&api, MirrorSpec::new(&pods())).await;
    let mut changes = mirror.subscribe();
    for round in 0..3 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        api.cut_watches();
        create(&api.client(), "a", &format!("p{round}"), "n").await;
        assert_eq!(next(&mut changes).await, format!("a/p{round} ->n"));
    }
    assert_eq!(mirror.relists(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_lists_again_and_delivers_missed_changes() {
    let api = MemoryApi::default();
    let client = api.client();
    for name in ["gone", "kept", "moved"] {
        create(&client, "a", name, "n1").await;
    }
    let (mirror, _cancel) = start(&api, MirrorSpec::new(&pods())).await;
    let mut changes = mirror.subscribe();
    for _ in 0..3 {
        next(&mut changes).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    // All between two polls of the watch.
    api.cut_watches();
    delete(&client, "a", "gone").await;
    move_to(&client, "a", "moved", "n2").await;
    create(&client, "a", "new", "n3").await;
    api.compact();
    let mut changes_seen = [next(&mut changes).await, next(&mut changes).await, next(&mut changes).await];
    changes_seen.sort();
    assert_eq!(changes_seen, ["a/gone n1>-", "a/moved n1>n2", "a/new ->n3"]);
    assert_eq!(names(mirror.list()), ["a/kept", "a/moved", "a/new"]);
    assert!(timeout(Duration::from_secs(60), changes.next()).await.is_err(), "unchanged objects are not delivered");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_lists_is_listed_page_by_page() {
    let api = MemoryApi::default();
    api.refuse_streaming_lists();
    for index in 0..1200 {
        api.seed(&pods(), pod("a", &format!("p{index:04}"), "n"));
    }
    let (mirror, _cancel) = start(&api, MirrorSpec::new(&pods())).await;
    assert_eq!(mirror.len(), 1200);
    assert_eq!(api.calls().iter().filter(|call| call.starts_with("list")).count(), 3);
    create(&api.client(), "a", "later", "n").await;
    let mut changes = mirror.subscribe();
    while next(&mut changes).await != "a/later ->n" {}
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_api_is_retried_and_its_copy_kept() {
    let api = MemoryApi::default();
    api.refuse_streaming_lists();
    api.seed(&pods(), pod("a", "x", "n"));
    let (mirror, _cancel) = start(&api, MirrorSpec::new(&pods())).await;
    api.set_fault(|call| matches!(call.request, ApiRequest::List(_)).then(|| Status::unavailable("away")));
    api.seed(&pods(), pod("a", "y", "n"));
    tokio::time::sleep(Duration::from_secs(2)).await;
    api.cut_watches();
    api.seed(&pods(), pod("a", "z", "n"));
    api.compact();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(names(mirror.list()), ["a/x", "a/y"], "known objects stay");
    assert_eq!(mirror.error().as_deref(), Some("away"));
    let tries = api.calls().len();
    assert!((4..=20).contains(&tries), "{tries} tries in two minutes");
    api.clear_fault();
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(names(mirror.list()), ["a/x", "a/y", "a/z"]);
    assert_eq!(mirror.error(), None);
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_gets_one_change_for_many_updates() {
    let api = MemoryApi::default();
    let client = api.client();
    create(&client, "a", "x", "n0").await;
    let (mirror, cancel) = start(&api, MirrorSpec::new(&pods())).await;
    let mut changes = mirror.subscribe();
    next(&mut changes).await;
    for step in 1..=5 {
        move_to(&client, "a", "x", &format!("n{step}")).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(next(&mut changes).await, "a/x n0>n5");
    cancel.cancel();
    assert_eq!(changes.next().await, None);
}

/// The next changes, and the version they lead to.
async fn steps(follower: &mut Follower) -> (Vec<String>, Option<String>) {
    let progress = timeout(Duration::from_secs(300), follower.next()).await.expect("in time");
    let progress = progress.expect("remembered").expect("the mirror continues");
    let describe = |step: &reconcile::RecordedChange| {
        let node = |kept: &Option<reconcile::Kept>| {
            kept.as_ref().map_or("-".to_owned(), |kept| kept.object().str_at(&["spec", "nodeName"]).to_owned())
        };
        format!("{} {}>{}", step.key, node(&step.before), node(&step.now))
    };
    (progress.steps.iter().map(describe).collect(), progress.version)
}

async fn all_steps(follower: &mut Follower, count: usize) -> Vec<String> {
    let mut changes_seen = Vec::new();
    while changes_seen.len() < count {
        changes_seen.extend(steps(follower).await.0);
    }
    changes_seen
}

#[tokio::test(start_paused = true)]
async fn a_mirror_with_history_can_be_followed_from_any_recorded_version() {
    let api = MemoryApi::default();
    let client = api.client();
    create(&client, "a", "x", "n1").await;
    let (mirror, cancel) = start(&api, MirrorSpec::new(&pods()).packed().with_history()).await;
    let first: u64 = mirror.version().parse().expect("a number");
    let mut from_now = mirror.follow();
    move_to(&client, "a", "x", "n2").await;
    create(&client, "b", "y", "n1").await;
    assert_eq!(all_steps(&mut from_now, 2).await, ["a/x n1>n2", "b/y ->n1"]);
    let between: u64 = mirror.version().parse().expect("a number");
    delete(&client, "a", "x").await;
    let mut from_first = mirror.follow_after(first).expect("remembered");
    assert_eq!(all_steps(&mut from_first, 3).await, ["a/x n1>n2", "b/y ->n1", "a/x n2>-"]);
    let mut from_between = mirror.follow_after(between).expect("remembered");
    let (changes_seen, version) = steps(&mut from_between).await;
    assert_eq!((changes_seen, version), (vec!["a/x n2>-".to_owned()], Some(mirror.version())));
    assert_eq!(mirror.follow_after(first - 1).err(), Some(TooOld { asked: first - 1, oldest: first }));
    // Changes of other resources only advance the version.
    api.seed(&builtin::services(), pod("a", "s", "n"));
    let (changes_seen, version) = steps(&mut from_between).await;
    assert_eq!((changes_seen.len(), version), (0, Some(mirror.version())));
    let beyond = mirror.version().parse::<u64>().expect("a number") + 1;
    let mut early = mirror.follow_after(beyond).expect("it will come");
    create(&client, "a", "seen-elsewhere", "n1").await;
    create(&client, "a", "new", "n1").await;
    assert_eq!(all_steps(&mut early, 1).await, ["a/new ->n1"]);
    cancel.cancel();
    while let Some(progress) = from_now.next().await.expect("remembered") {
        assert!(!progress.steps.is_empty() || progress.version.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn followers_get_changes_found_by_a_new_list() {
    let api = MemoryApi::default();
    let client = api.client();
    create(&client, "a", "x", "n1").await;
    create(&client, "a", "y", "n1").await;
    let (mirror, _cancel) = start(&api, MirrorSpec::new(&pods()).packed().with_history()).await;
    let first: u64 = mirror.version().parse().expect("a number");
    let mut follower = mirror.follow();
    // The watch is cut during many changes, and its version expires.
    api.cut_watches();
    delete(&client, "a", "x").await;
    move_to(&client, "a", "y", "n2").await;
    create(&client, "a", "z", "n1").await;
    api.compact();
    let mut changes_seen = all_steps(&mut follower, 3).await;
    changes_seen.sort();
    assert_eq!(changes_seen, ["a/x n1>-", "a/y n1>n2", "a/z ->n1"]);
    let mut late = mirror.follow_after(first).expect("a list adds to the history");
    assert_eq!(all_steps(&mut late, 3).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_mirror_of_some_namespaces_holds_no_object_of_others() {
    for streams in [true, false] {
        let api = MemoryApi::default();
        if !streams {
            api.refuse_streaming_lists();
        }
        for namespace in ["a", "b", "c"] {
            create(&api.client(), namespace, "x", "n").await;
        }
        let wanted = ["a", "c"].map(str::to_owned).into();
        let (mirror, _cancel) = start(&api, MirrorSpec::new(&pods()).within_any(wanted).with_history()).await;
        assert_eq!(names(mirror.list()), ["a/x", "c/x"]);
        let mut follower = mirror.follow();
        create(&api.client(), "b", "y", "n").await;
        let (changes_seen, version) = steps(&mut follower).await;
        assert_eq!((changes_seen.len(), version), (0, Some(mirror.version())));
        create(&api.client(), "c", "y", "n").await;
        assert_eq!(all_steps(&mut follower, 1).await, ["c/y ->n"]);
        assert_eq!(mirror.chunk("", None, 2).len(), 2);
        let rest = mirror.chunk("c", Some(&ObjectKey::new("c", "x")), 5);
        assert_eq!(rest.iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>(), ["c/y"]);
    }
}
