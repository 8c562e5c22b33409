//! The HTTP paths of the API: gRPC, REST, OpenAPI documents, health and reflection.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::http::{Incoming, RequestBody};
use apiserver::respond::{self, Body};
use apiserver::server::Server;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, Method, Response, header};
use http_body_util::BodyExt;
use manager_api::{DESCRIPTORS, Gate, METHODS, OPENAPI_V2, OPENAPI_V3};
use object::Status;
use object::request::User;
use object::request::user::AUTHENTICATED_GROUP;
use transcode::call::Results;
use transcode::grpc::{self, Messages};
use transcode::reflection::{self, Definitions};
use transcode::rest::{self, AT_LEAST_HEADER, Router};
use transcode::{Payload, Reply, ResponseBody, health, precondition, request};

use super::{ApiCaller, CallCredential, ManagerApi};
use crate::audit_trail::{AuditedRequest, is_recorded};
use crate::revocation::{Revocations, StillAllowed};
use crate::tokens;

const REST: &str = "/flotilla/manager/v1alpha1/";
/// Paths of Kairship with the same meaning.
const KAIRSHIP: &str = "/apis/kairship.io/v1alpha1/";
const GRPC: &str = "/flotilla.manager.v1alpha1.";
const OPENAPI: (&str, &str) = ("/openapi/manager/v2", "/openapi/manager/v3");
/// The longest time a call may take that is not a stream.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Ends of REST paths that are streams.
const STREAM_VERBS: [&str; 2] = [":watch", ":export"];

/// The author and the index of a call.
type CalledBy = (Arc<ApiCaller>, usize);
/// The call of a request, once it is known.
type Called = OnceLock<CalledBy>;

/// Serves the API.
pub struct ApiGateway {
    api: Arc<ManagerApi>,
    router: Router,
    definitions: Arc<Definitions>,
    /// Answers reflection requests.
    reflects: bool,
    revocations: Revocations,
}

impl ApiGateway {
    pub fn new(api: Arc<ManagerApi>, reflects: bool, revocations: Revocations) -> anyhow::Result<Self> {
        let definitions = Arc::new(Definitions::new(DESCRIPTORS)?);
        Ok(Self { api, router: Router::new(METHODS), definitions, reflects, revocations })
    }
}

fn grpc_method(path: &str) -> Option<usize> {
    METHODS.iter().position(|method| {
        let rest = path.strip_prefix('/').and_then(|rest| rest.strip_prefix(method.service));
        rest.and_then(|rest| rest.strip_prefix('/')) == Some(method.name)
    })
}

/// The versions that the answer must contain.
fn at_least(headers: &HeaderMap) -> Result<Vec<String>, Status> {
    let invalid = |_| Status::bad_request(format!("{AT_LEAST_HEADER}: is not a version"));
    let mut versions = Vec::new();
    for value in headers.get_all(AT_LEAST_HEADER) {
        let text = value.to_str().map_err(invalid)?;
        versions.extend(text.split(',').map(str::trim).filter(|version| !version.is_empty()).map(str::to_owned));
    }
    Ok(versions)
}

#[async_trait]
impl Extension for ApiGateway {
    fn handles(&self, path: &str) -> bool {
        [REST, KAIRSHIP, GRPC, "/grpc.health.v1.Health/", "/grpc.reflection."].iter().any(|own| path.starts_with(own))
            || path == OPENAPI.0
            || path == OPENAPI.1
    }

    fn judges_callers(&self) -> bool {
        true
    }

    fn is_public(&self) -> bool {
        true
    }

    fn is_long_running(&self, path: &str) -> bool {
        reflection::PATHS.contains(&path)
            || path == health::WATCH
            || grpc_method(path).is_some_and(|method| METHODS[method].is_stream())
            || (path.starts_with(REST) && STREAM_VERBS.iter().any(|verb| path.ends_with(verb)))
    }

    async fn serve(&self, _server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        let path = request.incoming.uri.path().to_owned();
        if path == OPENAPI.0 || path == OPENAPI.1 {
            let text = if path == OPENAPI.0 { OPENAPI_V2 } else { OPENAPI_V3 };
            return Ok(respond::text(200, "application/json", text));
        }
        let bearer = tokens::bearer(&request.incoming.headers);
        let called = OnceLock::new();
        let response = match grpc::is_grpc(&request.incoming.headers) {
            true => self.serve_grpc(&path, request, &called).await,
            false => self.serve_rest(&path, request, &called).await,
        };
        Ok(response.map(|body| match (body, called.into_inner()) {
            // Without content the headers end the response: gRPC clients read a status only from such headers.
            (ResponseBody::Whole(bytes), _) => Body::Whole((!bytes.is_empty()).then_some(bytes)),
            (ResponseBody::Frames(frames), None) => Body::Frames(frames),
            (ResponseBody::Frames(frames), Some(called)) => {
                let still_allowed = self.still_allowed(called, bearer, path);
                self.revocations.guard(Body::Frames(frames), still_allowed)
            }
        }))
    }
}

impl ApiGateway {
    async fn serve_rest(&self, path: &str, request: ExtensionRequest, called: &Called) -> Response<ResponseBody> {
        let headers = request.incoming.headers.clone();
        match self.call_rest(path, request, called).await {
            Ok(reply) => rest::response(Ok(reply), &headers),
            Err(status) => rest::error(&status),
        }
    }

    async fn call_rest(&self, path: &str, request: ExtensionRequest, called: &Called) -> Result<Reply, Status> {
        let ExtensionRequest { incoming, user } = request;
        let caller = Arc::new(self.caller(user, &incoming));
        let found = match self.router.find(incoming.method.as_str(), path) {
            Ok(found) => found,
            // Without credentials the paths of the API are not listed.
            Err(_) if !caller.user.in_group(AUTHENTICATED_GROUP) => return Err(Status::unauthorized()),
            Err(status) => return Err(status),
        };
        let _ = called.set((Arc::clone(&caller), found.method));
        self.identified(&caller, found.method)?;
        let body = incoming.body.read().await?;
        let content_type = incoming.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let parts = request::RequestParts {
            bound: &found.bound,
            query: incoming.uri.query().unwrap_or_default(),
            content_type: content_type.unwrap_or_default(),
            body: &body,
        };
        let mut message = request::message(&METHODS[found.method], found.route, &parts)?;
        let has_version = precondition::require_match(&METHODS[found.method], &mut message, &incoming.headers)?;
        let result = self.call(&caller, found.method, Payload::Json(message), &incoming.headers).await;
        result.map_err(|status| if has_version { precondition::failed(status) } else { status })
    }

    fn caller(&self, user: Arc<User>, incoming: &Incoming) -> ApiCaller {
        let token = tokens::bearer(&incoming.headers).and_then(|token| tokens::id_of(&token).map(str::to_owned));
        let session = self.api.console.session_of(&incoming.headers).filter(|_| token.is_none());
        ApiCaller::new(user, incoming.peer_address.ip(), CallCredential { token, session })
    }

    async fn call(
        &self,
        caller: &ApiCaller,
        method: usize,
        payload: Payload,
        headers: &HeaderMap,
    ) -> Result<Reply, Status> {
        let began = Instant::now();
        let limit = grpc::timeout(headers).map_or(CALL_TIMEOUT, |asked| asked.min(CALL_TIMEOUT));
        let versions = at_least(headers)?;
        let called = Box::pin(async {
            self.api.reached(caller, &versions).await?;
            manager_api::call(&*self.api, caller, method, payload).await
        });
        let timeout = || Status::timeout("the call did not complete in time");
        let result = tokio::time::timeout(limit, called).await.unwrap_or_else(|_| Err(timeout()));
        self.record(caller, method, result.as_ref().err(), began.elapsed());
        result
    }

    /// Records a call that changed something or was refused.
    fn record(&self, caller: &ApiCaller, method: usize, failure: Option<&Status>, took: Duration) {
        let called = &METHODS[method];
        let is_read = called.routes.first().is_some_and(|route| route.verb == "GET");
        let code = failure.map_or(200, |status| status.code);
        if !is_recorded(is_read, code) {
            return;
        }
        self.api.audit.note(&AuditedRequest {
            user: Some(&caller.user),
            source: caller.address,
            action: format!("{}/{}", called.service.rsplit('.').next().unwrap_or_default(), called.name),
            instance: caller.instance.get().map_or("", String::as_str),
            code,
            message: failure.map_or("", |status| status.message.as_str()),
            took,
        });
    }

    /// Checks again whether the caller of a stream may call it with the same rights, and whether its token is still valid.
    fn still_allowed(&self, (caller, method): CalledBy, bearer: Option<String>, path: String) -> StillAllowed {
        let api = Arc::clone(&self.api);
        let access_of = |api: &ManagerApi, caller: &ApiCaller| {
            caller.instance.get().map(|name| api.operations.rights.instance_access(&caller.user, name))
        };
        let began_with = access_of(&api, &caller);
        Arc::new(move || {
            let (api, caller, bearer, path) = (Arc::clone(&api), Arc::clone(&caller), bearer.clone(), path.clone());
            // The instance decides with the rights at the start of a stream.
            let has_same = access_of(&api, &caller) == began_with;
            Box::pin(async move {
                let instance = caller.instance.get().map(String::as_str);
                let may_call = has_same && api.permit(&caller, &METHODS[method], instance).await.is_ok();
                may_call && api.operations.tokens.is_valid(bearer.as_deref(), &path).await
            })
        })
    }

    /// Refuses callers without credentials before anything of their request is read.
    fn identified(&self, caller: &ApiCaller, method: usize) -> Result<(), Status> {
        if METHODS[method].permission == "public" || caller.user.in_group(AUTHENTICATED_GROUP) {
            return Ok(());
        }
        let refused = Status::unauthorized();
        self.record(caller, method, Some(&refused), Duration::ZERO);
        Err(refused)
    }

    async fn serve_grpc(&self, path: &str, request: ExtensionRequest, called: &Called) -> Response<ResponseBody> {
        if request.incoming.method != Method::POST {
            return grpc::error(&Status::method_not_served());
        }
        match self.call_grpc(path, request, called).await {
            Ok(reply) => grpc::response(Ok(reply)),
            Err(status) => grpc::error(&status),
        }
    }

    async fn call_grpc(&self, path: &str, request: ExtensionRequest, called: &Called) -> Result<Reply, Status> {
        let ExtensionRequest { incoming, user } = request;
        let is_known = |service: &str| self.definitions.has_service(service);
        if reflection::PATHS.contains(&path) {
            return self.reflect(user.in_group(AUTHENTICATED_GROUP), incoming.body);
        }
        match path {
            health::CHECK => return health::check(&incoming.body.read().await?, is_known).map(Reply::Message),
            health::WATCH => return health::watch(&incoming.body.read().await?, is_known).map(Reply::Stream),
            _ => {}
        }
        let caller = Arc::new(self.caller(user, &incoming));
        let method = grpc_method(path).ok_or_else(Status::method_not_served)?;
        let _ = called.set((Arc::clone(&caller), method));
        self.identified(&caller, method)?;
        let body = incoming.body.read().await?;
        let message = grpc::single(&body)?;
        self.call(&caller, method, Payload::Proto(message), &incoming.headers).await
    }

    /// Answers requests one by one while the client keeps its side of the stream open.
    fn reflect(&self, is_authenticated: bool, body: RequestBody) -> Result<Reply, Status> {
        if !self.reflects {
            return Err(Status::new(
                501,
                "NotImplemented",
                "reflection is off: start the manager with --grpc-reflection",
            ));
        }
        if !is_authenticated {
            return Err(Status::unauthorized());
        }
        let asked =
            Asked { body: Some(body), messages: Messages::default(), definitions: Arc::clone(&self.definitions) };
        let answers: Results<Bytes> = Box::pin(stream::unfold(asked, |mut asked| async move {
            let answer = match asked.next().await {
                Ok(Some(request)) => asked.definitions.answer(request),
                Ok(None) => return None,
                Err(status) => Err(status),
            };
            Some((answer, asked))
        }));
        Ok(Reply::Stream(answers))
    }
}

/// The requests of a reflection client.
struct Asked {
    body: Option<RequestBody>,
    messages: Messages,
    definitions: Arc<Definitions>,
}

impl Asked {
    async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            if let Some(message) = self.messages.take()? {
                return Ok(Some(message));
            }
            match self.body.take() {
                None => return Ok(None),
                Some(RequestBody::Whole(bytes)) => self.messages.push(&bytes),
                Some(RequestBody::Incoming(mut incoming)) => {
                    let Some(frame) = incoming.frame().await else { return Ok(None) };
                    let frame = frame.map_err(|error| Status::bad_request(error.to_string()))?;
                    if let Some(data) = frame.data_ref() {
                        self.messages.push(data);
                    }
                    self.body = Some(RequestBody::Incoming(incoming));
                }
            }
        }
    }
}
