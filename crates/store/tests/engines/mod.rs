//! Stores of every engine for the tests, with a real etcd process if available.
#![allow(dead_code, reason = "each test program uses its part")]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use store::etcd::{Etcd, EtcdOptions, Tls};

/// The path of etcd; prints why the test is skipped if there is none.
pub fn find_etcd() -> Option<PathBuf> {
    let given = std::env::var_os("FLOTILLA_ETCD").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/flotilla/bin/etcd"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|directory| directory.join("etcd"));
    let candidates: Vec<PathBuf> = given.into_iter().chain(home).chain(on_path).filter(|path| path.is_file()).collect();
    for candidate in &candidates {
        let version = Command::new(candidate).arg("--version").output();
        let text = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let new_enough = ["3.5.", "3.6.", "3.7."].iter().any(|wanted| text.contains(&format!("Version: {wanted}")));
        if new_enough {
            return Some(candidate.clone());
        }
    }
    test_skip::skip(format_args!(
        "no etcd 3.5 or later found (looked at $FLOTILLA_ETCD, ~/.cache/flotilla/bin/etcd and $PATH; \
         found but too old: {candidates:?})"
    ));
    None
}

/// A running etcd with one member on loopback; killed when dropped.
pub struct EtcdServer {
    binary: PathBuf,
    arguments: Vec<String>,
    child: Option<Child>,
    directory: tempfile::TempDir,
    pub endpoint: String,
    pub tls: Option<Tls>,
}

impl EtcdServer {
    pub async fn plain(binary: &Path) -> EtcdServer {
        Self::start(binary, None).await
    }

    /// With certificates of its own CA, requiring client certificates.
    pub async fn with_tls(binary: &Path) -> EtcdServer {
        Self::start(binary, Some(Certificates::make())).await
    }

    async fn start(binary: &Path, certificates: Option<Certificates>) -> EtcdServer {
        let directory = tempfile::tempdir().unwrap();
        let scheme = if certificates.is_some() { "https" } else { "http" };
        let endpoint = format!("{scheme}://127.0.0.1:{}", free_port());
        let peer = format!("http://127.0.0.1:{}", free_port());
        let mut arguments: Vec<String> = [
            ("--name", "one"),
            ("--data-dir", directory.path().join("data").to_str().unwrap()),
            ("--listen-client-urls", &endpoint),
            ("--advertise-client-urls", &endpoint),
            ("--listen-peer-urls", &peer),
            ("--initial-advertise-peer-urls", &peer),
            ("--initial-cluster", &format!("one={peer}")),
            ("--log-level", "error"),
        ]
        .iter()
        .flat_map(|(name, value)| [name.to_string(), value.to_string()])
        .collect();
        if let Some(certificates) = &certificates {
            for (name, text) in [
                ("trusted-ca-file", &certificates.ca),
                ("cert-file", &certificates.server.0),
                ("key-file", &certificates.server.1),
            ] {
                let file = directory.path().join(name);
                std::fs::write(&file, text).unwrap();
                arguments.extend([format!("--{name}"), file.to_str().unwrap().to_string()]);
            }
            arguments.push("--client-cert-auth".into());
        }
        let tls = certificates.map(|certificates| Tls {
            ca_pem: certificates.ca.into_bytes(),
            identity_pem: Some((certificates.client.0.into_bytes(), certificates.client.1.into_bytes())),
        });
        let binary = binary.to_path_buf();
        let mut server = EtcdServer { binary, arguments, child: None, directory, endpoint, tls };
        server.launch();
        server.connect("/ready").await;
        server
    }

    pub fn launch(&mut self) {
        let log = std::fs::File::create(self.directory.path().join("log")).unwrap();
        let child = Command::new(&self.binary)
            .args(&self.arguments)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("etcd starts");
        self.child = Some(child);
    }

    pub fn options(&self, prefix: &str) -> EtcdOptions {
        let mut options = EtcdOptions::new([&self.endpoint]);
        options.prefix = prefix.into();
        options.tls = self.tls.clone();
        options
    }

    pub async fn connect(&self, prefix: &str) -> Etcd {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            match Etcd::connect(&self.options(prefix)).await {
                Ok(store) => return store,
                Err(error) if Instant::now() > deadline => {
                    let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
                    panic!("etcd is not ready: {error}\n{log}");
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    pub fn pid(&self) -> i32 {
        self.child.as_ref().unwrap().id() as i32
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

struct Certificates {
    ca: String,
    server: (String, String),
    client: (String, String),
}

impl Certificates {
    fn make() -> Certificates {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let signed = |names: &[&str], purposes: Vec<ExtendedKeyUsagePurpose>| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            let mut params = CertificateParams::new(names).unwrap();
            params.extended_key_usages = purposes;
            let key = KeyPair::generate().unwrap();
            (params.signed_by(&key, &ca).unwrap().pem(), key.serialize_pem())
        };
        use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
        Certificates {
            server: signed(&["127.0.0.1", "localhost"], vec![ServerAuth, ClientAuth]),
            client: signed(&["flotilla"], vec![ClientAuth]),
            ca: ca.pem(),
        }
    }
}
