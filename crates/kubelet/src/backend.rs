//! Serves the pods of this node: logs, exec, attach, and port connections.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use object::Object;
use pod_streams::{
    Attach, Exec, ExitStatus, LogOptions, LogStream, PodBackend, PodRef, Refusal, Streams, Tunnel, client,
};
use reconcile::ObjectKey;
use serde_json::Value;

use crate::cri::RuntimeError;
use crate::cri::messages::AttachRequest;
use crate::logs;
use crate::netns::within;
use crate::node::KubeletNode;
use crate::observed::{Observed, ObservedState, gather_observed};
use crate::pod::{container, text, uses_host_network};
use crate::usage::NodeUsage;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A running node. Clones share it.
#[derive(Clone)]
pub struct Kubelet {
    pub(crate) node: Arc<KubeletNode>,
    pub(crate) execs: Arc<AtomicU64>,
}

fn refusal(code: u16, message: impl Into<String>) -> Refusal {
    Refusal { code, message: message.into() }
}

fn from_runtime(error: RuntimeError) -> Refusal {
    refusal(500, error.to_string())
}

impl Kubelet {
    /// Returns the current usage of the machine and its pods; `None` until it was measured twice.
    pub fn usage(&self) -> Option<NodeUsage> {
        self.node.samples.latest()
    }

    pub fn node_name(&self) -> &str {
        &self.node.settings.node_name
    }

    /// Returns a pod of this node, as last observed.
    pub fn find_pod(&self, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.node.pods.get(&ObjectKey::new(namespace, name))
    }

    fn pod(&self, pod: &PodRef) -> Result<Arc<Object>, Refusal> {
        let found = self.node.pods.get(&ObjectKey::new(&pod.namespace, &pod.name));
        let found = found.filter(|found| pod.uid.is_empty() || found.uid() == pod.uid);
        found.ok_or_else(|| refusal(404, format!("pods {:?} not found", pod.name)))
    }

    async fn observed(&self, pod: &Object) -> Result<Observed, Refusal> {
        let mut all = gather_observed(&self.node.runtime, &ObjectKey::of(pod)).await.map_err(from_runtime)?;
        Ok(all.remove(pod.uid()).unwrap_or_default())
    }

    /// Returns the id of a running container.
    async fn running(&self, pod: &PodRef) -> Result<String, Refusal> {
        let object = self.pod(pod)?;
        let observed = self.observed(&object).await?;
        let seen = observed.latest(&pod.container).filter(|seen| seen.state == ObservedState::Running);
        let missing = || refusal(500, format!("container not found ({:?})", pod.container));
        seen.map(|seen| seen.id.clone()).ok_or_else(missing)
    }
}

/// The reason why there is no log yet, in the words of Kubernetes.
fn not_started(pod: &Object, name: &str) -> Refusal {
    let statuses = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let status = statuses.iter().flat_map(|field| pod.items(&["status", field])).find(|s| text(s, "name") == name);
    let waiting = status.and_then(|status| status.get("state")).and_then(|state| state.get("waiting"));
    let reason = waiting.map(|waiting| text(waiting, "reason")).filter(|reason| !reason.is_empty());
    let (reason, pod) = (reason.unwrap_or("ContainerCreating"), pod.name());
    match reason {
        "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" => {
            let message = format!(
                "container {name:?} in pod {pod:?} is waiting to start: {}",
                if reason == "ErrImagePull" { "image can't be pulled" } else { "trying and failing to pull image" }
            );
            refusal(400, message)
        }
        _ => refusal(400, format!("container {name:?} in pod {pod:?} is waiting to start: {reason}")),
    }
}

#[async_trait]
impl PodBackend for Kubelet {
    async fn logs(&self, pod: &PodRef, options: LogOptions) -> Result<LogStream, Refusal> {
        let object = self.pod(pod)?;
        let name = &pod.container;
        let directory = self.node.log_directory(object.namespace(), object.name(), object.uid()).join(name);
        let mut runs = logs::runs(&directory);
        let latest = runs.pop().ok_or_else(|| not_started(&object, name))?;
        let missing =
            || refusal(400, format!("previous terminated container {name:?} in pod {:?} not found", object.name()));
        let run = if options.previous { runs.pop().ok_or_else(missing)? } else { latest };
        let (node, key, uid) = (Arc::clone(&self.node), ObjectKey::of(&object), object.uid().to_owned());
        let name = name.clone();
        let is_over: logs::IsOver = Box::new(move || {
            let (node, key, uid, name) = (Arc::clone(&node), key.clone(), uid.clone(), name.clone());
            Box::pin(async move {
                let Ok(mut all) = gather_observed(&node.runtime, &key).await else { return true };
                let observed = all.remove(&uid).unwrap_or_default();
                let seen = observed.containers.iter().find(|seen| seen.name == name && seen.attempt == run);
                !seen.is_some_and(|seen| seen.state == ObservedState::Running)
            })
        });
        Ok(logs::read(directory.join(format!("{run}.log")), &options, self.node.clock.now(), is_over))
    }

    async fn exec(&self, pod: &PodRef, exec: Exec, streams: Streams) -> Result<ExitStatus, Refusal> {
        let id = self.running(pod).await?;
        let number = self.execs.fetch_add(1, Ordering::Relaxed);
        let exec_id = format!("exec-{}-{number}", std::process::id());
        let folder = self.node.settings.root_dir.join("exec");
        self.node.runtime.exec(&id, exec_id, exec, streams, &folder).await.map_err(from_runtime)
    }

    async fn attach(&self, pod: &PodRef, attach: Attach, streams: Streams) -> Result<ExitStatus, Refusal> {
        let id = self.running(pod).await?;
        let object = self.pod(pod)?;
        let nothing = Value::Null;
        let spec = container(&object, &pod.container).map_or(&nothing, |(_, container)| container);
        let request = AttachRequest {
            container_id: id,
            stdin: streams.stdin.is_some(),
            tty: crate::pod::flag(spec, "tty"),
            stdout: streams.stdout.is_some(),
            stderr: streams.stderr.is_some() && !attach.tty,
        };
        let url = self.node.runtime.attach(request).await.map_err(from_runtime)?;
        let (host, path_and_query) =
            split_url(&url).ok_or_else(|| refusal(500, format!("invalid streaming URL: {url:?}")))?;
        let stream = tokio::net::TcpStream::connect(&host).await;
        let stream = stream.map_err(|e| refusal(502, format!("cannot reach the runtime's streams: {e}")))?;
        let target = client::StreamTarget { host, path_and_query, headers: Default::default() };
        client::attach(stream, &target, streams).await.map_err(|e| refusal(502, e.to_string()))
    }

    async fn port_forward(&self, pod: &PodRef, port: u16) -> Result<Box<dyn Tunnel>, Refusal> {
        let object = self.pod(pod)?;
        let failed = |e: std::io::Error| refusal(500, format!("cannot connect to port {port} of the pod: {e}"));
        if uses_host_network(&object) {
            let stream = tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.map_err(failed)?;
            return Ok(Box::new(stream));
        }
        let observed = self.observed(&object).await?;
        let sandbox = observed.sandbox().filter(|sandbox| sandbox.is_ready);
        let sandbox = sandbox.ok_or_else(|| refusal(500, format!("pod {:?} is not running", object.name())))?;
        let pid = self.node.sandbox_pid(&sandbox.id).await.map_err(from_runtime)?;
        let pid = pid.ok_or_else(|| refusal(500, "the runtime does not report the pod's network namespace"))?;
        let connected = tokio::task::spawn_blocking(move || connect_inside(pid, port)).await;
        let stream = connected.map_err(|e| refusal(500, e.to_string()))?.map_err(failed)?;
        let stream = tokio::net::TcpStream::from_std(stream).map_err(failed)?;
        Ok(Box::new(stream))
    }
}

/// Connects from within the pod's network namespace, so that ports on its loopback are reachable too.
fn connect_inside(pid: u64, port: u16) -> std::io::Result<TcpStream> {
    within(pid, move || {
        let v4 = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&v4, CONNECT_TIMEOUT);
        let stream = stream.or_else(|first| TcpStream::connect_timeout(&v6, CONNECT_TIMEOUT).map_err(|_| first))?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    })
}

/// Splits `http://127.0.0.1:40000/attach/x` into address and path.
fn split_url(url: &str) -> Option<(String, String)> {
    let rest = url.strip_prefix("http://")?;
    let slash = rest.find('/').unwrap_or(rest.len());
    let (host, path) = rest.split_at(slash);
    let host = host.replace("[::]", "127.0.0.1");
    Some((host, if path.is_empty() { "/".to_owned() } else { path.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_split() {
        let split = |url| split_url(url).map(|(host, path)| format!("{host} {path}"));
        assert_eq!(split("http://127.0.0.1:40/attach/x").as_deref(), Some("127.0.0.1:40 /attach/x"));
        assert_eq!(split("http://[::]:40").as_deref(), Some("127.0.0.1:40 /"));
        assert_eq!(split("unix:///x"), None);
    }
}
