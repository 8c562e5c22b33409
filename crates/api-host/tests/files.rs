//! A listening server with certificates and configuration from files, and what happens when the files change.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use api_host::{Additions, ApiHost, Options, PairFiles, Storage};
use apiserver::http::PlainPaths;
use apiserver::server::Handlers;
use cluster_client::remote::config::Pem;
use cluster_client::{ClusterClient, Endpoint, Kubeconfig, RemoteConfig};
use jiff::Timestamp;
use pki::authority::{CertificateAuthority, CertificateRequest};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(60);

fn authority(name: &str) -> CertificateAuthority {
    CertificateAuthority::self_signed(name, Timestamp::now()).expect("an authority")
}

/// Writes a certificate for the loopback address and `name`, and its key.
fn write_pair(directory: &Path, stem: &str, authority: &CertificateAuthority, name: &str) -> PairFiles {
    let request = CertificateRequest::server(name, &[name.to_owned()], &["127.0.0.1".parse().expect("an address")]);
    let pair = authority.issue(&request, Timestamp::now()).expect("a certificate");
    let files =
        PairFiles { certificate: directory.join(format!("{stem}.crt")), key: directory.join(format!("{stem}.key")) };
    std::fs::write(&files.certificate, pair.certificate.to_pem()).expect("written");
    std::fs::write(&files.key, pair.key.to_pem()).expect("written");
    files
}

fn options(directory: &TempDir) -> Options {
    let bind = "127.0.0.1:0".parse().expect("an address");
    Options { storage: Storage::Memory, ..Options::new("test", directory.path(), bind) }
}

async fn start(options: &Options) -> ApiHost {
    let host = ApiHost::open(options, Additions::default()).await.expect("open");
    host.serve(Handlers::default()).expect("serving")
}

/// The code of a request, if the server's certificate is from `authority` and for `name` or the address.
async fn get(host: &ApiHost, authority: &CertificateAuthority, name: Option<&str>, path: &str) -> Option<u16> {
    let mut remote = RemoteConfig::new(format!("https://{}", host.address));
    remote.ca = Some(Pem::Text(authority.certificate().to_pem().into_bytes()));
    remote.tls_server_name = name.map(str::to_owned);
    code(remote, path).await
}

async fn code(remote: RemoteConfig, path: &str) -> Option<u16> {
    let client = ClusterClient::connect(Endpoint::Remote(remote)).expect("a client");
    let request = http::Request::get(path).body(Default::default()).expect("a request");
    client.raw(request).await.ok().map(|response| response.status().as_u16())
}

async fn until<F: Future<Output = bool>>(what: &str, is_so: impl Fn() -> F) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, waiting).await.is_ok(), "{what}");
}

#[tokio::test]
async fn certificates_of_files_are_shown_and_follow_their_files() {
    let (directory, files) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
    let (company, partner, successor) = (authority("company"), authority("partner"), authority("successor"));
    let mut options = options(&directory);
    options.tls.default = Some(write_pair(files.path(), "company", &company, "plane.test"));
    let partner_files = write_pair(files.path(), "partner", &partner, "partner.test");
    options.tls.by_name = vec![(partner_files, Vec::new())];
    let host = start(&options).await;
    for (authority, name, expected) in [
        (&company, None, Some(200)),
        (&company, Some("plane.test"), Some(200)),
        (&partner, Some("partner.test"), Some(200)),
        (&partner, None, None),
        (&company, Some("partner.test"), None),
    ] {
        assert_eq!(get(&host, authority, name, "/livez").await, expected, "{name:?}");
    }
    let kubeconfig = Kubeconfig::load(std::slice::from_ref(&host.kubeconfig)).expect("the administrator's kubeconfig");
    let remote = kubeconfig.remote(None).expect("a remote");
    assert_eq!(remote.tls_server_name.as_deref(), Some("kubernetes.default.svc"));
    assert_eq!(code(remote, "/api/v1/namespaces").await, Some(200), "it verifies the server's own certificate");
    // A key that does not fit changes nothing; the pair does.
    let written = std::fs::read(files.path().join("company.key")).expect("a key");
    std::fs::write(files.path().join("company.key"), "not a key").expect("written");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(get(&host, &company, None, "/livez").await, Some(200));
    std::fs::write(files.path().join("company.key"), written).expect("written");
    write_pair(files.path(), "company", &successor, "plane.test");
    until("the new certificate is shown", || async { get(&host, &successor, None, "/livez").await == Some(200) }).await;
    host.stop().await;
}

#[tokio::test]
async fn certificates_that_cannot_be_used_stop_the_start() {
    let files = TempDir::new().expect("a directory");
    let ca = authority("company");
    let first = write_pair(files.path(), "first", &ca, "a.test");
    let second = write_pair(files.path(), "second", &ca, "b.test");
    for (pair, problem) in [
        (PairFiles { certificate: first.certificate.clone(), key: second.key }, "cannot use"),
        (PairFiles { certificate: files.path().join("missing"), key: first.key }, "cannot read"),
    ] {
        let directory = TempDir::new().expect("a directory");
        let mut options = options(&directory);
        options.tls.default = Some(pair);
        let error = ApiHost::open(&options, Additions::default()).await.err().expect("refused");
        assert!(format!("{error:#}").contains(problem), "{error:#}");
    }
}

#[tokio::test]
async fn configurations_apply_at_the_start_and_when_they_change() {
    let (directory, files) = (TempDir::new().expect("a directory"), TempDir::new().expect("a directory"));
    let path = files.path().join("authentication.yaml");
    let write = |anonymous: &str| {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";
        std::fs::write(&path, format!("{head}anonymous: {anonymous}\n")).expect("written");
    };
    let mut options = options(&directory);
    options.authentication_config = Some(path.clone());
    write("{enabled: maybe}");
    let error = ApiHost::open(&options, Additions::default()).await.err().expect("refused");
    assert!(format!("{error:#}").contains("--authentication-config"), "{error:#}");
    write("{enabled: true, conditions: [{path: /livez}]}");
    let host = start(&options).await;
    let ca = host.certificates.ca_pem();
    let host = Arc::new(host);
    let codes = || async {
        let mut found = Vec::new();
        for path in ["/livez", "/version"] {
            let mut remote = RemoteConfig::new(format!("https://{}", host.address));
            remote.ca = Some(Pem::Text(ca.clone().into_bytes()));
            found.push(code(remote, path).await.unwrap_or_default());
        }
        found
    };
    assert_eq!(codes().await, [200, 401]);
    write("{enabled: true, conditions: [{path: /version}]}");
    until("the change applies", || async { codes().await == [401, 200] }).await;
    write("{enabled: [}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(codes().await, [401, 200], "a file with errors changes nothing");
}

#[tokio::test]
async fn plain_listeners_are_those_of_the_options() {
    let directory = TempDir::new().expect("a directory");
    let address = {
        let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        taken.local_addr().expect("bound")
    };
    let mut options = options(&directory);
    options.plain_listeners.insert(address, PlainPaths { metrics: true, health: true });
    let host = start(&options).await;
    for (path, expected) in [("/metrics", 200), ("/readyz", 200), ("/version", 404), ("/api/v1/secrets", 404)] {
        assert_eq!(code(RemoteConfig::new(format!("http://{address}")), path).await, Some(expected), "{path}");
    }
    host.stop().await;
}
