//! Reads after writes while the watch lags, and mirrors that several components share.

use std::sync::Arc;
use std::time::Duration;

use cluster_client::testing::MemoryApi;
use cluster_client::{DeleteOptions, Patch, ResourceRef, WriteOptions};
use object::builtin;
use object::{GroupVersionKind, GroupVersionResource, Object};
use reconcile::{Index, Mirror, MirrorSpec, Mirrors, ObjectKey};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

fn pods() -> GroupVersionResource {
    builtin::pods()
}

/// A mirror of pods whose watch delivers nothing until `release`.
struct Lagging {
    api: MemoryApi,
    mirror: Mirror,
    by_node: Index<String>,
    _cancel: CancellationToken,
}

impl Lagging {
    async fn start(spec: MirrorSpec) -> Self {
        let (api, cancel) = (MemoryApi::default(), CancellationToken::new());
        let mirror = Mirror::start(api.client(), spec, cancel.clone());
        timeout(Duration::from_secs(60), mirror.synced()).await.expect("complete in time");
        api.hold_watches(Some("pods"));
        let by_node = mirror.index(|pod| vec![pod.str_at(&["spec", "nodeName"]).to_owned()]);
        Self { api, mirror, by_node, _cancel: cancel }
    }

    async fn create(&self, name: &str, node: &str, finalizer: Option<&str>) -> Arc<Object> {
        let mut pod = Object::new(&GroupVersionKind::new("", "v1", "Pod"), Some("a"), name);
        pod.set(&["spec", "nodeName"], node);
        pod.set_label("app", name);
        if let Some(finalizer) = finalizer {
            pod.add_finalizer(finalizer);
        }
        let target = ResourceRef::within(&pods(), "a");
        let created = self.api.client().create(target, pod, WriteOptions::default()).await.expect("created");
        self.mirror.note(&created);
        created
    }

    async fn patch(&self, name: &str, patch: Value) -> Arc<Object> {
        let target = ResourceRef::namespaced(&pods(), "a", name);
        let patched = self.api.client().patch(target, Patch::merge(patch), WriteOptions::default()).await;
        let patched = patched.expect("patched");
        self.mirror.note(&patched);
        patched
    }

    async fn delete(&self, pod: &Object) {
        let target = ResourceRef::of(&pods(), pod);
        let answer = self.api.client().delete(target, DeleteOptions::default()).await.expect("deleted");
        self.mirror.note_deleted(pod, &answer);
    }

    /// Pods by node as readers see them.
    #[track_caller]
    fn check(&self, node: &str, expected: &[&str]) {
        let names = |objects: Vec<Arc<Object>>| -> Vec<String> {
            let on_node = objects.into_iter().filter(|pod| pod.str_at(&["spec", "nodeName"]) == node);
            on_node.map(|pod| pod.name().to_owned()).collect()
        };
        assert_eq!(names(self.by_node.list(node)), expected, "index");
        assert_eq!(names(self.mirror.list()), expected, "list");
        let keys: Vec<String> = self.by_node.keys(node).into_iter().map(|key| key.name).collect();
        assert_eq!(keys, expected, "keys");
        assert!(expected.iter().all(|name| self.mirror.get(&ObjectKey::new("a", name)).is_some()), "get");
    }

    /// The watch delivers everything: own writes are no longer needed.
    async fn release(&self) {
        self.api.hold_watches(None);
        let caught_up = async {
            while self.mirror.own_writes() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(60), caught_up).await.expect("the watch catches up");
    }
}

#[tokio::test(start_paused = true)]
async fn writes_are_visible_before_the_watch_shows_them() {
    for spec in [MirrorSpec::new(&pods()), MirrorSpec::new(&pods()).packed()] {
        let test = Lagging::start(spec).await;
        let x = test.create("x", "n1", None).await;
        test.create("y", "n1", None).await;
        test.check("n1", &["x", "y"]);
        test.patch("y", json!({"spec": {"nodeName": "n2"}})).await;
        test.check("n1", &["x"]);
        test.check("n2", &["y"]);
        test.delete(&x).await;
        test.check("n1", &[]);
        assert_eq!(test.mirror.own_writes(), 2, "one for each object");
        test.release().await;
        test.check("n1", &[]);
        test.check("n2", &["y"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_waits_for_finalizers() {
    let test = Lagging::start(MirrorSpec::new(&pods())).await;
    let pod = test.create("x", "n1", Some("a.example/keep")).await;
    test.delete(&pod).await;
    let shown = test.mirror.get(&ObjectKey::new("a", "x")).expect("still there");
    assert!(shown.is_deleting());
    test.patch("x", json!({"metadata": {"finalizers": null}})).await;
    test.check("n1", &[]);
    test.release().await;
    test.check("n1", &[]);
}

#[tokio::test(start_paused = true)]
async fn a_name_is_used_again_while_the_watch_lags() {
    let test = Lagging::start(MirrorSpec::new(&pods())).await;
    let first = test.create("x", "n1", None).await;
    test.delete(&first).await;
    let second = test.create("x", "n1", None).await;
    test.mirror.note_gone(&first);
    test.mirror.note(&first);
    assert_eq!(test.mirror.get(&ObjectKey::new("a", "x")).expect("there").uid(), second.uid());
    test.release().await;
    assert_eq!(test.mirror.get(&ObjectKey::new("a", "x")).expect("there").uid(), second.uid());
}

#[tokio::test(start_paused = true)]
async fn a_write_that_leaves_the_selection_hides_the_object() {
    let spec = MirrorSpec::new(&pods()).within("a").labels("app!=hidden").fields("spec.nodeName!=n3");
    let test = Lagging::start(spec.trim(|pod| drop(pod.remove(&["status"])))).await;
    test.create("x", "n1", None).await;
    test.create("y", "n1", None).await;
    test.create("z", "n3", None).await;
    test.check("n3", &[]);
    test.patch("x", json!({"metadata": {"labels": {"app": "hidden"}}})).await;
    test.patch("y", json!({"status": {"phase": "Running"}})).await;
    test.check("n1", &["y"]);
    assert!(test.mirror.get(&ObjectKey::new("a", "y")).expect("there").get(&["status"]).is_none(), "trimmed");
    test.release().await;
    test.check("n1", &["y"]);
}

#[tokio::test(start_paused = true)]
async fn one_mirror_serves_all_components_of_a_factory() {
    let (api, cancel) = (MemoryApi::default(), CancellationToken::new());
    let factory = Mirrors::new(api.client(), cancel.clone());
    let nodes = factory.of(&builtin::nodes());
    let (one, other) = (factory.of(&pods()), factory.clone().of(&pods()));
    factory.get(MirrorSpec::new(&pods()).within("a"));
    assert_eq!(factory.resources(), ["nodes", "pods", "pods"], "another scope is another mirror");
    let term = CancellationToken::new();
    let inner = factory.within(api.client(), term.clone());
    inner.of(&builtin::nodes());
    inner.of(&builtin::services());
    assert_eq!(inner.resources(), ["services"], "nodes are mirrored by the outer factory");
    for mirror in [&one, &other, &nodes] {
        timeout(Duration::from_secs(60), mirror.synced()).await.expect("complete in time");
    }
    api.hold_watches(Some("pods"));
    let mut pod = Object::new(&GroupVersionKind::new("", "v1", "Pod"), Some("a"), "x");
    pod.set(&["spec", "nodeName"], "n1");
    let created = api.client().create(ResourceRef::within(&pods(), "a"), pod, WriteOptions::default()).await;
    one.note(&created.expect("created"));
    assert!(other.get(&ObjectKey::new("a", "x")).is_some(), "a write of one component is visible to the others");
    term.cancel();
    let mut changes = nodes.subscribe();
    assert!(timeout(Duration::from_secs(1), changes.next()).await.is_err(), "the outer mirror runs on");
}
