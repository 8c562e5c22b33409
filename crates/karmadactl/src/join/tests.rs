//! The output and the errors of `join` against APIs in memory.

use api::cluster::CLUSTERS;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::ResourceRef;
use cluster_client::testing::MemoryApi;
use membership::credentials::{NAMESPACES, SECRETS};
use serde_json::json;

use super::*;
use crate::console::testing;

/// A cluster whose token controller has already populated the token secrets.
fn member() -> MemoryApi {
    let api = MemoryApi::default();
    api.seed(&NAMESPACES.gvr(), NAMESPACES.object("", "kube-system"));
    for name in ["karmada-impersonator", "karmada-m1"] {
        let mut secret = SECRETS.object(CLUSTER_NAMESPACE, name);
        secret.set(&["data"], json!({"token": STANDARD.encode("t"), "ca.crt": STANDARD.encode("CA")}));
        api.seed(&SECRETS.gvr(), secret);
    }
    api
}

fn options(plane: &MemoryApi, dry_run: bool) -> JoinOptions {
    JoinOptions {
        control_plane: plane.client(),
        member: MemberAccess {
            client: member().client(),
            endpoint: "https://member:6443".into(),
            insecure: false,
            proxy: None,
            authority: None,
        },
        name: "m1".into(),
        namespace: CLUSTER_NAMESPACE.into(),
        location: membership::ClusterLocation::default(),
        dry_run,
    }
}

/// Sets the condition of the member as soon as its Cluster exists.
fn set_ready_once_joined(api: &MemoryApi, status: &'static str) {
    let api = api.clone();
    tokio::spawn(async move {
        let target = ResourceRef::cluster(&CLUSTERS.gvr(), "m1");
        loop {
            if let Ok(Some(cluster)) = api.client().find(target.clone()).await {
                let mut cluster = (*cluster).clone();
                let condition = json!({"type": "Ready", "status": status, "reason": "R", "message": "not reachable"});
                cluster.set(&["status"], json!({"conditions": [condition]}));
                api.seed(&CLUSTERS.gvr(), cluster);
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_joined_cluster_is_reported_on_standard_output() {
    let plane = MemoryApi::default();
    set_ready_once_joined(&plane, "True");
    let (console, out, err) = testing::console();
    join_and_wait(&console, &options(&plane, false), None).await.unwrap();
    assert_eq!(out.text(), "cluster(m1) is joined successfully\n");
    assert!(err.text().ends_with("cluster m1 is ready\n"), "{}", err.text());
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_not_ready_is_a_warning_or_with_wait_an_error() {
    for (wait, is_error) in [(None, false), (Some(Duration::from_secs(30)), true)] {
        let plane = MemoryApi::default();
        set_ready_once_joined(&plane, "False");
        let (console, _, err) = testing::console();
        let result = join_and_wait(&console, &options(&plane, false), wait).await;
        assert_eq!(result.is_err(), is_error);
        let text = result.err().map(|error| error.to_string()).unwrap_or_default() + &err.text();
        assert!(text.contains("R: not reachable"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_prints_no_result() {
    let (console, out, err) = testing::console();
    join_and_wait(&console, &options(&MemoryApi::default(), true), None).await.unwrap();
    assert_eq!(out.text(), "");
    assert!(err.text().contains("can be joined; nothing was changed"), "{}", err.text());
}
