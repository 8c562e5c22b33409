//! A CRI client over the runtime's socket.

pub(crate) mod image_messages;
pub(crate) mod messages;
pub(crate) mod tasks;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use crate::cri::image_messages::*;
use crate::cri::messages::*;

/// The default timeout; slower calls pass their own.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Creating a sandbox also sets up its network.
const SANDBOX_TIMEOUT: Duration = Duration::from_secs(120);
/// An image with many layers over a slow connection.
const PULL_TIMEOUT: Duration = Duration::from_secs(1800);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A list of many containers exceeds tonic's default of 4 MiB.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// A failed runtime call.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RuntimeError {
    #[error("{0:?} is not the path of a socket")]
    Socket(String, #[source] tonic::transport::Error),
    /// The text is the runtime's own, which users know.
    #[error("{}", .0.message())]
    Answered(Box<Status>),
    #[error("the container runtime did not answer within {0:?}")]
    Late(Duration),
}

impl RuntimeError {
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Answered(status) if status.code() == Code::NotFound)
    }
}

/// A connection to the runtime; clones share it, and it reconnects when the runtime was unavailable.
#[derive(Clone)]
pub(crate) struct Runtime {
    channel: Channel,
}

impl Runtime {
    pub fn connect(socket: &Path) -> Result<Self, RuntimeError> {
        let address = format!("unix://{}", socket.display());
        let endpoint = Endpoint::from_shared(address.clone()).map_err(|e| RuntimeError::Socket(address, e))?;
        Ok(Self { channel: endpoint.connect_timeout(CONNECT_TIMEOUT).connect_lazy() })
    }

    async fn call<M, R>(&self, path: &'static str, message: M, timeout: Duration) -> Result<R, RuntimeError>
    where
        M: prost::Message + 'static,
        R: prost::Message + Default + 'static,
    {
        unary(self.channel.clone(), path, Request::new(message), timeout).await
    }

    pub async fn version(&self) -> Result<VersionResponse, RuntimeError> {
        let request = VersionRequest { version: "v1".to_owned() };
        self.call("/runtime.v1.RuntimeService/Version", request, CALL_TIMEOUT).await
    }

    pub async fn status(&self) -> Result<StatusResponse, RuntimeError> {
        self.call("/runtime.v1.RuntimeService/Status", StatusRequest { verbose: false }, CALL_TIMEOUT).await
    }

    // ---- sandboxes ----

    pub async fn run_sandbox(&self, config: PodSandboxConfig) -> Result<String, RuntimeError> {
        let request = RunPodSandboxRequest { config: Some(config), runtime_handler: String::new() };
        let path = "/runtime.v1.RuntimeService/RunPodSandbox";
        let response: RunPodSandboxResponse = self.call(path, request, SANDBOX_TIMEOUT).await?;
        Ok(response.pod_sandbox_id)
    }

    pub async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let request = StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        Self::gone(self.call("/runtime.v1.RuntimeService/StopPodSandbox", request, SANDBOX_TIMEOUT).await)
    }

    pub async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let request = RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() };
        Self::gone(self.call("/runtime.v1.RuntimeService/RemovePodSandbox", request, SANDBOX_TIMEOUT).await)
    }

    pub async fn sandbox_status(&self, id: &str, verbose: bool) -> Result<PodSandboxStatusResponse, RuntimeError> {
        let request = PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose };
        self.call("/runtime.v1.RuntimeService/PodSandboxStatus", request, CALL_TIMEOUT).await
    }

    /// Lists sandboxes that have all of these labels.
    pub async fn list_sandboxes(&self, labels: BTreeMap<String, String>) -> Result<Vec<PodSandbox>, RuntimeError> {
        let filter = PodSandboxFilter { label_selector: labels, ..Default::default() };
        let request = ListPodSandboxRequest { filter: Some(filter) };
        let path = "/runtime.v1.RuntimeService/ListPodSandbox";
        let response: ListPodSandboxResponse = self.call(path, request, CALL_TIMEOUT).await?;
        Ok(response.items)
    }

    // ---- containers ----

    pub async fn create_container(&self, request: CreateContainerRequest) -> Result<String, RuntimeError> {
        let path = "/runtime.v1.RuntimeService/CreateContainer";
        let response: CreateContainerResponse = self.call(path, request, SANDBOX_TIMEOUT).await?;
        Ok(response.container_id)
    }

    pub async fn start_container(&self, id: &str) -> Result<(), RuntimeError> {
        let request = StartContainerRequest { container_id: id.to_owned() };
        let path = "/runtime.v1.RuntimeService/StartContainer";
        self.call(path, request, SANDBOX_TIMEOUT).await.map(|_: Empty| ())
    }

    /// Stops the container, and kills it after `grace`.
    pub async fn stop_container(&self, id: &str, grace: Duration) -> Result<(), RuntimeError> {
        let timeout = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
        let request = StopContainerRequest { container_id: id.to_owned(), timeout };
        Self::gone(self.call("/runtime.v1.RuntimeService/StopContainer", request, grace + SANDBOX_TIMEOUT).await)
    }

    pub async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        let request = RemoveContainerRequest { container_id: id.to_owned() };
        Self::gone(self.call("/runtime.v1.RuntimeService/RemoveContainer", request, SANDBOX_TIMEOUT).await)
    }

    /// Lists containers that have all of these labels.
    pub async fn list_containers(&self, labels: BTreeMap<String, String>) -> Result<Vec<Container>, RuntimeError> {
        let filter = ContainerFilter { label_selector: labels, ..Default::default() };
        let request = ListContainersRequest { filter: Some(filter) };
        let path = "/runtime.v1.RuntimeService/ListContainers";
        let response: ListContainersResponse = self.call(path, request, CALL_TIMEOUT).await?;
        Ok(response.containers)
    }

    /// `None` if the container no longer exists.
    pub async fn container_status(&self, id: &str) -> Result<Option<ContainerStatus>, RuntimeError> {
        let request = ContainerStatusRequest { container_id: id.to_owned() };
        let path = "/runtime.v1.RuntimeService/ContainerStatus";
        match self.call::<_, ContainerStatusResponse>(path, request, CALL_TIMEOUT).await {
            Ok(response) => Ok(response.status),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes the runtime reopen a rotated log.
    pub async fn reopen_log(&self, id: &str) -> Result<(), RuntimeError> {
        let request = ReopenContainerLogRequest { container_id: id.to_owned() };
        let path = "/runtime.v1.RuntimeService/ReopenContainerLog";
        self.call(path, request, CALL_TIMEOUT).await.map(|_: Empty| ())
    }

    /// Runs a command to completion; a timeout is `Late` or the runtime's own error.
    pub async fn exec_sync(
        &self,
        id: &str,
        command: Vec<String>,
        timeout: Duration,
    ) -> Result<ExecSyncResponse, RuntimeError> {
        let seconds = i64::try_from(timeout.as_secs().max(1)).unwrap_or(i64::MAX);
        let request = ExecSyncRequest { container_id: id.to_owned(), cmd: command, timeout: seconds };
        // The runtime enforces the timeout; ours covers an unresponsive runtime.
        self.call("/runtime.v1.RuntimeService/ExecSync", request, timeout + CALL_TIMEOUT).await
    }

    /// Returns the URL for attaching to a container.
    pub async fn attach(&self, request: AttachRequest) -> Result<String, RuntimeError> {
        let path = "/runtime.v1.RuntimeService/Attach";
        let response: AttachResponse = self.call(path, request, CALL_TIMEOUT).await?;
        Ok(response.url)
    }

    pub async fn container_stats(&self) -> Result<Vec<ContainerStats>, RuntimeError> {
        let path = "/runtime.v1.RuntimeService/ListContainerStats";
        let response: ListContainerStatsResponse = self.call(path, ListContainerStatsRequest {}, CALL_TIMEOUT).await?;
        Ok(response.stats)
    }

    // ---- images ----

    /// `None` if the image does not exist.
    pub async fn image(&self, image: &str) -> Result<Option<Image>, RuntimeError> {
        let request = ImageStatusRequest { image: Some(ImageSpec { image: image.to_owned() }) };
        let path = "/runtime.v1.ImageService/ImageStatus";
        let response: ImageStatusResponse = self.call(path, request, CALL_TIMEOUT).await?;
        Ok(response.image)
    }

    pub async fn images(&self) -> Result<Vec<Image>, RuntimeError> {
        let path = "/runtime.v1.ImageService/ListImages";
        let response: ListImagesResponse = self.call(path, ListImagesRequest {}, CALL_TIMEOUT).await?;
        Ok(response.images)
    }

    pub async fn pull(&self, image: &str, auth: Option<AuthConfig>) -> Result<String, RuntimeError> {
        let image = Some(ImageSpec { image: image.to_owned() });
        let request = PullImageRequest { image, auth, sandbox_config: None };
        let path = "/runtime.v1.ImageService/PullImage";
        let response: PullImageResponse = self.call(path, request, PULL_TIMEOUT).await?;
        Ok(response.image_ref)
    }

    /// A missing object counts as removed.
    fn gone(result: Result<Empty, RuntimeError>) -> Result<(), RuntimeError> {
        match result {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }
}

async fn unary<M, R>(
    channel: Channel,
    path: &'static str,
    mut request: Request<M>,
    timeout: Duration,
) -> Result<R, RuntimeError>
where
    M: prost::Message + 'static,
    R: prost::Message + Default + 'static,
{
    // The runtime gives up at the same time, so that a retry does not find the names of this call still reserved.
    request.set_timeout(timeout);
    let answered = |status: Status| RuntimeError::Answered(Box::new(status));
    let work = async {
        let mut grpc = Grpc::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        grpc.ready().await.map_err(|e| answered(Status::unavailable(format!("no container runtime: {e}"))))?;
        let codec: ProstCodec<M, R> = ProstCodec::default();
        let response = grpc.unary(request, PathAndQuery::from_static(path), codec).await.map_err(answered)?;
        Ok(response.into_inner())
    };
    tokio::time::timeout(timeout, work).await.unwrap_or(Err(RuntimeError::Late(timeout)))
}

#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// Calls the gRPC health protocol of a server.
pub(crate) async fn probe_grpc_health(
    channel: Channel,
    service: &str,
    timeout: Duration,
) -> Result<bool, RuntimeError> {
    const SERVING: i32 = 1;
    let request = Request::new(HealthCheckRequest { service: service.to_owned() });
    let answer: HealthCheckResponse = unary(channel, "/grpc.health.v1.Health/Check", request, timeout).await?;
    Ok(answer.status == SERVING)
}
