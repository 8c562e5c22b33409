//! Requests on resources: finds the resource, reads options and body, calls the verb, writes the response.

use std::sync::Arc;

use http::{Method, Response, header};
use object::Status;
use object::request::Verb;
use serde_json::Value;

use super::Incoming;
use crate::context::Context;
use crate::decode::{self, BodyFormat};
use crate::dynamic_group::DynamicRequest;
use crate::limits::{Limits, Reservation};
use crate::request::{Deletion, ListSelection, RequestInfo, parse_revision, patch_kind, write_options};
use crate::respond::{self, Body, Format};
use crate::scope::{ReadScope, WriteScope};
use crate::served_resources::{Resource, ServedResources};
use crate::server::Server;
use crate::shape;
use crate::subresource;
use crate::verbs::{self, Target};

pub async fn serve(server: &Arc<Server>, ctx: &Context, incoming: Incoming) -> Result<Response<Body>, Status> {
    let info = &incoming.info;
    let Some(resource) = server.registry.find(&info.group, &info.version, &info.resource) else {
        let dynamic = server.handlers().dynamic_group(&info.group);
        return match dynamic.filter(|group| group.versions().contains(&info.version.as_str())) {
            Some(group) => group.serve(server, DynamicRequest { incoming, user: ctx.user.clone() }).await,
            None => not_served(&server.registry, info),
        };
    };
    let target = target(&resource, info)?;
    if let Some(warning) = &resource.kind.deprecation {
        ctx.warn(warning.clone());
    }
    // Kinds that are not stored belong to their handler, which may read a path where others have subresources.
    if !resource.kind.stored
        && let Some(handler) = server.handlers().connection(&target)
    {
        let request = subresource::ConnectRequest { target, incoming, user: ctx.user.clone() };
        return handler.connect(server, request).await;
    }
    if let Some(kind) = subresource::special(&target)? {
        return subresource::serve(server, ctx, &target, &kind, incoming).await;
    }
    if !resource.kind.stored {
        return crate::reviews::serve(server.write_scope(), ctx, &target, incoming).await;
    }
    check_verb(&resource, info)?;
    check_place(&resource, info)?;
    // Kubernetes has no HEAD for objects, and clients that probe with it rely on the error.
    if incoming.method == Method::HEAD {
        return Err(Status::method_not_served());
    }
    let format = Format::for_resource(&resource, &incoming.headers, incoming.query.flag("pretty"))?;
    match info.verb {
        Verb::Get => {
            let revision = incoming.query.get("resourceVersion").map(parse_revision).transpose()?;
            let answer = verbs::get::get(&server.objects, &target, revision).await?;
            respond::object_response(server.resources(), &resource, answer, format).await
        }
        Verb::List => {
            let selection = ListSelection::parse(&incoming.query)?;
            let listed = verbs::list::list(&server.objects, &target, &selection).await?;
            let include = incoming.query.get("includeObject");
            respond::list_response(server.read_scope(), &ctx.user, &resource, listed, format, include).await
        }
        Verb::Watch => {
            let mut selection = ListSelection::parse(&incoming.query)?;
            if !info.name.is_empty() {
                selection.fields.terms.push(object::selector::FieldTerm {
                    field: "metadata.name".into(),
                    equal: true,
                    value: info.name.clone(),
                });
            }
            let watch = verbs::watch::watch_counted(server.read_scope(), &ctx.user, &target, &selection).await?;
            respond::watch_response(server.clone(), ctx.user.clone(), resource, watch, format)
        }
        _ => write(server.write_scope(), server.read_scope(), ctx, &target, incoming, format).await,
    }
}

/// Names the missing resource of a served group; for other groups the path itself is unknown.
fn not_served(registry: &ServedResources, info: &RequestInfo) -> Result<Response<Body>, Status> {
    let known = info.group.is_empty() || registry.snapshot().serves_group(&info.group);
    if known && !info.path.starts_with("//") {
        return Err(Status::resource_not_served());
    }
    Ok(respond::no_such_page())
}

async fn write(
    writes: WriteScope<'_>,
    reads: ReadScope<'_>,
    ctx: &Context,
    target: &Target,
    incoming: Incoming,
    format: Format,
) -> Result<Response<Body>, Status> {
    let resource = target.resource.clone();
    let query = incoming.query;
    let content_type = incoming.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).map(str::to_owned);
    let verb = incoming.info.verb;
    let _tree = reserve_tree(reads.limits, ctx, &incoming.body, content_type.as_deref())?;
    let answer = match verb {
        Verb::Create | Verb::Update => {
            let kind = if verb == Verb::Create { "CreateOptions" } else { "UpdateOptions" };
            let options = write_options(&query, kind)?;
            let body = BodyFormat::of_content_type(content_type.as_deref())?;
            let decoded = decode::decode_as(&resource, &incoming.body.read().await?, body)?;
            let object = shape::read_object(ctx, &resource, decoded, options.field_validation.unwrap_or_default())?;
            if verb == Verb::Create {
                verbs::create::create(writes, ctx, target, object, &options).await?
            } else {
                verbs::update::replace(writes, ctx, target, object, &options).await?
            }
        }
        Verb::Patch => {
            let options = write_options(&query, "PatchOptions")?;
            let kind = patch_kind(content_type.as_deref(), &query)?;
            let body = incoming.body.read().await?;
            verbs::patch::patch(writes, ctx, target, kind, &body, &options).await?
        }
        Verb::Delete => {
            let deletion = Deletion::parse(&query, delete_body(incoming.body, content_type.as_deref()).await?)?;
            verbs::delete::delete(writes, ctx, target, &deletion).await?
        }
        Verb::DeleteCollection => {
            let selection = ListSelection::parse(&query)?;
            let deletion = Deletion::parse(&query, delete_body(incoming.body, content_type.as_deref()).await?)?;
            let listed = verbs::delete::delete_collection(writes, ctx, target, &selection, &deletion).await?;
            return respond::list_response(reads, &ctx.user, &resource, listed, format, None).await;
        }
        other => return Err(Status::method_not_allowed(&resource.kind.group_resource(), other)),
    };
    respond::object_response(reads.resources, &resource, answer, format).await
}

/// Trees from this size on are counted until the request has ended: others cost little more than their text, which is counted.
const TREE_COUNTED_FROM: usize = 4 << 20;

/// Counts the tree of a body as memory of its user: many that wait for the storage or for webhooks exist at the same time.
fn reserve_tree(
    limits: &Limits,
    ctx: &Context,
    body: &super::RequestBody,
    content_type: Option<&str>,
) -> Result<Option<Reservation>, Status> {
    let super::RequestBody::Whole(bytes) = body else { return Ok(None) };
    let format = BodyFormat::of_content_type(content_type).unwrap_or(BodyFormat::Json);
    let tree = decode::tree_bytes(bytes, format);
    if tree < TREE_COUNTED_FROM { Ok(None) } else { limits.reserve(&ctx.user, tree).map(Some) }
}

/// The body of a delete is optional; an empty one leaves the options to the query.
async fn delete_body(body: super::RequestBody, content_type: Option<&str>) -> Result<Option<Value>, Status> {
    let bytes = body.read().await?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let decoded = decode::decode(&bytes, BodyFormat::of_content_type(content_type)?)?;
    let kind = &decoded.value["kind"];
    if !decoded.value.is_object() || !(kind.is_null() || kind == "DeleteOptions") {
        return Err(Status::bad_request("decoded object cannot be converted to DeleteOptions"));
    }
    Ok(Some(decoded.value))
}

fn target(resource: &Arc<Resource>, info: &RequestInfo) -> Result<Target, Status> {
    let kind = &resource.kind;
    let is_namespace = kind.gvk.group.is_empty() && kind.plural == "namespaces";
    let namespace = if kind.namespaced { info.namespace.clone() } else { String::new() };
    let misplaced = !kind.namespaced && !info.namespace.is_empty() && !is_namespace;
    let unscoped = kind.namespaced
        && info.namespace.is_empty()
        && !matches!(info.verb, Verb::List | Verb::Watch | Verb::Create | Verb::DeleteCollection);
    if misplaced || unscoped {
        return Err(Status::resource_not_served());
    }
    let name = if matches!(info.verb, Verb::List | Verb::DeleteCollection) { String::new() } else { info.name.clone() };
    Ok(Target { resource: resource.clone(), namespace, name, subresource: info.subresource.clone() })
}

fn check_verb(resource: &Resource, info: &RequestInfo) -> Result<(), Status> {
    let allowed = match &info.subresource {
        None => resource.kind.allows(info.verb),
        Some(name) => match resource.kind.subresource(name) {
            Some(sub) => sub.verbs.contains(&info.verb),
            None => return Err(Status::resource_not_served()),
        },
    };
    if allowed { Ok(()) } else { Err(Status::method_not_served()) }
}

/// Objects are made in collections and changed by name; a kind with namespaces is written to in one of them.
fn check_place(resource: &Resource, info: &RequestInfo) -> Result<(), Status> {
    let misplaced = match info.verb {
        Verb::Create => info.subresource.is_none() && !info.name.is_empty(),
        Verb::Update | Verb::Patch => info.name.is_empty(),
        _ => false,
    };
    let writes_everywhere = resource.kind.namespaced
        && info.namespace.is_empty()
        && matches!(info.verb, Verb::Create | Verb::DeleteCollection);
    if misplaced || writes_everywhere {
        return Err(Status::method_not_served());
    }
    if info.verb.is_of_collection() { Ok(()) } else { check_name(&info.name) }
}

/// Names that would read as another path.
fn check_name(name: &str) -> Result<(), Status> {
    let complaint = match name {
        "." | ".." => format!("may not be '{name}'"),
        _ if name.contains('/') => "may not contain '/'".to_owned(),
        _ if name.contains('%') => "may not contain '%'".to_owned(),
        _ => return Ok(()),
    };
    let shown = object::field::go_quote(name);
    Err(Status::bad_request(format!("Name parameter invalid: {shown}: {complaint}")))
}
