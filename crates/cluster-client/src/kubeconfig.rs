//! Kubeconfig files: located, merged and converted to connection settings, as in kubectl.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::request::User;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::remote::config::{BasicAuth, ClientCertificate, Credentials, Pem, RemoteConfig};
use crate::remote::exec::ExecPlugin;
use crate::remote::proxy;

/// Larger files are not kubeconfigs.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

const SERVICE_ACCOUNT_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is larger than {FILE_BYTES_MAX} bytes", .0.display())]
    TooLarge(PathBuf),
    #[error("{path} is not a kubeconfig: {why}")]
    Parse { path: String, why: String },
    #[error("no kubeconfig: none of {0} exists")]
    NoFile(String),
    #[error("no context is chosen and the kubeconfig has no current-context")]
    NoContext,
    #[error("the kubeconfig has no context {0:?}")]
    UnknownContext(String),
    #[error("the kubeconfig has no cluster {0:?}")]
    UnknownCluster(String),
    #[error("the kubeconfig has no user {0:?}")]
    UnknownUser(String),
    #[error("{0} is not valid base64")]
    Base64(&'static str),
    #[error("user {user:?}: {why}")]
    User { user: String, why: String },
    #[error("this process does not run in a cluster: {0} is not set")]
    NotInCluster(&'static str),
}

/// One or more kubeconfig files as one. File names in it are absolute.
#[derive(Clone, Debug, Default)]
pub struct Kubeconfig {
    current_context: String,
    clusters: BTreeMap<String, Cluster>,
    users: BTreeMap<String, UserEntry>,
    contexts: BTreeMap<String, KubeconfigContext>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", default)]
#[derive(Default)]
struct File {
    current_context: String,
    clusters: Option<Vec<NamedCluster>>,
    users: Option<Vec<NamedUser>>,
    contexts: Option<Vec<NamedContext>>,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Option<Cluster>,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    user: Option<UserEntry>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: Option<KubeconfigContext>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Cluster {
    server: String,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
    insecure_skip_tls_verify: bool,
    tls_server_name: Option<String>,
    proxy_url: Option<String>,
    extensions: Option<Vec<Extension>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Extension {
    name: String,
    extension: Option<Value>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct UserEntry {
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<String>,
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<PathBuf>,
    username: Option<String>,
    password: Option<String>,
    r#as: Option<String>,
    as_uid: Option<String>,
    as_groups: Option<Vec<String>>,
    as_user_extra: Option<BTreeMap<String, Vec<String>>>,
    exec: Option<Exec>,
    auth_provider: Option<AuthProvider>,
}

/// Keeps secrets out of logs.
impl std::fmt::Debug for UserEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("User")
    }
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Exec {
    api_version: String,
    command: PathBuf,
    args: Option<Vec<String>>,
    env: Option<Vec<EnvironmentVariable>>,
    install_hint: Option<String>,
    provide_cluster_info: bool,
    interactive_mode: Option<String>,
}

#[derive(Clone, Deserialize)]
struct EnvironmentVariable {
    name: String,
    #[serde(default)]
    value: String,
}

#[derive(Clone, Deserialize)]
struct AuthProvider {
    #[serde(default)]
    name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct KubeconfigContext {
    cluster: String,
    user: String,
    namespace: Option<String>,
}

impl Kubeconfig {
    /// The files of `KUBECONFIG`, or `~/.kube/config`.
    pub fn load_default() -> Result<Self, KubeconfigError> {
        let listed = std::env::var_os("KUBECONFIG").filter(|v| !v.is_empty());
        let paths: Vec<PathBuf> = match &listed {
            Some(list) => std::env::split_paths(list).filter(|p| !p.as_os_str().is_empty()).collect(),
            None => std::env::home_dir().map(|home| home.join(".kube/config")).into_iter().collect(),
        };
        Self::load(&paths)
    }

    /// Merges several files: for every name, and for the current context, the first file that has it wins. Missing
    /// files are skipped, but one must exist.
    pub fn load(paths: &[PathBuf]) -> Result<Self, KubeconfigError> {
        let mut merged = Self::default();
        let mut found = false;
        for path in paths {
            let size = match std::fs::metadata(path) {
                Ok(metadata) => metadata.len(),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(source) => return Err(KubeconfigError::Read { path: path.clone(), source }),
            };
            if size > FILE_BYTES_MAX {
                return Err(KubeconfigError::TooLarge(path.clone()));
            }
            let text =
                std::fs::read_to_string(path).map_err(|source| KubeconfigError::Read { path: path.clone(), source })?;
            let dir = std::path::absolute(path).ok().and_then(|p| p.parent().map(Path::to_owned)).unwrap_or_default();
            merged.merge(read_file(&text, &path.display().to_string())?, &dir);
            found = true;
        }
        if found {
            return Ok(merged);
        }
        let names: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
        Err(KubeconfigError::NoFile(names.join(", ")))
    }

    /// One kubeconfig as text; file names in it are relative to `dir`.
    pub fn parse(text: &str, dir: &Path) -> Result<Self, KubeconfigError> {
        let mut config = Self::default();
        config.merge(read_file(text, "the text")?, dir);
        Ok(config)
    }

    pub fn current_context(&self) -> &str {
        &self.current_context
    }

    pub fn contexts(&self) -> impl Iterator<Item = &str> {
        self.contexts.keys().map(String::as_str)
    }

    /// The namespace of a context (the current one when `None`), where it has one.
    pub fn namespace(&self, context: Option<&str>) -> Option<&str> {
        let namespace = self.context(context).ok()?.namespace.as_deref();
        namespace.filter(|n| !n.is_empty())
    }

    /// The name of the cluster of a context (the current one if `None`).
    pub fn cluster_name(&self, context: Option<&str>) -> Option<&str> {
        Some(self.context(context).ok()?.cluster.as_str()).filter(|name| !name.is_empty())
    }

    /// The proxy configured for the cluster of a context, regardless of the environment.
    pub fn proxy_url(&self, context: Option<&str>) -> Option<&str> {
        let cluster = self.clusters.get(&self.context(context).ok()?.cluster)?;
        cluster.proxy_url.as_deref().filter(|url| !url.is_empty())
    }

    /// The connection settings for the cluster and user of a context (the current one if `None`).
    pub fn remote(&self, context: Option<&str>) -> Result<RemoteConfig, KubeconfigError> {
        let context = self.context(context)?;
        let cluster = self
            .clusters
            .get(&context.cluster)
            .ok_or_else(|| KubeconfigError::UnknownCluster(context.cluster.clone()))?;
        let anonymous = UserEntry::default();
        let user = match context.user.as_str() {
            "" => &anonymous,
            name => self.users.get(name).ok_or_else(|| KubeconfigError::UnknownUser(name.to_owned()))?,
        };
        let ca =
            pem_of(&cluster.certificate_authority_data, &cluster.certificate_authority, "certificate-authority-data")?;
        let server = cluster.server.clone();
        let proxy = cluster.proxy_url.clone().filter(|url| !url.is_empty());
        Ok(RemoteConfig {
            proxy: proxy.or_else(|| proxy::url_from_environment(&server)),
            ca,
            insecure_skip_tls_verify: cluster.insecure_skip_tls_verify,
            tls_server_name: cluster.tls_server_name.clone().filter(|name| !name.is_empty()),
            credentials: user.credentials(&context.user, cluster)?,
            impersonate: user.impersonated(&context.user)?,
            ..RemoteConfig::new(server)
        })
    }

    fn context(&self, name: Option<&str>) -> Result<&KubeconfigContext, KubeconfigError> {
        let name = name.unwrap_or(&self.current_context);
        if name.is_empty() {
            return Err(KubeconfigError::NoContext);
        }
        self.contexts.get(name).ok_or_else(|| KubeconfigError::UnknownContext(name.to_owned()))
    }

    fn merge(&mut self, file: File, dir: &Path) {
        if self.current_context.is_empty() {
            self.current_context = file.current_context;
        }
        for NamedCluster { name, cluster } in file.clusters.unwrap_or_default() {
            let mut cluster = cluster.unwrap_or_default();
            resolve(&mut cluster.certificate_authority, dir);
            self.clusters.entry(name).or_insert(cluster);
        }
        for NamedUser { name, user } in file.users.unwrap_or_default() {
            let mut user = user.unwrap_or_default();
            resolve(&mut user.client_certificate, dir);
            resolve(&mut user.client_key, dir);
            resolve(&mut user.token_file, dir);
            if let Some(exec) = &mut user.exec
                && exec.command.components().count() > 1
            {
                // A bare name is looked up in PATH; anything longer is a file.
                exec.command = dir.join(&exec.command);
            }
            self.users.entry(name).or_insert(user);
        }
        for NamedContext { name, context } in file.contexts.unwrap_or_default() {
            self.contexts.entry(name).or_insert(context.unwrap_or_default());
        }
    }
}

impl RemoteConfig {
    /// The API of the cluster this process runs in as a pod.
    pub fn in_cluster() -> Result<Self, KubeconfigError> {
        let variable =
            |name| std::env::var(name).ok().filter(|v| !v.is_empty()).ok_or(KubeconfigError::NotInCluster(name));
        let (host, port) = (variable("KUBERNETES_SERVICE_HOST")?, variable("KUBERNETES_SERVICE_PORT")?);
        let server =
            if host.contains(':') { format!("https://[{host}]:{port}") } else { format!("https://{host}:{port}") };
        let dir = Path::new(SERVICE_ACCOUNT_DIR);
        Ok(Self {
            ca: Some(Pem::File(dir.join("ca.crt"))),
            credentials: Credentials { token_file: Some(dir.join("token")), ..Credentials::default() },
            ..Self::new(server)
        })
    }
}

impl UserEntry {
    fn credentials(&self, name: &str, cluster: &Cluster) -> Result<Credentials, KubeconfigError> {
        let refuse = |why: &str| KubeconfigError::User { user: name.to_owned(), why: why.to_owned() };
        if let Some(provider) = &self.auth_provider {
            let why = format!(
                "the auth provider {:?} is no longer supported by any client; use an exec plugin instead",
                provider.name
            );
            return Err(refuse(&why));
        }
        let certificate = pem_of(&self.client_certificate_data, &self.client_certificate, "client-certificate-data")?;
        let key = pem_of(&self.client_key_data, &self.client_key, "client-key-data")?;
        let client_certificate = match (certificate, key) {
            (Some(certificate), Some(key)) => Some(ClientCertificate { certificate, key }),
            (None, None) => None,
            _ => return Err(refuse("a client certificate and its key come together or not at all")),
        };
        let text = |field: &Option<String>| field.clone().filter(|t| !t.is_empty());
        let token = text(&self.token);
        let basic = match (text(&self.username), text(&self.password)) {
            (None, None) => None,
            (username, password) => {
                Some(BasicAuth { username: username.unwrap_or_default(), password: password.unwrap_or_default() })
            }
        };
        if basic.is_some() && (token.is_some() || self.token_file.is_some()) {
            return Err(refuse("username/password or bearer token may be set, but not both"));
        }
        let exec = self.exec.as_ref().map(|exec| exec.plugin(cluster));
        Ok(Credentials { client_certificate, token, token_file: self.token_file.clone(), basic, exec })
    }

    fn impersonated(&self, name: &str) -> Result<Option<User>, KubeconfigError> {
        let user = User {
            name: self.r#as.clone().unwrap_or_default(),
            uid: self.as_uid.clone().unwrap_or_default(),
            groups: self.as_groups.clone().unwrap_or_default(),
            extra: self.as_user_extra.clone().unwrap_or_default(),
        };
        match (user.name.is_empty(), user == User::default()) {
            (true, true) => Ok(None),
            (true, false) => Err(KubeconfigError::User {
                user: name.to_owned(),
                why: "requesting uid, groups or user-extra without impersonating a user".into(),
            }),
            (false, _) => Ok(Some(user)),
        }
    }
}

impl Exec {
    fn plugin(&self, cluster: &Cluster) -> ExecPlugin {
        let env = self.env.iter().flatten().map(|v| (v.name.clone(), v.value.clone())).collect();
        ExecPlugin {
            api_version: self.api_version.clone(),
            command: self.command.clone(),
            args: self.args.clone().unwrap_or_default(),
            env,
            install_hint: self.install_hint.clone().unwrap_or_default(),
            cluster_info: self.provide_cluster_info.then(|| cluster.info()),
            interactive_mode: self.interactive_mode.clone(),
        }
    }
}

impl Cluster {
    /// The cluster information passed to a plugin.
    fn info(&self) -> Value {
        let mut info = Map::new();
        info.insert("server".into(), self.server.clone().into());
        let file = self.certificate_authority.as_ref().and_then(|path| std::fs::read(path).ok());
        let data = self.certificate_authority_data.clone().or_else(|| file.map(|pem| STANDARD.encode(pem)));
        for (key, value) in [
            ("tls-server-name", self.tls_server_name.clone()),
            ("certificate-authority-data", data),
            ("proxy-url", self.proxy_url.clone()),
        ] {
            if let Some(value) = value {
                info.insert(key.into(), value.into());
            }
        }
        if self.insecure_skip_tls_verify {
            info.insert("insecure-skip-tls-verify".into(), json!(true));
        }
        let mut extensions = self.extensions.iter().flatten();
        if let Some(config) = extensions.find(|e| e.name == "client.authentication.k8s.io/exec") {
            info.insert("config".into(), config.extension.clone().unwrap_or_default());
        }
        Value::Object(info)
    }
}

fn read_file(text: &str, path: &str) -> Result<File, KubeconfigError> {
    if text.trim().is_empty() {
        return Ok(File::default());
    }
    serde_saphyr::from_str(text).map_err(|e| KubeconfigError::Parse { path: path.to_owned(), why: e.to_string() })
}

fn resolve(path: &mut Option<PathBuf>, dir: &Path) {
    *path = path.take().filter(|p| !p.as_os_str().is_empty()).map(|p| dir.join(p));
}

/// Data takes precedence over a file.
fn pem_of(data: &Option<String>, file: &Option<PathBuf>, field: &'static str) -> Result<Option<Pem>, KubeconfigError> {
    match (data.as_deref().filter(|d| !d.is_empty()), file) {
        (Some(data), _) => {
            let compact: String = data.split_whitespace().collect();
            STANDARD.decode(compact).map(|pem| Some(Pem::Text(pem))).map_err(|_| KubeconfigError::Base64(field))
        }
        (None, Some(path)) => Ok(Some(Pem::File(path.clone()))),
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests;
