//! Renewal of agents' certificates against a control plane in memory with a signer.

use cluster_client::ListOptions;
use cluster_client::testing::MemoryApi;
use pki::authority::CertificateAuthority;
use pki::csr::Csr;
use pki::subject::CertificateSubject;
use pki::usage::CertificateUsage;
use reconcile::VirtualClock;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);
/// Lifetime of every certificate here.
const LIFE: Duration = HOUR.saturating_mul(9);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("a time")
}

#[test]
fn a_certificate_is_due_when_two_thirds_of_its_life_have_passed() {
    let table = [
        ((0, 900), 0, 600),
        ((0, 900), 599, 1),
        ((0, 900), 600, 0),
        ((0, 900), 5000, 0),
        ((1000, 1900), 1300, 300),
        ((1000, 1900), 999, 0),
        ((1000, 1000), 1000, 0),
        ((1000, 500), 1000, 0),
    ];
    for ((from, to), now, expected) in table {
        assert_eq!(when(at(from), at(to), at(now)).as_secs(), expected, "{from}..{to} at {now}");
    }
}

struct Scene {
    plane: MemoryApi,
    member: MemoryApi,
    directory: tempfile::TempDir,
    /// The name of the kubeconfig in the directory and in the Secret.
    file_name: String,
    clock: Arc<VirtualClock>,
    authority: CertificateAuthority,
    first: Certificate,
}

impl Scene {
    fn new(group: &str) -> Self {
        Self::with_file(group, "karmada-kubeconfig")
    }

    fn with_file(group: &str, file_name: &str) -> Self {
        let now: Timestamp = "2030-01-01T00:00:00Z".parse().expect("a time");
        let authority = CertificateAuthority::self_signed("ca", now).expect("an authority");
        let key = PrivateKey::generate().expect("a key");
        let subject = CertificateSubject::new("system:karmada:agent:m1", &[group.to_owned()]);
        let csr = create_csr(&key, &subject, &AlternativeNames::default()).expect("a request");
        let csr = Csr::from_pem(csr.as_bytes()).expect("a request");
        let first = authority.sign_csr(&csr, &[CertificateUsage::ClientAuth], LIFE, now).expect("a certificate");
        let directory = tempfile::tempdir().expect("a directory");
        let kubeconfig = yaml::to_string(&json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c", "extra": "kept",
            "clusters": [{"name": "plane", "cluster": {"server": "https://127.0.0.1:1"}}],
            "contexts": [{"name": "c", "context": {"cluster": "plane", "user": "u"}}],
            "users": [{"name": "u", "user": {
                "client-certificate-data": STANDARD.encode(first.to_pem()),
                "client-key-data": STANDARD.encode(key.to_pem())}}],
        }));
        std::fs::write(directory.path().join(file_name), &kubeconfig).expect("written");
        let (plane, member) = (MemoryApi::default(), MemoryApi::default());
        let mut secret = SECRETS.object("agents", "plane-access");
        secret.set(&["data"], json!({file_name: STANDARD.encode(&kubeconfig), "other": "Kg=="}));
        member.seed(&SECRETS.gvr(), secret);
        let clock = Arc::new(VirtualClock::new(now));
        Self { plane, member, directory, file_name: file_name.to_owned(), clock, authority, first }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join(&self.file_name)
    }

    fn renewal(&self) -> Renewal {
        Renewal {
            plane: self.plane.client(),
            member: self.member.client(),
            cluster: "m1".into(),
            kubeconfig: AgentKubeconfig {
                path: self.file(),
                context: None,
                namespace: "agents".into(),
                secret: "plane-access".into(),
            },
            clock: self.clock.clone(),
        }
    }

    /// Signs pending requests, as the control plane's controllers do.
    async fn sign(&self) {
        let client = self.plane.client();
        loop {
            let found = client.list_all(ResourceRef::all(&REQUESTS.gvr()), ListOptions::default()).await;
            for request in found.expect("a list").items {
                if request.str_at(&["status", "certificate"]).is_empty() {
                    let text = STANDARD.decode(request.str_at(&["spec", "request"])).expect("base64");
                    let csr = Csr::from_pem(&text).expect("a request");
                    let signed = self.authority.sign_csr(&csr, &[CertificateUsage::ClientAuth], LIFE, self.clock.now());
                    let mut request = (*request).clone();
                    request.set(&["status", "certificate"], STANDARD.encode(signed.expect("signed").to_pem()));
                    let target = ResourceRef::of(&REQUESTS.gvr(), &request);
                    client.update_status(target, request, WriteOptions::default()).await.expect("updated");
                }
            }
            // Hours pass in these tests; the signer only has to answer before the agent gives up.
            tokio::time::sleep(ISSUE_TIMEOUT / 2).await;
        }
    }

    async fn live(&self, hours: u32) {
        tokio::select! {
            () = keep(self.renewal(), CancellationToken::new()) => {}
            () = self.sign() => {}
            () = tokio::time::sleep(hours * HOUR) => {}
        }
    }

    fn requests(&self) -> usize {
        self.plane.calls().iter().filter(|call| call.starts_with("create")).count()
    }
}

#[tokio::test(start_paused = true)]
async fn the_certificate_is_replaced_before_it_expires_and_the_rest_is_kept() {
    let scene = Scene::new(GROUP);
    scene.live(5).await;
    assert_eq!(scene.requests(), 0, "it is not due before its sixth hour");
    scene.live(2).await;
    assert_eq!(scene.requests(), 1);
    let held = scene.renewal().kubeconfig.read().expect("readable").expect("a certificate");
    assert!(held.facts.not_after() > scene.first.not_after());
    assert_eq!(held.facts.subject(), scene.first.subject());
    assert!(held.facts.belongs_to(&PrivateKey::from_pem(&held.key).expect("a key")));
    assert!(std::fs::read_to_string(scene.file()).expect("a file").contains("extra: kept"));
    assert!(scene.member.calls().is_empty(), "the secret is not written when the file can be");
}

#[tokio::test(start_paused = true)]
async fn an_unwritable_file_updates_the_secret_instead() {
    // The name of the temporary file is longer than file systems allow: not even root can write it.
    let scene = Scene::with_file(GROUP, &"k".repeat(245));
    scene.live(7).await;
    assert_eq!(scene.requests(), 1);
    let target = ResourceRef::namespaced(&SECRETS.gvr(), "agents", "plane-access");
    let secret = scene.member.client().get(target).await.expect("the secret");
    assert_eq!(secret.str_at(&["data", "other"]), "Kg==");
    std::fs::write(scene.file(), kubeconfig_in(&secret, &scene.file_name).expect("a kubeconfig")).expect("written");
    let held = scene.renewal().kubeconfig.read().expect("readable").expect("a certificate");
    assert!(held.facts.not_after() > scene.first.not_after());
}

#[tokio::test(start_paused = true)]
async fn only_certificates_of_agents_are_renewed() {
    let scene = Scene::new("system:masters");
    scene.live(12).await;
    assert_eq!(scene.requests(), 0);
}
