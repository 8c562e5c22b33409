//! Calls interpreter webhooks from the member's network.

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use cluster_client::remote::config::Pem;
use cluster_client::{ClusterClient, Endpoint, RemoteConfig};
use interpreter_runtime::{WebhookCall, WebhookCaller};
use serde_json::Value;

/// Calls webhooks by their URL, and services by their DNS name in the member's network.
pub struct Webhooks;

/// The server and path of a call.
#[derive(Debug, PartialEq, Eq)]
struct WebhookTarget {
    server: String,
    path: String,
}

impl WebhookTarget {
    fn of(config: &Value) -> Result<Self, String> {
        if let Some(url) = config["url"].as_str() {
            let uri: http::Uri = url.parse().map_err(|_| format!("{url:?} is not a URL"))?;
            let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
                return Err(format!("{url:?} is not a URL"));
            };
            let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
            return Ok(Self { server: format!("{scheme}://{authority}"), path });
        }
        let service = &config["service"];
        let (Some(namespace), Some(name)) = (service["namespace"].as_str(), service["name"].as_str()) else {
            return Err("a webhook has neither a url nor a service".to_owned());
        };
        let port = service["port"].as_u64().unwrap_or(443);
        let path = service["path"].as_str().filter(|path| !path.is_empty()).unwrap_or("/").to_owned();
        Ok(Self { server: format!("https://{name}.{namespace}.svc:{port}"), path })
    }
}

#[async_trait]
impl WebhookCaller for Webhooks {
    async fn call(&self, call: WebhookCall) -> Result<Value, String> {
        let destination = WebhookTarget::of(&call.client_config)?;
        let mut remote = RemoteConfig::new(destination.server);
        remote.request_timeout = call.deadline;
        if let Some(bundle) = call.client_config["caBundle"].as_str().filter(|bundle| !bundle.is_empty()) {
            remote.ca = Some(Pem::Text(STANDARD.decode(bundle).map_err(|_| "caBundle is not base64")?));
        }
        let client = ClusterClient::connect(Endpoint::Remote(remote)).map_err(|error| error.to_string())?;
        let body = serde_json::to_vec(&call.body).map_err(|error| error.to_string())?;
        let request = http::Request::post(call.with_timeout(destination.path))
            .header(http::header::CONTENT_TYPE, "application/json")
            .header(http::header::ACCEPT, "application/json")
            .body(Bytes::from(body))
            .map_err(|error| error.to_string())?;
        let answer = client.raw(request).await.map_err(|status| status.to_string())?;
        if answer.status() != http::StatusCode::OK {
            return Err(format!("webhook {} answered {}", call.webhook, answer.status()));
        }
        serde_json::from_slice(answer.body()).map_err(|error| format!("webhook {}: {error}", call.webhook))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(config: Value, server: &str, path: &str) {
        let expected = WebhookTarget { server: server.to_owned(), path: path.to_owned() };
        assert_eq!(WebhookTarget::of(&config), Ok(expected));
    }

    #[test]
    fn webhooks_are_called_by_url_or_by_service_name() {
        check(json!({"url": "https://10.0.0.1:8443/hooks?a=b"}), "https://10.0.0.1:8443", "/hooks?a=b");
        check(json!({"url": "https://hooks.example"}), "https://hooks.example", "/");
        let service = json!({"namespace": "ns", "name": "hooks", "path": "/interpret"});
        check(json!({"service": service}), "https://hooks.ns.svc:443", "/interpret");
        let service = json!({"namespace": "ns", "name": "hooks", "port": 8443});
        check(json!({"service": service}), "https://hooks.ns.svc:8443", "/");
        assert!(WebhookTarget::of(&json!({})).is_err());
        assert!(WebhookTarget::of(&json!({"url": "hooks"})).is_err());
    }
}
