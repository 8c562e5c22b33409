//! Registration of clusters with a bootstrap token: by our command and by karmadactl, and the resulting permissions.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use e2e::agent::Agent;
use e2e::fleet::{Fleet, READY_REPLICAS, application, run, text};
use e2e::flotilla::{Flotilla, binary, kubectl, programs};
use e2e::member::{self, Member};
use e2e::permissions;

fn fleet(names: &[&str]) -> Option<Fleet> {
    let members = Member::start_all(names, 1)?;
    // Karmada's own agents register with tokens for any cluster.
    Some(Fleet { plane: Flotilla::start_with(&["--agent-approval=any"]), members })
}

/// Returns the registration command printed by the control plane.
fn register_command(fleet: &Fleet) -> Vec<String> {
    let output = fleet.flotilla(&["token", "create", "--any-cluster", "--print-register-command"]);
    assert!(output.status.success(), "{}", text(&output));
    let line = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    line.split_whitespace().skip(1).map(str::to_owned).collect()
}

fn register(program: &Path, fleet: &Fleet, cluster: &str, more: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(register_command(fleet)).args(["--cluster-name", cluster]).args(more);
    command.arg("--kubeconfig").arg(fleet.member(cluster).kubeconfig());
    command.stdin(Stdio::null()).output().expect("the program runs")
}

/// Writes the agent's kubeconfig from the member to a file.
fn agent_kubeconfig(member: &Member, directory: &Path) -> PathBuf {
    let path = r#"-o=go-template={{index .data "karmada-kubeconfig" | base64decode}}"#;
    let text = member.ask(&["-n=karmada-system", "get", "secret", "karmada-kubeconfig", path]);
    assert!(text.contains("client-certificate-data"), "{text}");
    let file = directory.join(format!("{}.config", member.name));
    std::fs::write(&file, text).expect("a file");
    file
}

#[test]
fn clusters_registered_by_karmadactl_work() {
    let karmadactl = programs().join("karmadactl");
    if !karmadactl.exists() {
        test_skip::skip(format_args!("karmadactl is not in {}; `make test` builds it", programs().display()));
        return;
    }
    let Some(fleet) = fleet(&["theirs", "ours"]) else { return };
    let directory = tempfile::tempdir().expect("a temporary directory");
    for cluster in ["theirs", "ours"] {
        let output = register(&karmadactl, &fleet, cluster, &[]);
        assert!(text(&output).contains("is joined successfully"), "{}", text(&output));
    }
    let of = |name: &str| agent_kubeconfig(fleet.member(name), directory.path());
    let Some(_theirs) = Agent::karmadas(&of("theirs"), fleet.member("theirs"), &[]) else { return };
    let _ours = Agent::ours(&of("ours"), fleet.member("ours"), &[]);
    fleet.wait_ready("theirs");
    fleet.wait_ready("ours");
    fleet.apply(&application("web", "theirs, ours"));
    for cluster in ["theirs", "ours"] {
        fleet.in_member(cluster, &["get", "deploy", "web", READY_REPLICAS], "2");
    }
    fleet.on_plane(&["get", "deploy", "web", READY_REPLICAS], "4");
    agents_cannot_access_other_clusters(&of("ours"));
    assert!(fleet.kubectl(&["delete", "deploy", "web"]).status.success());
    for cluster in ["theirs", "ours"] {
        fleet.in_member(cluster, &["get", "deploy", "web", "--ignore-not-found", "-o=name"], "");
    }
}

/// The permissions granted by karmadactl would allow all of this; the control plane does not.
fn agents_cannot_access_other_clusters(config: &Path) {
    let cluster = |spec: &str| {
        format!("{{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {{name: third}}, spec: {spec}}}")
    };
    let documents = [
        cluster("{syncMode: Pull}"),
        cluster("{syncMode: Push, apiEndpoint: 'https://evil', secretRef: {namespace: karmada-cluster, name: theirs}}"),
        "{apiVersion: v1, kind: Secret, metadata: {name: third, namespace: karmada-cluster}}".to_owned(),
        "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: third, namespace: kube-system}}".to_owned(),
    ];
    for document in documents {
        let output = member::apply(config, &["create", "-f", "-"], &document);
        let said = text(&output);
        assert!(!output.status.success() && said.contains("the agent of cluster ours"), "{document}: {said}");
    }
    let lease = "{apiVersion: coordination.k8s.io/v1, kind: Lease, spec: {holderIdentity: evil},
        metadata: {name: theirs, namespace: karmada-cluster, resourceVersion: ''}}";
    let output = member::apply(config, &["replace", "-f", "-"], lease);
    assert!(text(&output).contains("the agent of cluster ours"), "{}", text(&output));
}

#[test]
fn a_cluster_registers_works_and_leaves_with_minimal_permissions() {
    let Some(fleet) = fleet(&["m1", "m2"]) else { return };
    let directory = tempfile::tempdir().expect("a temporary directory");
    a_dry_run_changes_nothing(&fleet);
    manifests_can_be_printed_instead(&fleet);
    let output = register(&binary(), &fleet, "m1", &["--cluster-region", "north"]);
    assert!(output.status.success(), "{}", text(&output));
    let output = register(&binary(), &fleet, "m1", &[]);
    assert!(!output.status.success() && text(&output).contains("already exists"), "{}", text(&output));
    let config = agent_kubeconfig(fleet.member("m1"), directory.path());
    let agent = Agent::ours(&config, fleet.member("m1"), &[]);
    fleet.wait_ready("m1");
    fleet.on_plane(&["get", "cluster", "m1", "-o=jsonpath={.spec.syncMode}/{.spec.region}"], "Pull/north");
    fleet.apply(&application("web", "m1"));
    fleet.in_member("m1", &["get", "deploy", "web", READY_REPLICAS], "2");
    fleet.on_plane(&["get", "deploy", "web", READY_REPLICAS], "2");
    an_agent_is_limited_to_its_cluster(&fleet, &config);
    leaves(&fleet);
    drop(agent);
}

fn a_dry_run_changes_nothing(fleet: &Fleet) {
    let output = register(&binary(), fleet, "m1", &["--dry-run"]);
    assert!(output.status.success() && text(&output).contains("checks were passed"), "{}", text(&output));
    assert_eq!(fleet.ask(&["get", "clusters", "-o=name"]), "");
    assert_eq!(fleet.member("m1").ask(&["get", "ns", "karmada-system", "--ignore-not-found", "-o=name"]), "");
}

fn manifests_can_be_printed_instead(fleet: &Fleet) {
    let output = register(&binary(), fleet, "m2", &["--print-manifest-only"]);
    assert!(output.status.success(), "{}", text(&output));
    let member = fleet.member("m2");
    assert_eq!(member.ask(&["get", "ns", "karmada-system", "--ignore-not-found", "-o=name"]), "");
    let applied = member::apply(member.kubeconfig(), &["apply", "-f", "-"], &String::from_utf8_lossy(&output.stdout));
    assert!(applied.status.success(), "{}", text(&applied));
    fleet.in_member("m2", &["-n=karmada-system", "get", "deploy", "karmada-agent", READY_REPLICAS], "1");
}

/// Actions with the credential of m1's agent that must be forbidden.
const FORBIDDEN: &[&str] = &[
    "get clusters",
    "get cluster m2",
    "get works -A",
    "get works -n karmada-es-m2",
    "delete works --all -n karmada-es-m2",
    "get secrets -A",
    "get secrets -n karmada-cluster",
    "get secret m2 -n karmada-cluster",
    "get secrets -n karmada-es-m1",
    "get lease m2 -n karmada-cluster",
    "get deploy -A",
    "delete deploy web",
    "get propagationpolicies -A",
    "get resourcebindings -A",
    "get namespaces",
    "create namespace mine",
    "delete cluster m2",
    "label cluster m2 a=b",
    "patch cluster m2 --type merge -p {\"spec\":{\"apiEndpoint\":\"https://evil\"}}",
    "patch cluster m2 --subresource=status --type merge -p {\"status\":{\"conditions\":[]}}",
    // Its own Cluster refers to the secret that is sent to its endpoint.
    "patch cluster m1 --type merge -p {\"spec\":{\"secretRef\":{\"namespace\":\"karmada-cluster\",\"name\":\"m2\"}}}",
    "patch secret m2 -n karmada-cluster --type merge -p {\"data\":{}}",
    "create secret generic stolen -n karmada-cluster",
    "create secret generic stolen -n karmada-es-m1",
    "create clusterrolebinding all --clusterrole=cluster-admin --user=system:karmada:agent:m1",
    "create rolebinding all --clusterrole=cluster-admin --user=system:karmada:agent:m1 -n karmada-es-m1",
    "create token default",
    "get clusters --as=system:admin --as-group=system:masters",
    "get csr",
    "get --raw /apis/cluster.karmada.io/v1alpha1/clusters/m2/proxy/api",
    "get --raw /apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy/api",
    "get --raw /metrics",
    // The tunnel to another cluster.
    "get --raw /flotilla/v1alpha1/tunnels/m2",
    "get --raw /flotilla/v1alpha1/failover?cluster=m2",
    "exec web -- true",
];

/// All permissions of the agent, over every relevant verb and resource.
const RIGHTS: &[&str] = &[
    "cluster.karmada.io/clusters /m1: get list watch delete",
    "cluster.karmada.io/clusters/status /m1: update patch",
    // It creates Works with the EndpointSlices it collects; only slices of services that its cluster provides are used.
    "work.karmada.io/works karmada-es-m1/: get list watch create update patch delete",
    "work.karmada.io/works/status karmada-es-m1/w: update patch",
    "config.karmada.io/resourceinterpretercustomizations /: get list watch",
    "/secrets karmada-cluster/m1: get patch",
    "/secrets karmada-cluster/m1-impersonator: get patch",
    "/events karmada-es-m1/: create update patch",
    "coordination.k8s.io/leases karmada-cluster/m1: get update",
    "certificates.k8s.io/certificatesigningrequests /: get create",
];

fn an_agent_is_limited_to_its_cluster(fleet: &Fleet, config: &Path) {
    let own = kubectl(config, &["get", "works", "-n=karmada-es-m1", "-o=name"]);
    assert!(own.status.success() && !own.stdout.is_empty(), "{}", text(&own));
    let own = kubectl(config, &["get", "cluster", "m1", "-o=name"]);
    assert!(own.status.success(), "{}", text(&own));
    assert_eq!(permissions::allowed(config), RIGHTS);
    for tried in FORBIDDEN {
        let words: Vec<&str> = tried.split_whitespace().collect();
        let output = kubectl(config, &words);
        let said = text(&output);
        assert!(!output.status.success() && said.to_lowercase().contains("forbidden"), "{tried}: {said}");
    }
    for (resource, document) in CREATED {
        let output = member::apply(config, &["create", "-f", "-"], document);
        assert!(!output.status.success() && text(&output).contains("forbidden"), "{resource}: {}", text(&output));
    }
    assert_eq!(fleet.ask(&["get", "cluster", "m3", "--ignore-not-found", "-o=name"]), "");
}

/// Objects that would allow privilege escalation.
const CREATED: &[(&str, &str)] = &[
    (
        "the certificate of another cluster's agent",
        "{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: m2-renewed},
          spec: {signerName: kubernetes.io/kube-apiserver-client, usages: [digital signature, client auth], request: \
          LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIOU1JR2tBZ0VBTUVJeEhqQWNCZ05WQkFvTUZYTjVjM1JsYlRw\
          cllYSnRZV1JoT21GblpXNTBjekVnTUI0RwpBMVVFQXd3WGMzbHpkR1Z0T210aGNtMWhaR0U2WVdkbGJuUTZiVEl3V1RBVEJnY3Fo\
          a2pPUFFJQkJnZ3Foa2pPClBRTUJCd05DQUFURDNydDRjU1FXaVI5c0p3b3F0WGE2ZmViOVV2RFMxbncwSjFHR1pRSVk3WFdnRm83\
          WmlBYUcKS3V6NG9LNko2dEFCWVdnRnhkazBpdjNDR1RVQ0lDWGJvQUF3Q2dZSUtvWkl6ajBFQXdJRFNBQXdSUUloQVBVSwpsS1cz\
          bm9ET0E3T2t0eFZSTG53dk93Qi81VVM0MWx6NlUzbUllaDZpQWlCWDVwZm9tRjNpRjYrSGlFMWw3VVlECnFyVWMrYkduYVdQQVJN\
          ZmYramVkZWc9PQotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K}}",
    ),
    (
        "another cluster",
        "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m3}, spec: {syncMode: Pull}}",
    ),
    (
        "a work for another cluster",
        "{apiVersion: work.karmada.io/v1alpha1, kind: Work, metadata: {name: w, namespace: karmada-es-m2},
          spec: {workload: {manifests: []}}}",
    ),
    (
        "a lease of another cluster",
        "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: m3, namespace: karmada-cluster}}",
    ),
    (
        "a customization for all",
        "{apiVersion: config.karmada.io/v1alpha1, kind: ResourceInterpreterCustomization, metadata: {name: c},
          spec: {target: {apiVersion: apps/v1, kind: Deployment},
          customizations: {retention: {luaScript: 'function Retain(d, o) return d end'}}}}",
    ),
    (
        "a policy",
        "{apiVersion: policy.karmada.io/v1alpha1, kind: ClusterPropagationPolicy, metadata: {name: p},
          spec: {resourceSelectors: [{apiVersion: v1, kind: Secret}], placement: {}}}",
    ),
];

fn leaves(fleet: &Fleet) {
    let kubeconfig = fleet.member("m1").kubeconfig().to_str().expect("a path in UTF-8").to_owned();
    let output = run(&binary(), Path::new("/nonexistent"), &["unregister", "m1", "--cluster-kubeconfig", &kubeconfig]);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(fleet.ask(&["get", "cluster", "m1", "--ignore-not-found", "-o=name"]), "");
    let member = fleet.member("m1");
    assert_eq!(member.ask(&["get", "deploy", "web", "--ignore-not-found", "-o=name"]), "");
    assert_eq!(member.ask(&["get", "deploy", "-n=karmada-system", "-o=name"]), "");
}
