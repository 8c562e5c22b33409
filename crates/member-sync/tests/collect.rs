//! EndpointSlices of a member that are reported to the control plane, for MultiClusterServices and ServiceExports.

mod bench;

use std::time::Duration;

use api::features::Features;
use api::names::work_name;
use api::networking::{LABEL_SLICE_MANAGED_BY, LABEL_SLICE_NAME, SERVICE_NAME, SERVICE_NAMESPACE};
use api::work::WORKS;
use cluster_client::{ListOptions, Patch, ResourceRef, WriteOptions};
use object::builtin;
use serde_json::{Value, json};

use crate::bench::{Door, Hub, Syncing, eventually, object, work};

fn slice(name: &str, service: &str, controller: &str, address: &str) -> object::Object {
    object(json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": name, "namespace": "shop", "labels": {"kubernetes.io/service-name": service,
            "endpointslice.kubernetes.io/managed-by": controller}},
        "endpoints": [{"addresses": [address]}]}))
}

/// A member with slices of its own and dispatched ones.
async fn started(features: Features) -> (Hub, Door, Syncing) {
    let (hub, member) = (Hub::start(), Door::open());
    let own = "endpointslice-controller.k8s.io";
    for slice in [
        slice("web-1", "web", own, "10.0.0.1"),
        slice("m2-web-9", "web", "endpointslice-dispatch-controller.karmada.io", "10.9.0.1"),
        slice("imported-m2-web-9", "web", "endpointslice-controller.karmada.io", "10.9.0.1"),
        slice("vault-1", "vault", own, "10.0.0.7"),
    ] {
        member.api.seed(&builtin::endpoint_slices(), slice);
    }
    hub.join("m1");
    let syncing = hub.sync_with("m1", &member, features);
    eventually("ready", "True/ClusterReady".to_owned(), || hub.readiness("m1")).await;
    (hub, member, syncing)
}

fn with_services() -> Features {
    Features { multi_cluster_service: true, ..Features::default() }
}

/// The Work with which the control plane asks a provider for the slices of a service.
fn provide(hub: &Hub) -> String {
    let manifest = json!({"apiVersion": "networking.karmada.io/v1alpha1", "kind": "MultiClusterService",
        "metadata": {"name": "web", "namespace": "shop"}, "spec": {"types": ["CrossCluster"]}});
    let mut asking = work("m1", manifest, json!({"suspendDispatching": true}));
    asking.set(&["metadata", "labels"], json!({SERVICE_NAME: "web", SERVICE_NAMESPACE: "shop"}));
    asking.remove(&["metadata", "finalizers"]);
    let name = asking.name().to_owned();
    hub.api.seed(&WORKS.gvr(), asking);
    name
}

/// The reported slices: name of the slice, first address, collectors.
async fn reported(hub: &Hub) -> Vec<String> {
    let works = hub.api.client().list_all(ResourceRef::all(&WORKS.gvr()), ListOptions::default()).await.expect("lists");
    let works = works.items.into_iter().filter(|work| !work.is_deleting());
    let mut found: Vec<String> = works
        .filter_map(|work| {
            let slice = &work.items(&["spec", "workload", "manifests"])[0];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (name, address) = (text(&slice["metadata"]["name"]), text(&slice["endpoints"][0]["addresses"][0]));
            Some(format!("{name} {address} {}", work.label(LABEL_SLICE_MANAGED_BY)?))
        })
        .collect();
    found.sort();
    found
}

#[tokio::test(start_paused = true)]
async fn a_provider_reports_its_own_slices_and_their_changes() {
    let (hub, member, syncing) = started(with_services()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(
        !member.api.watches().iter().any(|watch| watch.gvr.resource == "endpointslices"),
        "nothing asks for slices"
    );
    let asking = provide(&hub);
    let one = vec!["web-1 10.0.0.1 MultiClusterService".to_owned()];
    eventually("reported", one.clone(), || reported(&hub)).await;

    let target = ResourceRef::namespaced(&builtin::endpoint_slices(), "shop", "web-1");
    let patch = Patch::merge(json!({"endpoints": [{"addresses": ["10.0.0.2"]}]}));
    member.api.client().patch(target.clone(), patch, WriteOptions::default()).await.expect("patched");
    member.api.seed(&builtin::endpoint_slices(), slice("web-2", "web", "", "10.0.0.3"));
    let two = vec!["web-1 10.0.0.2 MultiClusterService".to_owned(), "web-2 10.0.0.3 MultiClusterService".to_owned()];
    eventually("followed", two.clone(), || reported(&hub)).await;
    member.api.client().delete(target, Default::default()).await.expect("deleted");
    eventually("removed", two[1..].to_vec(), || reported(&hub)).await;

    // While the member is away, what it reported stays; what changed meanwhile is seen afterwards.
    member.shut();
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(reported(&hub).await, two[1..]);
    member.api.seed(&builtin::endpoint_slices(), slice("web-3", "web", "", "10.0.0.4"));
    member.reopen();
    let after = vec![two[1].clone(), "web-3 10.0.0.4 MultiClusterService".to_owned()];
    eventually("seen", after, || reported(&hub)).await;

    hub.delete_work("m1", &asking).await;
    eventually("none", Vec::<String>::new(), || reported(&hub)).await;
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_export_and_a_provided_service_share_their_reports() {
    let (hub, member, syncing) = started(with_services()).await;
    let export = json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceExport",
        "metadata": {"name": "web", "namespace": "shop"}});
    let mut seed = object(export.clone());
    seed.set_name("seed");
    member.api.seed(&api::multicluster::SERVICE_EXPORTS.gvr(), seed);
    hub.work("m1", export, json!({}));
    eventually("exported", vec!["web-1 10.0.0.1 ServiceExport".to_owned()], || reported(&hub)).await;
    let name = work_name("EndpointSlice", "web-1", "shop");
    assert_eq!(hub.get_work("m1", &name).await.label(LABEL_SLICE_NAME), Some("web"));
    let asking = provide(&hub);
    let both = vec!["web-1 10.0.0.1 MultiClusterService.ServiceExport".to_owned()];
    eventually("both", both, || reported(&hub)).await;
    hub.delete_work("m1", &asking).await;
    eventually("exported only", vec!["web-1 10.0.0.1 ServiceExport".to_owned()], || reported(&hub)).await;
    assert_eq!(hub.get_work("m1", &name).await.label(SERVICE_NAME), None);
    syncing.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_nothing_is_provided() {
    let (hub, _member, syncing) = started(Features::default()).await;
    provide(&hub);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(reported(&hub).await, Vec::<String>::new());
    syncing.stop().await;
}
