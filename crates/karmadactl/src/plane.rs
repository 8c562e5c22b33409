//! How commands reach the control plane, and members through it, with the user's own rights.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use api::cluster::CLUSTERS;
use clap::Args;
use cluster_client::{ClusterClient, Endpoint, Kubeconfig, ListOptions, RemoteConfig, ResourceRef, is_unreachable};
use object::{Object, Status};
use std::sync::Arc;

/// Which control plane.
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
}

/// Which namespace.
#[derive(Args, Clone, Debug, Default)]
pub struct NamespaceArgs {
    /// The namespace scope for this request [default: the context's, else "default"]
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
}

/// The files a kubeconfig was or would have been read from, and why those.
pub struct KubeconfigSource {
    pub paths: Vec<PathBuf>,
    pub why: &'static str,
}

/// A control plane as one user sees it.
pub struct Plane {
    pub client: ClusterClient,
    /// Of the context; `default` when it has none.
    pub namespace: String,
    access: Access,
    /// For messages: which file and server.
    described: String,
}

enum Access {
    Remote(Box<RemoteConfig>),
    #[cfg(test)]
    Given(std::collections::BTreeMap<String, ClusterClient>),
}

impl KubeconfigSource {
    /// The file that was named, or the ones that are used when none was.
    pub fn find(named: Option<&Path>) -> Self {
        if let Some(path) = named {
            return Self { paths: vec![path.to_owned()], why: "--kubeconfig" };
        }
        if let Some(list) = std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty()) {
            let paths = std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect();
            return Self { paths, why: "$KUBECONFIG" };
        }
        let home = std::env::home_dir().unwrap_or_default();
        let flotilla = std::env::var_os("FLOTILLA_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let flotilla = flotilla.unwrap_or_else(|| home.join(".flotilla"));
        for (folder, why) in [("", "the control plane of this machine"), ("default", "the testbed of this machine")] {
            let own = flotilla.join(folder).join("karmada-apiserver.config");
            if own.exists() {
                return Self { paths: vec![own], why };
            }
        }
        Self { paths: vec![home.join(".kube/config")], why: "the default kubeconfig" }
    }

    pub fn describe(&self) -> String {
        let paths: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
        format!("{} ({})", paths.join(":"), self.why)
    }

    pub fn load(&self) -> anyhow::Result<Kubeconfig> {
        Kubeconfig::load(&self.paths).with_context(|| {
            format!(
                "cannot use the kubeconfig {}; say which with --kubeconfig FILE, or start a testbed with \
                 `flotilla up`",
                self.describe()
            )
        })
    }
}

impl Plane {
    pub fn open(args: &PlaneArgs) -> anyhow::Result<Self> {
        Self::open_as(args, None)
    }

    /// Acting as someone else, where the user may.
    pub fn open_as(args: &PlaneArgs, impersonate: Option<cluster_client::UserInfo>) -> anyhow::Result<Self> {
        let source = KubeconfigSource::find(args.kubeconfig.as_deref());
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

    /// The namespace asked for, or the context's.
    pub fn namespace(&self, args: &NamespaceArgs) -> String {
        args.namespace.clone().filter(|n| !n.is_empty()).unwrap_or_else(|| self.namespace.clone())
    }

    /// The server's address, where it is behind a socket.
    pub fn server(&self) -> Option<&str> {
        match &self.access {
            Access::Remote(remote) => Some(&remote.server),
            #[cfg(test)]
            Access::Given(_) => None,
        }
    }

    /// The certificates the control plane is trusted by.
    pub fn authority(&self) -> anyhow::Result<Option<Vec<u8>>> {
        match &self.access {
            Access::Remote(remote) => {
                Ok(remote.ca.as_ref().map(cluster_client::remote::config::Pem::read).transpose()?)
            }
            #[cfg(test)]
            Access::Given(_) => Ok(None),
        }
    }

    /// A member's own API, through the control plane's proxy and with the user's own rights.
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

    /// Another server, with the same credentials and the same trust.
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

    /// A member that is known to exist.
    pub async fn existing_member(&self, cluster: &str) -> anyhow::Result<ClusterClient> {
        self.client.get(ResourceRef::cluster(&CLUSTERS.gvr(), cluster)).await?;
        self.member(cluster)
    }

    /// All members, by name.
    pub async fn clusters(&self) -> Result<Vec<Arc<Object>>, Status> {
        let mut items = self.client.list_all(ResourceRef::all(&CLUSTERS.gvr()), ListOptions::default()).await?.items;
        items.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(items)
    }

    /// Adds to an error from the API what the user can do about it.
    pub fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let Some(status) = error.chain().find_map(|cause| cause.downcast_ref::<Status>()) else { return error };
        if is_unreachable(status) {
            return anyhow!("{error:#}\nAsked was {}; check that it runs and can be reached", self.described);
        }
        if status.code == 401 {
            return anyhow!("{error:#}\nThe credentials are not accepted by {}", self.described);
        }
        error
    }
}

/// Where a member's API is found behind the control plane's.
pub fn proxy_url(server: &str, cluster: &str) -> String {
    format!("{}/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}/proxy", server.trim_end_matches('/'))
}

/// The client of a member that the user has a kubeconfig for.
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

/// The text of an error as kubectl's users know it.
pub fn report(error: &anyhow::Error) -> String {
    // With a context around it, the context is the news and the status its cause.
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

/// One field in the sentence, several below it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_behind_the_control_plane() {
        let url = proxy_url("https://h:5443/", "m1");
        assert_eq!(url, "https://h:5443/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy");
    }

    #[test]
    fn errors_of_the_api_are_told_apart() {
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
