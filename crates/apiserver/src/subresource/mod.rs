//! Subresources that are more than a part of their object: scale, eviction, binding, tokens and streaming connections.

mod binding;
mod connect;
mod eviction;
mod scale;

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, header};
use kinds::SubresourceKind;
use object::request::{Verb, WriteOptions};
use object::{Object, Status};

use crate::context::Context;
use crate::decode::{self, BodyFormat};
use crate::http::Incoming;
use crate::request::write_options;
use crate::respond::{self, Body, Format};
use crate::scope::WriteScope;
use crate::server::Server;
use crate::verbs::{Answer, Target};

pub use connect::{ConnectHandler, ConnectRequest};

/// The kind of a subresource that has a handler of its own. `status`, `finalize` and `approval` are plain updates of
/// part of the object and are not special.
pub fn special(target: &Target) -> Result<Option<SubresourceKind>, Status> {
    let Some(subresource) = &target.subresource else { return Ok(None) };
    let Some(found) = target.resource.kind.subresource(subresource) else {
        return Err(Status::resource_not_served());
    };
    Ok(match &found.kind {
        SubresourceKind::Scale { .. }
        | SubresourceKind::Token
        | SubresourceKind::Binding
        | SubresourceKind::Eviction
        | SubresourceKind::Connect => Some(found.kind.clone()),
        _ => None,
    })
}

pub async fn serve(
    server: &Arc<Server>,
    ctx: &Context,
    target: &Target,
    kind: &SubresourceKind,
    incoming: Incoming,
) -> Result<Response<Body>, Status> {
    if *kind == SubresourceKind::Connect {
        return connect::serve(server, ctx, target, incoming).await;
    }
    let verb = incoming.info.verb;
    let served = target.subresource.as_ref().and_then(|name| target.resource.kind.subresource(name));
    if !served.is_some_and(|served| served.verbs.contains(&verb)) {
        return Err(Status::method_not_served());
    }
    let format = Format::for_resource(&target.resource, &incoming.headers, incoming.query.flag("pretty"))?;
    let call = Call {
        verb,
        options: write_options(&incoming.query, options_kind(verb))?,
        content_type: incoming.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).map(str::to_owned),
        body: incoming.body.read().await?,
    };
    let answer = answer(server.write_scope(), ctx, target, kind, &call).await?;
    respond::object_response(server.resources(), &target.resource, answer, format).await
}

/// A request on a subresource, free of HTTP, so that in-process callers take the same way.
pub struct Call {
    pub verb: Verb,
    pub options: WriteOptions,
    pub content_type: Option<String>,
    pub body: Bytes,
}

impl Call {
    /// The body as an object of whatever kind it says.
    pub fn object(&self) -> Result<Object, Status> {
        let format = BodyFormat::of_content_type(self.content_type.as_deref())?;
        let decoded = decode::decode(&self.body, format)?;
        Object::from_value(decoded.value).ok_or_else(|| Status::bad_request("the request body must be a JSON object"))
    }
}

pub async fn answer(
    scope: WriteScope<'_>,
    ctx: &Context,
    target: &Target,
    kind: &SubresourceKind,
    call: &Call,
) -> Result<Answer, Status> {
    match kind {
        SubresourceKind::Scale { spec_replicas, status_replicas, label_selector } => {
            let paths = scale::Paths { spec_replicas, status_replicas, label_selector };
            scale::serve(scope, ctx, target, &paths, call).await
        }
        SubresourceKind::Binding => binding::create(scope, ctx, target, call).await,
        SubresourceKind::Eviction => eviction::create(scope, ctx, target, call).await,
        SubresourceKind::Token => crate::auth::token_request::create(scope, ctx, target, call).await,
        _ => Err(Status::method_not_allowed(&target.resource.kind.group_resource(), call.verb)),
    }
}

fn options_kind(verb: Verb) -> &'static str {
    match verb {
        Verb::Create => "CreateOptions",
        Verb::Patch => "PatchOptions",
        _ => "UpdateOptions",
    }
}
