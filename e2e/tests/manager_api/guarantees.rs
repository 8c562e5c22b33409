//! Guarantees of reads, on a running manager: they contain earlier writes, show nothing that is gone, and copies are not written back.

use std::collections::BTreeSet;

use e2e::raw_client::RawResponse;
use serde_json::{Value, json};

use crate::{BASE, World, expect};

/// Writes after each of which every kind of read is tried.
const WRITES: usize = 15;

fn path() -> String {
    format!("{BASE}/instances/east/gvr/core/v1/namespaces/default/configmaps")
}

fn named(name: &str, label: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"round": label}}})
}

fn version_of(answer: &RawResponse) -> String {
    let line = answer.headers.lines().find_map(|line| line.strip_prefix("x-flotilla-version: "));
    line.expect("a version").trim().to_owned()
}

fn search(world: &World, query: &str, more: &str) -> Value {
    let path = format!("{BASE}/search?query={}{more}", query.replace(' ', "%20"));
    expect(world.admin.get(&path), 200)
}

pub fn all(world: &World) {
    reads_contain_earlier_writes_and_nothing_deleted(world);
    pages_are_complete_while_objects_come_and_go(world);
    marks_of_copies_are_refused(world);
}

/// Guarantees 1, 2, 3, 4, 5 and 7.
fn reads_contain_earlier_writes_and_nothing_deleted(world: &World) {
    let admin = &world.admin;
    let mut seen = 0;
    for round in 0..WRITES {
        let name = format!("written-{round}");
        let created = admin.post(&path(), &named(&name, "new")).expect("an answer");
        assert_eq!(created.code, 200, "{}", created.body);
        let at_least = format!("&atLeast={}", version_of(&created));
        let query = format!("kind:cm name:{name}");
        let found = search(world, &query, &at_least);
        assert_eq!(found["total"], "1", "a search contains the write: {found}");
        // Each source says at which version it was read; versions do not go back.
        let east = found["asOf"].as_array().into_iter().flatten().find(|source| source["instance"] == "east");
        let as_of: i64 = east.and_then(|east| east["version"].as_str()?.parse().ok()).expect("a version");
        assert!(as_of >= seen, "{as_of} after {seen}");
        seen = as_of;
        let listed = expect(admin.get(&format!("{}?labelSelector=round%3Dnew{at_least}", path())), 200);
        assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
        // A get finds every object of a list; it is live and complete, so that it can be edited.
        let found = expect(admin.get(&format!("{}/{name}", path())), 200);
        assert!(found["metadata"]["managedFields"].as_array().is_some_and(|fields| !fields.is_empty()), "{found}");
        let mut edited = found.clone();
        edited["metadata"]["labels"]["round"] = "old".into();
        let target = format!("{}/{name}", path());
        let updated = admin.ask("PUT", &target, "application/json", &edited.to_string()).expect("an answer");
        assert_eq!(updated.code, 200, "{}", updated.body);
        let at_least = format!("&atLeast={}", version_of(&updated));
        assert_eq!(search(world, &format!("{query} label:round=new"), &at_least)["total"], "0");
        assert_eq!(search(world, &format!("{query} label:round=old"), &at_least)["total"], "1");
        // The first state is older than what was read, and is not taken as an edit.
        let late = admin.ask("PUT", &target, "application/json", &found.to_string()).expect("an answer");
        assert_eq!(late.code, 409, "{}", late.body);
        let deleted = admin.ask("DELETE", &target, "application/json", "").expect("an answer");
        assert_eq!(deleted.code, 200, "{}", deleted.body);
        for _ in 0..3 {
            assert_eq!(search(world, &query, "")["total"], "0", "a deleted object does not come back");
            expect(admin.get(&target), 404);
        }
    }
    let foreign = "00000000-0000-0000-0000-000000000000:1";
    assert_eq!(admin.get(&format!("{BASE}/search?query=kind:cm&atLeast={foreign}")).expect("an answer").code, 504);
    expect(admin.get(&format!("{BASE}/search?query=kind:cm&atLeast=soon")), 400);
}

/// Guarantee 2: pages neither repeat nor skip what exists all the time.
fn pages_are_complete_while_objects_come_and_go(world: &World) {
    let names: BTreeSet<String> = (0..9).map(|number| format!("paged-{number}")).collect();
    for name in &names {
        expect(world.admin.post(&path(), &named(name, "paged")), 200);
    }
    let (mut token, mut found, mut pages) = (String::new(), Vec::new(), 0);
    loop {
        let more = format!("&pageSize=2&orderBy=name&pageToken={token}");
        let page = search(world, "kind:cm name~paged-", &more);
        let items = page["items"].as_array().expect("items");
        found.extend(items.iter().map(|item| item["name"].as_str().unwrap_or_default().to_owned()));
        // One before and one after the place of the next page.
        for name in [format!("paged-0-{pages}"), format!("paged-x{pages}")] {
            expect(world.admin.post(&path(), &named(&name, "guest")), 200);
        }
        pages += 1;
        token = page["nextPageToken"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            break;
        }
        assert!(pages < 30, "the pages do not end");
    }
    let unique: BTreeSet<String> = found.iter().cloned().collect();
    assert_eq!(unique.len(), found.len(), "{found:?}");
    assert!(names.is_subset(&unique), "{found:?}");
    let total = search(world, "kind:cm label:round=paged", "&pageSize=1")["total"].clone();
    assert_eq!(total, names.len().to_string(), "the total counts all pages");
}

/// Guarantee 6, in every way to write.
fn marks_of_copies_are_refused(world: &World) {
    let target = format!("{}/original", path());
    expect(world.admin.post(&path(), &named("original", "x")), 200);
    for mark in ["resource.karmada.io/cached-from-cluster", "shadow.clusterpedia.io/cluster-name"] {
        let mut copy = named("original", "x");
        copy["metadata"]["annotations"] = json!({mark: "m1"});
        let text = copy.to_string();
        let pointer = format!("/metadata/annotations/{}", mark.replace('/', "~1"));
        let operations = json!([{"op": "add", "path": pointer, "value": "m1"}]).to_string();
        let batch = format!("{BASE}/instances/east:batchApply");
        for (method, path, content_type, body) in [
            ("POST", path().as_str(), "application/json", text.as_str()),
            ("PUT", &target, "application/json", &text),
            ("PATCH", &target, "application/merge-patch+json", &text),
            ("PATCH", &target, "application/apply-patch+yaml", &text),
            ("PATCH", &target, "application/json-patch+json", &operations),
            ("POST", &batch, "application/yaml", &text),
        ] {
            let answer = world.admin.ask(method, path, content_type, body).expect("an answer");
            let is_refused = answer.code == 400 && answer.body.contains("marks a copy");
            assert!(is_refused, "{method} {content_type}: {} {}", answer.code, answer.body);
        }
    }
    let kept = expect(world.admin.get(&target), 200);
    assert!(kept["metadata"]["annotations"].is_null(), "{kept}");
}
