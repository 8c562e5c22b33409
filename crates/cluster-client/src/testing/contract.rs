//! The contract of every API reached through a `ClusterClient`, in process or over the network.
//!
//! Needs the namespace `default`, and full permissions on the ConfigMaps in it with `suite=contract`; panics on the
//! first violation.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use object::builtin;
use object::request::{DeleteOptions, ListOptions, Preconditions, WriteOptions};
use object::{GroupVersionKind, GroupVersionResource, Object, Status};
use serde_json::json;

use crate::call::{Patch, ResourceRef, WatchCall, WatchEvent, WatchEvents};
use crate::client::ClusterClient;
use crate::discovery::RestMapper;

const NAMESPACE: &str = "default";

/// The whole contract except expiry: how to make versions expire is not part of it.
pub async fn suite(client: &ClusterClient) {
    writes_and_reads(client).await;
    applies(client).await;
    finalizers_hold_a_deletion(client).await;
    lists_page_by_page(client).await;
    watches(client).await;
    finds_resources(client).await;
}

/// The error of a watch from an expired version, whether it is a refusal or the first event.
pub async fn expiry_of(client: &ClusterClient, version: &str) -> Status {
    let call = WatchCall {
        gvr: configmaps(),
        options: ListOptions { resource_version: Some(version.into()), ..ListOptions::default() },
        ..WatchCall::default()
    };
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

pub fn configmaps() -> GroupVersionResource {
    builtin::config_maps()
}

pub fn at(name: &str) -> ResourceRef {
    ResourceRef::namespaced(&configmaps(), NAMESPACE, name)
}

pub fn all() -> ResourceRef {
    ResourceRef::within(&configmaps(), NAMESPACE)
}

pub fn config_map(name: &str, value: &str) -> Object {
    let mut object = Object::new(&GroupVersionKind::new("", "v1", "ConfigMap"), Some(NAMESPACE), name);
    object.set(&["data", "key"], value);
    object.set_label("suite", "contract");
    object
}

fn ours() -> ListOptions {
    ListOptions { label_selector: Some("suite=contract".into()), ..ListOptions::default() }
}

async fn create(client: &ClusterClient, name: &str, value: &str) -> Arc<Object> {
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
        match event.expect("the watch continues") {
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
        options: ListOptions { bookmarks: true, timeout: Some(Duration::from_secs(60)), ..ours() },
        as_table: false,
    };
    create(client, "before", "0").await;
    let list = client.list(all(), ours()).await.expect("listed");
    let since = ListOptions { resource_version: Some(list.resource_version.clone()), ..watch.options.clone() };
    let mut events = client.watch(WatchCall { options: since, ..watch.clone() }).await.expect("watching");
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

    let streamed = ListOptions { send_initial_events: Some(true), ..watch.options.clone() };
    let mut events = client.watch(WatchCall { options: streamed, ..watch }).await.expect("watching");
    assert_eq!(describe(&next(&mut events).await), "added before=0");
    let end = next(&mut events).await;
    let WatchEvent::Bookmark { resource_version, initial_events_end: true } = end else { panic!("{end:?}") };
    assert!(!resource_version.is_empty());
    create(client, "after", "1").await;
    assert_eq!(describe(&next(&mut events).await), "added after=1");
    clean(client).await;
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
