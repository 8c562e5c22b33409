//! Joining against APIs in memory: created objects on both sides, refusals, and waiting.

use api::names::CLUSTER_NAMESPACE;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::testing::MemoryApi;
use cluster_client::{ApiCall, ApiRequest};
use object::request::Subresource;
use object::{Object, Status};
use serde_json::json;

use super::*;
use crate::credentials::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, SECRETS};
use crate::progress::testing::RecordedProgress;

const ID: &str = "uid-1";

fn options(plane: &MemoryApi, member: &MemoryApi, name: &str) -> JoinOptions {
    JoinOptions {
        control_plane: plane.client(),
        member: access(member),
        name: name.into(),
        namespace: CLUSTER_NAMESPACE.into(),
        location: ClusterLocation {
            provider: "aws".into(),
            region: String::new(),
            zones: vec!["a".into(), "b".into()],
        },
        dry_run: false,
    }
}

/// A cluster whose token controller has already populated the token secrets.
fn member() -> MemoryApi {
    let api = MemoryApi::default();
    // The first object of an API in memory has this UID.
    assert_eq!(api.seed(&NAMESPACES.gvr(), NAMESPACES.object("", "kube-system")).uid(), ID);
    for (name, token) in [("karmada-impersonator", "token-i"), ("karmada-m1", "token-m")] {
        let mut secret = SECRETS.object(CLUSTER_NAMESPACE, name);
        secret.set(&["type"], "kubernetes.io/service-account-token");
        secret.set(&["data"], json!({"token": STANDARD.encode(token), "ca.crt": STANDARD.encode("CA of the cluster")}));
        api.seed(&SECRETS.gvr(), secret);
    }
    api
}

fn access(api: &MemoryApi) -> MemberAccess {
    MemberAccess {
        client: api.client(),
        endpoint: "https://member:6443".into(),
        insecure: false,
        proxy: None,
        authority: Some(b"CA of the kubeconfig".to_vec()),
    }
}

fn set_ready(api: &MemoryApi, cluster: &Object, status: &str, message: &str) {
    let mut cluster = cluster.clone();
    let condition = json!({"type": "Ready", "status": status, "reason": "ClusterNotReachable", "message": message});
    cluster.set(&["status"], json!({"conditions": [condition]}));
    api.seed(&CLUSTERS.gvr(), cluster);
}

/// Sets the condition of the member as soon as its Cluster exists.
fn set_ready_once_joined(api: &MemoryApi, status: &'static str) {
    let api = api.clone();
    tokio::spawn(async move {
        let target = ResourceRef::cluster(&CLUSTERS.gvr(), "m1");
        loop {
            if let Ok(Some(cluster)) = api.client().find(target.clone()).await {
                return set_ready(&api, &cluster, status, "cluster is not reachable");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

#[tokio::test(start_paused = true)]
async fn both_sides_get_the_objects_karmada_creates() {
    let (plane_api, member_api) = (MemoryApi::default(), member());
    set_ready_once_joined(&plane_api, "True");
    let progress = RecordedProgress::default();
    let outcome = join(&options(&plane_api, &member_api, "m1"), &progress).await.expect("joined");
    assert_eq!(outcome, JoinOutcome::Joined { id: ID.into() });
    let ready = wait_until_ready(&plane_api.client(), "m1", Duration::from_secs(10), &progress).await;
    assert_eq!(ready.expect("answers"), Readiness::Ready);

    let role = ResourceRef::cluster(&CLUSTER_ROLES.gvr(), "karmada-controller-manager:karmada-m1");
    let role = member_api.client().get(role).await.unwrap();
    assert_eq!(role.get(&["rules"]).unwrap()[0], json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
    assert_eq!(role.label("karmada.io/system"), Some("true"));

    let cluster = plane_api.client().get(ResourceRef::cluster(&CLUSTERS.gvr(), "m1")).await.unwrap();
    let expected = json!({
        "id": ID, "syncMode": "Push", "apiEndpoint": "https://member:6443", "provider": "aws", "zones": ["a", "b"],
        "secretRef": {"namespace": "karmada-cluster", "name": "m1"},
        "impersonatorSecretRef": {"namespace": "karmada-cluster", "name": "m1-impersonator"},
    });
    assert_eq!(cluster.get(&["spec"]), Some(&expected));
    let secret =
        plane_api.client().get(ResourceRef::namespaced(&SECRETS.gvr(), CLUSTER_NAMESPACE, "m1")).await.unwrap();
    let data = json!({"caBundle": STANDARD.encode("CA of the cluster"), "token": STANDARD.encode("token-m")});
    assert_eq!(secret.get(&["data"]), Some(&data));
    assert_eq!(secret.owner_references()[0].uid, cluster.uid());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_joins_once() {
    let plane_api = MemoryApi::default();
    for (name, id) in [("m0", ID), ("m2", "another")] {
        let mut other = CLUSTERS.object("", name);
        other.set(&["spec"], json!({"id": id, "syncMode": "Push", "apiEndpoint": "https://other"}));
        plane_api.seed(&CLUSTERS.gvr(), other);
    }
    for (name, why) in [
        (
            "m1",
            "the cluster ID uid-1 or the cluster name m1 has been registered: this is the cluster that joined as m0",
        ),
        (
            "m2",
            "the cluster ID uid-1 or the cluster name m2 has been registered: this is the cluster that joined as m0",
        ),
        (
            "m0",
            "the cluster ID uid-1 or the cluster name m0 has been registered: there is a cluster m0 already (at https://other)",
        ),
    ] {
        let member_api = member();
        let error =
            join(&options(&plane_api, &member_api, name), &RecordedProgress::default()).await.expect_err("refused");
        assert_eq!(error.to_string(), why);
        assert!(member_api.calls().iter().all(|call| call.starts_with("get ")), "nothing was created in the member");
    }
}

#[tokio::test(start_paused = true)]
async fn the_reason_of_a_member_that_is_not_ready_is_returned_and_reported() {
    let (plane_api, member_api) = (MemoryApi::default(), member());
    set_ready_once_joined(&plane_api, "False");
    let progress = RecordedProgress::default();
    join(&options(&plane_api, &member_api, "m1"), &progress).await.expect("joined");
    let ready = wait_until_ready(&plane_api.client(), "m1", Duration::from_secs(30), &progress).await;
    let reason = "ClusterNotReachable: cluster is not reachable";
    assert_eq!(ready.expect("answers"), Readiness::NotReady(reason.into()));
    assert!(progress.text().contains(reason), "{}", progress.text());
    let missing = wait_until_ready(&plane_api.client(), "m2", Duration::from_secs(30), &progress).await;
    assert!(matches!(missing, Err(MembershipError::NoSuchCluster(_))), "{missing:?}");
}

#[tokio::test(start_paused = true)]
async fn a_token_is_requested_when_token_secrets_stay_empty() {
    let (plane_api, member_api) = (MemoryApi::default(), member());
    for name in ["karmada-impersonator", "karmada-m1"] {
        member_api.seed(&SECRETS.gvr(), SECRETS.object(CLUSTER_NAMESPACE, name));
    }
    member_api.set_fault(|call: &ApiCall| match &call.request {
        ApiRequest::Create { .. } if call.target.subresource == Some(Subresource::Token) => {
            Some(Status::new(403, "Forbidden", "serviceaccounts/token is forbidden"))
        }
        _ => None,
    });
    let error =
        join(&options(&plane_api, &member_api, "m1"), &RecordedProgress::default()).await.expect_err("no token");
    let MembershipError::MemberCredentials { source, .. } = error else { panic!("{error}") };
    let text = source.to_string();
    assert!(text.contains("was not populated within") && text.contains("serviceaccounts/token is forbidden"), "{text}");
    assert!(plane_api.client().find(ResourceRef::cluster(&CLUSTERS.gvr(), "m1")).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn permissions_left_from_an_earlier_join_are_updated() {
    let (plane_api, member_api) = (MemoryApi::default(), member());
    let name = "karmada-controller-manager:karmada-m1";
    let mut binding = CLUSTER_ROLE_BINDINGS.object("", name);
    binding.set(&["subjects"], json!([{"kind": "ServiceAccount", "name": "karmada-m1", "namespace": "elsewhere"}]));
    member_api.seed(&CLUSTER_ROLE_BINDINGS.gvr(), binding);
    join(&options(&plane_api, &member_api, "m1"), &RecordedProgress::default()).await.expect("joined");
    let binding = member_api.client().get(ResourceRef::cluster(&CLUSTER_ROLE_BINDINGS.gvr(), name)).await.unwrap();
    assert_eq!(binding.get(&["subjects"]).unwrap()[0]["namespace"], CLUSTER_NAMESPACE);
}

#[tokio::test(start_paused = true)]
async fn a_refused_cluster_leaves_no_secrets_behind() {
    let (plane_api, member_api) = (MemoryApi::default(), member());
    plane_api.set_fault(|call: &ApiCall| match &call.request {
        ApiRequest::Create { .. } if call.target.gvr.resource == "clusters" => {
            Some(Status::new(422, "Invalid", "no such zone"))
        }
        _ => None,
    });
    let error = join(&options(&plane_api, &member_api, "m1"), &RecordedProgress::default()).await.expect_err("refused");
    assert_eq!(error.to_string(), "failed to create cluster(m1) object");
    let cause = std::error::Error::source(&error).expect("a cause");
    assert_eq!(cause.to_string(), "no such zone");
    let secret = ResourceRef::namespaced(&SECRETS.gvr(), CLUSTER_NAMESPACE, "m1");
    assert!(plane_api.client().find(secret).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_only_reads() {
    let (plane_api, member_api) = (MemoryApi::default(), member());
    let options = JoinOptions { dry_run: true, ..options(&plane_api, &member_api, "m1") };
    let outcome = join(&options, &RecordedProgress::default()).await.expect("checked");
    assert_eq!(outcome, JoinOutcome::Checked { id: ID.into() });
    assert_eq!(member_api.calls(), ["get namespaces /kube-system"]);
    assert_eq!(plane_api.calls(), ["list clusters /"]);
}

#[tokio::test(start_paused = true)]
async fn deleted_credentials_are_renewed_without_touching_the_cluster() {
    let (plane_api, member_api) = (MemoryApi::default(), member());
    let options = options(&plane_api, &member_api, "m1");
    let missing = renew_credentials(&options, &RecordedProgress::default()).await;
    assert!(matches!(missing, Err(MembershipError::NoSuchCluster(_))), "{missing:?}");
    join(&options, &RecordedProgress::default()).await.expect("joined");
    let plane = plane_api.client();
    let cluster = plane.get(ResourceRef::cluster(&CLUSTERS.gvr(), "m1")).await.expect("a cluster");
    let secret = ResourceRef::namespaced(&SECRETS.gvr(), CLUSTER_NAMESPACE, "m1");
    plane.delete(secret.clone(), cluster_client::DeleteOptions::default()).await.expect("deleted");
    renew_credentials(&options, &RecordedProgress::default()).await.expect("renewed");
    let renewed = plane.get(secret).await.expect("a secret");
    assert_eq!(renewed.str_at(&["data", "token"]), STANDARD.encode("token-m"));
    assert_eq!(renewed.owner_references()[0].uid, cluster.uid());
}
