//! The HTTP page served on simulated container ports; it names the pod, node and cluster.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use object::Object;
use pod_streams::{Refusal, Tunnel};
use serde_json::json;

use crate::behaviour::{PodFault, behaviour};
use crate::logs::{spec_of, status_of};
use crate::simulation::Simulation;

/// Buffer size of a connection.
const CONNECTION_BYTES: usize = 64 * 1024;

/// Connects to a port of the pod.
pub async fn connect(simulation: &Simulation, pod: &Arc<Object>, port: u16) -> Result<Box<dyn Tunnel>, Refusal> {
    let refused = || {
        let text = format!("failed to connect to localhost:{port} inside the pod: connect: connection refused");
        Refusal::new(500, text)
    };
    let container = serving(pod, port).ok_or_else(refused)?;
    let running = status_of(pod, &container).is_some_and(|status| status["state"].get("running").is_some());
    let spec = spec_of(pod, &container).filter(|_| running).ok_or_else(refused)?;
    let fault = behaviour(simulation.settings(), pod, spec).fault;
    let sandbox = simulation.sandbox(pod, spec).await;
    let (here, there) = tokio::io::duplex(CONNECTION_BYTES);
    if fault == Some(PodFault::Hang) {
        // Accepts the connection and never responds.
        tokio::spawn(async move {
            let mut there = there;
            let _ = tokio::io::copy(&mut there, &mut tokio::io::sink()).await;
        });
        return Ok(Box::new(here));
    }
    let page = Arc::new(Page::of(simulation, pod, &container, port, fault == Some(PodFault::NotReady)));
    let simulation = simulation.clone();
    tokio::spawn(async move {
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let page = Arc::clone(&page);
            let response = page.answer(&request);
            let line = format!("{} {} {}", request.method(), request.uri(), response.status().as_u16());
            sandbox.note(simulation.now(), line);
            async move { Ok::<_, Infallible>(response) }
        });
        let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(there), service);
        if let Err(error) = served.await {
            tracing::debug!(%error, "connection to a simulated port failed");
        }
    });
    Ok(Box::new(here))
}

/// Returns the container with that port; if no container declares ports, the first one serves all.
fn serving(pod: &Object, port: u16) -> Option<String> {
    let containers = pod.items(&["spec", "containers"]);
    let ports = |container: &serde_json::Value| container["ports"].as_array().cloned().unwrap_or_default();
    let name = |container: &serde_json::Value| container["name"].as_str().map(str::to_owned);
    if containers.iter().all(|container| ports(container).is_empty()) {
        return containers.first().and_then(name);
    }
    let has = |container: &&serde_json::Value| ports(container).iter().any(|known| known["containerPort"] == port);
    containers.iter().find(has).and_then(name)
}

struct Page {
    cluster: String,
    node: String,
    namespace: String,
    pod: String,
    address: String,
    container: String,
    image: String,
    port: u16,
    is_unready: bool,
}

impl Page {
    fn of(simulation: &Simulation, pod: &Object, container: &str, port: u16, is_unready: bool) -> Self {
        let image = spec_of(pod, container).and_then(|spec| spec["image"].as_str()).unwrap_or_default();
        Self {
            cluster: simulation.settings().cluster_name.clone(),
            node: pod.str_at(&["spec", "nodeName"]).to_owned(),
            namespace: pod.namespace().to_owned(),
            pod: pod.name().to_owned(),
            address: pod.str_at(&["status", "podIP"]).to_owned(),
            container: container.to_owned(),
            image: image.to_owned(),
            port,
            is_unready,
        }
    }

    fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let accepts = |kind: &str| {
            let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
            accept.is_some_and(|accept| accept.contains(kind))
        };
        let (content_type, body) = if self.is_unready {
            ("text/plain; charset=utf-8", "not ready\n".to_owned())
        } else if accepts("application/json") {
            ("application/json", format!("{}\n", self.json()))
        } else if accepts("text/html") {
            (
                "text/html; charset=utf-8",
                format!("<!doctype html><title>{}</title><pre>{}</pre>\n", self.pod, self.text()),
            )
        } else {
            ("text/plain; charset=utf-8", self.text())
        };
        let mut response = Response::new(Full::new(Bytes::from(body)));
        if self.is_unready {
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        }
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        response.headers_mut().insert(header::SERVER, HeaderValue::from_static("flotilla-simulated"));
        response
    }

    fn text(&self) -> String {
        let Self { cluster, node, namespace, pod, address, container, image, port, .. } = self;
        format!(
            "cluster: {cluster}\nnode: {node}\nnamespace: {namespace}\npod: {pod}\naddress: {address}\n\
             container: {container}\nimage: {image}\nport: {port}\nsimulated: true\n"
        )
    }

    fn json(&self) -> serde_json::Value {
        json!({"cluster": self.cluster, "node": self.node, "namespace": self.namespace, "pod": self.pod,
            "address": self.address, "container": self.container, "image": self.image, "port": self.port,
            "simulated": true})
    }
}
