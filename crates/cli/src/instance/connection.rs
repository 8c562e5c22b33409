//! Connections to a manager.

use std::path::PathBuf;

use anyhow::Context;
use bytes::Bytes;
use clap::Args;
use cluster_client::{ClusterClient, Endpoint, Kubeconfig};
use object::Status;
use serde_json::Value;

#[derive(Args)]
pub struct ConnectionArgs {
    /// Kubeconfig of the manager [default: KUBECONFIG, or ~/.kube/config].
    #[arg(long, global = true, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context in the kubeconfig [default: the current one].
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,
}

impl ConnectionArgs {
    pub fn connect(&self) -> anyhow::Result<ClusterClient> {
        let config = match &self.kubeconfig {
            Some(path) => Kubeconfig::load(std::slice::from_ref(path)),
            None => Kubeconfig::load_default(),
        };
        let remote = config.and_then(|config| config.remote(self.context.as_deref()));
        let remote = remote.context("cannot use the kubeconfig of the manager")?;
        Ok(ClusterClient::connect(Endpoint::Remote(remote))?)
    }
}

/// Sends a request with a JSON body and returns the JSON of the response.
pub async fn send(
    client: &ClusterClient,
    method: http::Method,
    path: &str,
    body: Option<Value>,
) -> anyhow::Result<Value> {
    let content = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
    let request = http::Request::builder().method(method).uri(path).header("content-type", "application/json");
    let response = client.raw(request.body(content)?).await?;
    if response.status().as_u16() >= 400 {
        return Err(Status::from_response(response.status().as_u16(), response.body()).into());
    }
    serde_json::from_slice(response.body()).context("the manager did not answer with JSON")
}
