//! Streaming connections (log, exec, attach, port-forward, proxy): passed to the handler that runs the pods or
//! reaches the member.

use std::sync::Arc;

use access::{Action, ResourceAction};
use async_trait::async_trait;
use http::{Method, Response};
use object::request::{Subresource, Verb};
use object::{GroupResource, Status};

use crate::admission::Operation;
use crate::context::Context;
use crate::http::Incoming;
use crate::request::RequestInfo;
use crate::respond::Body;
use crate::scope::WriteScope;
use crate::server::Server;
use crate::verbs::Target;

/// A connection request after authorization and admission. The handler answers it in full, upgrades included.
pub struct ConnectRequest {
    pub target: Target,
    pub incoming: Incoming,
    pub user: Arc<object::request::User>,
}

/// Fills the hook for one resource, such as `pods` on a member or `clusters` on the control plane.
#[async_trait]
pub trait ConnectHandler: Send + Sync {
    /// True when this handler answers for the resource and subresource.
    fn handles(&self, target: &Target) -> bool;

    /// Classifies a request that this handler would answer as long-running or not. `None` leaves that to its verb and
    /// subresource.
    fn is_long_running(&self, _method: &Method, _info: &RequestInfo, _query: &str) -> Option<bool> {
        None
    }

    async fn connect(&self, server: &Arc<Server>, request: ConnectRequest) -> Result<Response<Body>, Status>;
}

pub async fn serve(
    server: &Arc<Server>,
    ctx: &Context,
    target: &Target,
    incoming: Incoming,
) -> Result<Response<Body>, Status> {
    require_create(server.write_scope(), ctx, &incoming.info).await?;
    let Some(handler) = server.handlers().connection(target) else {
        let (resource, sub) = (&target.resource.kind.plural, Subresource::name_of(target.subresource.as_ref()));
        let text = format!(
            "{resource}/{sub}: nothing on this control plane runs pods; ask a member cluster through its proxy"
        );
        return Err(Status::new(501, "NotImplemented", text));
    };
    let options = serde_json::json!({});
    let asked = crate::verbs::attributes(target, Operation::Connect, None, options, false);
    server.write_scope().validate(ctx, &asked, None).await?;
    let request = ConnectRequest { target: target.clone(), incoming, user: ctx.user.clone() };
    handler.connect(server, request).await
}

/// WebSocket clients open a stream with GET and SPDY clients with POST. Both need the right to `create` it, so that a role
/// that may only `get` subresources opens none.
async fn require_create(scope: WriteScope<'_>, ctx: &Context, info: &RequestInfo) -> Result<(), Status> {
    let opens = matches!(info.subresource, Some(Subresource::Exec | Subresource::Attach | Subresource::PortForward));
    if !opens || !info.group.is_empty() || info.resource != "pods" || info.verb == Verb::Create {
        return Ok(());
    }
    let action = ResourceAction {
        verb: Verb::Create.as_str(),
        version: &info.version,
        resource: &info.resource,
        subresource: Subresource::name_of(info.subresource.as_ref()),
        namespace: &info.namespace,
        name: &info.name,
        ..ResourceAction::default()
    };
    let decision = scope.auth.decide(scope.resources(), &ctx.user, &Action::Resource(action)).await?;
    if decision.allowed {
        return Ok(());
    }
    Err(Status::forbidden(&GroupResource::new("", "pods"), &info.name, decision.reason))
}
