//! kube-apiserver on etcd as in production: synced writes, RBAC, client certificates.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Context;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use crate::options::BenchOptions;
use crate::server::{
    Children, Durability, POLL, Server, Side, answers_ok, check_alive, data_directory, free_ports, wait_until_ready,
};
use crate::wire::{Identity, ServerTarget};

pub async fn start(options: &BenchOptions, durability: Durability) -> anyhow::Result<Server> {
    let directory = data_directory(options)?;
    let ports = free_ports()?;
    let [_, _, api_port] = ports;
    // Keys are created before the measurement, as by any installer.
    let admin = write_keys(directory.path()).context("keys for kube-apiserver")?;
    let ca = fs::read(directory.path().join("ca.crt")).context("cannot read the CA")?;
    let identity = Identity { ca: &ca, certificate: admin.0.as_bytes(), key: admin.1.as_bytes() };
    let target = ServerTarget::new(format!("127.0.0.1:{api_port}"), &identity, options.protocol)?;
    write_kubeconfig(directory.path(), api_port, &ca, &admin)?;
    let start = Instant::now();
    let mut children = Children::default();
    let run = Run { bin: options.kube_bin(), directory: directory.path(), ports, durability };
    run.start(&target, &mut children).await.context("kube-apiserver on etcd")?;
    let ready_after = start.elapsed();
    Ok(Server { side: Side::Kube, target, ready_after, children, directory })
}

struct Run<'a> {
    bin: PathBuf,
    directory: &'a Path,
    /// The client and peer ports of etcd, and the port of kube-apiserver.
    ports: [u16; 3],
    durability: Durability,
}

impl Run<'_> {
    async fn start(&self, target: &ServerTarget, children: &mut Children) -> anyhow::Result<()> {
        let etcd_log = self.directory.join("etcd.log");
        children.spawn(self.etcd(), &etcd_log)?;
        self.wait_for_etcd(children, &etcd_log).await?;
        let api_log = self.directory.join("api.log");
        children.spawn(self.api_server(), &api_log)?;
        wait_until_ready(target, children, &api_log).await
    }

    fn etcd(&self) -> Command {
        let [client, peer, _] = self.ports.map(|port| format!("http://127.0.0.1:{port}"));
        let mut command = Command::new(self.bin.join("etcd"));
        command.arg("--data-dir").arg(self.directory.join("etcd"));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("default={peer}"), "--quota-backend-bytes", "8589934592"]);
        if self.durability == Durability::None {
            command.arg("--unsafe-no-fsync");
        }
        command
    }

    fn api_server(&self) -> Command {
        let [etcd_port, _, api_port] = self.ports;
        let file = |name: &str| self.directory.join(name);
        let mut command = Command::new(self.bin.join("kube-apiserver"));
        command.args(["--bind-address", "127.0.0.1", "--secure-port", &api_port.to_string()]);
        command.args(["--etcd-servers", &format!("http://127.0.0.1:{etcd_port}")]);
        command.args(["--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction"]);
        command.args(["--service-cluster-ip-range", "10.0.0.0/24", "--allow-privileged=true"]);
        command.args(["--enable-bootstrap-token-auth=true"]);
        command.args(["--service-account-issuer", "https://kubernetes.default.svc"]);
        command.arg("--service-account-key-file").arg(file("sa.pub"));
        command.arg("--service-account-signing-key-file").arg(file("sa.key"));
        command.arg("--client-ca-file").arg(file("ca.crt"));
        command.arg("--tls-cert-file").arg(file("server.crt"));
        command.arg("--tls-private-key-file").arg(file("server.key"));
        command
    }

    /// Otherwise kube-apiserver would lose time in its own retries.
    async fn wait_for_etcd(&self, children: &mut Children, log: &Path) -> anyhow::Result<()> {
        let start = Instant::now();
        while !answers_ok(&format!("127.0.0.1:{}", self.ports[0]), "/health").await {
            check_alive(children, start, log)?;
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }
}

/// For the other programs of the cluster.
fn write_kubeconfig(directory: &Path, port: u16, ca: &[u8], admin: &(String, String)) -> anyhow::Result<()> {
    let [ca, certificate, key] = [ca, admin.0.as_bytes(), admin.1.as_bytes()].map(|pem| BASE64_STANDARD.encode(pem));
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: bench\n\
         clusters:\n- name: bench\n  cluster: {{server: 'https://127.0.0.1:{port}', certificate-authority-data: {ca}}}\n\
         users:\n- name: admin\n  user: {{client-certificate-data: {certificate}, client-key-data: {key}}}\n\
         contexts:\n- name: bench\n  context: {{cluster: bench, user: admin}}\n"
    );
    fs::write(directory.join("admin.kubeconfig"), text).context("cannot write the kubeconfig")
}

/// Creates a CA with a server certificate and an administrator's; returns the latter with its key.
fn write_keys(directory: &Path) -> anyhow::Result<(String, String)> {
    let write = |name: &str, text: String| {
        fs::write(directory.join(name), text).with_context(|| format!("cannot write {name}"))
    };
    let ca_key = KeyPair::generate()?;
    let mut ca = CertificateParams::new(Vec::new())?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.distinguished_name.push(DnType::CommonName, "bench-ca");
    write("ca.crt", ca.self_signed(&ca_key)?.pem())?;
    let issuer = Issuer::new(ca, ca_key);

    let server_key = KeyPair::generate()?;
    let mut server = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()])?;
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    write("server.crt", server.signed_by(&server_key, &issuer)?.pem())?;
    write("server.key", server_key.serialize_pem())?;

    let account_key = KeyPair::generate()?;
    write("sa.key", account_key.serialize_pem())?;
    write("sa.pub", account_key.public_key_pem())?;

    let admin_key = KeyPair::generate()?;
    let mut admin = CertificateParams::new(Vec::new())?;
    admin.distinguished_name.push(DnType::CommonName, "bench-admin");
    admin.distinguished_name.push(DnType::OrganizationName, "system:masters");
    admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    Ok((admin.signed_by(&admin_key, &issuer)?.pem(), admin_key.serialize_pem()))
}
