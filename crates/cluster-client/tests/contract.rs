//! One contract for every API: in memory in this process, and a real kube-apiserver over the network.

mod kube;

use cluster_client::testing::MemoryApi;
use cluster_client::testing::contract::{all, at, config_map, expiry_of, suite};
use cluster_client::{
    ApiRequest, ClusterClient, DeleteOptions, Endpoint, Kubeconfig, ListOptions, RemoteConfig, ResourceRef, User,
    WriteOptions, is_unreachable,
};
use object::builtin;
use object::{GroupVersionKind, Object};

#[tokio::test]
async fn the_in_memory_api_passes_the_contract() {
    let api = MemoryApi::default();
    let client = api.client();
    suite(&client).await;
    client.create(all(), config_map("x", "1"), WriteOptions::default()).await.expect("created");
    api.compact();
    assert!(expiry_of(&client, "1").await.is_expired());
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_apiserver_over_the_network_passes_the_contract() {
    let Some(server) = tokio::task::spawn_blocking(kube::KubeApiServer::start).await.expect("started") else { return };
    let config = Kubeconfig::load(std::slice::from_ref(&server.kubeconfig)).expect("a kubeconfig");
    let remote = config.remote(None).expect("a context");
    let client = ClusterClient::connect(Endpoint::Remote(remote.clone())).expect("usable");
    assert_eq!(client.get_json("/version").await.expect("answered")["major"], "1");
    suite(&client).await;
    network_only(&client, remote).await;

    // A restarted server has no history in memory; the client reconnects by itself.
    let server = tokio::task::spawn_blocking(move || {
        let mut server = server;
        server.restart();
        server
    });
    let _server = server.await.expect("restarted");
    assert!(expiry_of(&client, "1").await.is_expired());
}

async fn network_only(client: &ClusterClient, remote: RemoteConfig) {
    let jane = client.impersonating(User::new("jane", &["dev"]));
    let refused = jane.list(all(), ListOptions::default()).await.expect_err("jane has no rights");
    assert_eq!((refused.code, refused.reason), (403, "Forbidden"));
    assert!(refused.message.contains("User \"jane\" cannot list resource \"configmaps\""), "{refused}");

    let deployments = builtin::deployments();
    let bad = Object::new(&GroupVersionKind::new("apps", "v1", "Deployment"), Some("default"), "bad");
    let target = ResourceRef::within(&deployments, "default");
    let invalid = client.create(target, bad, WriteOptions::default()).await.expect_err("invalid");
    assert_eq!((invalid.code, invalid.reason), (422, "Invalid"));
    assert!(invalid.details.expect("details").causes.iter().any(|cause| cause.field == "spec.selector"));

    let mut unknown = config_map("warned", "1");
    unknown.set(&["nonsense"], 1);
    let verb = ApiRequest::Create { object: unknown, options: WriteOptions::default() };
    let reply = client.call(all(), verb).await.expect("created with a warning");
    assert!(reply.created());
    assert_eq!(reply.warnings, ["unknown field \"nonsense\""]);
    client.delete(at("warned"), DeleteOptions::default()).await.expect("deleted");

    let mut wrong = remote.clone();
    wrong.credentials.token = Some("wrong".into());
    let wrong = ClusterClient::connect(Endpoint::Remote(wrong)).expect("usable");
    assert_eq!(wrong.get(at("x")).await.expect_err("unknown token").code, 401);

    let mut untrusting = remote.clone();
    untrusting.ca = None;
    let untrusting = ClusterClient::connect(Endpoint::Remote(untrusting)).expect("usable");
    let refused = untrusting.get(at("x")).await.expect_err("not trusted");
    assert!(is_unreachable(&refused) && refused.message.contains("certificate"), "{refused}");

    let gone = RemoteConfig::new("https://127.0.0.1:1");
    let gone = ClusterClient::connect(Endpoint::Remote(gone)).expect("usable");
    assert!(is_unreachable(&gone.get(at("x")).await.expect_err("no server")));
}
