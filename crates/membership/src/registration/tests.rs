//! Registration against APIs in memory: created objects, kept fields, refused duplicates.

use cluster_client::testing::MemoryApi;

use super::*;

/// UID the API in memory gives its first object: the namespace kube-system.
const ID: &str = "uid-1";

fn object(value: Value) -> Object {
    Object::from_value(value).expect("a map")
}

fn cluster(name: &str, id: &str) -> Arc<Object> {
    Arc::new(object(json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": name}, "spec": {"id": id, "syncMode": "Pull"}})))
}

/// A member whose token secrets are populated.
fn member() -> MemoryApi {
    let api = MemoryApi::default();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}});
    api.seed(&NAMESPACES.gvr(), object(namespace));
    for (account, token) in [("karmada-m1", "cluster"), ("karmada-impersonator", "impersonator")] {
        let data = json!({"token": STANDARD.encode(token), "ca.crt": STANDARD.encode("CA")});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "data": data,
            "metadata": {"name": account, "namespace": "karmada-cluster"}});
        api.seed(&SECRETS.gvr(), object(secret));
    }
    api
}

fn registration() -> Registration {
    Registration { name: "m1".into(), namespace: "karmada-cluster".into(), ..Registration::default() }
}

#[test]
fn a_member_is_registered_once_under_one_name() {
    let judged = |known: &[Arc<Object>]| match find_current(known, ID, "m1") {
        Ok(current) => current.map_or("new".to_owned(), |cluster| format!("known as {}", cluster.name())),
        Err(refused) => refused.reason,
    };
    assert_eq!(judged(&[]), "new");
    assert_eq!(judged(&[cluster("m2", "other")]), "new");
    assert_eq!(judged(&[cluster("m1", ID)]), "known as m1");
    assert_eq!(judged(&[cluster("m2", ID)]), "this cluster is registered as m2");
    assert_eq!(judged(&[cluster("m1", "other")]), "cluster m1 is another cluster, with the ID \"other\"");
}

#[test]
fn report_secrets_selects_the_reported_secrets() {
    #[track_caller]
    fn check(words: &[&str], expected: Option<(bool, bool)>) {
        let parsed = ReportSecrets::parse(words.iter().copied());
        assert_eq!(parsed.ok().map(|report| (report.credentials, report.impersonator)), expected, "{words:?}");
    }
    check(&["KubeCredentials", "KubeImpersonator"], Some((true, true)));
    check(&["KubeImpersonator"], Some((false, true)));
    check(&["None"], Some((false, false)));
    check(&["None", "KubeCredentials"], None);
    check(&["kubecredentials"], None);
}

async fn secret(plane: &MemoryApi, name: &str) -> Option<Arc<Object>> {
    let target = ResourceRef::namespaced(&SECRETS.gvr(), "karmada-cluster", name);
    plane.client().find(target).await.expect("the plane answers")
}

async fn registered(plane: &MemoryApi) -> Arc<Object> {
    plane.client().get(ResourceRef::cluster(&CLUSTERS.gvr(), "m1")).await.expect("a Cluster")
}

#[tokio::test]
async fn registered_secrets_are_owned_by_the_cluster() {
    let (plane, member) = (MemoryApi::default(), member());
    let desired = Registration {
        location: ClusterLocation { region: "north".into(), zones: vec!["a".into()], ..Default::default() },
        ..registration()
    };
    ensure_registered(&plane.client(), &member.client(), &desired).await.expect("registered");
    let cluster = registered(&plane).await;
    let spec = cluster.get(&["spec"]).cloned().expect("a spec");
    assert_eq!(
        spec,
        json!({"id": ID, "syncMode": "Pull", "region": "north", "zones": ["a"],
            "secretRef": {"namespace": "karmada-cluster", "name": "m1"},
            "impersonatorSecretRef": {"namespace": "karmada-cluster", "name": "m1-impersonator"}})
    );
    let own = secret(&plane, "m1").await.expect("a secret");
    assert_eq!(own.str_at(&["data", "token"]), STANDARD.encode("cluster"));
    assert_eq!(own.str_at(&["data", "caBundle"]), STANDARD.encode("CA"));
    let impersonator = secret(&plane, "m1-impersonator").await.expect("a secret");
    for secret in [own, impersonator] {
        assert_eq!(secret.owner_references()[0].uid, cluster.uid(), "{}", secret.name());
    }
}

#[tokio::test]
async fn without_reported_secrets_nothing_is_created_in_the_member() {
    let (plane, member) = (MemoryApi::default(), member());
    let report = ReportSecrets { credentials: false, impersonator: false };
    ensure_registered(&plane.client(), &member.client(), &Registration { report, ..registration() })
        .await
        .expect("registered");
    assert_eq!(registered(&plane).await.get(&["spec", "secretRef"]), None);
    assert!(secret(&plane, "m1").await.is_none());
    let writes: Vec<String> = member.calls().into_iter().filter(|call| !call.starts_with("get")).collect();
    assert!(writes.is_empty(), "{writes:?}");
}

#[tokio::test]
async fn a_restarted_agent_keeps_fields_set_by_others() {
    let (plane, member) = (MemoryApi::default(), member());
    let mut known = (*cluster("m1", ID)).clone();
    known.set(&["spec", "taints"], json!([{"key": "k", "effect": "NoSchedule"}]));
    known.set(&["spec", "later"], "unknown here");
    plane.seed(&CLUSTERS.gvr(), known);
    let desired = Registration { api_endpoint: "https://10.0.0.1:6443".into(), ..registration() };
    ensure_registered(&plane.client(), &member.client(), &desired).await.expect("registered");
    let cluster = registered(&plane).await;
    assert_eq!(cluster.str_at(&["spec", "apiEndpoint"]), "https://10.0.0.1:6443");
    assert_eq!(cluster.str_at(&["spec", "later"]), "unknown here");
    assert_eq!(cluster.items(&["spec", "taints"]).len(), 1);
}

#[tokio::test]
async fn an_agent_with_access_to_its_own_cluster_only_registers() {
    let (plane, member) = (MemoryApi::default(), member());
    plane.seed(&CLUSTERS.gvr(), (*cluster("m1", ID)).clone());
    plane.set_fault(|call| {
        let is_cluster = call.target.gvr == CLUSTERS.gvr();
        let is_forbidden =
            matches!(call.request, cluster_client::ApiRequest::List(_) | cluster_client::ApiRequest::Update { .. });
        (is_cluster && is_forbidden).then(|| Status::new(403, "Forbidden", "no"))
    });
    ensure_registered(&plane.client(), &member.client(), &registration()).await.expect("registered");
    assert_eq!(registered(&plane).await.get(&["spec", "secretRef"]), None);
}

#[tokio::test]
async fn another_cluster_of_the_same_name_is_left_alone() {
    let (plane, member) = (MemoryApi::default(), member());
    plane.seed(&CLUSTERS.gvr(), (*cluster("m1", "other")).clone());
    let error = ensure_registered(&plane.client(), &member.client(), &registration()).await.expect_err("refused");
    assert!(matches!(error, RegistrationError::Duplicate(_)), "{error}");
    assert!(secret(&plane, "m1").await.is_none(), "the secrets of another cluster are not written");
}
