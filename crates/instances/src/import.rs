//! Imports a control plane that others run, from a kubeconfig in a Secret.
//!
//! The kubeconfig is data from a user: it must not make the manager run a program, open a file or send credentials anywhere
//! but to the one server it names.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cluster_client::remote::addresses::AddressPolicy;
use cluster_client::remote::config::Credentials;
use cluster_client::{ClusterClient, Endpoint, Kubeconfig, RemoteConfig, ResourceRef, WriteOptions};
use object::{GroupVersionKind, GroupVersionResource, Object};
use serde_json::{Map, Value, json};

use crate::plane::{Connection, Ended, PlaneTask, RemoteAccess, StartedPlane};

/// Larger kubeconfigs are refused.
const BYTES_MAX: usize = 256 * 1024;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const CLUSTER_FIELDS: &[&str] = &["server", "certificate-authority-data", "tls-server-name", "extensions"];
const USER_FIELDS: &[&str] = &["client-certificate-data", "client-key-data", "token"];

/// Addresses that kubeconfigs of users may name.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndpointPolicy {
    /// Allow addresses of this machine.
    pub allow_loopback: bool,
}

impl EndpointPolicy {
    /// The same for connections.
    pub fn addresses(self) -> AddressPolicy {
        AddressPolicy { forbids_link_local: true, forbids_loopback: !self.allow_loopback }
    }

    /// Resolves the host of a URL and checks every address.
    pub async fn check(self, url: &str) -> Result<(), String> {
        self.resolve(url).await.map(drop)
    }

    /// Returns the addresses of a URL, all of which are allowed. Connect to one of them: the name may change its address.
    pub async fn resolve(self, url: &str) -> Result<Vec<SocketAddr>, String> {
        let uri: http::Uri = url.parse().map_err(|_| format!("{url:?} is not a URL"))?;
        let host = uri.host().ok_or_else(|| format!("{url:?} names no host"))?.trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
        self.addresses().resolve(&host, port).await.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied if !self.allow_loopback => {
                format!("{error}; --allow-loopback-endpoints allows addresses of the manager's machine")
            }
            io::ErrorKind::PermissionDenied => error.to_string(),
            _ => format!("{host} cannot be resolved: {error}"),
        })
    }
}

/// Reads a kubeconfig and refuses everything but a server, its CA, and a token or client certificate.
pub fn read_kubeconfig(text: &str) -> Result<RemoteConfig, String> {
    if text.len() > BYTES_MAX {
        return Err(format!("the kubeconfig has {} bytes; at most {BYTES_MAX} are accepted", text.len()));
    }
    let root: Value =
        serde_saphyr::from_str(text).map_err(|error| format!("the kubeconfig is not valid YAML: {error}"))?;
    for (list, inner, known) in [("clusters", "cluster", CLUSTER_FIELDS), ("users", "user", USER_FIELDS)] {
        for entry in root[list].as_array().into_iter().flatten() {
            let name = entry["name"].as_str().unwrap_or_default();
            let fields = entry[inner].as_object().map(Map::keys).into_iter().flatten();
            for field in fields.filter(|field| !known.contains(&field.as_str())) {
                let is_off = matches!(&entry[inner][field], Value::Bool(false) | Value::Null);
                if !is_off {
                    return Err(format!("{list}[{name}].{inner}.{field} is not accepted: {}", instead_of(field)));
                }
            }
        }
    }
    let parsed = Kubeconfig::parse(text, Path::new("/")).map_err(|error| error.to_string())?;
    let config = parsed.remote(None).map_err(|error| error.to_string())?;
    if !config.server.starts_with("https://") {
        return Err(format!("server {:?} must begin with https://", config.server));
    }
    let Credentials { client_certificate, token, .. } = &config.credentials;
    if client_certificate.is_none() && token.is_none() {
        return Err("the user of the current context has neither token nor client-certificate-data".to_owned());
    }
    // The environment of the manager must not redirect credentials of users.
    Ok(RemoteConfig { proxy: None, impersonate: None, request_timeout: REQUEST_TIMEOUT, ..config })
}

fn instead_of(field: &str) -> &'static str {
    match field {
        "exec" | "auth-provider" => "it would run a program in the manager; use a token or client-certificate-data",
        "insecure-skip-tls-verify" => "the server must be verified; set certificate-authority-data",
        "certificate-authority" | "client-certificate" | "client-key" | "tokenFile" => {
            "it names a file of the manager; embed the content with `kubectl config view --flatten --raw`"
        }
        "proxy-url" => "connections through a proxy are not supported for imported instances",
        _ => "it is not a known field, or changes the user",
    }
}

/// Connects to a control plane and checks that it is one.
pub async fn connect(text: &str, policy: EndpointPolicy) -> Result<StartedPlane, String> {
    let mut config = read_kubeconfig(text)?;
    policy.check(&config.server).await?;
    config.addresses = policy.addresses();
    let admin = ClusterClient::connect(Endpoint::Remote(config.clone())).map_err(|error| error.to_string())?;
    let server = config.server.clone();
    let groups = admin.get_json("/apis/cluster.karmada.io").await;
    groups.map_err(|status| match status.is_not_found() {
        true => format!("{server} is not a Karmada control plane: it does not serve cluster.karmada.io"),
        false => format!("{server} cannot be used: {status}"),
    })?;
    let can_impersonate = may_impersonate(&admin, "users").await && may_impersonate(&admin, "groups").await;
    Ok(StartedPlane {
        connection: Connection::Remote(Arc::new(RemoteAccess { config, can_impersonate })),
        admin,
        kubeconfig: None,
        address: None,
        task: PlaneTask::spawn(|stop| async move {
            stop.cancelled().await;
            Ended::Stopped
        }),
    })
}

async fn may_impersonate(admin: &ClusterClient, resource: &str) -> bool {
    let gvk = GroupVersionKind::new("authorization.k8s.io", "v1", "SelfSubjectAccessReview");
    let mut review = Object::new(&gvk, None, "");
    review.set(&["spec"], json!({"resourceAttributes": {"verb": "impersonate", "resource": resource}}));
    let gvr = GroupVersionResource::new(gvk.group, gvk.version, "selfsubjectaccessreviews");
    let answer = admin.create(ResourceRef::all(&gvr), review, WriteOptions::default()).await;
    answer.is_ok_and(|answer| answer.bool_at(&["status", "allowed"]) == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(cluster: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             contexts:\n- name: c\n  context: {{cluster: k, user: u}}\n\
             clusters:\n- name: k\n  cluster: {{{cluster}}}\n\
             users:\n- name: u\n  user: {{{user}}}\n"
        )
    }

    #[track_caller]
    fn check(cluster: &str, user: &str, expected: Result<(), &str>) {
        match (read_kubeconfig(&kubeconfig(cluster, user)), expected) {
            (Ok(config), Ok(())) => assert!(config.proxy.is_none() && config.credentials.exec.is_none()),
            (Err(problem), Err(expected)) => assert!(problem.contains(expected), "{problem:?} lacks {expected:?}"),
            (found, _) => panic!("{:?} for {cluster} {user}", found.map(|config| config.server)),
        }
    }

    #[test]
    fn hostile_kubeconfigs_are_refused_by_field() {
        let server = "server: 'https://h:5443'";
        check(server, "token: abc", Ok(()));
        check(&format!("{server}, insecure-skip-tls-verify: false"), "token: abc", Ok(()));
        check(server, "exec: {command: /bin/sh}", Err("users[u].user.exec"));
        check(server, "auth-provider: {name: gcp}", Err("would run a program"));
        check(server, "tokenFile: /etc/shadow", Err("names a file"));
        check(server, "client-certificate: /a, client-key: /b", Err("names a file"));
        check(server, "token: abc, as: root", Err("users[u].user.as"));
        check(server, "username: a, password: b", Err("users[u].user.password"));
        check(&format!("{server}, insecure-skip-tls-verify: true"), "token: abc", Err("must be verified"));
        check(&format!("{server}, proxy-url: 'http://p'"), "token: abc", Err("proxy"));
        check(&format!("{server}, certificate-authority: /ca"), "token: abc", Err("names a file"));
        check("server: 'http://h:80'", "token: abc", Err("must begin with https://"));
        check(server, "", Err("neither token nor"));
        assert!(read_kubeconfig(&"a".repeat(BYTES_MAX + 1)).is_err_and(|problem| problem.contains("bytes")));
        assert!(read_kubeconfig("{").is_err_and(|problem| problem.contains("YAML")));
    }
}
