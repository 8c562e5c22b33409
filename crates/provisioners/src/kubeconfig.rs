//! Existing clusters of the user: never created, started or changed, only checked for availability.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use bytes::Bytes;
use cluster_client::{ClusterClient, Endpoint, Kubeconfig, is_unreachable};

use crate::machine::{Condition, Error, Forward, Machine, Output, Provisioner};

/// The oldest supported minor version of Kubernetes 1.
const MINOR_MIN: u32 = 24;

/// A cluster in a kubeconfig: the file, and a context if not the current one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Existing {
    pub kubeconfig: PathBuf,
    pub context: Option<String>,
}

/// The user's clusters, by member name.
pub struct Clusters {
    clusters: BTreeMap<String, Existing>,
}

impl Clusters {
    pub fn new(clusters: BTreeMap<String, Existing>) -> Self {
        Self { clusters }
    }

    /// Returns the reported version of the cluster, for example `v1.30.2`.
    pub async fn version(&self, machine: &str) -> Result<String, Error> {
        let version = self.client(machine)?.get_json("/version").await;
        let version = version.map_err(|status| self.unreachable(machine, &status.to_string()))?;
        version["gitVersion"].as_str().map(str::to_owned).ok_or_else(|| Error::Failed {
            doing: format!("asking {machine} for its version"),
            why: "the server is not a Kubernetes API".to_owned(),
        })
    }

    fn existing(&self, machine: &str) -> Result<&Existing, Error> {
        self.clusters.get(machine).ok_or_else(|| Error::NoMachine(machine.to_owned()))
    }

    fn client(&self, machine: &str) -> Result<ClusterClient, Error> {
        let existing = self.existing(machine)?;
        let failed = |why: String| Error::Failed { doing: format!("reading {}", existing.kubeconfig.display()), why };
        let kubeconfig =
            Kubeconfig::load(std::slice::from_ref(&existing.kubeconfig)).map_err(|e| failed(e.to_string()))?;
        let remote = kubeconfig.remote(existing.context.as_deref()).map_err(|e| failed(e.to_string()))?;
        ClusterClient::connect(Endpoint::Remote(remote)).map_err(|e| failed(e.to_string()))
    }

    fn unreachable(&self, machine: &str, why: &str) -> Error {
        let context = self.existing(machine).map(|existing| {
            let context = existing.context.as_ref().map(|context| format!(" --context {context}")).unwrap_or_default();
            format!("kubectl --kubeconfig {}{context} version", existing.kubeconfig.display())
        });
        Error::Host {
            problem: format!("the cluster {machine} does not answer: {why}"),
            remedy: format!("check it with: {}", context.unwrap_or_default()),
        }
    }

    fn refuse<T>(&self, machine: &str, what: &str, instead: &str) -> Result<T, Error> {
        self.existing(machine)?;
        Err(Error::Failed {
            doing: format!("{what} {machine}"),
            why: format!("flotilla does not manage existing clusters; {instead}"),
        })
    }
}

#[async_trait]
impl Provisioner for Clusters {
    fn name(&self) -> &'static str {
        "kubeconfig"
    }

    /// Creates nothing: the cluster must answer and be recent enough.
    async fn create(&self, machine: &Machine) -> Result<(), Error> {
        let version = self.version(&machine.name).await?;
        match minor_of(&version) {
            Some(minor) if minor < MINOR_MIN => Err(Error::Failed {
                doing: format!("using {}", machine.name),
                why: format!("it runs Kubernetes {version}, but members require 1.{MINOR_MIN} or later"),
            }),
            _ => Ok(()),
        }
    }

    async fn start(&self, machine: &str) -> Result<(), Error> {
        match self.condition(machine).await? {
            Condition::Running => Ok(()),
            _ => self.refuse(machine, "starting", "start it with its own tools"),
        }
    }

    async fn stop(&self, machine: &str) -> Result<(), Error> {
        self.refuse(machine, "stopping", "stop it with its own tools")
    }

    /// Nothing was created, so nothing is deleted.
    async fn delete(&self, machine: &str) -> Result<(), Error> {
        self.existing(machine).map(|_| ())
    }

    async fn condition(&self, machine: &str) -> Result<Condition, Error> {
        let request = http::Request::get("/readyz")
            .body(Bytes::new())
            .map_err(|e| Error::Failed { doing: format!("asking {machine}"), why: e.to_string() })?;
        match self.client(machine)?.raw(request).await {
            Ok(response) if response.status().is_success() => Ok(Condition::Running),
            Ok(_) => Ok(Condition::Failing),
            Err(status) if is_unreachable(&status) => Ok(Condition::Stopped),
            Err(status) => Err(self.unreachable(machine, &status.to_string())),
        }
    }

    async fn exec(&self, machine: &str, _: &[String], _: Option<Vec<u8>>) -> Result<Output, Error> {
        self.refuse(machine, "running a command in", "use kubectl exec for its pods")
    }

    async fn push_file(&self, machine: &str, _: &Path, _: &str) -> Result<(), Error> {
        self.refuse(machine, "copying a file into", "provide images through a registry it can reach")
    }

    async fn read_file(&self, machine: &str, _: &str) -> Result<Vec<u8>, Error> {
        self.refuse(machine, "reading a file of", "use kubectl cp for its pods")
    }

    async fn forward(&self, machine: &str, _: &Forward) -> Result<(), Error> {
        self.refuse(machine, "forwarding a port to", "use kubectl port-forward for its pods")
    }

    async fn unforward(&self, machine: &str, _: &str) -> Result<(), Error> {
        self.existing(machine).map(|_| ())
    }
}

/// Parses the minor version of `v1.30.2` and similar; `None` for other formats.
fn minor_of(version: &str) -> Option<u32> {
    let rest = version.trim_start_matches('v').strip_prefix("1.")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn machine() -> Machine {
        Machine { name: "prod".into(), command: vec![], env: BTreeMap::new(), files: vec![], forwards: vec![] }
    }

    /// Answers every request for `/version` and `/readyz` the same way, over plain HTTP on loopback.
    async fn server(version: &'static str, ready: u16) -> std::net::SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = vec![0; 4096];
                let read = stream.read(&mut head).await.unwrap_or(0);
                let asks_version = String::from_utf8_lossy(&head[..read]).starts_with("GET /version");
                let (code, body) = if asks_version {
                    (200, format!("{{\"gitVersion\":\"{version}\"}}"))
                } else {
                    (ready, "ok".into())
                };
                let text =
                    format!("HTTP/1.1 {code} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
                let _ = stream.write_all(text.as_bytes()).await;
            }
        });
        address
    }

    fn clusters(directory: &tempfile::TempDir, address: std::net::SocketAddr) -> Clusters {
        let kubeconfig = directory.path().join("config");
        let text = format!(
            "current-context: c\nclusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: ''}}}}]\n"
        );
        std::fs::write(&kubeconfig, text).unwrap();
        Clusters::new(BTreeMap::from([("prod".to_owned(), Existing { kubeconfig, context: None })]))
    }

    #[tokio::test]
    async fn a_cluster_that_answers_is_accepted() {
        let directory = tempfile::tempdir().unwrap();
        let clusters = clusters(&directory, server("v1.30.2+k3s1", 200).await);
        clusters.create(&machine()).await.unwrap();
        assert_eq!(clusters.condition("prod").await.unwrap(), Condition::Running);
        clusters.start("prod").await.unwrap();
        clusters.delete("prod").await.unwrap();
    }

    #[tokio::test]
    async fn an_old_cluster_is_rejected_with_its_version() {
        let directory = tempfile::tempdir().unwrap();
        let clusters = clusters(&directory, server("v1.19.0", 500).await);
        let error = clusters.create(&machine()).await.unwrap_err().to_string();
        assert!(error.contains("Kubernetes v1.19.0"), "{error}");
        assert_eq!(clusters.condition("prod").await.unwrap(), Condition::Failing);
    }

    #[tokio::test]
    async fn an_unreachable_cluster_is_stopped_and_cannot_be_created() {
        let directory = tempfile::tempdir().unwrap();
        // A port without a listener; a released port may be held a moment longer by children of other tests.
        let clusters = clusters(&directory, ([127, 0, 0, 1], 1).into());
        assert_eq!(clusters.condition("prod").await.unwrap(), Condition::Stopped);
        let error = clusters.create(&machine()).await.unwrap_err().to_string();
        assert!(error.contains("does not answer") && error.contains("kubectl --kubeconfig"), "{error}");
    }

    #[tokio::test]
    async fn changes_are_rejected_with_an_alternative() {
        let directory = tempfile::tempdir().unwrap();
        let clusters = clusters(&directory, ([127, 0, 0, 1], 1).into());
        let forward =
            Forward { name: "web".into(), listen: ([127, 0, 0, 1], 9091).into(), target: "10.0.0.1:80".into() };
        let errors = [
            clusters.stop("prod").await.unwrap_err(),
            clusters.exec("prod", &[], None).await.unwrap_err(),
            clusters.push_file("prod", Path::new("/x"), "/x").await.unwrap_err(),
            clusters.forward("prod", &forward).await.unwrap_err(),
        ];
        for error in errors {
            assert!(error.to_string().contains("does not manage existing clusters"), "{error}");
        }
        assert!(matches!(clusters.stop("other").await, Err(Error::NoMachine(_))));
    }
}
