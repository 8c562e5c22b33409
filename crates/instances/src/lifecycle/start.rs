//! Starts the plane of an instance.

use std::fs::Permissions;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use cluster_client::ResourceRef;
use jiff::Timestamp;
use manager_kinds::annotations::{InstanceSettings, Mode};
use manager_kinds::spec::ExternalEtcd;
use object::{Object, builtin};
use pki::authority::CertificateAuthority;
use pki::key_dir;
use reconcile::ObjectKey;
use tokio::time::Instant;

use super::Lifecycle;
use super::gather::Gathered;
use crate::decide::StartedWith;
use crate::import::EndpointPolicy;
use crate::plane::{PlaneRequest, StartedPlane};
use crate::running::{Activity, RunningInstance};
use crate::{etcd_location, existing_data, import, process, rights, secrets};

const START_TIMEOUT: Duration = Duration::from_secs(60);
/// The code of writes that have no space.
const INSUFFICIENT_STORAGE: u16 = 507;
/// File with the port that an instance keeps.
pub(super) const PORT_FILE: &str = "port";

/// The answers of a started plane about itself.
struct CheckedPlane {
    /// UID of its namespace kube-system.
    identity: String,
    kubernetes_version: String,
}

impl Lifecycle {
    pub(super) async fn start(&self, gathered: &Gathered) -> Result<RunningInstance, String> {
        let (instance, settings) = (&gathered.instance, &gathered.settings);
        let began = Instant::now();
        let mut started_with = gathered.started_with();
        let directory = self.deps.dirs.of(instance.uid());
        let had_directory = directory.exists();
        self.restore(gathered, &directory).await?;
        let started = self.run_plane(gathered, &directory, &mut started_with).await?;
        let checked = match self.check_plane(gathered, &started).await {
            Ok(checked) => checked,
            Err(problem) => {
                started.task.stop().await;
                if gathered.spec.etcd.is_some() && !had_directory {
                    // It may have the keys of another control plane only; with them the right one could never be started here.
                    let _ = std::fs::remove_dir_all(&directory);
                }
                return Err(problem);
            }
        };
        Ok(RunningInstance {
            key: ObjectKey::of(instance),
            uid: instance.uid().to_owned(),
            mode: settings.mode,
            connection: started.connection,
            admin: started.admin,
            kubeconfig: started.kubeconfig,
            address: started.address,
            replica: None,
            started_with,
            started_at: Timestamp::now(),
            running_since: Instant::now(),
            start_millis: i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX),
            identity: checked.identity,
            is_copy: settings.restore.is_some(),
            kubernetes_version: checked.kubernetes_version,
            task: started.task,
            activity: Activity::default(),
            health: Default::default(),
            namespaces: Default::default(),
            member_users: Default::default(),
        })
    }

    /// Starts the plane, takes over its process, or connects to it.
    async fn run_plane(
        &self,
        gathered: &Gathered,
        directory: &Path,
        started_with: &mut StartedWith,
    ) -> Result<StartedPlane, String> {
        Ok(match gathered.settings.mode {
            Mode::Imported => self.connect_import(gathered).await?,
            Mode::InProcess => {
                let request = self.request(gathered, directory).await?;
                let starting = tokio::time::timeout(START_TIMEOUT, self.deps.factory.start(request));
                starting.await.map_err(|_| format!("it was not ready within {START_TIMEOUT:?}"))??
            }
            Mode::Process => match process::adopt(directory).await {
                Some((record, plane)) => {
                    *started_with = record.started_with;
                    plane
                }
                None => {
                    let request = self.request(gathered, directory).await?;
                    let command = self.deps.factory.server_command();
                    process::start(&command, &request, started_with).await?
                }
            },
        })
    }

    /// Refuses a plane that is not the one of the instance, and creates the roles of its users.
    async fn check_plane(&self, gathered: &Gathered, started: &StartedPlane) -> Result<CheckedPlane, String> {
        let (instance, settings) = (&gathered.instance, &gathered.settings);
        let identity = identity(started).await?;
        check_identity(instance, settings, &identity)?;
        // A restored copy has the identity of its original; it runs in safe mode.
        let is_copy = settings.restore.is_some();
        let other = self.deps.running.other_of(&identity, instance.uid());
        if let Some(other) = other.filter(|other| !is_copy && !other.is_copy) {
            return Err(format!("the same control plane is already the instance {}", other.key));
        }
        if let Err(status) = rights::ensure(&started.admin).await {
            // One without space for new roles must run, so that objects can be deleted.
            if settings.mode != Mode::Imported && status.code != INSUFFICIENT_STORAGE {
                return Err(format!("the roles of its users cannot be created: {status}"));
            }
            tracing::warn!(instance = %ObjectKey::of(instance), %status, "users of an instance get no roles in it");
        }
        let version = started.admin.get_json("/version").await.map_err(|status| status.to_string())?;
        let kubernetes_version = version["gitVersion"].as_str().unwrap_or_default().to_owned();
        Ok(CheckedPlane { identity, kubernetes_version })
    }

    async fn connect_import(&self, gathered: &Gathered) -> Result<StartedPlane, String> {
        let import = gathered.settings.import.as_ref().ok_or("no kubeconfig is named")?;
        let namespace = gathered.instance.namespace();
        let text = secrets::read_text(&self.deps.client, namespace, &import.name, &import.key).await?;
        import::connect(&text, self.deps.endpoints).await
    }

    /// Prepares the directory of a plane: its CA and its etcd credentials, and the port it keeps.
    async fn request(&self, gathered: &Gathered, directory: &Path) -> Result<PlaneRequest, String> {
        let failed = |error: std::io::Error| format!("cannot prepare {}: {error}", directory.display());
        std::fs::create_dir_all(directory).map_err(failed)?;
        std::fs::set_permissions(directory, Permissions::from_mode(0o700)).map_err(failed)?;
        let mut flags = gathered.spec.flags.clone();
        flags.push(forbidden_addresses(self.deps.endpoints));
        if existing_data::was_ready(&gathered.instance) {
            flags.push("--require-existing-data".to_owned());
        }
        if let Some(name) = &gathered.spec.ca_secret {
            self.install_ca(gathered.instance.namespace(), name, directory).await?;
        }
        if let Some(etcd) = &gathered.spec.etcd {
            flags.extend(self.etcd_flags(gathered, etcd, directory).await?);
        }
        let expose = gathered.settings.expose.as_ref();
        let has_own_port = gathered.spec.has_own_port || expose.is_some();
        let is_process = gathered.settings.mode == Mode::Process;
        let ip = if has_own_port { self.deps.bind } else { Ipv4Addr::LOCALHOST.into() };
        let port = match expose.and_then(|expose| expose.port) {
            Some(port) => port,
            None if has_own_port || is_process => kept_port(directory, ip).map_err(failed)?,
            None => 0,
        };
        let advertise = expose.map(|expose| {
            flags.push(format!("--tls-san={}", expose.host));
            format!("https://{}:{port}", expose.host)
        });
        let name = gathered.instance.name().to_owned();
        Ok(PlaneRequest { name, directory: directory.to_owned(), flags, bind: SocketAddr::new(ip, port), advertise })
    }

    /// Installs the CA of the spec before the plane creates its own. A plane keeps the CA it has.
    async fn install_ca(&self, namespace: &str, name: &str, directory: &Path) -> Result<(), String> {
        let certificate = secrets::read(&self.deps.client, namespace, name, "tls.crt").await?;
        let key = secrets::read(&self.deps.client, namespace, name, "tls.key").await?;
        CertificateAuthority::from_pem(&certificate, &key)
            .map_err(|error| format!("Secret {namespace}/{name} is not a CA with its key: {error}"))?;
        let pki = directory.join("pki");
        let files = key_dir::KeyDir::open(&pki).map_err(|error| error.to_string())?;
        // The key first: a certificate alone would look like a lost key.
        let wrote = key_dir::write_if_absent(&files.key_path("ca"), &key, key_dir::PRIVATE);
        wrote.map_err(|error| error.to_string())?;
        let wrote = key_dir::write_if_absent(&files.certificate_path("ca"), &certificate, key_dir::PUBLIC);
        wrote.map_err(|error| error.to_string())?;
        let installed = std::fs::read(files.certificate_path("ca")).map_err(|error| error.to_string())?;
        if installed != certificate {
            return Err("the control plane already has another CA: create a new instance to use this one".to_owned());
        }
        Ok(())
    }

    async fn etcd_flags(
        &self,
        gathered: &Gathered,
        etcd: &ExternalEtcd,
        directory: &Path,
    ) -> Result<Vec<String>, String> {
        let prefix = etcd_location::prefix(etcd.prefix.as_deref(), gathered.instance.uid());
        let mut flags = vec![
            "--storage=etcd".to_owned(),
            format!("--etcd-servers={}", etcd.endpoints.join(",")),
            format!("--etcd-prefix={prefix}"),
        ];
        let Some(secret) = &etcd.secret else { return Ok(flags) };
        for (key, file, flag) in [
            ("ca.crt", "etcd-ca.crt", "cafile"),
            ("tls.crt", "etcd.crt", "certfile"),
            ("tls.key", "etcd.key", "keyfile"),
        ] {
            let content = secrets::read(&self.deps.client, gathered.instance.namespace(), secret, key).await?;
            let path = directory.join(file);
            key_dir::write_atomic(&path, &content, key_dir::PRIVATE).map_err(|error| error.to_string())?;
            flags.push(format!("--etcd-{flag}={}", path.display()));
        }
        Ok(flags)
    }
}

/// An instance shares the machine of the manager with others, whose servers its administrators must not reach through it.
fn forbidden_addresses(policy: EndpointPolicy) -> String {
    let loopback = if policy.allow_loopback { "" } else { ",loopback" };
    format!("--forbidden-addresses=link-local{loopback}")
}

/// Returns the UID of the plane's namespace kube-system, which identifies the plane.
async fn identity(started: &StartedPlane) -> Result<String, String> {
    let namespaces = builtin::namespaces();
    let found = started.admin.get(ResourceRef::cluster(&namespaces, "kube-system")).await;
    found.map(|namespace| namespace.uid().to_owned()).map_err(|status| format!("its API does not answer: {status}"))
}

/// An instance stays the control plane it was: its users' rights are for that one. A backup may come from another one.
fn check_identity(instance: &Object, settings: &InstanceSettings, identity: &str) -> Result<(), String> {
    let known = instance.str_at(&["status", "identity"]);
    if known.is_empty() || known == identity {
        return Ok(());
    }
    match settings.mode {
        Mode::Imported => {
            Err("the kubeconfig leads to another control plane than before; delete the instance and import that one"
                .to_owned())
        }
        _ if settings.restore.is_some() => Ok(()),
        _ => {
            Err("the data there is of another control plane than before; name the storage that this instance had, or \
             delete the instance and create another one for that data"
                .to_owned())
        }
    }
}

/// Returns the port an instance had before, or a free one that it keeps from now on.
fn kept_port(directory: &Path, ip: std::net::IpAddr) -> std::io::Result<u16> {
    let file = directory.join(PORT_FILE);
    if let Some(port) = std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok()) {
        return Ok(port);
    }
    let port = TcpListener::bind(SocketAddr::new(ip, 0))?.local_addr()?.port();
    std::fs::write(file, port.to_string())?;
    Ok(port)
}
