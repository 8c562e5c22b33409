//! API semantics as short scenarios, each in its own namespace.

use std::collections::BTreeSet;
use std::time::Instant;

use serde_json::{Value, json};

use crate::wire::{Endpoint, JSON, RawAnswer};

/// A namespace on a server.
pub struct TestNamespace<'e> {
    endpoint: &'e Endpoint,
    maps: String,
    namespace: String,
}

type Scenario = fn(&TestNamespace<'_>);

macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        pub const ALL: &[(&str, Scenario)] = &[$((stringify!($name), $name)),*];
    };
}

scenarios![
    pages_are_consistent,
    a_version_can_be_named,
    a_streaming_list_ends_with_a_bookmark,
    a_watch_sends_a_bookmark_before_it_ends,
    a_watch_without_version_starts_with_existing_objects,
    a_watch_from_a_version_misses_nothing,
    a_selector_adds_and_deletes,
    deletion_has_preconditions,
    a_dry_run_changes_nothing,
    a_name_is_generated,
    the_first_writer_wins,
    tables_and_metadata_are_offered,
    old_watch_paths_work,
    heads_are_refused_without_a_body,
    a_collection_is_deleted_by_label,
    finalizers_hold_an_object,
    an_unchanged_object_keeps_its_version,
];

impl<'e> TestNamespace<'e> {
    pub fn new(endpoint: &'e Endpoint, namespace: &str) -> Self {
        let made = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        endpoint.post("/api/v1/namespaces", &made).expect(201);
        let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
        Self { endpoint, maps, namespace: namespace.to_owned() }
    }

    fn path(&self, rest: &str) -> String {
        format!("{}{rest}", self.maps)
    }

    fn get(&self, rest: &str) -> RawAnswer {
        self.endpoint.get(&self.path(rest))
    }

    /// Only objects of the scenario: controllers may create more in the namespace.
    fn make(&self, name: &str) -> RawAnswer {
        self.endpoint.post(&self.maps, &map(name, "1")).expect(201)
    }

    fn set(&self, name: &str, merge: &Value) -> RawAnswer {
        self.endpoint.patch(&self.path(&format!("/{name}")), "application/merge-patch+json", merge).expect(200)
    }

    fn delete(&self, name: &str, options: &Value) -> RawAnswer {
        self.endpoint.delete(&self.path(&format!("/{name}")), options)
    }
}

fn map(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"story": "yes"}}, "data": {"a": value},
    })
}

fn options(fields: Value) -> Value {
    let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    for (key, value) in fields.as_object().into_iter().flatten() {
        options[key] = value.clone();
    }
    options
}

/// Writes between pages neither appear, nor duplicate or hide other objects.
fn pages_are_consistent(namespace: &TestNamespace<'_>) {
    let names: BTreeSet<String> = (0..25).map(|n| format!("m{n:02}")).collect();
    names.iter().for_each(|name| drop(namespace.make(name)));
    let (mut seen, mut token, mut version) = (Vec::new(), String::new(), None);
    for page in 0..100 {
        let list = namespace.get(&format!("?labelSelector=story&limit=7&continue={token}")).expect(200);
        assert_eq!(*version.get_or_insert(list.version()), list.version(), "all pages are of one version");
        seen.extend(list.names());
        token = list.json()["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            break;
        }
        namespace.make(&format!("m{page:02}-new"));
        namespace.delete(&format!("m{:02}", 24 - page), &options(json!({}))).expect(200);
        namespace.set("m12", &json!({"data": {"a": page.to_string()}}));
    }
    assert_eq!(seen, names.into_iter().collect::<Vec<_>>());
    let all = namespace.get("?limit=3").expect(200).json();
    let left = all["metadata"]["remainingItemCount"].as_u64().expect("a count without a selector");
    let total = namespace.get("").expect(200).names().len() as u64;
    assert_eq!(left, total - 3);
}

fn a_version_can_be_named(namespace: &TestNamespace<'_>) {
    namespace.make("first");
    let before = namespace.make("second").version();
    namespace.delete("first", &options(json!({}))).expect(200);
    let ours = |query: &str| namespace.get(&format!("?labelSelector=story{query}"));
    assert_eq!(ours("").expect(200).names(), ["second"]);
    let exact = ours(&format!("&resourceVersion={before}&resourceVersionMatch=Exact")).expect(200);
    assert_eq!((exact.names(), exact.version()), (vec!["first".to_owned(), "second".to_owned()], before));
    let newer = ours(&format!("&resourceVersion={before}&resourceVersionMatch=NotOlderThan")).expect(200);
    assert!(newer.version() >= before);
    assert!(ours("&resourceVersion=0").expect(200).version() > 0);
    let one = namespace.get("/second?resourceVersion=0").expect(200);
    assert_eq!(one.json()["metadata"]["name"], "second");

    let far = before + 1_000_000;
    let refused = ours(&format!("&resourceVersion={far}")).expect_reason(504, "Timeout").json();
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(message.contains(&format!("Too large resource version: {far}, current: ")), "{message}");
    assert_eq!(refused["details"]["causes"][0]["reason"], "ResourceVersionTooLarge", "{refused}");
    assert_eq!(refused["details"]["retryAfterSeconds"], 1);
}

fn a_streaming_list_ends_with_a_bookmark(namespace: &TestNamespace<'_>) {
    let names = ["a", "b", "c"];
    let newest = names.map(|name| namespace.make(name).version())[2];
    let query = "?watch=1&labelSelector=story&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=10";
    let mut events = namespace.endpoint.watch(&namespace.path(query));
    let mut seen: Vec<String> = names.iter().map(|_| events.next_short()).collect();
    seen.sort();
    assert_eq!(seen, ["ADDED a", "ADDED b", "ADDED c"]);
    let bookmark = events.next().expect("a bookmark");
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    let version = bookmark["object"]["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse().ok());
    assert!(version >= Some(newest), "{bookmark}");
    namespace.make("d");
    assert_eq!(events.next_short(), "ADDED d");
}

fn a_watch_sends_a_bookmark_before_it_ends(namespace: &TestNamespace<'_>) {
    let since = namespace.make("a").version();
    let start = Instant::now();
    let query = format!(
        "?watch=1&resourceVersion={since}&fieldSelector=metadata.name%3Da&allowWatchBookmarks=true&timeoutSeconds=4"
    );
    let mut events = namespace.endpoint.watch(&namespace.path(&query));
    namespace.set("a", &json!({"data": {"a": "2"}}));
    assert_eq!(events.next_short(), "MODIFIED a");
    let bookmark = events.next().expect("a bookmark before the end");
    assert_eq!((&bookmark["type"], &bookmark["object"]["kind"]), (&json!("BOOKMARK"), &json!("ConfigMap")));
    while let Some(event) = events.next() {
        assert_eq!(event["type"], "BOOKMARK", "{event}");
    }
    assert!(events.ended, "the last chunk was sent");
    let seconds = start.elapsed().as_secs_f64();
    assert!((3.5..12.0).contains(&seconds), "a watch of 4 seconds took {seconds}");
}

fn a_watch_without_version_starts_with_existing_objects(namespace: &TestNamespace<'_>) {
    namespace.make("a");
    for version in ["", "&resourceVersion=0"] {
        let query = format!("?watch=1&labelSelector=story&timeoutSeconds=2{version}");
        let mut events = namespace.endpoint.watch(&namespace.path(&query));
        assert_eq!(events.next_short(), "ADDED a", "{query}");
        assert!(events.next().is_none());
    }
}

fn a_watch_from_a_version_misses_nothing(namespace: &TestNamespace<'_>) {
    let since = namespace.make("a").version();
    for value in 0..20 {
        namespace.set("a", &json!({"data": {"a": format!("v{value}")}}));
    }
    namespace.delete("a", &options(json!({}))).expect(200);
    let query = format!("?watch=1&labelSelector=story&resourceVersion={since}&timeoutSeconds=10");
    let mut events = namespace.endpoint.watch(&namespace.path(&query));
    let mut last = since;
    for value in 0..20 {
        let event = events.next().expect("an event");
        assert_eq!((&event["type"], &event["object"]["data"]["a"]), (&json!("MODIFIED"), &json!(format!("v{value}"))));
        let version =
            event["object"]["metadata"]["resourceVersion"].as_str().expect("a version").parse().expect("a number");
        assert!(version > last, "versions grow");
        last = version;
    }
    let gone = events.next().expect("an event");
    assert_eq!(gone["type"], "DELETED");
    let version: u64 =
        gone["object"]["metadata"]["resourceVersion"].as_str().expect("a version").parse().expect("a number");
    assert!(version > last, "a delete has its own version");
}

fn a_selector_adds_and_deletes(namespace: &TestNamespace<'_>) {
    let since = namespace.make("a").version();
    let query = format!("?watch=1&labelSelector=color%3Dred&resourceVersion={since}&timeoutSeconds=20");
    let mut events = namespace.endpoint.watch(&namespace.path(&query));
    let paint = |color: Value| drop(namespace.set("a", &json!({"metadata": {"labels": {"color": color}}})));
    paint(json!("red"));
    assert_eq!(events.next_short(), "ADDED a");
    namespace.set("a", &json!({"data": {"a": "2"}}));
    assert_eq!(events.next_short(), "MODIFIED a");
    paint(json!("blue"));
    let gone = events.next().expect("an event");
    assert_eq!((&gone["type"], &gone["object"]["metadata"]["labels"]["color"]), (&json!("DELETED"), &json!("red")));
    namespace.set("a", &json!({"data": {"a": "3"}}));
    paint(json!("red"));
    assert_eq!(events.next_short(), "ADDED a");
    namespace.delete("a", &options(json!({}))).expect(200);
    assert_eq!(events.next_short(), "DELETED a");
}

fn deletion_has_preconditions(namespace: &TestNamespace<'_>) {
    let made = namespace.make("a").json();
    let uid = made["metadata"]["uid"].clone();
    let old = made["metadata"]["resourceVersion"].clone();
    namespace.set("a", &json!({"data": {"a": "2"}}));
    let current = namespace.get("/a").json()["metadata"]["resourceVersion"].clone();
    let with = |conditions: Value| namespace.delete("a", &options(json!({"preconditions": conditions})));
    with(json!({"uid": "another"})).expect_reason(409, "Conflict");
    with(json!({"uid": uid, "resourceVersion": old})).expect_reason(409, "Conflict");
    let gone = with(json!({"uid": uid, "resourceVersion": current})).expect(200).json();
    assert_eq!((&gone["kind"], &gone["status"], &gone["details"]["uid"]), (&json!("Status"), &json!("Success"), &uid));
    with(json!({"uid": uid})).expect_reason(404, "NotFound");
}

fn a_dry_run_changes_nothing(namespace: &TestNamespace<'_>) {
    namespace.endpoint.post(&namespace.path("?dryRun=All"), &map("ghost", "1")).expect(201);
    namespace.get("/ghost").expect_reason(404, "NotFound");
    let before = namespace.make("a").json();
    let merge = "application/merge-patch+json";
    let patched =
        namespace.endpoint.patch(&namespace.path("/a?dryRun=All"), merge, &json!({"data": {"a": "2"}})).expect(200);
    assert_eq!(patched.json()["data"]["a"], "2");
    namespace.endpoint.put(&namespace.path("/a?dryRun=All"), &map("a", "3")).expect(200);
    namespace.delete("a?dryRun=All", &options(json!({"dryRun": ["All"]}))).expect(200);
    namespace.endpoint.delete(&namespace.path("?dryRun=All"), &options(json!({"dryRun": ["All"]}))).expect(200);
    assert_eq!(namespace.get("/a").expect(200).json(), before);
}

fn a_name_is_generated(namespace: &TestNamespace<'_>) {
    let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}});
    let names: BTreeSet<String> = (0..10)
        .map(|_| namespace.endpoint.post(&namespace.maps, &nameless).expect(201).json()["metadata"]["name"].to_string())
        .collect();
    assert_eq!(names.len(), 10);
    for name in &names {
        let rest = name.trim_matches('"').strip_prefix("made-").expect("the prefix");
        assert!(rest.len() == 5 && rest.bytes().all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b)), "{name}");
    }
}

fn the_first_writer_wins(namespace: &TestNamespace<'_>) {
    let mut first = namespace.make("a").json();
    let mut second = first.clone();
    first["data"]["a"] = json!("first");
    second["data"]["a"] = json!("second");
    namespace.endpoint.put(&namespace.path("/a"), &first).expect(200);
    let refused = namespace.endpoint.put(&namespace.path("/a"), &second).expect_reason(409, "Conflict").json();
    let message = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again";
    assert_eq!(refused["message"], message);
    namespace.endpoint.post(&namespace.maps, &map("a", "again")).expect_reason(409, "AlreadyExists");
    let stale = json!({"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}, "data": {"a": "third"}});
    let path = namespace.path("/a");
    namespace.endpoint.patch(&path, "application/merge-patch+json", &stale).expect_reason(409, "Conflict");
    assert_eq!(namespace.get("/a").json()["data"]["a"], "first");
}

fn tables_and_metadata_are_offered(namespace: &TestNamespace<'_>) {
    namespace.make("a");
    let asked = |rest: &str, accept: &str| {
        namespace.endpoint.send("GET", &namespace.path(rest), &[("Accept", accept)], b"").expect(200).json()
    };
    let table = asked("?labelSelector=story", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let titles: Vec<_> =
        table["columnDefinitions"].as_array().expect("columns").iter().map(|c| c["name"].clone()).collect();
    assert_eq!((&table["kind"], titles), (&json!("Table"), vec![json!("Name"), json!("Data"), json!("Age")]));
    assert_eq!(table["rows"][0]["cells"][0], "a");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let bare = asked("?labelSelector=story&includeObject=None", "application/json;as=Table;v=v1;g=meta.k8s.io");
    assert!(bare["rows"][0]["object"].is_null());
    let list = asked("?labelSelector=story", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io");
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1")));
    assert!(list["items"][0]["data"].is_null());
    let one = asked("/a", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io");
    assert_eq!((&one["kind"], &one["metadata"]["name"]), (&json!("PartialObjectMetadata"), &json!("a")));
    let falls_back = asked("/a", "application/json;as=Table;v=v9;g=meta.k8s.io,application/json");
    assert_eq!(falls_back["kind"], "ConfigMap");
}

fn old_watch_paths_work(namespace: &TestNamespace<'_>) {
    namespace.make("a");
    namespace.make("b");
    let name = &namespace.namespace;
    let all = format!("/api/v1/watch/namespaces/{name}/configmaps?labelSelector=story&timeoutSeconds=2");
    let mut events = namespace.endpoint.watch(&all);
    let mut seen = [events.next_short(), events.next_short()];
    seen.sort();
    assert_eq!(seen, ["ADDED a", "ADDED b"]);
    let one = format!("/api/v1/watch/namespaces/{name}/configmaps/b?timeoutSeconds=2");
    let mut events = namespace.endpoint.watch(&one);
    assert_eq!(events.next_short(), "ADDED b");
    assert!(events.next().is_none());
}

/// Objects do not support HEAD; the error has no body, or it would be parsed as the next response.
fn heads_are_refused_without_a_body(namespace: &TestNamespace<'_>) {
    namespace.make("a");
    for rest in ["/a", "?limit=1", "/nothing"] {
        let mut connection = namespace.endpoint.connect();
        connection.write(&namespace.endpoint.request("HEAD", &namespace.path(rest), &[], b""));
        assert_eq!(connection.read_answer("HEAD").expect("a head").code, 405, "{rest}");
        connection.write(&namespace.endpoint.request("GET", &namespace.path("/a"), &[], b""));
        assert_eq!(connection.read_answer("GET").expect("an answer").code, 200, "after HEAD {rest}");
    }
}

fn a_collection_is_deleted_by_label(namespace: &TestNamespace<'_>) {
    for name in ["a", "b", "c"] {
        namespace.make(name);
    }
    namespace.set("b", &json!({"metadata": {"labels": {"keep": "yes"}}}));
    let headers = [("Content-Type", JSON)];
    let path = namespace.path("?labelSelector=story,%21keep");
    let gone = namespace.endpoint.send("DELETE", &path, &headers, b"").expect(200);
    assert_eq!(gone.json()["kind"], "ConfigMapList");
    assert_eq!(namespace.get("?labelSelector=story").names(), ["b"]);
    let path = namespace.path("?fieldSelector=metadata.name%3Db");
    namespace.endpoint.send("DELETE", &path, &headers, b"").expect(200);
    assert!(namespace.get("?labelSelector=story").names().is_empty());
}

fn finalizers_hold_an_object(namespace: &TestNamespace<'_>) {
    namespace.make("a");
    namespace.set("a", &json!({"metadata": {"finalizers": ["example.com/hold"]}}));
    let held = namespace.delete("a", &options(json!({}))).expect(200).json();
    assert_eq!(held["kind"], "ConfigMap", "{held}");
    let marked = namespace.get("/a").expect(200).json();
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    namespace.set("a", &json!({"metadata": {"finalizers": null}}));
    namespace.get("/a").expect_reason(404, "NotFound");
}

fn an_unchanged_object_keeps_its_version(namespace: &TestNamespace<'_>) {
    let made = namespace.make("a");
    let same = namespace.endpoint.put(&namespace.path("/a"), &made.json()).expect(200);
    assert_eq!(same.version(), made.version());
    let merged = namespace.set("a", &json!({"data": {"a": "1"}}));
    assert_eq!(merged.version(), made.version());
}
