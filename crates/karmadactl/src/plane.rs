//! Access to the control plane, and to members through it, with the user's own permissions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use api::cluster::CLUSTERS;
use clap::Args;
use cluster_client::remote::connect::{Stream, open_http1_as};
use cluster_client::remote::credentials::CredentialSource;
use cluster_client::remote::tls::ClientIdentity;
use cluster_client::{
    ClusterClient, Endpoint, Kubeconfig, ListOptions, RemoteConfig, ResourceRef, User, escape, is_unreachable,
};
use object::{Object, Status};
use pod_streams::client::StreamTarget;

/// Kubeconfig of a control plane, in its data directory or in the directory of a testbed.
const PLANE_CONFIG: &str = "karmada-apiserver.config";
const CONNECT_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(200);

/// Selects the control plane.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Control plane")]
pub struct PlaneArgs {
    /// Path to the kubeconfig file to use for CLI requests [default: $KUBECONFIG, then
    /// karmada-apiserver.config or default/karmada-apiserver.config in $FLOTILLA_HOME or ~/.flotilla, where one exists,
    /// then ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The name of the kubeconfig context to use
    #[arg(long, value_name = "CONTEXT", alias = "context")]
    pub karmada_context: Option<String>,
    /// Use the control plane of this testbed
    #[arg(long = "name", id = "testbed_name", value_name = "TESTBED", conflicts_with = "kubeconfig")]
    pub testbed: Option<String>,
}

impl PlaneArgs {
    /// Selects the control plane of a kubeconfig.
    pub fn of_kubeconfig(path: &Path, context: Option<String>) -> Self {
        Self { kubeconfig: Some(path.to_owned()), karmada_context: context, testbed: None }
    }

    /// Returns the flags that select the same control plane in another command, with a space before each.
    pub fn flags(&self) -> String {
        let kubeconfig = self.kubeconfig.as_ref().map(|path| ("--kubeconfig", path.display().to_string()));
        let context = self.karmada_context.as_ref().map(|context| ("--karmada-context", context.clone()));
        let testbed = self.testbed.as_ref().map(|testbed| ("--name", testbed.clone()));
        let given = kubeconfig.into_iter().chain(context).chain(testbed);
        given.map(|(flag, value)| format!(" {flag} {}", shell_word(&value))).collect()
    }

    pub(crate) fn source(&self) -> anyhow::Result<KubeconfigSource> {
        let Some(testbed) = &self.testbed else { return Ok(KubeconfigSource::find(self.kubeconfig.as_deref())) };
        let path = flotilla_home().join(testbed).join(PLANE_CONFIG);
        if !path.exists() {
            bail!("--name {testbed}: {} does not exist; see `flotilla testbeds`", path.display());
        }
        Ok(KubeconfigSource { paths: vec![path], why: "--name" })
    }
}

/// Selects the namespace.
#[derive(Args, Clone, Debug, Default)]
pub struct NamespaceArgs {
    /// The namespace scope for this request [default: the context's, else "default"]
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
}

/// The files of a kubeconfig, and why they were selected.
pub struct KubeconfigSource {
    pub paths: Vec<PathBuf>,
    pub why: &'static str,
}

/// A control plane, accessed as one user.
pub struct PlaneClient {
    pub client: ClusterClient,
    /// Namespace of the context; `default` if it has none.
    pub namespace: String,
    access: Access,
    /// File and server, for messages.
    described: String,
}

enum Access {
    Remote(Box<RemoteConfig>),
    #[cfg(test)]
    Given(std::collections::BTreeMap<String, ClusterClient>),
}

impl KubeconfigSource {
    /// Returns the named file, or the default files.
    pub fn find(named: Option<&Path>) -> Self {
        if let Some(path) = named {
            return Self { paths: vec![path.to_owned()], why: "--kubeconfig" };
        }
        if let Some(list) = std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty()) {
            let paths = std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect();
            return Self { paths, why: "$KUBECONFIG" };
        }
        Self::find_local(&flotilla_home(), is_listening).unwrap_or_else(|| {
            let home = std::env::home_dir().unwrap_or_default();
            Self { paths: vec![home.join(".kube/config")], why: "the default kubeconfig" }
        })
    }

    /// Returns the control plane or the default testbed of this machine. If there are both, one that is running is
    /// preferred: the other may be stopped, or left from an earlier installation.
    fn find_local(flotilla: &Path, is_listening: impl Fn(&Path) -> bool) -> Option<Self> {
        let candidates = [("", "the control plane of this machine"), ("default", "the testbed of this machine")];
        let paths = candidates.map(|(folder, why)| (flotilla.join(folder).join(PLANE_CONFIG), why));
        let existing: Vec<&(PathBuf, &'static str)> = paths.iter().filter(|(path, _)| path.exists()).collect();
        let chosen = match &existing[..] {
            [_, _] => existing.iter().find(|(path, _)| is_listening(path)).or(existing.first()),
            _ => existing.first(),
        };
        chosen.map(|(path, why)| Self { paths: vec![path.clone()], why })
    }

    pub fn describe(&self) -> String {
        let paths: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
        format!("{} ({})", paths.join(":"), self.why)
    }

    pub fn load(&self) -> anyhow::Result<Kubeconfig> {
        Kubeconfig::load(&self.paths).with_context(|| {
            format!(
                "cannot use the kubeconfig {}; select one with --kubeconfig FILE, or start a testbed with `flotilla up`",
                self.describe()
            )
        })
    }
}

impl PlaneClient {
    pub fn open(args: &PlaneArgs) -> anyhow::Result<Self> {
        Self::open_as(args, None)
    }

    /// Opens the control plane with impersonation.
    pub fn open_as(args: &PlaneArgs, impersonate: Option<cluster_client::User>) -> anyhow::Result<Self> {
        let source = args.source()?;
        let kubeconfig = source.load()?;
        let context = args.karmada_context.as_deref();
        let mut remote = kubeconfig.remote(context).with_context(|| {
            let contexts: Vec<&str> = kubeconfig.contexts().collect();
            format!("cannot use the kubeconfig {} (its contexts: {})", source.describe(), contexts.join(", "))
        })?;
        if impersonate.is_some() {
            remote.impersonate = impersonate;
        }
        let described = format!("the control plane at {}, from kubeconfig {}", remote.server, source.describe());
        let client = ClusterClient::connect(Endpoint::Remote(remote.clone()))
            .with_context(|| format!("cannot use {described}"))?;
        Ok(Self {
            client,
            namespace: kubeconfig.namespace(context).unwrap_or("default").to_owned(),
            access: Access::Remote(Box::new(remote)),
            described,
        })
    }

    #[cfg(test)]
    pub fn given(client: ClusterClient, members: impl IntoIterator<Item = (&'static str, ClusterClient)>) -> Self {
        let members = members.into_iter().map(|(name, client)| (name.to_owned(), client)).collect();
        Self {
            client,
            namespace: "default".into(),
            access: Access::Given(members),
            described: "the control plane of a test".into(),
        }
    }

    /// Returns the requested namespace, or that of the context.
    pub fn namespace(&self, args: &NamespaceArgs) -> String {
        args.namespace.clone().filter(|n| !n.is_empty()).unwrap_or_else(|| self.namespace.clone())
    }

    /// Returns the URL of the server.
    pub fn server(&self) -> Option<&str> {
        match &self.access {
            Access::Remote(remote) => Some(&remote.server),
            #[cfg(test)]
            Access::Given(_) => None,
        }
    }

    /// Returns the CA certificates of the control plane.
    pub fn authority(&self) -> anyhow::Result<Option<Vec<u8>>> {
        match &self.access {
            Access::Remote(remote) => {
                Ok(remote.ca.as_ref().map(cluster_client::remote::config::Pem::read).transpose()?)
            }
            #[cfg(test)]
            Access::Given(_) => Ok(None),
        }
    }

    /// Connects to a member through the control plane's proxy, with the user's own permissions.
    pub fn member(&self, cluster: &str) -> anyhow::Result<ClusterClient> {
        match &self.access {
            Access::Remote(remote) => {
                let server = proxy_url(&remote.server, cluster);
                let remote = RemoteConfig { server, ..(**remote).clone() };
                Ok(ClusterClient::connect(Endpoint::Remote(remote))?)
            }
            #[cfg(test)]
            Access::Given(members) => members.get(cluster).cloned().ok_or_else(|| anyhow!("no member {cluster}")),
        }
    }

    fn remote(&self) -> anyhow::Result<&RemoteConfig> {
        match &self.access {
            Access::Remote(remote) => Ok(remote),
            #[cfg(test)]
            Access::Given(_) => bail!("no connection in a test"),
        }
    }

    /// Opens a connection for one request that is streamed or upgraded, to the control plane or to a member.
    pub async fn stream(
        &self,
        member: Option<&str>,
        path_and_query: &str,
    ) -> anyhow::Result<(Box<dyn Stream>, StreamTarget)> {
        let remote = self.remote()?;
        let server = match member {
            Some(cluster) => proxy_url(&remote.server, cluster),
            None => remote.server.clone(),
        };
        let identity = Arc::new(ClientIdentity::default());
        let credentials = CredentialSource::new(remote.credentials.clone(), Arc::clone(&identity))?;
        let mut headers = http::HeaderMap::new();
        if let Some(value) = credentials.authorization().await?.header {
            headers.insert(http::header::AUTHORIZATION, value);
        }
        if let Some(user) = &remote.impersonate {
            impersonate(&mut headers, user)?;
        }
        let uri: http::Uri = server.parse().context("the address of the control plane")?;
        let target = StreamTarget {
            host: uri.authority().map(ToString::to_string).unwrap_or_default(),
            path_and_query: format!("{}{path_and_query}", uri.path().trim_end_matches('/')),
            headers,
        };
        let io = open_http1_as(remote, identity).await.with_context(|| format!("cannot reach {}", self.described))?;
        Ok((io, target))
    }

    /// Connects to another server with the same credentials and CA.
    pub fn elsewhere(&self, server: &str) -> anyhow::Result<ClusterClient> {
        match &self.access {
            Access::Remote(remote) => {
                let remote = RemoteConfig { server: server.to_owned(), ..(**remote).clone() };
                Ok(ClusterClient::connect(Endpoint::Remote(remote))?)
            }
            #[cfg(test)]
            Access::Given(_) => Ok(self.client.clone()),
        }
    }

    /// Connects to a member that must exist.
    pub async fn existing_member(&self, cluster: &str) -> anyhow::Result<ClusterClient> {
        self.client.get(ResourceRef::cluster(&CLUSTERS.gvr(), cluster)).await?;
        self.member(cluster)
    }

    /// Lists all members, sorted by name.
    pub async fn clusters(&self) -> Result<Vec<Arc<Object>>, Status> {
        let mut items = self.client.list_all(ResourceRef::all(&CLUSTERS.gvr()), ListOptions::default()).await?.items;
        items.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(items)
    }

    /// Adds a hint to an API error.
    pub fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let Some(status) = error.chain().find_map(|cause| cause.downcast_ref::<Status>()) else { return error };
        if is_unreachable(status) {
            return anyhow!("{error:#}\nCannot reach {}; check that it is running", self.described);
        }
        if status.code == 401 {
            return anyhow!("{error:#}\nThe credentials were rejected by {}", self.described);
        }
        error
    }
}

/// Adds the headers of a kubeconfig that acts as another user.
fn impersonate(headers: &mut http::HeaderMap, user: &User) -> anyhow::Result<()> {
    headers.insert("impersonate-user", user.name.parse()?);
    if !user.uid.is_empty() {
        headers.insert("impersonate-uid", user.uid.parse()?);
    }
    for group in &user.groups {
        headers.append("impersonate-group", group.parse()?);
    }
    for (key, values) in &user.extra {
        let name: http::HeaderName = format!("impersonate-extra-{}", escape(key)).parse()?;
        for value in values {
            headers.append(name.clone(), value.parse()?);
        }
    }
    Ok(())
}

/// Returns the URL of a member's API in the control plane's proxy.
pub fn proxy_url(server: &str, cluster: &str) -> String {
    format!("{}/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}/proxy", server.trim_end_matches('/'))
}

/// Opens the kubeconfig of a member.
pub fn open_kubeconfig(path: Option<&Path>, context: Option<&str>) -> anyhow::Result<(Kubeconfig, RemoteConfig)> {
    let kubeconfig = match path {
        Some(path) => Kubeconfig::load(&[path.to_owned()]),
        None => Kubeconfig::load_default(),
    };
    let kubeconfig = kubeconfig?;
    let remote = kubeconfig.remote(context).with_context(|| {
        let contexts: Vec<&str> = kubeconfig.contexts().collect();
        format!("its contexts are: {}", contexts.join(", "))
    })?;
    Ok((kubeconfig, remote))
}

/// Formats an error as kubectl does.
pub fn report(error: &anyhow::Error) -> String {
    // With a context, the context is printed first and the status is its cause.
    if let Some(status) = error.downcast_ref::<Status>()
        && error.chain().count() == 1
        && !status.reason.is_empty()
        && !is_unreachable(status)
    {
        return match status.reason {
            "Unknown" => format!("Error from server: {status}"),
            "Invalid" => invalid(status),
            reason => format!("Error from server ({reason}): {status}"),
        };
    }
    format!("error: {error:#}")
}

/// Formats an invalid object: one field inline, several as a list.
fn invalid(status: &Status) -> String {
    let Some(details) = &status.details else { return format!("Error from server (Invalid): {status}") };
    let what = match (details.kind.as_str(), details.name.as_str()) {
        ("", "") => "The request is invalid".to_owned(),
        (kind, name) => format!("The {kind} {name:?} is invalid"),
    };
    let causes: Vec<String> =
        details.causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    match &causes[..] {
        [] => format!("{what}: {status}"),
        [one] => format!("{what}: {one}"),
        several => format!("{what}: \n* {}", several.join("\n* ")),
    }
}

/// Quotes a value for a shell where needed.
fn shell_word(value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !value.is_empty() && value.chars().all(is_plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', "'\\''"))
}

/// Returns `$FLOTILLA_HOME`, else `~/.flotilla`.
fn flotilla_home() -> PathBuf {
    let set = std::env::var_os("FLOTILLA_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    set.unwrap_or_else(|| std::env::home_dir().unwrap_or_default().join(".flotilla"))
}

/// Returns true if the server of a kubeconfig accepts connections.
fn is_listening(kubeconfig: &Path) -> bool {
    let Ok(remote) = Kubeconfig::load(&[kubeconfig.to_owned()]).and_then(|kubeconfig| kubeconfig.remote(None)) else {
        return false;
    };
    let address = remote.server.trim_start_matches("https://").trim_end_matches('/').to_owned();
    let addresses = std::net::ToSocketAddrs::to_socket_addrs(&address).into_iter().flatten();
    addresses.into_iter().any(|address| std::net::TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_testbed_is_preferred_to_a_leftover_control_plane() {
        let home = tempfile::tempdir().unwrap();
        let find = |running: &str| {
            let running = home.path().join(running).join(PLANE_CONFIG);
            KubeconfigSource::find_local(home.path(), |path| path == running).map(|found| found.paths[0].clone())
        };
        assert_eq!(find(""), None);
        let plane = home.path().join(PLANE_CONFIG);
        std::fs::write(&plane, "").unwrap();
        assert_eq!(find("default"), Some(plane.clone()));
        let testbed = home.path().join("default").join(PLANE_CONFIG);
        std::fs::create_dir(home.path().join("default")).unwrap();
        std::fs::write(&testbed, "").unwrap();
        assert_eq!(find("default"), Some(testbed));
        assert_eq!(find(""), Some(plane.clone()));
        assert_eq!(find("neither"), Some(plane));
    }

    #[test]
    fn a_member_is_reached_through_the_proxy() {
        let url = proxy_url("https://h:5443/", "m1");
        assert_eq!(url, "https://h:5443/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy");
    }

    #[test]
    fn api_errors_are_formatted_as_in_kubectl() {
        let missing = Status::new(404, "NotFound", "clusters.cluster.karmada.io \"m1\" not found");
        let text = report(&anyhow::Error::from(missing.clone()));
        assert_eq!(text, "Error from server (NotFound): clusters.cluster.karmada.io \"m1\" not found");
        let cause = |field: &str| object::status::StatusCause {
            field: field.into(),
            message: "Required value".into(),
            ..Default::default()
        };
        let details = object::status::StatusDetails {
            kind: "Cluster".into(),
            name: "m1".into(),
            causes: vec![cause("spec.a")],
            ..Default::default()
        };
        let one = Status::new(422, "Invalid", "long").with_details(details.clone());
        assert_eq!(report(&one.into()), "The Cluster \"m1\" is invalid: spec.a: Required value");
        let two = object::status::StatusDetails { causes: vec![cause("spec.a"), cause("spec.b")], ..details };
        let two = Status::new(422, "Invalid", "long").with_details(two);
        assert_eq!(
            report(&two.into()),
            "The Cluster \"m1\" is invalid: \n* spec.a: Required value\n* spec.b: Required value"
        );
        let wrapped = anyhow::Error::from(missing).context("cannot join");
        assert_eq!(report(&wrapped), "error: cannot join: clusters.cluster.karmada.io \"m1\" not found");
    }
}
