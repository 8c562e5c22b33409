//! Proxies requests to ports of pods, services and nodes.

use std::sync::Arc;

use apiserver::cache::Filter;
use apiserver::forwarding;
use apiserver::http::Incoming;
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use apiserver::subresource::ConnectRequest;
use http::{HeaderValue, Request, Response, Uri, header};
use object::selector::LabelSelector;
use object::{Object, Status};
use serde_json::{Value, json};

use super::{PodStreams, find, find_pod, names, reference, status_of};

/// `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`, as in the path of a proxy request.
struct ProxyTarget {
    scheme: String,
    name: String,
    port: String,
}

impl ProxyTarget {
    fn read(text: &str) -> Result<Self, Status> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match parts.as_slice() {
            [name] => ("", *name, ""),
            [name, port] => ("", *name, *port),
            [scheme, name, port] => (*scheme, *name, *port),
            _ => return Err(Status::bad_request(format!("invalid request {text:?}"))),
        };
        if !matches!(scheme, "" | "http" | "https") {
            return Err(Status::bad_request(format!("invalid scheme {scheme:?}")));
        }
        Ok(Self { scheme: scheme.to_owned(), name: name.to_owned(), port: port.to_owned() })
    }
}

pub async fn to_pod(
    streams: &PodStreams,
    server: &Arc<Server>,
    request: ConnectRequest,
) -> Result<Response<Body>, Status> {
    let target = ProxyTarget::read(&request.target.name)?;
    let pod = find_pod(server, &request.target.namespace, &target.name).await?;
    let port = match target.port.as_str() {
        "" => first_port(&pod),
        port => named_port(&pod, &Value::from(port)).or_else(|| port.parse().ok()),
    };
    let port =
        port.ok_or_else(|| Status::bad_request(format!("pod {:?} has no port {:?}", target.name, target.port)))?;
    pass_on(streams, &pod, port, &target, request.incoming).await
}

pub async fn to_service(
    streams: &PodStreams,
    server: &Arc<Server>,
    request: ConnectRequest,
) -> Result<Response<Body>, Status> {
    let target = ProxyTarget::read(&request.target.name)?;
    let namespace = &request.target.namespace;
    let service = find(server, ("", "v1", "services"), namespace, &target.name).await?;
    let ports = service.items(&["spec", "ports"]);
    let number: Option<u64> = target.port.parse().ok();
    let is_asked =
        |port: &&Value| port["name"] == target.port.as_str() || (number.is_some() && port["port"].as_u64() == number);
    let port = if target.port.is_empty() { ports.first() } else { ports.iter().find(is_asked) };
    let none = |text: &str| Status::unavailable(format!("{text} for service {:?}", target.name));
    let port = port.ok_or_else(|| none("no such port"))?;
    let pod_name = ready_pod(server, namespace, &target.name).await?.ok_or_else(|| none("no endpoints available"))?;
    let pod = find_pod(server, namespace, &pod_name).await?;
    let target_port = port.get("targetPort").filter(|port| !port.is_null()).unwrap_or(&port["port"]);
    let number = named_port(&pod, target_port).ok_or_else(|| none("no pod has the port"))?;
    pass_on(streams, &pod, number, &target, request.incoming).await
}

/// Serves the kubelet endpoints that users call by hand.
pub async fn to_node(
    streams: &PodStreams,
    server: &Arc<Server>,
    request: ConnectRequest,
) -> Result<Response<Body>, Status> {
    let target = ProxyTarget::read(&request.target.name)?;
    find(server, ("", "v1", "nodes"), "", &target.name).await?;
    if !streams.runs(&target.name)? {
        return Err(Status::unavailable(format!("node {:?} cannot be asked", target.name)));
    }
    match tail(&request.incoming.uri).split('?').next().unwrap_or_default().trim_end_matches('/') {
        "/healthz" => Ok(respond::text(200, "text/plain; charset=utf-8", "ok")),
        "/pods" => {
            let resource =
                server.registry.find("", "v1", "pods").ok_or_else(|| Status::internal("pods are not served"))?;
            resource.cache.fresh().await?;
            let entries = resource.cache.entries(&Filter::default());
            let pods = entries.iter().map(|entry| entry.decode());
            let mine = pods.filter(|pod| pod.str_at(&["spec", "nodeName"]) == target.name);
            let items: Vec<Value> = mine.map(|pod| pod.to_value()).collect();
            Ok(respond::value(200, &json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items})))
        }
        _ => Ok(respond::no_such_page()),
    }
}

fn first_port(pod: &Object) -> Option<u16> {
    let containers = pod.items(&["spec", "containers"]).iter();
    let mut ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    match ports.next() {
        Some(port) => port["containerPort"].as_u64().and_then(|port| u16::try_from(port).ok()),
        None => Some(80),
    }
}

/// Resolves a port given by number or by container port name.
fn named_port(pod: &Object, port: &Value) -> Option<u16> {
    if let Some(number) = port.as_u64() {
        return u16::try_from(number).ok();
    }
    let name = port.as_str()?;
    let containers = pod.items(&["spec", "containers"]).iter();
    let mut ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    let found = ports.find(|port| port["name"] == name)?;
    found["containerPort"].as_u64().and_then(|port| u16::try_from(port).ok())
}

/// Returns a ready pod of the service.
async fn ready_pod(server: &Server, namespace: &str, service: &str) -> Result<Option<String>, Status> {
    let Some(resource) = server.registry.find("discovery.k8s.io", "v1", "endpointslices") else { return Ok(None) };
    resource.cache.fresh().await?;
    let labels = LabelSelector::parse(&format!("kubernetes.io/service-name={service}"));
    let labels = labels.map_err(|error| Status::bad_request(error.to_string()))?;
    let filter = Filter { namespace: namespace.to_owned(), labels, ..Filter::default() };
    let entries = resource.cache.entries(&filter);
    let ready = entries.iter().map(|entry| entry.decode()).find_map(|slice| {
        let endpoints = slice.items(&["endpoints"]).iter();
        let mut ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false);
        ready.find_map(|endpoint| endpoint["targetRef"]["name"].as_str().map(str::to_owned))
    });
    Ok(ready)
}

/// Returns the path after `/proxy`, with the query.
fn tail(uri: &Uri) -> String {
    let path = uri.path().split_once("/proxy").map_or("", |(_, tail)| tail);
    let path = if path.is_empty() { "/" } else { path };
    match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    }
}

async fn pass_on(
    streams: &PodStreams,
    pod: &Object,
    port: u16,
    target: &ProxyTarget,
    incoming: Incoming,
) -> Result<Response<Body>, Status> {
    if target.scheme == "https" {
        return Err(Status::bad_request("pods are reached by plain HTTP only"));
    }
    let backend = streams.backend(pod)?;
    let container = names(pod, "containers").first().copied().unwrap_or_default();
    let unreachable = |text: String| Status::unavailable(format!("error trying to reach pod {:?}: {text}", pod.name()));
    let tunnel = backend.port_forward(&reference(pod, container), port).await.map_err(status_of)?;
    let upgrade = forwarding::wants_upgrade(&incoming);
    let mut request = Request::new(forwarding::body_of(incoming.body));
    *request.method_mut() = incoming.method;
    *request.uri_mut() = tail(&incoming.uri).parse().map_err(|_| Status::bad_request("not a path"))?;
    *request.headers_mut() = forwarding::passed_headers(&incoming.headers, upgrade);
    let host = format!("{}:{port}", pod.str_at(&["status", "podIP"]));
    let host = HeaderValue::from_str(&host).map_err(|error| unreachable(error.to_string()))?;
    request.headers_mut().insert(header::HOST, host);
    let response = forwarding::exchange(tunnel, request).await.map_err(|error| unreachable(error.to_string()))?;
    forwarding::answer(response, incoming.upgrade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_targets_are_parsed() {
        let read = |text: &str| ProxyTarget::read(text).map(|target| (target.scheme, target.name, target.port)).ok();
        let target = |scheme: &str, name: &str, port: &str| Some((scheme.to_owned(), name.to_owned(), port.to_owned()));
        assert_eq!(read("web"), target("", "web", ""));
        assert_eq!(read("web:8080"), target("", "web", "8080"));
        assert_eq!(read("https:web:https"), target("https", "web", "https"));
        assert_eq!(read("ftp:web:1"), None);
        assert_eq!(read("a:b:c:d"), None);
        let uri = |text: &str| tail(&text.parse().expect("a path"));
        assert_eq!(uri("/api/v1/namespaces/a/pods/web/proxy"), "/");
        assert_eq!(uri("/api/v1/namespaces/a/pods/web/proxy/x/proxy/y?z=1"), "/x/proxy/y?z=1");
    }
}
