//! The whole crate over in-memory APIs: registries and members come and go, clients read, page and watch.

use std::collections::BTreeMap;

use cluster_client::testing::MemoryApi;
use cluster_client::{ClusterClient, DeleteOptions, ResourceRef};
use object::builtin;
use object::selector::{FieldSelector, LabelSelector};
use object::{GroupVersionResource, Object};
use reconcile::ObjectKey;
use serde_json::json;
use tokio::time::timeout;

use super::*;

const LIMIT: Duration = Duration::from_secs(600);

fn pods() -> GroupVersionResource {
    builtin::pods()
}

fn pod(namespace: &str, name: &str, app: &str) -> Object {
    Object::from_value(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name,
        "labels": {"app": app}, "managedFields": [{"manager": "x"}]}, "spec": {"nodeName": "n"}}))
    .expect("a map")
}

fn cluster(name: &str, ready: &str) -> Object {
    Object::from_value(
        json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
        "spec": {"syncMode": "Push"}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}),
    )
    .expect("a map")
}

fn registry(name: &str, namespace: &str) -> Object {
    Object::from_value(json!({"apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry",
        "metadata": {"name": name}, "spec": {"targetCluster": {},
        "resourceSelectors": [{"apiVersion": "v1", "kind": "Pod", "namespace": namespace}]}}))
    .expect("a map")
}

struct World {
    plane: MemoryApi,
    members: BTreeMap<&'static str, MemoryApi>,
    search: Search,
    cancel: CancellationToken,
}

struct Doors(BTreeMap<&'static str, MemoryApi>);

impl MemberClients for Doors {
    fn client(&self, cluster: &str) -> Result<ClusterClient, Status> {
        self.0.get(cluster).map(MemoryApi::client).ok_or_else(|| Status::unavailable("no such member"))
    }
}

impl World {
    /// Members `a` and `b` are ready, `c` is not; each already has a different number of versions.
    async fn start() -> Self {
        let members = BTreeMap::from(["a", "b", "c"].map(|name| (name, MemoryApi::default())));
        for (count, member) in members.values().enumerate() {
            for _ in 0..=count * 10 {
                member.seed(&builtin::config_maps(), pod("x", "counts", ""));
            }
        }
        let plane = MemoryApi::default();
        // The in-memory API serves the kinds it has seen.
        plane.seed(&pods(), pod("plane", "own", "own"));
        for (name, ready) in [("a", "True"), ("b", "True"), ("c", "False")] {
            plane.seed(&CLUSTERS.gvr(), cluster(name, ready));
        }
        let cancel = CancellationToken::new();
        let mirrors = Mirrors::new(plane.client(), cancel.clone());
        let parts = SearchDeps { mirrors, members: Arc::new(Doors(members.clone())), addresses: Default::default() };
        let world = Self { plane, members, search: Search::new(parts), cancel };
        tokio::spawn(world.search.clone().run(world.cancel.clone()));
        world.search.ready().await.expect("ready");
        world
    }

    async fn with_registry() -> Self {
        let world = Self::start().await;
        world.plane.seed(&RESOURCE_REGISTRIES.gvr(), registry("r", ""));
        world.keeps(&["a", "b"]).await;
        world
    }

    /// Waits until the pods of these members are cached.
    async fn keeps(&self, clusters: &[&str]) {
        let mut view = self.search.subscribe();
        let is_so =
            |view: &Arc<View>| view.of(&pods()).map(|cache| cache.cluster.as_str()).eq(clusters.iter().copied());
        timeout(LIMIT, view.wait_for(is_so)).await.expect("in time").expect("goes on");
    }

    fn seed(&self, member: &str, namespace: &str, name: &str, app: &str) {
        self.members[member].seed(&pods(), pod(namespace, name, app));
    }

    async fn delete(&self, member: &str, namespace: &str, name: &str) {
        let target = ResourceRef::namespaced(&pods(), namespace, name);
        self.members[member].client().delete(target, DeleteOptions::default()).await.expect("deleted");
    }

    async fn list(&self, request: ListRequest) -> Listed {
        self.search.list(&pods(), &request).await.expect("listed")
    }

    /// Waits until all expected objects are listed, and returns the list.
    async fn settled(&self, expected: &[&str]) -> Listed {
        let all = async {
            loop {
                let listed = self.list(all()).await;
                if names(&listed) == expected {
                    return listed;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(LIMIT, all).await.expect("in time")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

fn all() -> ListRequest {
    let filter = Filter::everything("");
    let scope = ReadScope::Everything;
    ListRequest { filter, scope, limit: 0, continue_token: String::new(), version: String::new(), is_exact: false }
}

fn named(object: &Object) -> String {
    let cluster = object.annotation(api::search::ANNOTATION_CACHED_FROM).unwrap_or("?");
    format!("{cluster}:{}", ObjectKey::of(object))
}

fn names(listed: &Listed) -> Vec<String> {
    listed.items.iter().map(|item| named(&Object::decode(item).expect("JSON"))).collect()
}

fn from(version: &str) -> WatchRequest {
    let filter = Filter::everything("");
    let scope = ReadScope::Everything;
    WatchRequest { filter, scope, version: version.to_owned(), bookmarks: false, initial_events: None, duration: None }
}

fn describe(event: &SearchEvent) -> String {
    match event {
        SearchEvent::Added(object) => format!("+{}", named(object)),
        SearchEvent::Modified(object) => format!("~{}", named(object)),
        SearchEvent::Deleted(object) => format!("-{}", named(object)),
        SearchEvent::Bookmark { initial_events_end, .. } => {
            format!("@{}", if *initial_events_end { "end" } else { "" })
        }
        SearchEvent::Error(status) => format!("E{}", status.code),
    }
}

/// The next `count` events; fewer if the watch ends.
async fn events_of(watch: &mut Watch, count: usize) -> Vec<String> {
    let mut said = Vec::new();
    while said.len() < count {
        match timeout(LIMIT, watch.next()).await.expect("in time") {
            Some(events) => said.extend(events.iter().map(describe)),
            None => {
                said.push("over".to_owned());
                break;
            }
        }
    }
    said
}

#[tokio::test(start_paused = true)]
async fn lists_show_all_members_in_order_and_in_pages() {
    let world = World::with_registry().await;
    for (member, namespace, name) in
        [("b", "x", "p3"), ("b", "y", "p4"), ("a", "y", "p2"), ("a", "x", "p1"), ("c", "x", "unready")]
    {
        world.seed(member, namespace, name, "web");
    }
    let everything = ["a:x/p1", "a:y/p2", "b:x/p3", "b:y/p4"];
    let listed = world.settled(&everything).await;
    assert!(listed.is_cached && listed.continue_token.is_empty() && listed.unread.is_empty());
    let first = Object::decode(&listed.items[0]).expect("JSON");
    assert_eq!((first.api_version(), first.kind()), ("v1", "Pod"));
    assert!(first.get(&["metadata", "managedFields"]).is_none());
    for limit in 1..6 {
        let mut pages = Vec::new();
        let mut request = ListRequest { limit, ..all() };
        loop {
            let page = world.list(request.clone()).await;
            assert!(page.items.len() <= limit);
            assert_eq!(page.version, listed.version, "nothing has changed since");
            pages.extend(names(&page));
            if page.continue_token.is_empty() {
                break;
            }
            request.continue_token = page.continue_token;
        }
        assert_eq!(pages, everything, "{limit} at a time");
    }
    let within = ListRequest { filter: Filter::everything("y"), ..all() };
    assert_eq!(names(&world.list(within).await), ["a:y/p2", "b:y/p4"]);
}

#[tokio::test(start_paused = true)]
async fn changes_between_two_pages_are_seen_by_a_watch_from_the_list() {
    let world = World::with_registry().await;
    world.seed("a", "x", "p1", "web");
    world.seed("a", "x", "p2", "web");
    world.settled(&["a:x/p1", "a:x/p2"]).await;
    let first = world.list(ListRequest { limit: 1, ..all() }).await;
    world.seed("a", "x", "p0", "web");
    world.seed("b", "x", "late", "web");
    world.settled(&["a:x/p0", "a:x/p1", "a:x/p2", "b:x/late"]).await;
    let rest = ListRequest { continue_token: first.continue_token, ..all() };
    let rest = world.list(rest).await;
    assert_eq!(names(&rest), ["a:x/p2", "b:x/late"]);
    let mut watch = world.search.watch(&pods(), from(&rest.version)).await;
    let mut said = events_of(&mut watch, 2).await;
    said.sort();
    assert_eq!(said, ["+a:x/p0", "+b:x/late"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_is_read_from_the_one_member_that_has_it() {
    let world = World::with_registry().await;
    for (member, name) in [("a", "mine"), ("a", "shared"), ("b", "shared")] {
        world.seed(member, "x", name, "web");
    }
    world.settled(&["a:x/mine", "a:x/shared", "b:x/shared"]).await;
    let get = |name: &'static str, version: Option<&'static str>| {
        let search = world.search.clone();
        async move { search.get(&pods(), &ObjectKey::new("x", name), version, &ReadScope::Everything).await }
    };
    for version in [None, Some("0")] {
        let mine = get("mine", version).await.expect("found");
        let own = world.members["a"].client().get(ResourceRef::namespaced(&pods(), "x", "mine")).await.expect("there");
        assert_eq!(named(&mine), "a:x/mine");
        assert_eq!(mine.resource_version(), version::Versions::one("a", own.resource_version()).to_string());
    }
    let missing = get("missing", None).await.expect_err("no member has it");
    assert_eq!((missing.code, missing.message.as_str()), (404, "pods \"missing\" not found"));
    let both = get("shared", None).await.expect_err("two have it");
    assert_eq!(both.code, 409);
    assert!(both.message.ends_with("ambiguous objects in clusters [a, b]"), "{}", both.message);
    let owner = world.search.owner(&pods(), &ObjectKey::new("x", "mine"), &ReadScope::Everything).await;
    assert_eq!(owner.as_deref(), Ok("a"));
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_member_blocks_no_list_and_prevents_writes() {
    let world = World::start().await;
    let broken = &world.members["b"];
    broken.refuse_streaming_lists();
    broken.set_fault(|_| Some(Status::unavailable("no server")));
    world.seed("a", "x", "p1", "web");
    world.plane.seed(&RESOURCE_REGISTRIES.gvr(), registry("r", ""));
    world.keeps(&["a", "b"]).await;
    let listed = world.list(all()).await;
    assert_eq!(names(&listed), ["a:x/p1"]);
    assert_eq!(listed.unread, ["cluster b: no server"]);
    let start = Instant::now();
    world.list(all()).await;
    assert!(start.elapsed() < Duration::from_millis(1), "only new caches are waited for");
    let all = ReadScope::Everything;
    let (here, missing) = (ObjectKey::new("x", "p1"), ObjectKey::new("x", "missing"));
    assert!(world.search.get(&pods(), &here, None, &all).await.is_ok());
    assert_eq!(world.search.get(&pods(), &missing, None, &all).await.map_err(|status| status.code), Err(503));
    assert_eq!(world.search.owner(&pods(), &here, &all).await.map_err(|status| status.code), Err(503));
    // A watch from the list delivers the member's objects once it can be read.
    let mut watch = world.search.watch(&pods(), from(&listed.version)).await;
    world.seed("b", "x", "p2", "web");
    world.members["b"].clear_fault();
    assert_eq!(events_of(&mut watch, 1).await, ["+b:x/p2"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_continues_from_a_list_and_applies_its_selectors() {
    let world = World::with_registry().await;
    world.seed("a", "x", "p1", "web");
    let listed = world.settled(&["a:x/p1"]).await;
    let mut watch = world.search.watch(&pods(), from(&listed.version)).await;
    let labels = LabelSelector::parse("app=web").expect("a selector");
    let selected = Filter { labels, ..Filter::everything("x") };
    let mut of_web = world.search.watch(&pods(), WatchRequest { filter: selected, ..from(&listed.version) }).await;
    world.seed("b", "x", "p2", "web");
    assert_eq!(events_of(&mut watch, 1).await, ["+b:x/p2"]);
    world.seed("a", "x", "p1", "other");
    assert_eq!(events_of(&mut watch, 1).await, ["~a:x/p1"]);
    world.delete("b", "x", "p2").await;
    assert_eq!(events_of(&mut watch, 1).await, ["-b:x/p2"]);
    world.seed("a", "y", "p3", "web");
    assert_eq!(events_of(&mut watch, 1).await, ["+a:y/p3"]);
    let mut of_web = events_of(&mut of_web, 3).await;
    // The order between members is undefined.
    of_web.sort();
    assert_eq!(of_web, ["+b:x/p2", "-a:x/p1", "-b:x/p2"]);
    let field = Filter { fields: FieldSelector::parse("metadata.name=p3").expect("one"), ..Filter::everything("") };
    let mut of_p3 = world.search.watch(&pods(), WatchRequest { filter: field, ..from("") }).await;
    assert_eq!(events_of(&mut of_p3, 1).await, ["+a:y/p3"]);
}

/// A client can resume from every version a watch delivers, without missing or repeating anything.
#[tokio::test(start_paused = true)]
async fn a_watch_can_resume_from_any_of_its_events() {
    let world = World::with_registry().await;
    let listed = world.settled(&[]).await;
    let mut watch = world.search.watch(&pods(), from(&listed.version)).await;
    let mut versions = vec![listed.version.clone()];
    let steps = [("a", "p1"), ("b", "p2"), ("a", "p3"), ("b", "p2")];
    let mut expected = Vec::new();
    for (member, name) in steps {
        world.seed(member, "x", name, &format!("app{}", expected.len()));
        let events = timeout(LIMIT, watch.next()).await.expect("in time").expect("goes on");
        let [SearchEvent::Added(object) | SearchEvent::Modified(object)] = &events[..] else { panic!("{events:?}") };
        versions.push(object.resource_version().to_owned());
        expected.extend(events.iter().map(describe));
    }
    for (index, version) in versions.iter().enumerate() {
        let mut again = world.search.watch(&pods(), from(version)).await;
        let mut said = events_of(&mut again, expected.len() - index).await;
        let mut rest = expected[index..].to_vec();
        // The order between members is undefined.
        said.sort();
        rest.sort();
        assert_eq!(said, rest, "after {index} events");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_when_members_change_and_is_rejected_when_too_old() {
    let world = World::with_registry().await;
    let listed = world.settled(&[]).await;
    let mut watch = world.search.watch(&pods(), from(&listed.version)).await;
    world.plane.seed(&CLUSTERS.gvr(), cluster("c", "True"));
    assert_eq!(events_of(&mut watch, 1).await, ["over"]);
    world.keeps(&["a", "b", "c"]).await;
    let mut watch = world.search.watch(&pods(), from("")).await;
    world.plane.seed(&CLUSTERS.gvr(), cluster("a", "Unknown"));
    assert_eq!(events_of(&mut watch, 1).await, ["over"]);
    world.keeps(&["b", "c"]).await;
    let old = version::Versions::one("b", "1").to_string();
    let mut watch = world.search.watch(&pods(), from(&old)).await;
    assert_eq!(events_of(&mut watch, 2).await, ["E410", "over"]);
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_marks_its_end_and_bookmarks_advance() {
    let world = World::with_registry().await;
    world.seed("a", "x", "p1", "web");
    world.seed("b", "x", "p2", "web");
    let listed = world.settled(&["a:x/p1", "b:x/p2"]).await;
    let request = WatchRequest { bookmarks: true, initial_events: Some(true), ..from("") };
    let mut watch = world.search.watch(&pods(), request).await;
    let mut said = events_of(&mut watch, 3).await;
    assert_eq!(said.pop().as_deref(), Some("@end"));
    said.sort();
    assert_eq!(said, ["+a:x/p1", "+b:x/p2"]);
    // A change outside the watch only advances its bookmark.
    world.members["a"].seed(&builtin::config_maps(), pod("x", "counts", "more"));
    let bookmark = timeout(LIMIT, watch.next()).await.expect("in time").expect("goes on");
    let [SearchEvent::Bookmark { version, initial_events_end: false }] = &bookmark[..] else { panic!("{bookmark:?}") };
    let (now, before) = (version::Versions::parse(version), version::Versions::parse(&listed.version));
    let number = |versions: &version::Versions| versions.get("a").parse::<u64>().expect("a number");
    assert!(number(&now) > number(&before));
    assert_eq!(now.get("b"), before.get("b"));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_cached_without_registries() {
    let world = World::start().await;
    assert!(world.search.registered(&pods()).is_none());
    assert!(world.members.values().all(|member| member.watches().is_empty()));
    world.plane.seed(&RESOURCE_REGISTRIES.gvr(), registry("r", ""));
    world.keeps(&["a", "b"]).await;
    assert!(world.search.registered(&pods()).is_some());
    let caches: Vec<Arc<cache::Cache>> = world.search.view().of(&pods()).cloned().collect();
    let target = ResourceRef::cluster(&RESOURCE_REGISTRIES.gvr(), "r");
    world.plane.client().delete(target, DeleteOptions::default()).await.expect("deleted");
    world.keeps(&[]).await;
    assert!(world.search.registered(&pods()).is_none());
    assert!(caches.iter().all(|cache| cache.stop.is_cancelled()));
    assert!(world.members["c"].watches().is_empty(), "a member that is not ready is not cached");
}

#[tokio::test(start_paused = true)]
async fn only_namespaces_of_a_registry_are_cached() {
    let world = World::start().await;
    for (namespace, name) in [("x", "p1"), ("y", "p2"), ("z", "p3")] {
        world.seed("a", namespace, name, "web");
    }
    world.plane.seed(&RESOURCE_REGISTRIES.gvr(), registry("only-x", "x"));
    world.keeps(&["a", "b"]).await;
    world.settled(&["a:x/p1"]).await;
    assert_eq!(world.members["a"].watches()[0].namespace.as_deref(), Some("x"));
    world.plane.seed(&RESOURCE_REGISTRIES.gvr(), registry("also-y", "y"));
    world.settled(&["a:x/p1", "a:y/p2"]).await;
    world.seed("a", "z", "p4", "web");
    world.seed("a", "y", "p5", "web");
    world.settled(&["a:x/p1", "a:y/p2", "a:y/p5"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_never_goes_back_in_time_and_its_wait_is_bounded() {
    let world = World::with_registry().await;
    world.seed("a", "x", "p1", "web");
    let listed = world.settled(&["a:x/p1"]).await;
    let again = ListRequest { version: listed.version.clone(), ..all() };
    assert_eq!(names(&world.list(again.clone()).await), ["a:x/p1"]);
    assert_eq!(names(&world.list(ListRequest { is_exact: true, ..again.clone() }).await), ["a:x/p1"]);
    world.seed("a", "x", "p2", "web");
    world.settled(&["a:x/p1", "a:x/p2"]).await;
    let gone = world.search.list(&pods(), &ListRequest { is_exact: true, ..again }).await;
    assert_eq!(gone.map(|_| ()).map_err(|status| status.code), Err(410));
    let future = version::Versions::one("a", "4000000").to_string();
    let late = world.search.list(&pods(), &ListRequest { version: future, ..all() }).await;
    assert_eq!(late.map(|_| ()).map_err(|status| status.code), Err(504));
    let token = version::ContinueToken { versions: Default::default(), cluster: "c".into(), after: None }.to_string();
    let gone = world.search.list(&pods(), &ListRequest { continue_token: token, ..all() }).await;
    assert_eq!(gone.map(|_| ()).map_err(|status| status.code), Err(410));
}

#[tokio::test(start_paused = true)]
async fn searching_finds_objects_by_path_and_labels() {
    let world = World::with_registry().await;
    world.seed("a", "x", "p1", "web");
    world.seed("b", "x", "p1", "other");
    world.seed("b", "y", "p2", "web");
    world.settled(&["a:x/p1", "b:x/p1", "b:y/p2"]).await;
    let cases = [
        ("", "", "", vec!["a:x/p1", "b:x/p1", "b:y/p2"]),
        ("x", "", "", vec!["a:x/p1", "b:x/p1"]),
        ("x", "p1", "", vec!["a:x/p1", "b:x/p1"]),
        ("y", "p1", "", vec![]),
        ("", "", "app=web", vec!["a:x/p1", "b:y/p2"]),
    ];
    for (namespace, name, labels, expected) in cases {
        let labels = LabelSelector::parse(labels).expect("a selector");
        let filter = Filter { labels, ..Filter::everything(namespace) };
        let (items, _) = world.search.find(&pods(), name, filter, ReadScope::Everything).await;
        assert_eq!(names(&Listed { items, ..Listed::default() }), expected, "{namespace}/{name}");
    }
    let everything = Filter::everything("");
    let (unknown, _) = world.search.find(&builtin::services(), "", everything, ReadScope::Everything).await;
    assert!(unknown.is_empty());
}

/// All of member `a`, and namespace `x` of member `b`; `z` was denied there.
fn limited() -> ReadScope {
    let of_b = MemberScope::Namespaces { allowed: ["x".to_owned()].into(), denied: ["z".to_owned()].into() };
    let members = BTreeMap::from([("a".to_owned(), MemberScope::All), ("b".to_owned(), of_b)]);
    ReadScope::Limited(LimitedScope { members, undecided: BTreeMap::new() })
}

fn only(cluster: &str) -> ReadScope {
    let members = BTreeMap::from([(cluster.to_owned(), MemberScope::All)]);
    ReadScope::Limited(LimitedScope { members, undecided: BTreeMap::new() })
}

#[tokio::test(start_paused = true)]
async fn a_scope_hides_members_and_namespaces_from_lists_and_gets() {
    let world = World::with_registry().await;
    for (member, namespace, name) in [("a", "x", "p1"), ("a", "z", "p2"), ("b", "x", "p3"), ("b", "z", "p2")] {
        world.seed(member, namespace, name, "web");
    }
    world.settled(&["a:x/p1", "a:z/p2", "b:x/p3", "b:z/p2"]).await;
    for limit in 0..4 {
        let mut pages = Vec::new();
        let mut request = ListRequest { limit, scope: limited(), ..all() };
        loop {
            let page = world.list(request.clone()).await;
            pages.extend(names(&page));
            if page.continue_token.is_empty() {
                break;
            }
            request.continue_token = page.continue_token;
        }
        assert_eq!(pages, ["a:x/p1", "a:z/p2", "b:x/p3"], "{limit} at a time");
    }
    let of_a = world.list(ListRequest { scope: only("a"), ..all() }).await;
    assert_eq!(names(&of_a), ["a:x/p1", "a:z/p2"]);
    let versions = version::read(&of_a.version).expect("a version of members");
    assert_eq!(versions.keys().collect::<Vec<_>>(), ["a"], "the version does not name hidden members");
    let (found, _) = world.search.find(&pods(), "", Filter::everything(""), limited()).await;
    assert_eq!(names(&Listed { items: found, ..Listed::default() }), ["a:x/p1", "a:z/p2", "b:x/p3"]);
    let (found, _) = world.search.find(&pods(), "p2", Filter::everything("z"), limited()).await;
    assert_eq!(names(&Listed { items: found, ..Listed::default() }), ["a:z/p2"]);
    // Two members have it; the caller sees one.
    let shared = ObjectKey::new("z", "p2");
    let got = world.search.get(&pods(), &shared, None, &limited()).await.expect("the one of member a");
    assert_eq!(named(&got), "a:z/p2");
    assert_eq!(world.search.owner(&pods(), &shared, &limited()).await.as_deref(), Ok("a"));
    let hidden = world.search.get(&pods(), &ObjectKey::new("x", "p3"), None, &only("a")).await;
    assert_eq!(hidden.map(|_| ()).map_err(|status| status.code), Err(404));
    assert_eq!(world.search.namespaces(&pods(), "a", 10), ["x", "z"].map(str::to_owned).into());
    assert_eq!(world.search.namespaces(&pods(), "a", 1).len(), 1);
    assert_eq!(world.search.clusters(&pods()), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_could_not_decide_is_named_as_unread() {
    let world = World::with_registry().await;
    world.seed("a", "x", "p1", "web");
    world.settled(&["a:x/p1"]).await;
    let ReadScope::Limited(mut scope) = only("a") else { unreachable!("limited to one member") };
    scope.undecided.insert("b".to_owned(), "no answer".to_owned());
    let scope = ReadScope::Limited(scope);
    let listed = world.list(ListRequest { scope: scope.clone(), ..all() }).await;
    assert_eq!((names(&listed), listed.unread), (vec!["a:x/p1".to_owned()], vec!["cluster b: no answer".to_owned()]));
    let missing = world.search.get(&pods(), &ObjectKey::new("x", "missing"), None, &scope).await;
    assert_eq!(missing.map(|_| ()).map_err(|status| status.code), Err(503));
}

#[tokio::test(start_paused = true)]
async fn a_watch_hides_what_its_scope_does_and_reports_new_namespaces() {
    let world = World::with_registry().await;
    let listed = world.settled(&[]).await;
    let request = WatchRequest { scope: limited(), ..from(&listed.version) };
    let mut watch = world.search.watch(&pods(), request).await;
    world.seed("b", "z", "denied", "web");
    world.seed("b", "x", "shown", "web");
    assert_eq!(events_of(&mut watch, 1).await, ["+b:x/shown"]);
    assert!(!watch.take_open_question());
    world.seed("b", "new", "undecided", "web");
    let events = timeout(LIMIT, watch.next()).await.expect("in time").expect("goes on");
    assert!(events.is_empty() && watch.take_open_question() && !watch.take_open_question());
    let ReadScope::Limited(mut scope) = limited() else { unreachable!("limited") };
    if let Some(MemberScope::Namespaces { denied, .. }) = scope.members.get_mut("b") {
        denied.insert("new".to_owned());
    }
    watch.refine_scope(ReadScope::Limited(scope));
    world.seed("b", "new", "more", "web");
    world.delete("b", "z", "denied").await;
    world.delete("b", "x", "shown").await;
    assert_eq!(events_of(&mut watch, 1).await, ["-b:x/shown"]);
    assert!(!watch.take_open_question());
}
