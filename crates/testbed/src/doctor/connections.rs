//! Connections from this host to pods: the ports that `expose` opened, tried, and what they lead to.

use std::time::Duration;

use async_trait::async_trait;
use tokio::net::TcpStream;

use super::patient::Hints;
use super::{Check, Evidence, Finding, Layer, Patient, broken};
use crate::expose::ExposureReport;
use crate::spec::loopback;
use crate::supervisor::client::SupervisorClient;

const CONNECT_PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub struct ConnectionSeen {
    pub report: ExposureReport,
    /// The result of a connection to the port on this host.
    pub connected: Result<(), String>,
}

pub struct Connections;

#[async_trait]
impl Check for Connections {
    fn layer(&self) -> Layer {
        Layer::Connections
    }

    async fn gather(&self, patient: &Patient) -> Evidence {
        let Some((place, _)) = patient.bed() else { return Evidence::Connections(Vec::new()) };
        let Ok(Some(supervisor)) = SupervisorClient::find(place).await else {
            return Evidence::Connections(Vec::new());
        };
        let mut seen = Vec::new();
        for report in supervisor.exposures().await.unwrap_or_default() {
            let connecting = TcpStream::connect(loopback(report.exposure.listen));
            let connected = match tokio::time::timeout(CONNECT_PATIENCE, connecting).await {
                Ok(result) => result.map(|_| ()).map_err(|error| error.to_string()),
                Err(_) => Err("no answer".to_owned()),
            };
            seen.push(ConnectionSeen { report, connected });
        }
        Evidence::Connections(seen)
    }
}

pub fn judge(seen: &[ConnectionSeen], hints: &Hints) -> Vec<Finding> {
    seen.iter().filter_map(|connection| judge_one(connection, hints)).collect()
}

/// The problem of the pod behind it goes first: without one, nothing else can work.
fn judge_one(seen: &ConnectionSeen, hints: &Hints) -> Option<Finding> {
    let exposure = &seen.report.exposure;
    let subject = format!("{} (127.0.0.1:{})", exposure.name, exposure.listen);
    if let Some(problem) = &seen.report.problem {
        let what = format!("leads to no pod of {}", exposure.cluster);
        let words = format!("get pods -n {}", exposure.namespace);
        return Some(broken(
            Layer::Connections,
            &subject,
            what,
            problem.clone(),
            hints.on_member(&exposure.cluster, &words),
        ));
    }
    let why = seen.connected.as_ref().err()?;
    let why = format!("the pod is there, the port of this host is not: {why}");
    Some(broken(Layer::Connections, &subject, "takes no connection", why, hints.flotilla("up")))
}
