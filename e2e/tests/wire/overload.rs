//! A client that sends too many requests gets 429, and other clients are not affected.

use e2e::flotilla::Flotilla;
use serde_json::json;

use crate::wire::Endpoint;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn a_flood_gets_429_with_retry_after() {
    let server = Flotilla::start_with(&["--max-requests-inflight", "1"]);
    let admin = Endpoint::of_kubeconfig(&server.kubeconfig);
    let flooding = service_account(&admin, &server);
    for number in 0..40 {
        let data = json!({"a": "x".repeat(50_000)});
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{number}")}, "data": data});
        admin.post(MAPS, &map).expect(201);
    }
    flooding.get(MAPS).expect(200);

    let ask = |endpoint: &Endpoint| (0..30).map(|_| endpoint.get("/api/v1/configmaps")).collect::<Vec<_>>();
    let answers: Vec<_> = std::thread::scope(|scope| {
        let flood: Vec<_> = (0..12).map(|_| scope.spawn(|| ask(&flooding))).collect();
        let meanwhile = ask(&admin);
        assert!(meanwhile.iter().all(|answer| answer.code == 200), "administrators are exempt");
        flood.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    let refused: Vec<_> = answers.iter().filter(|answer| answer.code != 200).collect();
    assert!(!refused.is_empty(), "none of {} requests was too many", answers.len());
    assert!(refused.len() < answers.len(), "some requests are served");
    for answer in refused {
        assert_eq!((answer.code, answer.reason().as_str()), (429, "TooManyRequests"), "{}", answer.text());
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    flooding.get(MAPS).expect(200);
}

/// A client with all permissions of an administrator that is still subject to limits.
fn service_account(admin: &Endpoint, server: &Flotilla) -> Endpoint {
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "flood"}});
    admin.post(accounts, &account).expect(201);
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "flood"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "flood", "namespace": "default"}],
    });
    admin.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).expect(201);
    let asked =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}});
    let token = admin.post(&format!("{accounts}/flood/token"), &asked).expect(201).json();
    admin.with_token(&server.kubeconfig, token["status"]["token"].as_str().expect("a token"))
}
