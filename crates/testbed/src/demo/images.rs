//! Scenarios with containers that really run: an image of one's own, and a program reached on a port per member.

use std::time::Duration;

use anyhow::{Context, bail};
use cluster_client::{ListOptions, ResourceRef};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::clusters::NODES;
use crate::demo::placement::{policy, ready_replicas};
use crate::demo::stage::{CROSSING, Stage};
use crate::expose::{Exposure, PodChoice};

const PAGE_PATIENCE: Duration = Duration::from_secs(30);
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;
/// The first member's; the others follow, as in the seeds.
const PROMETHEUS_PORT: u16 = 9091;
const FLASK_PORT: u16 = 5001;

/// Simulated nodes answer for containers but run none: a page cannot come from them.
async fn need_containers(stage: &Stage<'_>, name: &str) -> anyhow::Result<()> {
    for member in stage.members() {
        let nodes = stage.member(&member)?.list_all(ResourceRef::all(&NODES.gvr()), ListOptions::default()).await?;
        let runtime = |node: &object::Object| {
            node.str_at(&["status", "nodeInfo", "containerRuntimeVersion"]).starts_with("containerd://")
        };
        if nodes.items.is_empty() || !nodes.items.iter().all(|node| runtime(node)) {
            bail!(
                "{name} needs containers that really run, and the nodes of {member} are simulated; \
                 `flotilla up --name real --runtime containerd` makes a testbed with real ones"
            );
        }
    }
    Ok(())
}

pub async fn flask(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    need_containers(stage, "flask").await?;
    let registry = stage.bed.spec.registry_port.context("flask needs the registry of the testbed")?;
    let image = format!("localhost:{registry}/flotilla/flask:latest");
    stage.say(format!("the image {image} must be in the registry: `flotilla image preload` puts it there"))?;
    serve_everywhere(stage, "flask", &image, 5000, FLASK_PORT).await
}

pub async fn prometheus(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    need_containers(stage, "prometheus").await?;
    let image = match stage.bed.spec.registry_port {
        Some(port) => format!("localhost:{port}/prom/prometheus:latest"),
        None => "prom/prometheus:latest".to_owned(),
    };
    serve_everywhere(stage, "prometheus", &image, 9090, PROMETHEUS_PORT).await
}

/// One replica in every member, each reached on a port of its own.
async fn serve_everywhere(
    stage: &mut Stage<'_>,
    name: &str,
    image: &str,
    port: u16,
    first_port: u16,
) -> anyhow::Result<()> {
    let members = stage.members();
    let workload = format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default, labels: {{app: {name}}}}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers: [{{name: main, image: '{image}', ports: [{{containerPort: {port}}}]}}]
"
    );
    let placement = format!("{{clusterAffinity: {{clusterNames: [{}]}}}}", members.join(", "));
    stage.apply(&(workload + &policy(name, "", &placement))).await?;
    for (member, listen) in members.iter().zip(first_port..) {
        let client = stage.member(member)?;
        let what = format!("{member} runs it");
        stage.wait(&what, CROSSING * 3, async || ready_replicas(&client, name, 1).await).await?;
        let forward = format!("{name}-{member}");
        stage.show_own(format!("expose {forward} --cluster {member} --pod app={name} --port {listen}:{port}"))?;
        let exposure = Exposure {
            name: forward.clone(),
            cluster: member.clone(),
            kubeconfig: stage.bed.place.member_config(member),
            namespace: "default".to_owned(),
            pod: PodChoice::Selector(format!("app={name}")),
            listen,
            port,
        };
        stage.bed.supervisor.expose(exposure).await?;
        stage.remember_exposure(&forward);
        stage.wait(&format!("http://127.0.0.1:{listen}/ answers"), PAGE_PATIENCE, async || fetch(listen).await).await?;
    }
    Ok(())
}

async fn fetch(port: u16) -> anyhow::Result<Result<(), String>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n").await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    let text = String::from_utf8_lossy(&answer);
    let first = text.lines().next().unwrap_or_default();
    Ok(match first.split(' ').nth(1) {
        Some("200" | "301" | "302") => Ok(()),
        _ => Err(format!("it answers {first:?}")),
    })
}
