//! Tokens for one cluster: they register it and grant nothing else.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use e2e::agent::Agent;
use e2e::eventually::eventually;
use e2e::fleet::{CROSSING, READY, run, text};
use e2e::flotilla::{Flotilla, binary, kubectl};
use e2e::light_member::LightMember;
use e2e::{member, permissions};

const ANY_CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const AGENTS: &str = "system:karmada:agents";
const CERTIFICATE: &str = "-o=jsonpath={.status.certificate}";

struct TokenPlane {
    server: Flotilla,
    directory: tempfile::TempDir,
}

impl TokenPlane {
    fn flotilla(&self, arguments: &[&str]) -> Output {
        run(&binary(), &self.server.kubeconfig, arguments)
    }

    fn ask(&self, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&self.server.kubectl(arguments).stdout).trim().to_owned()
    }

    fn token(&self, arguments: &[&str]) -> String {
        let output = self.flotilla(&[["token", "create"].as_slice(), arguments].concat());
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Returns a kubeconfig with only the token.
    fn with_token(&self, token: &str) -> PathBuf {
        let [server, ca] = ["server", "certificate-authority-data"].map(|field| {
            self.ask(&["config", "view", "--raw", &format!("-o=jsonpath={{.clusters[0].cluster.{field}}}")])
        });
        let file = self.directory.path().join(format!("{}.config", &token[..6]));
        let config = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}],
              clusters: [{{name: c, cluster: {{server: '{server}', certificate-authority-data: '{ca}'}}}}],
              users: [{{name: u, user: {{token: '{token}'}}}}]}}"
        );
        std::fs::write(&file, config).expect("a file");
        file
    }

    /// Runs the printed registration command, with additional arguments.
    fn register(&self, command: &str, member: &LightMember, more: &[&str]) -> Output {
        let mut register = Command::new(binary());
        register.args(command.split_whitespace().skip(1)).args(more).arg("--kubeconfig").arg(&member.kubeconfig);
        register.stdin(Stdio::null()).output().expect("the program runs")
    }
}

/// A CertificateSigningRequest as YAML.
fn request(name: &str, user: &str, group: &str, signer: &str) -> String {
    let mut parameters = rcgen::CertificateParams::default();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(rcgen::DnType::OrganizationName, group);
    parameters.distinguished_name.push(rcgen::DnType::CommonName, user);
    let key = rcgen::KeyPair::generate().expect("a key");
    let pem = parameters.serialize_request(&key).and_then(|request| request.pem()).expect("a request");
    format!(
        "{{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {{name: {name}}},
          spec: {{signerName: {signer}, usages: [digital signature, client auth], request: {}}}}}",
        STANDARD.encode(pem)
    )
}

/// Identities that a token for m1 must not obtain.
const IDENTITIES: &[(&str, &str, &str)] = &[
    ("system:karmada:agent:m2", AGENTS, ANY_CLIENT),
    ("system:karmada:agent:rbac-generator", AGENTS, ANY_CLIENT),
    ("system:karmada:agent:m1x", AGENTS, ANY_CLIENT),
    ("system:karmada:agent:", AGENTS, ANY_CLIENT),
    ("system:karmada:agent:m1", "system:masters", ANY_CLIENT),
    ("system:admin", "system:masters", ANY_CLIENT),
    ("system:node:m1", "system:nodes", "kubernetes.io/kube-apiserver-client-kubelet"),
    ("system:kube-controller-manager", AGENTS, ANY_CLIENT),
];

/// The permissions of a token for m1 before it registers.
const RIGHTS_OF_TOKEN: &[&str] = &[
    "cluster.karmada.io/clusters /: create",
    "cluster.karmada.io/clusters /m1: get create",
    "cluster.karmada.io/clusters /m2: create",
    "/secrets karmada-cluster/: create",
    "/secrets karmada-cluster/m1: create",
    "/secrets karmada-cluster/m1-impersonator: create",
    "/secrets karmada-cluster/m2: create",
    "coordination.k8s.io/leases karmada-cluster/: create",
    "coordination.k8s.io/leases karmada-cluster/m1: create",
    "coordination.k8s.io/leases karmada-cluster/m2: create",
    "certificates.k8s.io/certificatesigningrequests /: get create",
    "certificates.k8s.io/certificatesigningrequests/clusteragent /m1: create",
];

const NOT_OWN: &[&str] = &[
    "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m2}, spec: {syncMode: Pull}}",
    "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m1},
      spec: {syncMode: Push, apiEndpoint: 'https://evil'}}",
    "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m1},
      spec: {syncMode: Pull, secretRef: {namespace: karmada-cluster, name: m2}}}",
    "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m1},
      spec: {syncMode: Pull, secretRef: {namespace: other, name: m1}}}",
    "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {name: m1},
      spec: {syncMode: Pull, impersonatorSecretRef: {namespace: other, name: m1-impersonator}}}",
    "{apiVersion: cluster.karmada.io/v1alpha1, kind: Cluster, metadata: {generateName: m}, spec: {syncMode: Pull}}",
    "{apiVersion: v1, kind: Secret, metadata: {name: m2, namespace: karmada-cluster}}",
    "{apiVersion: v1, kind: Secret, metadata: {generateName: m1, namespace: karmada-cluster}}",
    "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: m2, namespace: karmada-cluster}}",
];

#[test]
fn a_token_for_one_cluster_registers_only_that_cluster() {
    let server = Flotilla::start();
    let plane = TokenPlane { server, directory: tempfile::tempdir().expect("a temporary directory") };
    let unbound = plane.token(&["--any-cluster"]);
    let command = plane.token(&["--cluster=m1", "--print-register-command"]);
    assert!(command.ends_with("--cluster-name m1"), "{command}");
    let token = command.split_whitespace().skip_while(|word| *word != "--token").nth(1).expect("a token").to_owned();
    let listed = text(&plane.flotilla(&["token", "list"]));
    let cluster = |token: &str| listed.lines().find(|l| l.starts_with(token)).and_then(|l| l.split_whitespace().last());
    assert_eq!((cluster(&token), cluster(&unbound)), (Some("m1"), Some("<any>")), "{listed}");

    let config = plane.with_token(&token);
    assert_eq!(permissions::allowed(&config), RIGHTS_OF_TOKEN);
    for (user, group, signer) in IDENTITIES {
        refused(&config, &request("stolen", user, group, signer), user);
    }
    for document in NOT_OWN {
        refused(&config, document, document);
    }
    certificates_are_issued_only_to_their_cluster(&plane, &config, &plane.with_token(&unbound));

    let member = LightMember::start(&[]);
    let other = plane.register(&command.replace("--cluster-name m1", "--cluster-name m2"), &member, &[]);
    assert!(!other.status.success() && text(&other).contains("was created for cluster m1"), "{}", text(&other));
    registers_once(&plane, &command, &member);
    unregistering_revokes_all_permissions(&plane, &member);
    tokens_end(&plane, &token, &config);
}

#[track_caller]
fn refused(config: &Path, document: &str, what: &str) {
    let output = member::apply(config, &["create", "-f", "-"], document);
    let said = text(&output);
    assert!(!output.status.success() && said.contains("orbidden"), "{what}: {said}");
}

/// Requests with a token for any cluster stay pending for manual approval.
fn certificates_are_issued_only_to_their_cluster(plane: &TokenPlane, bound: &Path, unbound: &Path) {
    for (config, name, user) in [
        (unbound, "any-agent", "system:karmada:agent:m1"),
        (unbound, "any-rights", "system:karmada:agent:rbac-generator"),
        (bound, "own", "system:karmada:agent:m1"),
    ] {
        let output = member::apply(config, &["create", "-f", "-"], &request(name, user, AGENTS, ANY_CLIENT));
        assert!(output.status.success(), "{}", text(&output));
    }
    eventually("the own certificate is issued", CROSSING, || {
        !plane.ask(&["get", "csr", "own", CERTIFICATE]).is_empty()
    });
    for name in ["any-agent", "any-rights"] {
        assert_eq!(
            plane.ask(&["get", "csr", name, "-o=jsonpath={.status.conditions}"]),
            "",
            "{name} is left to a person"
        );
    }
}

fn registers_once(plane: &TokenPlane, command: &str, member: &LightMember) {
    let output = plane.register(command, member, &[]);
    assert!(output.status.success(), "{}", text(&output));
    let path = r#"-o=go-template={{index .data "karmada-kubeconfig" | base64decode}}"#;
    let config = plane.directory.path().join("agent.config");
    std::fs::write(&config, member.ask(&["-n=karmada-system", "get", "secret", "karmada-kubeconfig", path]))
        .expect("a file");
    let agent = Agent::ours_outside(&config, ("m1", &member.kubeconfig), &[]);
    eventually("the cluster is ready", CROSSING, || plane.ask(&["get", "cluster", "m1", READY]) == "True");

    // The same cluster under another name, with a token for that name.
    let again = plane.token(&["--cluster=twin", "--print-register-command"]);
    let twin = plane.register(&again, member, &["--namespace", "twins"]);
    assert!(text(&twin).contains("registered already, with name m1"), "{}", text(&twin));
    assert_eq!(plane.ask(&["get", "cluster", "twin", "--ignore-not-found", "-o=name"]), "");

    drop(agent);
    let stranger = LightMember::start(&[]);
    let taken = plane.register(command, &stranger, &[]);
    assert!(text(&taken).contains("cluster with name m1 already exists"), "{}", text(&taken));
    // Our agent works with the permissions granted at token creation.
    let _agent = Agent::ours_outside(&config, ("m1", &member.kubeconfig), &[]);
    let kubeconfig = member.kubeconfig.to_str().expect("a path in UTF-8");
    let plane_config = plane.server.kubeconfig.to_str().expect("a path in UTF-8");
    let left = ["unregister", "m1", "--cluster-kubeconfig", kubeconfig, "--karmada-config", plane_config];
    let output = plane.flotilla(&left);
    assert!(output.status.success(), "{}", text(&output));
}

fn unregistering_revokes_all_permissions(plane: &TokenPlane, member: &LightMember) {
    let of_m1 = |kind: &str| {
        let names = plane.ask(&["get", kind, "-A", "-o=jsonpath={.items[*].metadata.name}"]);
        names
            .split_whitespace()
            .filter(|name| name.starts_with("system:karmada:m1:"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    for kind in ["clusterroles", "clusterrolebindings", "roles", "rolebindings"] {
        assert_eq!(of_m1(kind), Vec::<String>::new(), "{kind}");
    }
    assert_eq!(member.ask(&["get", "deploy", "-n=karmada-system", "-o=name"]), "");
}

/// A deleted or expired token is rejected.
fn tokens_end(plane: &TokenPlane, token: &str, config: &Path) {
    let is_known = |config: &Path| kubectl(config, &["auth", "whoami"]).status.success();
    assert!(is_known(config));
    let deleted = plane.flotilla(&["token", "delete", &token[..6]]);
    assert!(deleted.status.success(), "{}", text(&deleted));
    eventually("a deleted token is unknown", CROSSING, || !is_known(config));
    let short = plane.with_token(&plane.token(&["--cluster=m1", "--ttl=1s"]));
    eventually("a token that is over is unknown", Duration::from_secs(30), || !is_known(&short));
    refused_unknown(&short);
}

fn refused_unknown(config: &Path) {
    let asked = request("late", "system:karmada:agent:m1", AGENTS, ANY_CLIENT);
    let output = member::apply(config, &["create", "-f", "-"], &asked);
    assert!(!output.status.success(), "{}", text(&output));
}
