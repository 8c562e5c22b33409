//! Logs, exec, attach and port-forward of simulated pods.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use object::Object;
use pod_streams::{Attach, Exec, ExitStatus, LogOptions, LogStream, PodBackend, PodRef, Refusal, Streams, Tunnel};
use tokio::io::AsyncWriteExt;

use crate::behaviour::{PodFault, behaviour};
use crate::logs::{self, spec_of, status_of};
use crate::page;
use crate::shell::{Ended, command_of, run_session};
use crate::simulation::Simulation;

#[async_trait]
impl PodBackend for Simulation {
    async fn logs(&self, pod: &PodRef, options: LogOptions) -> Result<LogStream, Refusal> {
        self.reach(pod)?;
        logs::logs(self, pod, options)
    }

    async fn exec(&self, pod: &PodRef, exec: Exec, streams: Streams) -> Result<ExitStatus, Refusal> {
        let object = self.running(pod)?;
        let spec = spec_of(&object, &pod.container).ok_or_else(|| gone(pod))?;
        if behaviour(self.settings(), &object, spec).fault == Some(PodFault::Hang) {
            return std::future::pending().await;
        }
        let sandbox = self.sandbox(&object, spec).await;
        let place = Arc::clone(&sandbox.place);
        let ended = run_session(place, Arc::clone(&sandbox.files), &exec.command, exec.tty, streams).await;
        Ok(status(ended))
    }

    async fn attach(&self, pod: &PodRef, attach: Attach, streams: Streams) -> Result<ExitStatus, Refusal> {
        let object = self.running(pod)?;
        let spec = spec_of(&object, &pod.container).ok_or_else(|| gone(pod))?;
        if spec["stdin"] != true || streams.stdin.is_none() {
            return self.watch_output(pod, streams).await;
        }
        let command = command_of(spec);
        let command = if command.is_empty() { vec!["sh".to_owned()] } else { command };
        let sandbox = self.sandbox(&object, spec).await;
        let place = Arc::clone(&sandbox.place);
        let ended = run_session(place, Arc::clone(&sandbox.files), &command, attach.tty, streams).await;
        let Ended::Exit(code) = ended else { return Ok(status(ended)) };
        // The attached process is the container's main process.
        self.end_container(&object, &pod.container, code).await;
        Ok(status(ended))
    }

    async fn port_forward(&self, pod: &PodRef, port: u16) -> Result<Box<dyn Tunnel>, Refusal> {
        self.reach(pod)?;
        let object = self.pod(&pod.namespace, &pod.name, &pod.uid).ok_or_else(|| gone(pod))?;
        page::connect(self, &object, port).await
    }
}

impl Simulation {
    /// A silent node is unreachable.
    fn reach(&self, pod: &PodRef) -> Result<(), Refusal> {
        let object = self.pod(&pod.namespace, &pod.name, &pod.uid).ok_or_else(|| gone(pod))?;
        let node = object.str_at(&["spec", "nodeName"]);
        match self.is_silent(node) {
            true => Err(Refusal::new(504, format!("node {node:?} does not answer"))),
            false => Ok(()),
        }
    }

    fn running(&self, pod: &PodRef) -> Result<Arc<Object>, Refusal> {
        self.reach(pod)?;
        let object = self.pod(&pod.namespace, &pod.name, &pod.uid).ok_or_else(|| gone(pod))?;
        let is_running = status_of(&object, &pod.container).is_some_and(|s| s["state"].get("running").is_some());
        match is_running {
            true => Ok(object),
            false => Err(Refusal::new(500, format!("container not found ({:?})", pod.container))),
        }
    }

    /// Streams the container's output until it exits or the client disconnects.
    async fn watch_output(&self, pod: &PodRef, streams: Streams) -> Result<ExitStatus, Refusal> {
        let Some(mut stdout) = streams.stdout else { return std::future::pending().await };
        let options = LogOptions { follow: true, tail_lines: Some(0), ..LogOptions::default() };
        let mut lines = logs::logs(self, pod, options)?;
        while let Some(Ok(piece)) = lines.next().await {
            let written = async {
                stdout.write_all(&piece).await?;
                stdout.flush().await
            };
            if written.await.is_err() {
                break;
            }
        }
        Ok(ExitStatus::Success)
    }
}

fn gone(pod: &PodRef) -> Refusal {
    Refusal::new(404, format!("pods {:?} not found", pod.name))
}

fn status(ended: Ended) -> ExitStatus {
    match ended {
        Ended::Exit(0) => ExitStatus::Success,
        Ended::Exit(code) => ExitStatus::Code(code),
        Ended::NotFound(name) => ExitStatus::Failed(format!(
            "unable to start container process: exec: {name:?}: executable file not found in $PATH (the container is \
             simulated and knows only a few programs)"
        )),
    }
}
