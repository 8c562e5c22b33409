//! API servers of members that send huge, deep and endless answers do not exhaust the control plane.
//!
//! `reconcile/tests/hostile.rs` has each answer by itself with its exact refusal; here a whole plane has such members.

use std::time::Duration;

use e2e::eventually::eventually;
use e2e::fleet::text;
use e2e::flood_figures::observe;
use e2e::flotilla::Flotilla;
use e2e::hostile_api::{HostileAnswer, HostileApi};
use e2e::member;
use e2e::raw_client::RawClient;

/// Most growth of the plane's memory. Without limits the first answer alone took more than 2.4 GB.
const GROWTH_MAX_MIB: u64 = 900;
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
        let deleted = plane.kubectl(&["delete", "cluster", name, "--wait=false"]);
        assert!(deleted.status.success(), "{}", text(&deleted));
    }
    assert!(!plane.log().contains("panicked"), "{}", plane.log());
}
