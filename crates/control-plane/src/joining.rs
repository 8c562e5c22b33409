//! Joins clusters for callers without a terminal: in push mode with a kubeconfig, in pull mode with a token for the agent.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use api::cluster::CLUSTERS;
use api::names::CLUSTER_NAMESPACE;
use apiserver::direct::Direct;
use apiserver::extension::{EXTENSIONS_PATH, Extension, ExtensionRequest};
use apiserver::request::RequestInfo;
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use async_trait::async_trait;
use cluster_client::remote::addresses::AddressPolicy;
use cluster_client::{Backend, ClusterClient, Endpoint, Identity, RemoteConfig};
use http::{Method, Response};
use jiff::Timestamp;
use membership::cluster_name::check_name;
use membership::join::{JoinOptions, JoinOutcome, join};
use membership::token::{BootstrapToken, TokenOptions, key_pins, store_token};
use membership::{ClusterLocation, MemberAccess, MembershipError, NoProgress, read_kubeconfig};
use object::Status;
use object::request::{User, Verb};
use serde_json::{Value, json};

const JOIN: &str = "v1alpha1/join";
const TOKEN: &str = "v1alpha1/join/token";
/// Larger kubeconfigs are refused.
const KUBECONFIG_BYTES_MAX: usize = 256 * 1024;
/// Timeout of one request to a cluster that joins.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const TOKEN_TTL: Duration = Duration::from_secs(24 * 3600);

/// Joins clusters with the rights of the caller, which needs to be allowed to create clusters.
pub struct Joining {
    /// Addresses that kubeconfigs must not name.
    pub addresses: AddressPolicy,
    /// The CA of this control plane, which agents pin.
    pub ca_pem: String,
}

#[async_trait]
impl Extension for Joining {
    fn handles(&self, path: &str) -> bool {
        path.strip_prefix(EXTENSIONS_PATH).is_some_and(|path| path == JOIN || path == TOKEN)
    }

    fn judges_callers(&self) -> bool {
        true
    }

    async fn serve(&self, server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        if request.incoming.method != Method::POST {
            return Err(Status::new(405, "MethodNotAllowed", "join a cluster with POST"));
        }
        // Before anything is connected to: the address comes from the caller.
        server.authorize(&request.user, &RequestInfo::on(CLUSTERS.gvr(), Verb::Create)).await?;
        let is_token = request.incoming.info.path.strip_prefix(EXTENSIONS_PATH) == Some(TOKEN);
        let client = client_as(server, &request.user)?;
        let body = request.incoming.body.read().await?;
        let wanted: Value = serde_json::from_slice(&body)
            .map_err(|error| Status::bad_request(format!("the request body is not JSON: {error}")))?;
        check_fields(&wanted).map_err(Status::bad_request)?;
        let answer = match is_token {
            true => self.create_token(&client, &wanted).await?,
            false => self.join(client, &wanted).await?,
        };
        Ok(respond::value(200, &answer))
    }
}

fn client_as(server: &Arc<Server>, user: &Arc<User>) -> Result<ClusterClient, Status> {
    let backend: Arc<dyn Backend> = Arc::new(Direct::new(Arc::clone(server)));
    let identity = Identity::of(User::clone(user));
    ClusterClient::connect(Endpoint::Direct { server: backend, identity }).map_err(Status::internal)
}

/// Refuses fields that would be ignored: a misspelt `dryRun` must not join the cluster.
fn check_fields(wanted: &Value) -> Result<(), String> {
    let fields = wanted.as_object().ok_or("the request body must be a JSON object")?;
    for (field, value) in fields {
        let (expected, is_valid) = match field.as_str() {
            "dryRun" => ("true or false", value.is_boolean()),
            "name" | "kubeconfig" | "provider" | "region" | "zone" => ("a string", value.is_string()),
            _ => return Err(format!("{field}: there is no such field")),
        };
        if !is_valid {
            return Err(format!("{field}: must be {expected}"));
        }
    }
    Ok(())
}

fn text_of<'a>(wanted: &'a Value, field: &str) -> &'a str {
    wanted[field].as_str().unwrap_or_default()
}

impl Joining {
    /// Joins a cluster; with `dryRun` it is reached and nothing is changed.
    async fn join(&self, control_plane: ClusterClient, wanted: &Value) -> Result<Value, Status> {
        let remote = self.remote_of(text_of(wanted, "kubeconfig"))?;
        let server = remote.server.clone();
        let member = MemberAccess::new(remote, None).map_err(|error| refused(&error))?;
        let version = member.client.get_json("/version").await;
        let version =
            version.map_err(|status| Status::bad_request(format!("{server} cannot be used: {}", status.message)))?;
        let zone = text_of(wanted, "zone");
        let options = JoinOptions {
            control_plane,
            member,
            name: text_of(wanted, "name").to_owned(),
            namespace: CLUSTER_NAMESPACE.to_owned(),
            location: ClusterLocation {
                provider: text_of(wanted, "provider").to_owned(),
                region: text_of(wanted, "region").to_owned(),
                zones: if zone.is_empty() { Vec::new() } else { vec![zone.to_owned()] },
            },
            dry_run: wanted["dryRun"].as_bool().unwrap_or_default(),
        };
        let (JoinOutcome::Checked { id } | JoinOutcome::Joined { id }) =
            join(&options, &NoProgress).await.map_err(|error| refused(&error))?;
        Ok(json!({"server": server, "kubernetesVersion": version["gitVersion"], "systemId": id}))
    }

    fn remote_of(&self, kubeconfig: &str) -> Result<RemoteConfig, Status> {
        let invalid = |problem: String| Status::bad_request(format!("kubeconfig: {problem}"));
        if kubeconfig.is_empty() || kubeconfig.len() > KUBECONFIG_BYTES_MAX {
            return Err(invalid(format!("must have 1 to {KUBECONFIG_BYTES_MAX} bytes")));
        }
        let remote = read_kubeconfig(kubeconfig).map_err(invalid)?;
        if remote.proxy.is_some() {
            return Err(invalid("proxy-url is not accepted here: use `flotilla join`".to_owned()));
        }
        Ok(RemoteConfig { addresses: self.addresses, impersonate: None, request_timeout: REQUEST_TIMEOUT, ..remote })
    }

    /// Creates a token with which the agent of one cluster registers it.
    async fn create_token(&self, control_plane: &ClusterClient, wanted: &Value) -> Result<Value, Status> {
        let cluster = text_of(wanted, "name");
        check_name(cluster).map_err(|error| refused(&error))?;
        let pins = key_pins(self.ca_pem.as_bytes()).map_err(Status::internal)?;
        let token = BootstrapToken::generate().map_err(Status::internal)?;
        let options = TokenOptions { ttl: TOKEN_TTL, cluster: Some(cluster.to_owned()), ..TokenOptions::default() };
        let now = Timestamp::now();
        store_token(control_plane, &token, &options, now).await.map_err(|error| refused(&error))?;
        let expires = now.checked_add(TOKEN_TTL).map_err(Status::internal)?;
        Ok(json!({"token": token.to_string(), "caCertHashes": pins, "expireTime": expires.to_string()}))
    }
}

/// The answer of the control plane where it refused, otherwise the error with its causes.
fn refused(error: &MembershipError) -> Status {
    let mut text = error.to_string();
    let mut cause = error.source();
    let mut answer = None;
    while let Some(source) = cause {
        answer = source.downcast_ref::<Status>().or(answer);
        let why = source.to_string();
        // Some errors are the words of their cause.
        if !text.ends_with(&why) {
            text = format!("{text}: {why}");
        }
        cause = source.source();
    }
    match (error, answer) {
        (MembershipError::AlreadyRegistered { .. }, _) => Status::new(409, "AlreadyExists", text),
        // The member refuses the user of the kubeconfig, not the control plane its caller.
        (MembershipError::ReadMemberId { .. } | MembershipError::MemberCredentials { .. }, _) => {
            Status::bad_request(text)
        }
        (_, Some(status)) if status.code == 403 => Status { message: text, ..status.clone() },
        _ => Status::bad_request(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joining() -> Joining {
        Joining { addresses: AddressPolicy::default(), ca_pem: String::new() }
    }

    fn kubeconfig(cluster: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             contexts:\n- name: c\n  context: {{cluster: k, user: u}}\n\
             clusters:\n- name: k\n  cluster: {{{cluster}}}\n\
             users:\n- name: u\n  user: {{{user}}}\n"
        )
    }

    #[test]
    fn kubeconfigs_name_no_programs_files_or_proxies() {
        let server = "server: 'https://member:6443'";
        let check = |cluster: &str, user: &str, expected: Option<&str>| {
            let read = joining().remote_of(&kubeconfig(cluster, user));
            match (read, expected) {
                (Ok(remote), None) => assert_eq!(remote.request_timeout, REQUEST_TIMEOUT),
                (Err(status), Some(expected)) => assert!(status.message.contains(expected), "{}", status.message),
                (read, expected) => panic!("{:?} instead of {expected:?}", read.err().map(|status| status.message)),
            }
        };
        check(server, "token: abc", None);
        check(
            server,
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh}",
            Some("programs and files"),
        );
        check(server, "tokenFile: /etc/shadow", Some("programs and files"));
        check(&format!("{server}, certificate-authority: /ca"), "token: abc", Some("programs and files"));
        check(&format!("{server}, proxy-url: 'http://p'"), "token: abc", Some("proxy-url is not accepted"));
        assert!(joining().remote_of("").is_err());
    }

    #[test]
    fn fields_that_would_be_ignored_are_refused() {
        let check = |wanted: &Value, expected: Option<&str>| {
            assert_eq!(check_fields(wanted).err().as_deref(), expected, "{wanted}");
        };
        check(&json!({"name": "m1", "kubeconfig": "", "provider": "", "region": "", "zone": "", "dryRun": true}), None);
        check(&json!([]), Some("the request body must be a JSON object"));
        check(&json!({"dryRun": "true"}), Some("dryRun: must be true or false"));
        check(&json!({"dryrun": true}), Some("dryrun: there is no such field"));
        check(&json!({"name": 5}), Some("name: must be a string"));
    }

    #[test]
    fn refusals_of_the_api_server_stay_refusals() {
        let status = Status::new(403, "Forbidden", "no");
        let error = MembershipError::CreateCluster { name: "m1".into(), status };
        assert_eq!(refused(&error).code, 403);
        let status = Status::new(403, "Forbidden", "no");
        let error = MembershipError::ReadMemberId { endpoint: "https://member".into(), status };
        assert_eq!(refused(&error).code, 400, "the kubeconfig has too few rights");
        let taken = MembershipError::AlreadyRegistered { id: "1".into(), name: "m1".into(), reason: "taken".into() };
        assert_eq!(refused(&taken).code, 409);
        assert_eq!(refused(&MembershipError::InvalidToken).code, 400);
    }
}
