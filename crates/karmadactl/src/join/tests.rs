//! Joining against APIs in memory: what is made on both sides, what is refused, what is waited for.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::testing::MemoryApi;
use cluster_client::{ApiCall, Verb};
use object::{Object, Status};
use serde_json::json;

use super::*;
use crate::console::testing;

const ID: &str = "uid-1";

fn joining(name: &str) -> Joining {
    Joining {
        name: name.into(),
        namespace: CLUSTER_NAMESPACE.into(),
        provider: Some("aws".into()),
        region: None,
        zones: vec!["a".into(), "b".into()],
        dry_run: false,
    }
}

/// A cluster with a token controller: token secrets are full as soon as they are there.
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

/// The control plane looks at a member as soon as it appears.
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
async fn both_sides_get_what_karmada_makes() {
    let (plane_api, member_api) = (MemoryApi::default(), member());
    let plane = Plane::given(plane_api.client(), []);
    set_ready_once_joined(&plane_api, "True");
    let (console, out, err) = testing::console();
    join(&console, &plane, &joining("m1"), &access(&member_api), None).await.unwrap();
    assert_eq!(out.text(), "cluster(m1) is joined successfully\n");
    assert!(err.text().ends_with("cluster m1 is ready\n"), "{}", err.text());

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
    let plane = Plane::given(plane_api.client(), []);
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
        let (console, _, _) = testing::console();
        let member_api = member();
        let error = join(&console, &plane, &joining(name), &access(&member_api), None).await.unwrap_err();
        assert_eq!(error.to_string(), why);
        assert!(member_api.calls().iter().all(|call| call.starts_with("get ")), "nothing was made in the member");
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_not_ready_is_reported_or_refused() {
    for (wait, is_error) in [(None, false), (Some(Duration::from_secs(30)), true)] {
        let (plane_api, member_api) = (MemoryApi::default(), member());
        let plane = Plane::given(plane_api.client(), []);
        set_ready_once_joined(&plane_api, "False");
        let (console, _, err) = testing::console();
        let result = join(&console, &plane, &joining("m1"), &access(&member_api), wait).await;
        assert_eq!(result.is_err(), is_error);
        let said = result.err().map(|error| error.to_string()).unwrap_or_default() + &err.text();
        assert!(said.contains("ClusterNotReachable: cluster is not reachable"), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn where_nobody_fills_token_secrets_a_token_is_asked_for() {
    let (plane_api, member_api) = (MemoryApi::default(), member());
    for name in ["karmada-impersonator", "karmada-m1"] {
        member_api.seed(&SECRETS.gvr(), SECRETS.object(CLUSTER_NAMESPACE, name));
    }
    // The API in memory makes no tokens, and says so in its way.
    let plane = Plane::given(plane_api.client(), []);
    member_api.set_fault(|call: &ApiCall| match &call.verb {
        Verb::Create { .. } if call.target.subresource.as_deref() == Some("token") => {
            Some(Status::new(403, "Forbidden", "serviceaccounts/token is forbidden"))
        }
        _ => None,
    });
    let (console, _, _) = testing::console();
    let error = join(&console, &plane, &joining("m1"), &access(&member_api), None).await.unwrap_err();
    let text = format!("{error:#}");
    assert!(
        text.contains("nobody filled the token secret") && text.contains("serviceaccounts/token is forbidden"),
        "{text}"
    );
    assert!(plane_api.client().find(ResourceRef::cluster(&CLUSTERS.gvr(), "m1")).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn rights_left_from_an_earlier_join_are_put_right() {
    let (plane_api, member_api) = (MemoryApi::default(), member());
    let name = "karmada-controller-manager:karmada-m1";
    let mut binding = CLUSTER_ROLE_BINDINGS.object("", name);
    binding.set(&["subjects"], json!([{"kind": "ServiceAccount", "name": "karmada-m1", "namespace": "elsewhere"}]));
    member_api.seed(&CLUSTER_ROLE_BINDINGS.gvr(), binding);
    let plane = Plane::given(plane_api.client(), []);
    set_ready_once_joined(&plane_api, "True");
    let (console, _, _) = testing::console();
    join(&console, &plane, &joining("m1"), &access(&member_api), None).await.unwrap();
    let binding = member_api.client().get(ResourceRef::cluster(&CLUSTER_ROLE_BINDINGS.gvr(), name)).await.unwrap();
    assert_eq!(binding.get(&["subjects"]).unwrap()[0]["namespace"], CLUSTER_NAMESPACE);
}

#[tokio::test(start_paused = true)]
async fn a_refused_cluster_leaves_no_secrets_behind() {
    let (plane_api, member_api) = (MemoryApi::default(), member());
    plane_api.set_fault(|call: &ApiCall| match &call.verb {
        Verb::Create { .. } if call.target.gvr.resource == "clusters" => {
            Some(Status::new(422, "Invalid", "no such zone"))
        }
        _ => None,
    });
    let plane = Plane::given(plane_api.client(), []);
    let (console, _, _) = testing::console();
    let error = join(&console, &plane, &joining("m1"), &access(&member_api), None).await.unwrap_err();
    assert_eq!(format!("{error:#}"), "failed to create cluster(m1) object: no such zone");
    let secret = ResourceRef::namespaced(&SECRETS.gvr(), CLUSTER_NAMESPACE, "m1");
    assert!(plane_api.client().find(secret).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_only_looks() {
    let (plane_api, member_api) = (MemoryApi::default(), member());
    let plane = Plane::given(plane_api.client(), []);
    let (console, out, _) = testing::console();
    let joining = Joining { dry_run: true, ..joining("m1") };
    join(&console, &plane, &joining, &access(&member_api), None).await.unwrap();
    assert_eq!(out.text(), "");
    assert_eq!(member_api.calls(), ["get namespaces /kube-system"]);
    assert_eq!(plane_api.calls(), ["list clusters /"]);
}

#[test]
fn names_are_labels_of_at_most_48_characters() {
    assert!(check_name(&"a".repeat(48)).is_ok());
    assert_eq!(
        check_name(&"a".repeat(49)).unwrap_err().to_string(),
        format!("invalid cluster name({}): must be no more than 48 characters", "a".repeat(49))
    );
    assert!(check_name("M_1").is_err());
}
