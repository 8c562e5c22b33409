//! Lists the permissions of a credential, checked by the server for every relevant verb and resource.

use std::path::Path;

use serde_json::{Value, json};

use crate::fleet::text;
use crate::member;

const VERBS: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// `group/resource[/subresource]`, `namespace`, `name`: of m1, of m2, and unrelated.
const THINGS: &[(&str, &str, &str)] = &[
    ("cluster.karmada.io/clusters", "", ""),
    ("cluster.karmada.io/clusters", "", "m1"),
    ("cluster.karmada.io/clusters", "", "m2"),
    ("cluster.karmada.io/clusters/status", "", "m1"),
    ("cluster.karmada.io/clusters/status", "", "m2"),
    ("cluster.karmada.io/clusters/proxy", "", "m1"),
    ("cluster.karmada.io/clusters/proxy", "", "m2"),
    ("work.karmada.io/works", "", ""),
    ("work.karmada.io/works", "karmada-es-m1", ""),
    ("work.karmada.io/works", "karmada-es-m2", ""),
    ("work.karmada.io/works/status", "karmada-es-m1", "w"),
    ("work.karmada.io/works/status", "karmada-es-m2", "w"),
    ("work.karmada.io/resourcebindings", "default", ""),
    ("work.karmada.io/clusterresourcebindings", "", ""),
    ("policy.karmada.io/propagationpolicies", "default", ""),
    ("policy.karmada.io/clusterpropagationpolicies", "", ""),
    ("policy.karmada.io/clustertaintpolicies", "", ""),
    ("config.karmada.io/resourceinterpretercustomizations", "", ""),
    ("/secrets", "", ""),
    ("/secrets", "karmada-cluster", ""),
    ("/secrets", "karmada-cluster", "m1"),
    ("/secrets", "karmada-cluster", "m1-impersonator"),
    ("/secrets", "karmada-cluster", "m2"),
    ("/secrets", "kube-system", "bootstrap-token-abcdef"),
    ("/secrets", "karmada-es-m1", ""),
    ("/configmaps", "kube-system", ""),
    ("/events", "karmada-es-m1", ""),
    ("/events", "karmada-es-m2", ""),
    ("/events", "default", ""),
    ("/namespaces", "", ""),
    ("/namespaces", "", "karmada-es-m1"),
    ("/serviceaccounts/token", "default", "default"),
    ("/pods/exec", "default", "p"),
    ("apps/deployments", "default", ""),
    ("coordination.k8s.io/leases", "karmada-cluster", ""),
    ("coordination.k8s.io/leases", "karmada-cluster", "m1"),
    ("coordination.k8s.io/leases", "karmada-cluster", "m2"),
    ("coordination.k8s.io/leases", "kube-system", "flotilla-controllers"),
    ("certificates.k8s.io/certificatesigningrequests", "", ""),
    ("certificates.k8s.io/certificatesigningrequests/approval", "", "r"),
    ("certificates.k8s.io/certificatesigningrequests/status", "", "r"),
    ("certificates.k8s.io/certificatesigningrequests/clusteragent", "", ""),
    ("certificates.k8s.io/certificatesigningrequests/clusteragent", "", "m1"),
    ("certificates.k8s.io/certificatesigningrequests/clusteragent", "", "m2"),
    ("certificates.k8s.io/certificatesigningrequests/clusteragent", "", "rbac-generator"),
    ("rbac.authorization.k8s.io/clusterroles", "", ""),
    ("rbac.authorization.k8s.io/clusterrolebindings", "", ""),
    ("rbac.authorization.k8s.io/roles", "karmada-es-m1", ""),
    ("rbac.authorization.k8s.io/rolebindings", "karmada-es-m1", ""),
    ("apiextensions.k8s.io/customresourcedefinitions", "", ""),
    ("admissionregistration.k8s.io/validatingwebhookconfigurations", "", ""),
    ("apiregistration.k8s.io/apiservices", "", ""),
    ("authentication.k8s.io/tokenreviews", "", ""),
    ("authorization.k8s.io/subjectaccessreviews", "", ""),
];

/// Special verbs.
const SPECIAL: &[(&str, &str, &str, &str)] = &[
    ("impersonate", "/users", "", "system:admin"),
    ("impersonate", "/groups", "", "system:masters"),
    ("impersonate", "/serviceaccounts", "kube-system", "default"),
    ("bind", "rbac.authorization.k8s.io/clusterroles", "", "cluster-admin"),
    ("escalate", "rbac.authorization.k8s.io/clusterroles", "", "cluster-admin"),
    ("approve", "certificates.k8s.io/signers", "", "kubernetes.io/kube-apiserver-client"),
    ("sign", "certificates.k8s.io/signers", "", "kubernetes.io/kube-apiserver-client"),
];

const PATHS: &[&str] = &["/metrics", "/debug/pprof", "/flotilla/v1alpha1/failover"];

/// Returns the allowed actions, one line per resource: `resource namespace/name: verbs`.
pub fn allowed(kubeconfig: &Path) -> Vec<String> {
    let usual = THINGS.iter().flat_map(|thing| VERBS.iter().map(move |verb| (*verb, thing.0, thing.1, thing.2)));
    let asked: Vec<_> = usual.chain(SPECIAL.iter().copied()).collect();
    let resources = asked.iter().map(|(verb, resource, namespace, name)| {
        let mut parts = resource.splitn(3, '/');
        let [group, resource, subresource] = [(); 3].map(|()| parts.next().unwrap_or_default());
        json!({"resourceAttributes": {"verb": verb, "group": group, "resource": resource, "subresource": subresource,
            "namespace": namespace, "name": name}})
    });
    let paths = PATHS.iter().map(|path| json!({"nonResourceAttributes": {"verb": "get", "path": path}}));
    let answers = review(kubeconfig, resources.chain(paths).collect());
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for ((verb, resource, namespace, name), _) in asked.iter().zip(&answers).filter(|(_, is_allowed)| **is_allowed) {
        let thing = format!("{resource} {namespace}/{name}");
        match lines.iter_mut().find(|(known, _)| *known == thing) {
            Some((_, verbs)) => verbs.push(*verb),
            None => lines.push((thing, vec![*verb])),
        }
    }
    let paths = PATHS.iter().zip(&answers[asked.len()..]).filter(|(_, is_allowed)| **is_allowed);
    let paths = paths.map(|(path, _)| format!("{path}: get"));
    lines.into_iter().map(|(thing, verbs)| format!("{thing}: {}", verbs.join(" "))).chain(paths).collect()
}

fn review(kubeconfig: &Path, specs: Vec<Value>) -> Vec<bool> {
    let asked = specs.len();
    let items: Vec<Value> = specs
        .into_iter()
        .map(|spec| json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}))
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let path = r#"-o=jsonpath={.status.allowed}{"\n"}"#;
    let output = member::apply(kubeconfig, &["create", "-f", "-", path], &list);
    assert!(output.status.success(), "{}", text(&output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let answers: Vec<bool> = said.lines().map(|line| line == "true").collect();
    assert_eq!(answers.len(), asked, "{said}");
    answers
}
