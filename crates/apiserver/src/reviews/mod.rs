//! Kinds that are answered and never stored: access reviews, token reviews, self subject reviews, and two old kinds.

mod access_review;
mod components;
mod token_review;

use std::sync::Arc;

use http::{Response, header};
use kinds::SubresourceKind;
use object::request::{Subresource, Verb, WriteOptions};
use object::{Object, Status};
use serde_json::{Value, json};

use crate::context::Context;
use crate::decode::{self, BodyFormat};
use crate::http::Incoming;
use crate::managed;
use crate::request::write_options;
use crate::respond::{self, Body, Format};
use crate::scope::WriteScope;
use crate::shape;
use crate::subresource::{self, Call};
use crate::verbs::{Answer, Target};

pub async fn serve(
    scope: WriteScope<'_>,
    ctx: &Context,
    target: &Target,
    incoming: Incoming,
) -> Result<Response<Body>, Status> {
    let verb = incoming.info.verb;
    if !target.resource.kind.allows(verb) {
        return Err(Status::method_not_served());
    }
    let pretty = incoming.query.flag("pretty");
    if verb != Verb::Create {
        let format = Format::for_resource(&target.resource, &incoming.headers, pretty)?;
        return components::serve(scope.resources(), target, format).await;
    }
    let format = Format::for_review(&target.resource, &incoming.headers, pretty)?;
    let options = write_options(&incoming.query, "CreateOptions")?;
    let content_type = incoming.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let body = BodyFormat::of_content_type(content_type.as_deref())?;
    let decoded = decode::decode_as(&target.resource, &incoming.body.read().await?, body)?;
    let object = shape::read_object(ctx, &target.resource, decoded, options.field_validation.unwrap_or_default())?;
    let answered = answer(scope, ctx, target, object, options).await?;
    let answer = Answer::Object { code: 201, object: Arc::new(answered) };
    respond::object_response(scope.resources(), &target.resource, answer, format).await
}

/// The review with its answer.
pub async fn answer(
    scope: WriteScope<'_>,
    ctx: &Context,
    target: &Target,
    object: Object,
    options: WriteOptions,
) -> Result<Object, Status> {
    let kind = target.resource.kind.gvk.kind.as_str();
    let mut object = object;
    if kind == "LocalSubjectAccessReview" && object.namespace().is_empty() {
        object.set_namespace(&target.namespace);
    }
    if matches!(kind, "SubjectAccessReview" | "LocalSubjectAccessReview" | "SelfSubjectAccessReview" | "TokenReview") {
        object.remove(&["status"]);
        managed::on_write(scope.registry, ctx, target, None, &mut object, &options);
    }
    match kind {
        "SubjectAccessReview" | "LocalSubjectAccessReview" | "SelfSubjectAccessReview" => {
            access_review::access(scope, ctx, target, object).await
        }
        "SelfSubjectRulesReview" => access_review::rules(scope, ctx, object).await,
        "TokenReview" => token_review::review(scope, object).await,
        "SelfSubjectReview" => Ok(who_am_i(ctx, &object)),
        "Binding" => bind(scope, ctx, target, &object, options).await,
        _ => Err(Status::method_not_allowed(&target.resource.kind.group_resource(), Verb::Create)),
    }
}

fn who_am_i(ctx: &Context, asked: &Object) -> Object {
    let mut review = asked.clone();
    review.set(&["metadata"], json!({"creationTimestamp": object::time::format_seconds(ctx.now)}));
    review.set(&["status"], json!({"userInfo": user_info(&ctx.user)}));
    review
}

/// A user as reviews write it; what is empty is left out.
fn user_info(user: &object::request::User) -> Value {
    let mut info = json!({"username": user.name});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.groups.is_empty() {
        info["groups"] = user.groups.clone().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

/// `POST /bindings`: the older form of `pods/NAME/binding`.
async fn bind(
    scope: WriteScope<'_>,
    ctx: &Context,
    target: &Target,
    object: &Object,
    options: WriteOptions,
) -> Result<Object, Status> {
    let pods = scope.registry.find("", "v1", "pods").ok_or_else(|| Status::internal("pods are not served"))?;
    let pod = Target {
        resource: pods,
        namespace: target.namespace.clone(),
        name: object.name().to_owned(),
        subresource: Some(Subresource::Binding),
    };
    let call = Call { verb: Verb::Create, options, content_type: None, body: object.encode() };
    match subresource::answer(scope, ctx, &pod, &SubresourceKind::Binding, &call).await? {
        Answer::Object { object, .. } => Ok((*object).clone()),
        Answer::Stored { stored, .. } => stored.decode(),
        Answer::Status(value) => {
            Object::from_value(value).ok_or_else(|| Status::internal("a binding was answered with no object"))
        }
    }
}
