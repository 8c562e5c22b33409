//! Signing requests: permissions to approve and sign for a signer, rejected subjects, allowed names of a request.

mod auth_world;

use apiserver::admission::Admission;
use apiserver::admission::certificates::{CertificateApproval, CertificateSigning, CertificateSubjectRestriction};
use auth_world::{Reply, World};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use object::request::Verb;
use pki::authority::{CertificateAuthority, CertificateRequest};
use pki::csr::create_csr;
use pki::key::PrivateKey;
use pki::subject::{AlternativeNames, CertificateSubject};
use serde_json::{Value, json};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";

async fn world() -> World {
    let steps: Vec<Box<dyn Admission>> =
        vec![Box::new(CertificateApproval), Box::new(CertificateSigning), Box::new(CertificateSubjectRestriction)];
    World::admitting(steps).await
}

fn request(name: &str, signer: &str, organization: &str) -> Value {
    let key = PrivateKey::generate().expect("a key");
    let subject = CertificateSubject::new("jane", &[organization.to_owned()]);
    let pem = create_csr(&key, &subject, &AlternativeNames::default()).expect("a request");
    json!({"metadata": {"name": name},
        "spec": {"request": STANDARD.encode(pem), "signerName": signer, "usages": ["client auth"]}})
}

async fn answer(world: &World, user: &str, subresource: &str, change: impl Fn(&mut Value)) -> Reply {
    let path = format!("{REQUESTS}/r");
    let mut body = world.get(&world.admin(), &path).await.body;
    change(&mut body);
    world.ask(&world.user(user, &[]), "PUT", &format!("{path}/{subresource}"), body).await
}

async fn approve(world: &World, user: &str) -> Reply {
    let approved = json!([{"type": "Approved", "status": "True", "reason": "R", "message": "m"}]);
    answer(world, user, "approval", |body| body["status"]["conditions"] = approved.clone()).await
}

async fn sign(world: &World, user: &str) -> Reply {
    let now = Timestamp::now();
    let ca = CertificateAuthority::self_signed("other", now).expect("an authority");
    let issued = ca.issue(&CertificateRequest::client("evil", &[]), now).expect("a certificate").certificate.to_pem();
    answer(world, user, "status", |body| body["status"]["certificate"] = STANDARD.encode(&issued).into()).await
}

/// Rights on signers and whether they are enough for the signer of the request.
const SIGNER_RIGHTS: &[(&str, &[&str], bool)] = &[
    ("none", &[], false),
    ("exact", &[CLIENT], true),
    ("domain", &["kubernetes.io/*"], true),
    ("other", &["kubernetes.io/kubelet-serving"], false),
    ("foreign", &["example.com/*"], false),
    ("prefix", &["kubernetes.io/kube-*"], false),
];

#[tokio::test(flavor = "multi_thread")]
async fn approving_and_signing_need_the_right_for_the_signer() {
    let world = world().await;
    let resources = ["certificatesigningrequests/approval", "certificatesigningrequests/status"];
    for verb in ["approve", "sign"] {
        for (user, signers, is_enough) in SIGNER_RIGHTS {
            let name = format!("{user}-{verb}");
            let writes = json!({"apiGroups": ["certificates.k8s.io"], "resources": resources, "verbs": ["update"]});
            world.allow(&format!("{name}-writes"), &name, writes).await;
            if !signers.is_empty() {
                let rule = json!({"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": [verb], "resourceNames": signers});
                world.allow(&name, &name, rule).await;
            }
            world.make(REQUESTS, request("r", CLIENT, "team")).await;
            let reply = if verb == "approve" { approve(&world, &name).await } else { sign(&world, &name).await };
            let expected = if *is_enough { 200 } else { 403 };
            assert_eq!(reply.code, expected, "{name}: {}", reply.body);
            if !is_enough {
                let text = format!(
                    "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not permitted to {verb} requests with signerName \"{CLIENT}\""
                );
                assert_eq!(reply.message(), text);
            }
            // A status write that leaves certificate and conditions alone needs no right to sign.
            let untouched = answer(&world, &name, "status", |_| {}).await;
            assert_eq!(untouched.code, 200, "{name}: {}", untouched.body);
            world.remove(&format!("{REQUESTS}/r")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_signer_is_not_asked_for_masters() {
    let world = world().await;
    let cases = [
        (CLIENT, "system:masters", 403),
        (CLIENT, "team", 201),
        (CLIENT, "System:Masters", 201),
        ("example.com/own", "system:masters", 201),
    ];
    for (index, (signer, organization, expected)) in cases.into_iter().enumerate() {
        let reply =
            world.ask(&world.admin(), "POST", REQUESTS, request(&format!("r{index}"), signer, organization)).await;
        assert_eq!(reply.code, expected, "{signer} {organization}: {}", reply.body);
        if expected == 403 {
            let text = "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
            assert!(reply.message().ends_with(text), "{}", reply.message());
        }
    }
}

/// Names that no path can reach, with the problem that the answer names.
const UNREACHABLE: &[(&str, &str)] = &[
    ("a/b", "may not contain '/'"),
    ("..", "may not be '..'"),
    (".", "may not be '.'"),
    ("a%2fb", "may not contain '%'"),
];

#[tokio::test(flavor = "multi_thread")]
async fn names_are_one_segment_of_a_path_for_every_kind() {
    let world = world().await;
    for name in ["r", "With Capitals", "system:node:a", "x".repeat(300).as_str()] {
        let reply = world.ask(&world.admin(), "POST", REQUESTS, request(name, CLIENT, "team")).await;
        assert_eq!(reply.code, 201, "{name}: {}", reply.body);
    }
    for (name, problem) in UNREACHABLE {
        let reply = world.ask(&world.admin(), "POST", REQUESTS, request(name, CLIENT, "team")).await;
        assert_eq!(reply.code, 422, "{name}: {}", reply.body);
        assert!(reply.message().contains(problem), "{}", reply.message());
    }
    // No other kind lets such a name through either.
    for kind in kinds::builtin().iter().filter(|kind| kind.stored && kind.allows(Verb::Create)) {
        let (group, version) = (&kind.gvk.group, &kind.gvk.version);
        let base = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let scope = if kind.namespaced { "/namespaces/default" } else { "" };
        for (name, _) in UNREACHABLE {
            let body = json!({"apiVersion": kind.gvk.api_version(), "kind": kind.gvk.kind, "metadata": {"name": name}});
            let reply = world.ask(&world.admin(), "POST", &format!("{base}{scope}/{}", kind.plural), body).await;
            assert!(reply.code >= 400, "{} {name}: {}", kind.gvk.kind, reply.body);
        }
    }
}
