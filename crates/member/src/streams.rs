//! Pod streams: log, exec, attach, port-forward and proxy, forwarded to the pod backend.

mod proxy;
mod usage;

use std::sync::Arc;

use apiserver::respond::Body;
use apiserver::server::Server;
use apiserver::subresource::{ConnectHandler, ConnectRequest};
use apiserver::verbs::Target;
use async_trait::async_trait;
use http::Response;
use object::request::Subresource;
use object::{Object, Status};
use pod_streams::{PodBackend, PodRef, Refusal, StreamRequest};
use serde_json::Value;

use crate::backends::{Backends, Runner};

pub use usage::MemberUsage;

const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// Serves pod subresources and the proxies to pods through services and nodes.
pub struct PodStreams {
    pub backends: Backends,
}

#[async_trait]
impl ConnectHandler for PodStreams {
    fn handles(&self, target: &Target) -> bool {
        let kind = &target.resource.kind;
        let Some(sub) = &target.subresource else { return false };
        kind.gvk.group.is_empty()
            && match kind.plural.as_str() {
                "pods" => sub.is_stream(),
                "services" | "nodes" => *sub == Subresource::Proxy,
                _ => false,
            }
    }

    async fn connect(&self, server: &Arc<Server>, request: ConnectRequest) -> Result<Response<Body>, Status> {
        let target = &request.target;
        match (target.resource.kind.plural.as_str(), &target.subresource) {
            ("services", _) => proxy::to_service(self, server, request).await,
            ("nodes", _) => proxy::to_node(self, server, request).await,
            (_, Some(Subresource::Proxy)) => proxy::to_pod(self, server, request).await,
            _ => self.stream(server, request).await,
        }
    }
}

impl PodStreams {
    async fn stream(&self, server: &Arc<Server>, request: ConnectRequest) -> Result<Response<Body>, Status> {
        let ConnectRequest { target, incoming, .. } = request;
        let pod = find_pod(server, &target.namespace, &target.name).await?;
        let container = match target.subresource {
            // A port-forward connects to the pod, regardless of the container.
            Some(Subresource::PortForward) => String::new(),
            _ => pick_container(&pod, incoming.query.get("container").unwrap_or_default())?,
        };
        let backend = self.backend(&pod)?;
        let reference = reference(&pod, &container);
        match target.subresource {
            Some(Subresource::Log) => check_log(&pod, &container, incoming.query.flag("previous"))?,
            Some(Subresource::Exec | Subresource::Attach) => check_running(&pod, &container)?,
            _ => {}
        }
        let request = StreamRequest {
            uri: incoming.uri,
            headers: incoming.headers,
            upgrade: incoming.upgrade,
            stop: server.stop.clone(),
        };
        let switched = match target.subresource {
            Some(Subresource::Log) => {
                let answer = pod_streams::serve_logs(request, &*backend, &reference).await.map_err(status_of)?;
                return Ok(answer.map(Body::stream));
            }
            Some(Subresource::Exec) => pod_streams::serve_exec(request, backend, reference),
            Some(Subresource::Attach) => pod_streams::serve_attach(request, backend, reference),
            _ => pod_streams::serve_port_forward(request, backend, reference),
        };
        Ok(switched.map_err(status_of)?.map(|()| Body::Whole(None)))
    }

    /// Returns the backend that runs the pod.
    fn backend(&self, pod: &Object) -> Result<Arc<dyn PodBackend>, Status> {
        let node = pod.str_at(&["spec", "nodeName"]);
        if node.is_empty() {
            return Err(Status::bad_request(format!("pod {} does not have a host assigned", pod.name())));
        }
        match self.runs(node)? {
            true => self.backends.pods(),
            false => Err(Status::internal(format!("node {node:?} of pod {:?} cannot be asked", pod.name()))),
        }
    }

    fn runs(&self, node: &str) -> Result<bool, Status> {
        Ok(match self.backends.runner()? {
            Runner::Simulated(simulation) => simulation.runs(node),
            Runner::Containers(kubelet) => kubelet.node_name() == node,
        })
    }
}

async fn find_pod(server: &Server, namespace: &str, name: &str) -> Result<Object, Status> {
    find(server, ("", "v1", "pods"), namespace, name).await
}

async fn find(server: &Server, kind: (&str, &str, &str), namespace: &str, name: &str) -> Result<Object, Status> {
    let (group, version, plural) = kind;
    let resource = server.registry.find(group, version, plural);
    let resource = resource.ok_or_else(|| Status::internal(format!("{plural} are not served")))?;
    let found = server.objects.get(&resource.key(namespace, name)).await?;
    found.map(|found| found.object).ok_or_else(|| Status::not_found(&resource.kind.group_resource(), name))
}

fn reference(pod: &Object, container: &str) -> PodRef {
    PodRef {
        namespace: pod.namespace().to_owned(),
        name: pod.name().to_owned(),
        uid: pod.uid().to_owned(),
        container: container.to_owned(),
    }
}

fn status_of(refusal: Refusal) -> Status {
    Status::from_response(refusal.code, refusal.message.as_bytes())
}

fn names<'a>(pod: &'a Object, list: &str) -> Vec<&'a str> {
    pod.items(&["spec", list]).iter().filter_map(|container| container["name"].as_str()).collect()
}

/// Returns the requested container, or the default one.
fn pick_container(pod: &Object, asked: &str) -> Result<String, Status> {
    let (mains, inits) = (names(pod, "containers"), names(pod, "initContainers"));
    let all = || mains.iter().chain(&inits).copied().chain(names(pod, "ephemeralContainers"));
    if !asked.is_empty() {
        let refused = || Status::bad_request(format!("container {asked} is not valid for pod {}", pod.name()));
        return all().find(|name| *name == asked).map(str::to_owned).ok_or_else(refused);
    }
    if let [only] = mains.as_slice() {
        return Ok((*only).to_owned());
    }
    let default = pod.annotation(DEFAULT_CONTAINER).and_then(|wanted| all().find(|name| *name == wanted));
    if let Some(default) = default {
        return Ok(default.to_owned());
    }
    let mut text = format!("a container name must be specified for pod {}", pod.name());
    if !mains.is_empty() {
        text.push_str(&format!(", choose one of: [{}]", mains.join(" ")));
    }
    if !inits.is_empty() {
        text.push_str(&format!(" or one of the init containers: [{}]", inits.join(" ")));
    }
    Err(Status::bad_request(text))
}

fn container_status<'a>(pod: &'a Object, container: &str) -> &'a Value {
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let mut all = lists.iter().flat_map(|list| pod.items(&["status", list]));
    all.find(|status| status["name"] == container).unwrap_or(&Value::Null)
}

/// Checks that a log exists; the error is the reason why not.
fn check_log(pod: &Object, container: &str, is_previous: bool) -> Result<(), Status> {
    let status = container_status(pod, container);
    let title = format!("container {container:?} in pod {:?}", pod.name());
    let had_run = status["lastState"].get("terminated").is_some();
    if is_previous {
        let text = format!("previous terminated {title} not found");
        return if had_run { Ok(()) } else { Err(Status::bad_request(text)) };
    }
    let state = &status["state"];
    if had_run || state.get("running").is_some() || state.get("terminated").is_some() {
        return Ok(());
    }
    let reason = match state["waiting"]["reason"].as_str() {
        Some("ErrImagePull") => "image can't be pulled",
        Some("ImagePullBackOff") => "trying and failing to pull image",
        Some(reason) => reason,
        None => "ContainerCreating",
    };
    Err(Status::bad_request(format!("{title} is waiting to start: {reason}")))
}

fn check_running(pod: &Object, container: &str) -> Result<(), Status> {
    let is_running = container_status(pod, container)["state"].get("running").is_some();
    let refused = || Status::new(404, "NotFound", format!("container not found ({container:?})"));
    is_running.then_some(()).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(containers: &[&str], inits: &[&str], annotation: Option<&str>, status: Value) -> Object {
        let list = |names: &[&str]| -> Vec<Value> { names.iter().map(|name| json!({"name": name})).collect() };
        let mut pod = Object::from_value(json!({"metadata": {"name": "web", "namespace": "a"},
            "spec": {"containers": list(containers), "initContainers": list(inits)}, "status": status}))
        .expect("a map");
        if let Some(annotation) = annotation {
            pod.set_annotation(DEFAULT_CONTAINER, annotation);
        }
        pod
    }

    #[test]
    fn a_container_is_picked_or_the_choice_is_named() {
        let check = |pod: Object, asked: &str, expected: Result<&str, &str>| {
            let picked = pick_container(&pod, asked).map_err(|status| status.message);
            assert_eq!(picked.as_deref().map_err(String::as_str), expected);
        };
        check(pod(&["c"], &["i"], None, json!({})), "", Ok("c"));
        check(pod(&["a", "b"], &[], Some("b"), json!({})), "", Ok("b"));
        check(pod(&["a", "b"], &["i"], None, json!({})), "i", Ok("i"));
        check(pod(&["a"], &[], None, json!({})), "x", Err("container x is not valid for pod web"));
        check(
            pod(&["a", "b"], &["i"], Some("gone"), json!({})),
            "",
            Err(
                "a container name must be specified for pod web, choose one of: [a b] or one of the init containers: [i]",
            ),
        );
    }

    #[test]
    fn a_container_that_has_not_run_has_no_log() {
        let waiting =
            |reason: &str| json!({"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": reason}}}]});
        let crashed = json!({"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1}}}]});
        let message = |status: Value, previous: bool| {
            check_log(&pod(&["c"], &[], None, status), "c", previous).map_err(|status| status.message).err()
        };
        let title = "container \"c\" in pod \"web\"";
        assert_eq!(message(json!({}), false), Some(format!("{title} is waiting to start: ContainerCreating")));
        let pulling = format!("{title} is waiting to start: trying and failing to pull image");
        assert_eq!(message(waiting("ImagePullBackOff"), false), Some(pulling));
        assert_eq!(message(crashed.clone(), false), None);
        assert_eq!(message(crashed, true), None);
        assert_eq!(message(json!({}), true), Some(format!("previous terminated {title} not found")));
    }
}
