//! API servers of members that send huge, deep and endless answers do not exhaust the control plane.
//!
//! `reconcile/tests/hostile.rs` has each answer by itself with its exact refusal; here a whole plane has such members.

use std::time::Duration;

use e2e::eventually::eventually;
use e2e::fleet::text;
use e2e::flood_figures::observe;
use e2e::flotilla::Flotilla;
use e2e::hostile_api::{HostileAnswer, HostileApi, PAGE, REDIRECT};
use e2e::member;
use e2e::raw_client::RawClient;

/// Most growth of the plane's memory. Without limits the first answer alone took more than 2.4 GB. Now each of the three mirrored kinds has
/// at most one page in memory: 21 MB of text here, of which 50,000 items are read (`cluster_client::remote::bounded`).
const GROWTH_MAX_MIB: u64 = 300;
/// The same for a merged list of 21 MB: it was a tree of 7 million objects before.
const MERGED_GROWTH_MAX_MIB: u64 = 250;
const DEADLINE: Duration = Duration::from_secs(120);

fn cluster(name: &str, port: u16) -> String {
    format!(
        "{{apiVersion: v1, kind: Secret, metadata: {{name: {name}, namespace: karmada-cluster}}, stringData: {{token: t}}}}
---
{{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {{name: {name}}},
  spec: {{syncMode: Push, id: '{name}', apiEndpoint: 'https://127.0.0.1:{port}', insecureSkipTLSVerification: true,
    secretRef: {{namespace: karmada-cluster, name: {name}}}, impersonatorSecretRef: {{namespace: karmada-cluster, name: {name}}}}}}}
"
    )
}

#[test]
fn answers_of_hostile_members_take_bounded_memory() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, "other,other,1,\"system:masters\"\n").expect("written");
    let tokens = tokens.display().to_string();
    let flags = ["--token-auth-file", &tokens, "--cluster-status-update-frequency", "1s"];
    let plane = Flotilla::start_in(folder.path(), &flags);
    let other = RawClient::of(&plane).with_token("other");
    for (name, answer) in [
        ("empty-items", HostileAnswer::EmptyItems),
        ("deep-object", HostileAnswer::DeepObject),
        ("watch-flood", HostileAnswer::WatchFlood),
        ("discovery", HostileAnswer::Discovery),
    ] {
        let api = HostileApi::start(answer);
        let document = cluster(name, api.port);
        let (_, figures) = observe(&plane, &other, &format!("member {name}"), || {
            let created = member::apply(&plane.kubeconfig, &["create", "-f", "-"], &document);
            assert!(created.status.success(), "{}", text(&created));
            eventually(&format!("{name} does harm"), DEADLINE, || api.harmful_answers() > 0);
        });
        assert!(figures.grown_mib() < GROWTH_MAX_MIB, "{name}: {figures:?}");
        if answer == HostileAnswer::EmptyItems {
            proxied_answers_are_bounded_and_act_on_no_client(&plane, &other, name);
        }
        let deleted = plane.kubectl(&["delete", "cluster", name, "--wait=false"]);
        assert!(deleted.status.success(), "{}", text(&deleted));
    }
    assert!(!plane.log().contains("panicked"), "{}", plane.log());
}

/// Answers of a member through the proxy: a list for all members, a redirect, a page with headers for browsers.
fn proxied_answers_are_bounded_and_act_on_no_client(plane: &Flotilla, other: &RawClient, name: &str) {
    let proxy = |cluster: &str, path: &str| format!("/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}/proxy{path}");
    let (list, figures) = observe(plane, other, "a list of all members with empty items", || {
        other.get(&proxy("*", "/api/v1/pods")).expect("an answer")
    });
    assert_eq!(list.code, 200, "{}", list.body);
    assert!(list.body.ends_with("]}"), "the list is complete");
    assert!(figures.grown_mib() < MERGED_GROWTH_MAX_MIB, "{figures:?}");
    let moved = other.get(&proxy(name, REDIRECT)).expect("an answer");
    assert_eq!(moved.code, 502, "{}", moved.body);
    assert!(!moved.headers.to_ascii_lowercase().contains("location:"), "{}", moved.headers);
    let page = other.get(&proxy(name, PAGE)).expect("an answer");
    assert_eq!(page.code, 200, "{}", page.body);
    let headers = page.headers.to_ascii_lowercase();
    for foreign in ["set-cookie", "clear-site-data", "access-control-allow-origin", "service-worker-allowed"] {
        assert!(!headers.contains(foreign), "{headers}");
    }
    for own in ["content-security-policy: sandbox", "x-content-type-options: nosniff"] {
        assert!(headers.contains(own), "{headers}");
    }
}
