//! The keys and certificates of an API server: created at first start, renewed while it runs.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use pki::authority::{CertificateAuthority, CertificateRequest};
use pki::certificate::KeyedCertificate;
use pki::key::PrivateKey;
use pki::key_dir::{self, KeyDir};
use pki::kubeconfig::{Credential, kubeconfig_for_name};
use pki::tls::client::ReloadableClientCert;
use pki::tls::client_trust::ClientTrust;
use pki::tls::server::ReloadableCertResolver;
use tokio_util::sync::CancellationToken;

/// Interval for checking certificates.
const CHECK_EVERY: Duration = Duration::from_secs(3600);
const SERVING: &str = "apiserver";

/// The administrator's kubeconfig.
pub(crate) struct AdminKubeconfig {
    pub file: PathBuf,
    pub context: String,
    pub url: String,
    /// The name that clients request instead of the host in the URL.
    pub server_name: Option<&'static str>,
}

/// Keys and certificates of one API server.
pub struct Certificates {
    directory: KeyDir,
    dns_names: Vec<String>,
    addresses: Vec<IpAddr>,
    validity: Duration,
    pub authority: CertificateAuthority,
    pub front_proxy: CertificateAuthority,
    pub service_account_key: PrivateKey,
    pub client_trust: Arc<ClientTrust>,
    pub resolver: Arc<ReloadableCertResolver>,
    /// Client certificate for aggregated servers, which lets them trust the user headers of this server.
    pub front_proxy_identity: Arc<ReloadableClientCert>,
}

impl Certificates {
    /// `service_address` is the one of the Service that leads to the API.
    pub(crate) fn ensure(
        directory: &Path,
        (bind, service_address): (SocketAddr, IpAddr),
        names: &[String],
        validity: Duration,
    ) -> anyhow::Result<Self> {
        let now = Timestamp::now();
        let directory = KeyDir::open(directory).context("cannot use the key directory")?;
        for loose in directory.loose_key_files()? {
            tracing::warn!(file = %loose.display(), "this key can be read by other users of the machine; chmod 600 it");
        }
        let authority = directory.ensure_authority("ca", "flotilla", now)?;
        let front_proxy = directory.ensure_authority("front-proxy-ca", "front-proxy-ca", now)?;
        let service_account_key = directory.ensure_signing_key("sa")?;
        let (dns_names, addresses) = server_names(bind, service_address, names);
        let serving = ensure_serving(&directory, &authority, (&dns_names, &addresses), validity)?;
        let resolver = Arc::new(ReloadableCertResolver::new(&serving)?);
        let client_trust = Arc::new(ClientTrust::new(std::slice::from_ref(authority.certificate()))?);
        let proxy_client = ensure_proxy_client(&directory, &front_proxy, validity)?;
        let front_proxy_identity = Arc::new(ReloadableClientCert::new(&proxy_client)?);
        Ok(Self {
            front_proxy_identity,
            directory,
            dns_names,
            addresses,
            validity,
            authority,
            front_proxy,
            service_account_key,
            client_trust,
            resolver,
        })
    }

    pub fn ca_pem(&self) -> String {
        self.authority.certificate().to_pem()
    }

    /// Writes the administrator's kubeconfig, readable by its owner only.
    pub(crate) fn write_admin_kubeconfig(&self, target: &AdminKubeconfig) -> anyhow::Result<()> {
        let mut request = CertificateRequest::client("system:admin", &["system:masters".to_owned()]);
        request.duration = self.validity;
        let admin = self.directory.ensure_cert(&self.authority, "admin", &request, Timestamp::now())?;
        let (certificate, key) = (admin.certificate.to_pem(), admin.key.to_pem());
        let credential = Credential::ClientCertificate { certificate_pem: &certificate, key_pem: &key };
        let AdminKubeconfig { file, context, url, server_name } = target;
        let text = kubeconfig_for_name(url, *server_name, &self.ca_pem(), &credential, context);
        key_dir::write_atomic(file, text.as_bytes(), key_dir::PRIVATE)?;
        Ok(())
    }

    fn renew(&self, kubeconfig: &AdminKubeconfig) -> anyhow::Result<()> {
        let names = (&self.dns_names[..], &self.addresses[..]);
        let serving = ensure_serving(&self.directory, &self.authority, names, self.validity)?;
        self.resolver.replace(&serving)?;
        let proxy_client = ensure_proxy_client(&self.directory, &self.front_proxy, self.validity)?;
        self.front_proxy_identity.replace(&proxy_client)?;
        self.write_admin_kubeconfig(kubeconfig)
    }

    /// Renews certificates close to expiry and the kubeconfig until stopped. Open connections and the listener are not
    /// affected.
    pub(crate) async fn keep_fresh(self: Arc<Self>, kubeconfig: AdminKubeconfig, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(CHECK_EVERY) => {}
            }
            if let Err(error) = self.renew(&kubeconfig) {
                tracing::error!(error = format!("{error:#}"), "cannot renew certificates; will retry");
            }
        }
    }
}

fn ensure_serving(
    directory: &KeyDir,
    authority: &CertificateAuthority,
    (dns_names, addresses): (&[String], &[IpAddr]),
    validity: Duration,
) -> anyhow::Result<KeyedCertificate> {
    let mut request = CertificateRequest::server(SERVING, dns_names, addresses);
    request.duration = validity;
    Ok(directory.ensure_cert(authority, SERVING, &request, Timestamp::now())?)
}

fn ensure_proxy_client(
    directory: &KeyDir,
    front_proxy: &CertificateAuthority,
    validity: Duration,
) -> anyhow::Result<KeyedCertificate> {
    let name = "front-proxy-client";
    let mut request = CertificateRequest::client(name, &[]);
    request.duration = validity;
    Ok(directory.ensure_cert(front_proxy, name, &request, Timestamp::now())?)
}

/// Returns the names and addresses of the serving certificate.
fn server_names(bind: SocketAddr, service_address: IpAddr, names: &[String]) -> (Vec<String>, Vec<IpAddr>) {
    let mut dns: Vec<String> = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "karmada-apiserver",
        "karmada-apiserver.karmada-system",
        "karmada-apiserver.karmada-system.svc",
        "karmada-apiserver.karmada-system.svc.cluster.local",
    ]
    .map(str::to_owned)
    .to_vec();
    let mut addresses: Vec<IpAddr> = vec![[127, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into(), service_address];
    if !bind.ip().is_unspecified() {
        addresses.push(bind.ip());
    }
    for name in names {
        match name.parse() {
            Ok(address) => addresses.push(address),
            Err(_) => dns.push(name.clone()),
        }
    }
    addresses.sort();
    addresses.dedup();
    dns.dedup();
    (dns, addresses)
}
