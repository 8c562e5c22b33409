//! Forwards from this host to pods: each port that `expose` opened is connected to.

use std::time::Duration;

use async_trait::async_trait;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::subject::Hints;
use super::{Check, DoctorSubject, Evidence, Finding, Layer, broken};
use crate::expose::ExposureReport;
use crate::hint::Hint;
use crate::spec::loopback;
use crate::supervisor::client::SupervisorClient;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// A forward to a port without a listener is closed within this time; a server waits for the request.
const CLOSE_WAIT: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct ConnectionSeen {
    pub report: ExposureReport,
    /// The result of a connection to the port of this host.
    pub connected: Result<(), ConnectionProblem>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionProblem {
    NotAccepted(String),
    /// Accepted by the forward and closed at once.
    Closed,
}

pub struct Connections;

#[async_trait]
impl Check for Connections {
    fn layer(&self) -> Layer {
        Layer::Connections
    }

    async fn gather(&self, subject: &DoctorSubject) -> Evidence {
        let Some((place, _)) = subject.bed() else { return Evidence::NotApplicable(Layer::Connections) };
        let Ok(Some(supervisor)) = SupervisorClient::find(place).await else {
            return Evidence::Unknown(Layer::Connections, "the testbed is not running".to_owned());
        };
        let mut seen = Vec::new();
        for report in supervisor.exposures().await.unwrap_or_default() {
            let connected = connect(report.exposure.listen).await;
            seen.push(ConnectionSeen { report, connected });
        }
        Evidence::Connections(seen)
    }
}

/// Connects to a forwarded port, and waits for what a forward without a target does: close the connection.
async fn connect(port: u16) -> Result<(), ConnectionProblem> {
    let connecting = TcpStream::connect(loopback(port));
    let mut stream = match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(ConnectionProblem::NotAccepted(error.to_string())),
        Err(_) => return Err(ConnectionProblem::NotAccepted("timeout".to_owned())),
    };
    let mut first = [0_u8; 1];
    match tokio::time::timeout(CLOSE_WAIT, stream.read(&mut first)).await {
        Ok(Ok(0) | Err(_)) => Err(ConnectionProblem::Closed),
        Ok(Ok(_)) | Err(_) => Ok(()),
    }
}

pub fn judge(seen: &[ConnectionSeen], hints: &Hints) -> Vec<Finding> {
    seen.iter().filter_map(|connection| judge_one(connection, hints)).collect()
}

/// A missing pod comes first: without one, nothing else can work.
fn judge_one(seen: &ConnectionSeen, hints: &Hints) -> Option<Finding> {
    let exposure = &seen.report.exposure;
    let subject = format!("{} (127.0.0.1:{})", exposure.name, exposure.listen);
    if let Some(problem) = &seen.report.problem {
        let what = format!("has no pod in {}", exposure.cluster);
        let words = format!("get pods -n {}", exposure.namespace);
        return Some(broken(
            Layer::Connections,
            &subject,
            what,
            problem.clone(),
            hints.on_member(&exposure.cluster, &words),
        ));
    }
    let (what, why, command) = match seen.connected.as_ref().err()? {
        ConnectionProblem::NotAccepted(why) => (
            "accepts no connection",
            format!("the pod runs, but the port of this host is closed: {why}"),
            hints.flotilla(&Hint::Up),
        ),
        ConnectionProblem::Closed => {
            let why = format!("no program in the pod listens on port {}", exposure.port);
            let words = format!("get pods -n {} -o wide", exposure.namespace);
            ("closes every connection", why, hints.on_member(&exposure.cluster, &words))
        }
    };
    Some(broken(Layer::Connections, &subject, what, why, command))
}
