//! One suite for every way to an API: in memory in this process, and a real kube-apiserver over the network.

mod kube;

use std::time::Duration;

use cluster_client::testing::MemoryApi;
use cluster_client::{
    ClusterClient, DeleteOptions, Endpoint, Kubeconfig, ListOptions, Patch, Preconditions, ResourceRef, RestMapper,
    UserInfo, WatchCall, WatchEvent, WatchEvents, WriteOptions,
};
use futures::StreamExt;
use object::{GroupVersionKind, GroupVersionResource, Object, Status};
use serde_json::json;

const NAMESPACE: &str = "default";

fn configmaps() -> GroupVersionResource {
    GroupVersionResource::new("", "v1", "configmaps")
}

fn at(name: &str) -> ResourceRef {
    ResourceRef::namespaced(&configmaps(), NAMESPACE, name)
}

fn all() -> ResourceRef {
    ResourceRef::within(&configmaps(), NAMESPACE)
}

fn config_map(name: &str, value: &str) -> Object {
    let mut object = Object::new(&GroupVersionKind::new("", "v1", "ConfigMap"), Some(NAMESPACE), name);
    object.set(&["data", "key"], value);
    object.set_label("suite", "contract");
    object
}

fn ours() -> ListOptions {
    ListOptions { label_selector: Some("suite=contract".into()), ..ListOptions::default() }
}

async fn create(client: &ClusterClient, name: &str, value: &str) -> std::sync::Arc<Object> {
    client.create(all(), config_map(name, value), WriteOptions::default()).await.expect("created")
}

async fn clean(client: &ClusterClient) {
    client.delete_collection(all(), DeleteOptions::default(), ours()).await.expect("all deleted");
}

async fn writes_and_reads(client: &ClusterClient) {
    let made = create(client, "a", "1").await;
    assert!(!made.uid().is_empty() && !made.resource_version().is_empty());
    assert_eq!((made.kind(), made.api_version()), ("ConfigMap", "v1"));
    let again = client.create(all(), config_map("a", "1"), WriteOptions::default()).await.expect_err("exists");
    assert!(again.is_already_exists(), "{again:?}");

    let mut changed = Object::clone(&made);
    changed.set(&["data", "key"], "2");
    let changed = client.update(at("a"), changed, WriteOptions::default()).await.expect("updated");
    let stale = client.update(at("a"), Object::clone(&made), WriteOptions::default()).await.expect_err("stale");
    assert!(stale.is_conflict() && stale.code == 409, "{stale:?}");
    assert_eq!(client.get(at("a")).await.expect("found"), changed);
    assert_eq!(client.find(at("absent")).await, Ok(None));

    let dry = WriteOptions { dry_run: true, ..WriteOptions::default() };
    client.patch(at("a"), Patch::merge(json!({"data": {"key": "dry"}})), dry).await.expect("would be patched");
    assert_eq!(client.get(at("a")).await.expect("found").str_at(&["data", "key"]), "2");
    let patched = client.patch(at("a"), Patch::merge(json!({"data": {"other": "3"}})), WriteOptions::default()).await;
    assert_eq!(patched.expect("patched").get(&["data"]), Some(&json!({"key": "2", "other": "3"})));
    let operations = json!([{"op": "remove", "path": "/data/other"}]);
    let patched = client.patch(at("a"), Patch::json(operations), WriteOptions::default()).await.expect("patched");
    assert_eq!(patched.get(&["data"]), Some(&json!({"key": "2"})));

    let wrong = Preconditions { uid: Some("wrong".into()), ..Preconditions::default() };
    let refused = client.delete(at("a"), DeleteOptions { preconditions: wrong, ..DeleteOptions::default() }).await;
    assert!(refused.is_err_and(|status| status.is_conflict()));
    client.delete(at("a"), DeleteOptions::default()).await.expect("deleted");
    assert!(client.get(at("a")).await.is_err_and(|status| status.is_not_found()));
}

async fn applies(client: &ClusterClient) {
    let applied = client.apply(at("applied"), config_map("applied", "1"), "contract").await.expect("created");
    let same = client.apply(at("applied"), config_map("applied", "1"), "contract").await.expect("the same");
    assert_eq!(applied.resource_version(), same.resource_version());
    let changed = client.apply(at("applied"), config_map("applied", "2"), "contract").await.expect("changed");
    assert_eq!(changed.str_at(&["data", "key"]), "2");
    clean(client).await;
}

async fn finalizers_hold_a_deletion(client: &ClusterClient) {
    let mut held = config_map("held", "1");
    held.add_finalizer("example.com/hold");
    client.create(all(), held, WriteOptions::default()).await.expect("created");
    client.delete(at("held"), DeleteOptions::default()).await.expect("accepted");
    let mut dying = Object::clone(&*client.get(at("held")).await.expect("still there"));
    assert!(dying.is_deleting());
    dying.remove_finalizer("example.com/hold");
    client.update(at("held"), dying, WriteOptions::default()).await.expect("released");
    assert_eq!(client.find(at("held")).await, Ok(None));
}

async fn lists_page_by_page(client: &ClusterClient) {
    for index in 0..7 {
        create(client, &format!("page-{index}"), "x").await;
    }
    let two = ListOptions { limit: Some(2), ..ours() };
    let page = client.list(all(), two.clone()).await.expect("a page");
    assert_eq!(page.items.len(), 2);
    assert!(!page.continue_token.is_empty());
    let whole = client.list_all(all(), two).await.expect("all pages");
    let names: Vec<&str> = whole.items.iter().map(|o| o.name()).collect();
    assert_eq!(names, ["page-0", "page-1", "page-2", "page-3", "page-4", "page-5", "page-6"]);
    assert!(whole.items.iter().all(|o| o.kind() == "ConfigMap"));
    let one = ListOptions { field_selector: Some("metadata.name=page-3".into()), ..ListOptions::default() };
    assert_eq!(client.list(all(), one).await.expect("one").items.len(), 1);
    clean(client).await;
}

async fn next(events: &mut WatchEvents) -> WatchEvent {
    loop {
        let event = tokio::time::timeout(Duration::from_secs(20), events.next()).await.expect("in time");
        match event.expect("the watch goes on") {
            WatchEvent::Bookmark { initial_events_end: false, .. } => {}
            event => return event,
        }
    }
}

fn describe(event: &WatchEvent) -> String {
    match event {
        WatchEvent::Added(o) => format!("added {}={}", o.name(), o.str_at(&["data", "key"])),
        WatchEvent::Modified(o) => format!("modified {}={}", o.name(), o.str_at(&["data", "key"])),
        WatchEvent::Deleted(o) => format!("deleted {}", o.name()),
        WatchEvent::Bookmark { .. } => "bookmark".into(),
        WatchEvent::Error(status) => format!("error {}", status.code),
    }
}

async fn watches(client: &ClusterClient) {
    let watch = WatchCall {
        gvr: configmaps(),
        namespace: Some(NAMESPACE.into()),
        label_selector: Some("suite=contract".into()),
        bookmarks: true,
        timeout: Some(Duration::from_secs(60)),
        ..WatchCall::default()
    };
    create(client, "before", "0").await;
    let list = client.list(all(), ours()).await.expect("listed");
    let since = WatchCall { resource_version: Some(list.resource_version.clone()), ..watch.clone() };
    let mut events = client.watch(since).await.expect("watching");
    create(client, "w", "1").await;
    let merge = |body| client.patch(at("w"), Patch::merge(body), WriteOptions::default());
    merge(json!({"data": {"key": "x".repeat(300_000)}})).await.expect("patched");
    merge(json!({"data": {"key": "2"}})).await.expect("patched");
    merge(json!({"metadata": {"labels": {"suite": "left"}}})).await.expect("patched");
    assert_eq!(describe(&next(&mut events).await), "added w=1");
    assert!(describe(&next(&mut events).await).starts_with("modified w=xxx"));
    assert_eq!(describe(&next(&mut events).await), "modified w=2");
    assert_eq!(describe(&next(&mut events).await), "deleted w");
    client.delete(at("w"), DeleteOptions::default()).await.expect("deleted");

    let streamed = WatchCall { send_initial_events: true, ..watch };
    let mut events = client.watch(streamed).await.expect("watching");
    assert_eq!(describe(&next(&mut events).await), "added before=0");
    let end = next(&mut events).await;
    let WatchEvent::Bookmark { resource_version, initial_events_end: true } = end else { panic!("{end:?}") };
    assert!(!resource_version.is_empty());
    create(client, "after", "1").await;
    assert_eq!(describe(&next(&mut events).await), "added after=1");
    clean(client).await;
}

/// However it is told: as a refusal or as the first event.
async fn expiry_of(client: &ClusterClient, version: &str) -> Status {
    let call = WatchCall { gvr: configmaps(), resource_version: Some(version.into()), ..WatchCall::default() };
    match client.watch(call).await {
        Err(status) => status,
        Ok(mut events) => match next(&mut events).await {
            WatchEvent::Error(status) => {
                assert!(events.next().await.is_none(), "an error is the last event");
                status
            }
            other => panic!("expected an error, got {other:?}"),
        },
    }
}

async fn finds_resources(client: &ClusterClient) {
    create(client, "known", "1").await;
    let mapper = RestMapper::new(client.clone());
    let found = mapper.resource_of(&GroupVersionKind::new("", "v1", "ConfigMap")).await.expect("known");
    assert_eq!((found.gvr, found.namespaced), (configmaps(), true));
    assert_eq!(mapper.kind_of(&configmaps()).await.expect("known").kind, "ConfigMap");
    let absent = mapper.resource_of(&GroupVersionKind::new("x", "v1", "Y")).await.expect_err("unknown");
    assert!(absent.message.starts_with("no matches for kind \"Y\" in version \"x/v1\""), "{absent}");
    clean(client).await;
}

async fn suite(client: &ClusterClient) {
    writes_and_reads(client).await;
    applies(client).await;
    finalizers_hold_a_deletion(client).await;
    lists_page_by_page(client).await;
    watches(client).await;
    finds_resources(client).await;
}

#[tokio::test]
async fn an_api_in_memory_keeps_the_contract() {
    let api = MemoryApi::default();
    let client = api.client();
    suite(&client).await;
    create(&client, "x", "1").await;
    api.compact();
    assert!(expiry_of(&client, "1").await.is_expired());
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_apiserver_over_the_network_keeps_the_contract() {
    let Some(server) = tokio::task::spawn_blocking(kube::KubeApiServer::start).await.expect("started") else { return };
    let config = Kubeconfig::load(std::slice::from_ref(&server.kubeconfig)).expect("a kubeconfig");
    let remote = config.remote(None).expect("a context");
    let client = ClusterClient::connect(Endpoint::Remote(remote.clone())).expect("usable");
    assert_eq!(client.get_json("/version").await.expect("answered")["major"], "1");
    suite(&client).await;
    network_only(&client, remote).await;

    // A server that starts anew has no past in memory; the client finds it again by itself.
    let server = tokio::task::spawn_blocking(move || {
        let mut server = server;
        server.restart();
        server
    });
    let _server = server.await.expect("restarted");
    assert!(expiry_of(&client, "1").await.is_expired());
}

async fn network_only(client: &ClusterClient, remote: cluster_client::RemoteConfig) {
    let jane = client.impersonating(UserInfo::new("jane", &["dev"]));
    let refused = jane.list(all(), ListOptions::default()).await.expect_err("jane has no rights");
    assert_eq!((refused.code, refused.reason), (403, "Forbidden"));
    assert!(refused.message.contains("User \"jane\" cannot list resource \"configmaps\""), "{refused}");

    let deployments = GroupVersionResource::new("apps", "v1", "deployments");
    let bad = Object::new(&GroupVersionKind::new("apps", "v1", "Deployment"), Some(NAMESPACE), "bad");
    let target = ResourceRef::within(&deployments, NAMESPACE);
    let invalid = client.create(target, bad, WriteOptions::default()).await.expect_err("invalid");
    assert_eq!((invalid.code, invalid.reason), (422, "Invalid"));
    assert!(invalid.details.expect("details").causes.iter().any(|cause| cause.field == "spec.selector"));

    let mut unknown = config_map("warned", "1");
    unknown.set(&["nonsense"], 1);
    let verb = cluster_client::Verb::Create { object: unknown, options: WriteOptions::default() };
    let reply = client.call(all(), verb).await.expect("created with a warning");
    assert!(reply.created());
    assert_eq!(reply.warnings, ["unknown field \"nonsense\""]);
    clean(client).await;

    let mut wrong = remote.clone();
    wrong.credentials.token = Some("wrong".into());
    let wrong = ClusterClient::connect(Endpoint::Remote(wrong)).expect("usable");
    assert_eq!(wrong.get(at("x")).await.expect_err("unknown token").code, 401);

    let mut untrusting = remote.clone();
    untrusting.ca = None;
    let untrusting = ClusterClient::connect(Endpoint::Remote(untrusting)).expect("usable");
    let refused = untrusting.get(at("x")).await.expect_err("not trusted");
    assert!(cluster_client::is_unreachable(&refused) && refused.message.contains("certificate"), "{refused}");

    let gone = cluster_client::RemoteConfig::new("https://127.0.0.1:1");
    let gone = ClusterClient::connect(Endpoint::Remote(gone)).expect("usable");
    assert!(cluster_client::is_unreachable(&gone.get(at("x")).await.expect_err("nobody there")));
}
