//! A KMS plugin for tests: serves the v2 API on a Unix socket, with keys that can be rotated and faults that can be set.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::net::UnixListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use super::messages::{
    DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, StatusRequest, StatusResponse,
};

#[derive(Default)]
pub struct FakeState {
    pub key_id: String,
    /// The key that encrypts, when it is not the one the status names.
    pub encrypting_key_id: Option<String>,
    pub healthz: String,
    /// Calls by method.
    pub encrypts: usize,
    pub decrypts: usize,
}

/// A running plugin, stopped when dropped.
pub struct FakePlugin {
    pub state: Arc<Mutex<FakeState>>,
    pub socket: PathBuf,
    _stop: DropGuard,
}

impl FakePlugin {
    pub fn start(directory: &Path) -> Self {
        let socket = directory.join("kms.sock");
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).expect("a socket");
        let state = FakeState { key_id: "one".into(), healthz: "ok".into(), ..FakeState::default() };
        let state = Arc::new(Mutex::new(state));
        let stop = CancellationToken::new();
        tokio::spawn(serve(listener, Service(Arc::clone(&state)), stop.clone()));
        Self { state, socket, _stop: stop.drop_guard() }
    }

    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }
}

async fn serve(listener: UnixListener, service: Service, stop: CancellationToken) {
    while let Some(Ok((stream, _))) = stop.run_until_cancelled(listener.accept()).await {
        let (service, stop) = (service.clone(), stop.clone());
        let answer = service_fn(move |request: http::Request<hyper::body::Incoming>| {
            let service = service.clone();
            async move { Ok::<_, Infallible>(service.answer(request.map(Body::new)).await) }
        });
        let connection = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer);
        tokio::spawn(async move { stop.run_until_cancelled(connection).await });
    }
}

#[derive(Clone)]
struct Service(Arc<Mutex<FakeState>>);

/// "Encrypts" by naming the key and inverting the bytes.
fn wrap(key_id: &str, plain: &[u8]) -> Vec<u8> {
    format!("{key_id}|").into_bytes().into_iter().chain(plain.iter().map(|byte| !byte)).collect()
}

impl UnaryService<StatusRequest> for Service {
    type Response = StatusResponse;
    type Future = BoxFuture<'static, Result<Response<StatusResponse>, Status>>;

    fn call(&mut self, _: Request<StatusRequest>) -> Self::Future {
        let state = self.0.lock();
        let (healthz, key_id) = (state.healthz.clone(), state.key_id.clone());
        Box::pin(async move { Ok(Response::new(StatusResponse { version: "v2".into(), healthz, key_id })) })
    }
}

impl UnaryService<EncryptRequest> for Service {
    type Response = EncryptResponse;
    type Future = BoxFuture<'static, Result<Response<EncryptResponse>, Status>>;

    fn call(&mut self, request: Request<EncryptRequest>) -> Self::Future {
        let mut state = self.0.lock();
        state.encrypts += 1;
        let key_id = state.encrypting_key_id.clone().unwrap_or_else(|| state.key_id.clone());
        let ciphertext = wrap(&key_id, &request.into_inner().plaintext);
        let annotations = [("version.fake.example".to_owned(), b"1".to_vec())].into();
        Box::pin(async move { Ok(Response::new(EncryptResponse { ciphertext, key_id, annotations })) })
    }
}

impl UnaryService<DecryptRequest> for Service {
    type Response = DecryptResponse;
    type Future = BoxFuture<'static, Result<Response<DecryptResponse>, Status>>;

    fn call(&mut self, request: Request<DecryptRequest>) -> Self::Future {
        self.0.lock().decrypts += 1;
        let request = request.into_inner();
        let mark = format!("{}|", request.key_id).into_bytes();
        let has_annotations = request.annotations.contains_key("version.fake.example");
        let plain = request.ciphertext.strip_prefix(&mark[..]).filter(|_| has_annotations);
        let answer = match plain {
            Some(plain) => Ok(Response::new(DecryptResponse { plaintext: plain.iter().map(|byte| !byte).collect() })),
            None => Err(Status::failed_precondition("another key")),
        };
        Box::pin(async move { answer })
    }
}

impl Service {
    async fn answer(self, request: http::Request<Body>) -> http::Response<Body> {
        match request.uri().path() {
            "/v2.KeyManagementService/Status" => {
                let codec = ProstCodec::<StatusResponse, StatusRequest>::default();
                Grpc::new(codec).unary(self, request).await
            }
            "/v2.KeyManagementService/Encrypt" => {
                let codec = ProstCodec::<EncryptResponse, EncryptRequest>::default();
                Grpc::new(codec).unary(self, request).await
            }
            _ => {
                let codec = ProstCodec::<DecryptResponse, DecryptRequest>::default();
                Grpc::new(codec).unary(self, request).await
            }
        }
    }
}
