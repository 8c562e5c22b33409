//! From a Cluster and its secret to a client of the member.

use std::sync::Arc;

use api::cluster::{ClusterSpec, SECRET_CA_BUNDLE, SECRET_TOKEN};
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use cluster_client::remote::config::{Credentials, Pem};
use cluster_client::{
    ApiCall, Backend, ClusterClient, Endpoint, Identity, RemoteConfig, Reply, WatchCall, WatchEvents,
};
use object::status::{StatusCause, StatusDetails};
use object::{Object, Status};

use crate::settings::Settings;

/// The reason there is no client for a member. The text is shown to users in the Ready condition.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error("the api endpoint of cluster {0} is empty")]
    NoEndpoint(String),
    #[error("cluster {0} does not have a secret")]
    NoSecretRef(String),
    #[error("secrets \"{0}\" not found")]
    NoSecret(String),
    #[error("the secret for cluster {0} is missing a non-empty value for {SECRET_TOKEN:?}")]
    NoToken(String),
    #[error("the secret for cluster {0} is missing the CA data key {SECRET_CA_BUNDLE:?}")]
    NoCertificateAuthority(String),
    #[error(transparent)]
    Connect(#[from] cluster_client::ConnectError),
}

/// A client that opens its first connection when it is first used.
pub fn connect(
    cluster: &str,
    spec: &ClusterSpec,
    secret: Option<&Object>,
    settings: &Settings,
) -> Result<ClusterClient, LinkError> {
    let config = remote_config(cluster, spec, secret, settings)?;
    Ok(ClusterClient::connect(Endpoint::Remote(config))?)
}

/// Builds the client configuration of a member; the rules and errors are Karmada's.
pub fn remote_config(
    cluster: &str,
    spec: &ClusterSpec,
    secret: Option<&Object>,
    settings: &Settings,
) -> Result<RemoteConfig, LinkError> {
    let name = || cluster.to_owned();
    if spec.api_endpoint.is_empty() {
        return Err(LinkError::NoEndpoint(name()));
    }
    let reference = spec.secret_ref.as_ref().ok_or_else(|| LinkError::NoSecretRef(name()))?;
    let secret = secret.ok_or_else(|| LinkError::NoSecret(reference.name.clone()))?;
    let token = secret_bytes(secret, SECRET_TOKEN).and_then(|token| String::from_utf8(token).ok());
    let token = token.filter(|token| !token.is_empty()).ok_or_else(|| LinkError::NoToken(name()))?;
    // Without a scheme client-go means TLS.
    let server = match spec.api_endpoint.contains("://") {
        true => spec.api_endpoint.clone(),
        false => format!("https://{}", spec.api_endpoint),
    };
    let mut config = RemoteConfig::new(server);
    config.insecure_skip_tls_verify = spec.insecure_skip_tls_verification;
    if !spec.insecure_skip_tls_verification {
        let ca = secret_bytes(secret, SECRET_CA_BUNDLE).ok_or_else(|| LinkError::NoCertificateAuthority(name()))?;
        // An empty bundle leaves the choice to the system, as in client-go.
        config.ca = (!ca.is_empty()).then_some(Pem::Text(ca));
    }
    config.credentials = Credentials { token: Some(token), ..Credentials::default() };
    config.proxy = (!spec.proxy_url.is_empty()).then(|| spec.proxy_url.clone());
    let headers = spec.proxy_header.iter();
    let split = headers.flat_map(|(name, values)| values.split(',').map(move |value| (name.clone(), value.to_owned())));
    config.proxy_headers = split.collect();
    config.request_timeout = settings.request_timeout;
    config.rate_limit = settings.rate_limit;
    config.addresses = settings.addresses;
    Ok(config)
}

fn secret_bytes(secret: &Object, key: &str) -> Option<Vec<u8>> {
    STANDARD.decode(secret.get(&["data", key])?.as_str()?).ok()
}

/// The client of a member that no client can be made for: every call says why, and nothing is known of the member.
pub fn unconnected(problem: &str) -> Result<ClusterClient, cluster_client::ConnectError> {
    let server: Arc<dyn Backend> = Arc::new(Unconnected { problem: problem.to_owned() });
    ClusterClient::connect(Endpoint::Direct { server, identity: Identity::default() })
}

struct Unconnected {
    problem: String,
}

impl Unconnected {
    fn status(&self) -> Status {
        // The cause that `is_unreachable` looks for.
        let cause = StatusCause { reason: "Unreachable".into(), message: self.problem.clone(), field: String::new() };
        Status::unavailable(self.problem.clone())
            .with_details(StatusDetails { causes: vec![cause], ..StatusDetails::default() })
    }
}

#[async_trait]
impl Backend for Unconnected {
    async fn call(&self, _: &Identity, _: ApiCall) -> Result<Reply, Status> {
        Err(self.status())
    }

    async fn watch(&self, _: &Identity, _: WatchCall) -> Result<WatchEvents, Status> {
        Err(self.status())
    }

    async fn raw(&self, _: &Identity, _: http::Request<Bytes>) -> Result<http::Response<Bytes>, Status> {
        Err(self.status())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn secret(data: Value) -> Object {
        Object::from_value(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "m1"}, "data": data}))
            .expect("a map")
    }

    #[track_caller]
    fn check(spec: Value, data: Option<Value>, expected: &str) {
        let spec: ClusterSpec = serde_json::from_value(spec).expect("a spec");
        let secret = data.map(secret);
        let result = remote_config("m1", &spec, secret.as_ref(), &Settings::default());
        let text = match result {
            Ok(config) => format!(
                "{} token={:?} ca={} insecure={} proxy={:?} {:?}",
                config.server,
                config.credentials.token.unwrap_or_default(),
                config.ca.is_some(),
                config.insecure_skip_tls_verify,
                config.proxy.unwrap_or_default(),
                config.proxy_headers,
            ),
            Err(error) => error.to_string(),
        };
        assert_eq!(text, expected);
    }

    #[test]
    fn a_member_is_connected_by_cluster_and_secret_or_the_reason_is_reported() {
        let reference = json!({"namespace": "karmada-cluster", "name": "m1"});
        let full = json!({"apiEndpoint": "https://10.0.0.1:6443", "secretRef": reference});
        let data = json!({"token": "dG9r", "caBundle": "Y2E="});
        check(json!({}), None, "the api endpoint of cluster m1 is empty");
        check(json!({"apiEndpoint": "https://a"}), None, "cluster m1 does not have a secret");
        check(full.clone(), None, "secrets \"m1\" not found");
        check(
            full.clone(),
            Some(json!({"caBundle": "Y2E="})),
            "the secret for cluster m1 is missing a non-empty value for \"token\"",
        );
        check(
            full.clone(),
            Some(json!({"token": "dG9r"})),
            "the secret for cluster m1 is missing the CA data key \"caBundle\"",
        );
        check(full, Some(data.clone()), "https://10.0.0.1:6443 token=\"tok\" ca=true insecure=false proxy=\"\" []");
        check(
            json!({"apiEndpoint": "10.0.0.1:6443", "secretRef": reference, "insecureSkipTLSVerification": true,
                "proxyURL": "http://p:3128", "proxyHeader": {"X-A": "1,2"}}),
            Some(json!({"token": "dG9r"})),
            "https://10.0.0.1:6443 token=\"tok\" ca=false insecure=true proxy=\"http://p:3128\" \
             [(\"X-A\", \"1\"), (\"X-A\", \"2\")]",
        );
    }

    #[tokio::test]
    async fn a_failed_connection_has_a_reason_and_counts_as_unreachable() {
        let client = unconnected("no token").expect("always connects");
        let error = client.get_json("/version").await.expect_err("there is nothing there");
        assert!(cluster_client::is_unreachable(&error));
        assert_eq!(error.to_string(), "no token");
    }
}
