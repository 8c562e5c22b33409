//! Documents about the server: discovery, OpenAPI, version, health, metrics and the keys of its tokens.

mod discovery;
mod field_order;
mod openapi;

use std::sync::Arc;

use http::Response;
use object::Status;
use serde_json::{Value, json};

use crate::http::Incoming;
use crate::respond::{self, Body, Format};
use crate::served_resources::ServedResources;
use crate::server::Server;

pub use openapi::OpenApiCache;

/// The Kubernetes version this server can be taken for.
#[derive(Clone, Debug)]
pub struct Version {
    pub major: String,
    pub minor: String,
    pub git_version: String,
    pub platform: String,
}

impl Default for Version {
    fn default() -> Self {
        let arch = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self {
            major: "1".into(),
            minor: "36".into(),
            git_version: format!("v1.36.4+flotilla-{}", env!("CARGO_PKG_VERSION")),
            platform: format!("{}/{arch}", std::env::consts::OS),
        }
    }
}

impl Version {
    fn document(&self) -> Value {
        json!({
            "major": self.major, "minor": self.minor, "gitVersion": self.git_version,
            "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "none (Rust)", "compiler": "rustc", "platform": self.platform,
        })
    }
}

pub async fn serve(server: &Arc<Server>, incoming: &Incoming) -> Result<Response<Body>, Status> {
    let path = incoming.info.path.trim_end_matches('/');
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    match segments[..] {
        [] | [""] => Ok(respond::value(200, &paths(&server.registry))),
        ["version"] => Ok(respond::value(200, &server.version.document())),
        ["healthz" | "livez" | "readyz", ..] => {
            Ok(crate::health::report(server.health_scope(), path, &incoming.query).await)
        }
        ["metrics"] => Ok(metrics(server).await),
        ["api" | "apis", ..] => {
            let format = Format::for_discovery(&incoming.headers, incoming.query.flag("pretty"));
            discovery::serve(server, incoming, &segments, format).await
        }
        ["openapi", ..] => openapi::serve(server, incoming, &segments).await,
        [".well-known", "openid-configuration"] | ["openid", "v1", "jwks"] => server.auth.openid(path),
        _ => Ok(respond::no_such_page()),
    }
}

/// The metrics in Prometheus' text format.
pub async fn metrics(server: &Arc<Server>) -> Response<Body> {
    let text = server.metrics.render(server.resources()).await;
    respond::text(200, "text/plain; version=0.0.4; charset=utf-8", text)
}

fn paths(registry: &ServedResources) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned(), "/apis/".to_owned()];
    let snapshot = registry.snapshot();
    for resource in &snapshot.ordered {
        let gvk = &resource.kind.gvk;
        if !gvk.group.is_empty() {
            paths.push(format!("/apis/{}", gvk.group));
            paths.push(format!("/apis/{}/{}", gvk.group, gvk.version));
        }
    }
    let fixed = [
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
        "/.well-known/openid-configuration",
        "/openid/v1/jwks",
    ];
    paths.extend(fixed.into_iter().map(str::to_owned));
    paths.sort();
    paths.dedup();
    json!({"paths": paths})
}
