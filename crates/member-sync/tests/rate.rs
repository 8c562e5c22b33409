//! Measures how fast a thousand works reach a real kube-apiserver; run by hand with `--ignored --nocapture`.

mod bench;
#[path = "../../cluster-client/tests/kube/mod.rs"]
mod kube;

use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster_client::{ClusterClient, Endpoint, Kubeconfig, ListOptions, ResourceRef, WriteOptions};
use member_sync::{MemberDeps, Recorders, Settings, run_member};
use reconcile::SystemClock;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::bench::{Hub, deployments, eventually, interpreter, object};
use crate::kube::KubeApiServer;

const WORKS: usize = 1000;

fn deployment(index: usize) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": format!("web-{index}"), "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]}}}})
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn a_thousand_works_to_one_real_member() {
    let Some(server) = KubeApiServer::start() else { return };
    let kubeconfig = Kubeconfig::load(std::slice::from_ref(&server.kubeconfig)).expect("a kubeconfig");
    let mut remote = kubeconfig.remote(None).expect("a remote");
    remote.rate_limit = Settings::default().rate_limit;
    let member = ClusterClient::connect(Endpoint::Remote(remote)).expect("connects");
    let start = Instant::now();
    let creates = (0..WORKS).map(|index| {
        let mut made = object(deployment(index));
        made.set_name(&format!("plain-{index}"));
        member.create(ResourceRef::within(&deployments(), "default"), made, WriteOptions::default())
    });
    let made = futures::future::join_all(creates).await;
    assert!(made.iter().all(Result::is_ok));
    eprintln!("bare creates: {:.0}/s", WORKS as f64 / start.elapsed().as_secs_f64());

    let hub = Hub { clock: Arc::new(SystemClock), ..Hub::start() };
    hub.join("m1");
    let cancel = CancellationToken::new();
    let plane = hub.api.client();
    let parts = MemberDeps {
        recorders: Recorders::start(&plane, &hub.clock, &cancel),
        plane,
        member: member.clone(),
        cluster: "m1".to_owned(),
        interpreter: interpreter(),
        member_capacity: hub.member_capacity.clone(),
        features: Arc::default(),
        clock: Arc::clone(&hub.clock),
        metrics: Default::default(),
        settings: Settings::default(),
    };
    let task = tokio::spawn(run_member(parts, cancel.clone()));
    eventually("ready", "True/ClusterReady".to_owned(), || hub.readiness("m1")).await;
    let start = Instant::now();
    for index in 0..WORKS {
        hub.work("m1", deployment(index), json!({}));
    }
    let managed = ListOptions { label_selector: Some("karmada.io/managed=true".into()), ..ListOptions::default() };
    loop {
        let there = member.list_all(ResourceRef::all(&deployments()), managed.clone()).await.expect("a list");
        if there.items.len() == WORKS {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    eprintln!("works in the member: {:.0}/s", WORKS as f64 / start.elapsed().as_secs_f64());
    eventually("reported", WORKS, || async { hub.status_writes() }).await;
    eprintln!("works reported: {:.0}/s", WORKS as f64 / start.elapsed().as_secs_f64());
    cancel.cancel();
    task.await.expect("ends in good order");
}
