//! The server as a backend of in-process clients: the same authorization, admission and validation, no socket, no encoding.

use std::sync::Arc;

use access::User;
use access::impersonation::Impersonation;
use async_trait::async_trait;
use bytes::Bytes;
use cluster_client::backend::{Backend, Identity, Origin, UserInfo};
use cluster_client::call::{
    self, ApiCall, ObjectList, PatchKind, Reply, ReplyBody, ResourceRef, Verb, WatchCall, WatchEvent, WatchEvents,
};
use futures::StreamExt;
use object::selector::{FieldSelector, LabelSelector};
use object::{GroupVersionResource, Object, Status};

use crate::audit::Record;
use crate::cache::{Change, ChangeKind};
use crate::context::Context;
use crate::convert;
use crate::decode::{self, Decoded};
use crate::http::{Peer, RequestBody};
use crate::request::{
    DeleteOptions, ListOptions, Propagation, RequestInfo, ResourceVersionMatch, Validation, WriteOptions,
    parse_revision,
};
use crate::served_resources::Resource;
use crate::server::Server;
use crate::subresource;
use crate::verbs::patch::PatchType;
use crate::verbs::watch::WatchItem;
use crate::verbs::{self, Answer, Target};

/// A server reached by a function call.
pub struct Direct {
    server: Arc<Server>,
}

/// The user agent of in-process callers, which names their field manager when they give none.
const AGENT: &str = "flotilla";

impl Direct {
    pub fn new(server: Arc<Server>) -> Self {
        Self { server }
    }

    /// The caller, or whom it acts as when it may.
    async fn context(&self, identity: &Identity) -> Result<Context, Status> {
        let caller = user_of(&identity.user);
        let Some(wanted) = identity.impersonated.clone() else { return Ok(Context::new(Arc::new(caller), AGENT)) };
        let wanted = Impersonation { user: wanted.name, uid: wanted.uid, groups: wanted.groups, extra: wanted.extra };
        wanted.check().map_err(Status::bad_request)?;
        for action in wanted.actions() {
            self.server.auth.require(&self.server, &caller, &action).await?;
        }
        Ok(Context::new(Arc::new(wanted.into_user()), AGENT))
    }

    fn find(&self, gvr: &GroupVersionResource) -> Result<Arc<Resource>, Status> {
        let found = self.server.registry.find(&gvr.group, &gvr.version, &gvr.resource);
        found.ok_or_else(Status::resource_not_served)
    }

    async fn authorize(&self, ctx: &Context, target: &Target, verb: &'static str) -> Result<(), Status> {
        let info = RequestInfo {
            namespace: target.namespace.clone(),
            subresource: target.subresource.clone(),
            name: target.name.clone(),
            ..RequestInfo::on(target.resource.kind.gvr(), verb)
        };
        self.server.auth.authorize(&self.server, &ctx.user, &info).await
    }

    async fn reply(&self, resource: &Resource, answer: Answer) -> Result<Reply, Status> {
        Ok(match answer {
            Answer::Stored { code, stored, tree } => {
                if let Some(tree) = tree.as_ref().filter(|_| resource.served_is_stored()) {
                    resource.cache.hand_over(stored.revision, tree);
                }
                Reply::object(code, convert::stored_to_served(&self.server, resource, &stored, tree).await?)
            }
            Answer::Object { code, object } => Reply::object(code, object),
            Answer::Status(value) => Reply::object(200, Arc::new(Object::from_value(value).unwrap_or_default())),
        })
    }

    async fn write(&self, ctx: &Context, target: &Target, verb: Verb) -> Result<Answer, Status> {
        let server = &self.server;
        match verb {
            Verb::Create { object, options } => {
                let options = write_options(options, None);
                let object = self.shape(ctx, target, object, &options)?;
                verbs::create::create(server, ctx, target, object, &options).await
            }
            Verb::Update { object, options } => {
                let options = write_options(options, None);
                let object = self.shape(ctx, target, object, &options)?;
                verbs::update::replace(server, ctx, target, object, &options).await
            }
            Verb::Patch { patch, options } => {
                let (patch_type, force) = match patch.kind {
                    PatchKind::Json => (PatchType::Json, None),
                    PatchKind::Merge => (PatchType::Merge, None),
                    PatchKind::Strategic => (PatchType::Strategic, None),
                    PatchKind::Apply { force } => (PatchType::Apply, Some(force)),
                };
                let mut options = write_options(options, force);
                if patch_type == PatchType::Apply && options.field_manager.is_empty() {
                    options.field_manager = AGENT.to_owned();
                }
                verbs::patch::patch_value(server, ctx, target, patch_type, patch.body, &options).await
            }
            Verb::Delete(options) => verbs::delete::delete(server, ctx, target, &delete_options(options)).await,
            Verb::Get { .. } | Verb::List(_) | Verb::DeleteCollection { .. } => {
                Err(Status::internal("reads do not come this way"))
            }
        }
    }

    fn shape(&self, ctx: &Context, target: &Target, object: Object, options: &WriteOptions) -> Result<Object, Status> {
        let decoded = Decoded { value: object.into_value(), duplicates: Vec::new() };
        decode::read_object(ctx, &target.resource, decoded, options.validation)
    }

    async fn special(
        &self,
        ctx: &Context,
        target: &Target,
        kind: &kinds::SubresourceKind,
        verb: Verb,
    ) -> Result<Answer, Status> {
        let (name, options, content_type, body) = match verb {
            Verb::Get { .. } => ("get", call::WriteOptions::default(), None, Bytes::new()),
            Verb::Create { object, options } => ("create", options, None, object.encode()),
            Verb::Update { object, options } => ("update", options, None, object.encode()),
            Verb::Patch { patch, options } => {
                let content_type = match patch.kind {
                    PatchKind::Json => "application/json-patch+json",
                    PatchKind::Merge => "application/merge-patch+json",
                    PatchKind::Strategic => "application/strategic-merge-patch+json",
                    PatchKind::Apply { .. } => "application/apply-patch+yaml",
                };
                ("patch", options, Some(content_type.to_owned()), Bytes::from(patch.body.to_string()))
            }
            _ => return Err(Status::method_not_allowed(&target.resource.kind.group_resource(), "delete")),
        };
        let asked = subresource::Call { verb: name, options: write_options(options, None), content_type, body };
        subresource::answer(&self.server, ctx, target, kind, &asked).await
    }
}

impl Direct {
    /// The audit record of a write, when the policy covers controllers in this process.
    fn record(&self, identity: &Identity, request: &ApiCall) -> Option<Record> {
        if matches!(request.verb, Verb::Get { .. } | Verb::List(_)) {
            return None;
        }
        let ApiCall { target, verb } = request;
        let record = self.server.audit.begin_in_process(&user_of(&identity.user), || RequestInfo {
            namespace: target.namespace.clone().unwrap_or_default(),
            name: target.name.clone().unwrap_or_default(),
            subresource: target.subresource.clone().unwrap_or_default(),
            ..RequestInfo::on(target.gvr.clone(), verb_name(verb))
        })?;
        match verb {
            Verb::Create { object, .. } | Verb::Update { object, .. } => record.request_object(|| object.to_value()),
            Verb::Patch { patch, .. } => record.request_object(|| patch.body.clone()),
            _ => {}
        }
        Some(record)
    }

    async fn perform(&self, identity: &Identity, request: ApiCall, record: Option<&Record>) -> Result<Reply, Status> {
        let ctx = self.context(identity).await?;
        if let Some(record) = record {
            record.impersonated(&user_of(&identity.user), &ctx.user);
        }
        let ApiCall { target: wanted, verb } = request;
        let resource = self.find(&wanted.gvr)?;
        let target = Target {
            namespace: if resource.kind.namespaced { wanted.namespace.unwrap_or_default() } else { String::new() },
            name: wanted.name.unwrap_or_default(),
            subresource: wanted.subresource.unwrap_or_default(),
            resource,
        };
        self.authorize(&ctx, &target, verb_name(&verb)).await?;
        let mut reply = match (subresource::special(&target)?, verb) {
            (Some(kind), verb) => {
                let answer = self.special(&ctx, &target, &kind, verb).await?;
                self.reply(&target.resource, answer).await?
            }
            (None, Verb::Create { object, options }) if !target.resource.kind.stored => {
                let options = write_options(options, None);
                let object = self.shape(&ctx, &target, object, &options)?;
                let object = crate::reviews::answer(&self.server, &ctx, &target, object, options).await?;
                Reply::object(201, Arc::new(object))
            }
            (None, Verb::Get { resource_version }) => {
                let revision = resource_version.as_deref().map(parse_revision).transpose()?;
                let answer = verbs::get::get(&self.server, &target, revision).await?;
                self.reply(&target.resource, answer).await?
            }
            (None, Verb::List(options)) => {
                let listed = verbs::list::list(&self.server, &target, &list_options(options)?).await?;
                self.list_reply(&target.resource, listed).await?
            }
            (None, Verb::DeleteCollection { delete, list }) => {
                let (list, delete) = (list_options(list)?, delete_options(delete));
                let listed = verbs::delete::delete_collection(&self.server, &ctx, &target, &list, &delete).await?;
                self.list_reply(&target.resource, listed).await?
            }
            (None, verb) => {
                let answer = self.write(&ctx, &target, verb).await?;
                self.reply(&target.resource, answer).await?
            }
        };
        reply.warnings = ctx.take_warnings();
        Ok(reply)
    }
}

#[async_trait]
impl Backend for Direct {
    async fn call(&self, identity: &Identity, request: ApiCall) -> Result<Reply, Status> {
        let record = self.record(identity, &request);
        let result = self.perform(identity, request, record.as_ref()).await;
        if let Some(record) = record {
            if let Ok(Reply { body: ReplyBody::Object(object), .. }) = &result {
                record.response_object(|| object.to_value());
            }
            record.response_complete(result.as_ref().map_or_else(|status| status.code, |reply| reply.code));
        }
        result
    }

    async fn watch(&self, identity: &Identity, request: WatchCall) -> Result<WatchEvents, Status> {
        let ctx = self.context(identity).await?;
        let resource = self.find(&request.gvr)?;
        let target = Target {
            resource: resource.clone(),
            namespace: request.namespace.unwrap_or_default(),
            name: String::new(),
            subresource: String::new(),
        };
        self.authorize(&ctx, &target, "watch").await?;
        let mut options = list_options(call::ListOptions {
            label_selector: request.label_selector,
            field_selector: request.field_selector,
            resource_version: request.resource_version,
            ..call::ListOptions::default()
        })?;
        options.bookmarks = request.bookmarks || request.send_initial_events;
        options.send_initial_events = request.send_initial_events.then_some(true);
        options.timeout_seconds = request.timeout.map(|t| t.as_secs().max(1));
        let watch = verbs::watch::watch(&self.server, &target, &options).await?;
        let state = (self.server.clone(), resource, watch);
        let events = futures::stream::unfold(state, |(server, resource, mut watch)| async move {
            let items = watch.next().await?;
            let mut events = Vec::with_capacity(items.len());
            for item in items {
                events.push(event(&server, &resource, item).await);
            }
            Some((futures::stream::iter(events), (server, resource, watch)))
        });
        Ok(Box::pin(events.flatten()))
    }

    fn origin(&self, object: &ResourceRef, resource_version: &str) -> Option<Arc<dyn Origin>> {
        let resource = self.find(&object.gvr).ok().filter(|resource| resource.served_is_stored())?;
        let name = object.name.as_deref()?;
        let key = match object.namespace.as_deref() {
            Some(namespace) if !namespace.is_empty() => format!("{namespace}/{name}"),
            _ => name.to_owned(),
        };
        let entry = resource.cache.get(&key)?;
        (entry.stored.revision.to_string() == resource_version).then_some(entry as Arc<dyn Origin>)
    }

    async fn raw(&self, identity: &Identity, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, Status> {
        let user = self.context(identity).await?.user;
        let peer = Arc::new(Peer { address: ([127, 0, 0, 1], 0).into(), certificates: Vec::new() });
        let response = crate::http::handle_as(self.server.clone(), peer, user, request.map(RequestBody::Whole)).await;
        let (parts, body) = response.into_parts();
        let bytes = http_body_util::BodyExt::collect(body).await.map_err(Status::internal)?.to_bytes();
        Ok(http::Response::from_parts(parts, bytes))
    }
}

impl Direct {
    async fn list_reply(&self, resource: &Resource, listed: verbs::list::Listed) -> Result<Reply, Status> {
        let mut items = Vec::with_capacity(listed.entries.len());
        for entry in &listed.entries {
            items.push(convert::shared_to_served(&self.server, resource, entry.decode()).await?);
        }
        Ok(Reply {
            code: 200,
            body: ReplyBody::List(ObjectList {
                api_version: resource.kind.gvk.api_version(),
                kind: resource.kind.list_kind.clone(),
                resource_version: listed.revision.to_string(),
                continue_token: listed.continue_token.unwrap_or_default(),
                remaining_item_count: listed.remaining,
                items,
            }),
            warnings: Vec::new(),
        })
    }
}

async fn event(server: &Server, resource: &Resource, item: WatchItem) -> WatchEvent {
    match item {
        WatchItem::Bookmark { revision, initial_events_end } => {
            WatchEvent::Bookmark { resource_version: revision.to_string(), initial_events_end }
        }
        WatchItem::Error(status) => WatchEvent::Error(status),
        WatchItem::Change(Change { kind, entry, .. }) => {
            match convert::shared_to_served(server, resource, resource.cache.share(&entry)).await {
                Err(status) => WatchEvent::Error(status),
                Ok(object) => match kind {
                    ChangeKind::Added => WatchEvent::Added(object),
                    ChangeKind::Modified => WatchEvent::Modified(object),
                    ChangeKind::Deleted => WatchEvent::Deleted(object),
                },
            }
        }
    }
}

fn user_of(user: &UserInfo) -> User {
    let UserInfo { name, uid, groups, extra } = user.clone();
    User { name, uid, groups, extra }
}

fn verb_name(verb: &Verb) -> &'static str {
    match verb {
        Verb::Get { .. } => "get",
        Verb::List(_) => "list",
        Verb::Create { .. } => "create",
        Verb::Update { .. } => "update",
        Verb::Patch { .. } => "patch",
        Verb::Delete(_) => "delete",
        Verb::DeleteCollection { .. } => "deletecollection",
    }
}

fn write_options(options: call::WriteOptions, force: Option<bool>) -> WriteOptions {
    WriteOptions {
        dry_run: options.dry_run,
        field_manager: options.field_manager.unwrap_or_default(),
        validation: match options.field_validation {
            Some(call::FieldValidation::Strict) => Validation::Strict,
            Some(call::FieldValidation::Ignore) => Validation::Ignore,
            _ => Validation::Warn,
        },
        force,
    }
}

fn list_options(options: call::ListOptions) -> Result<ListOptions, Status> {
    let refuse = |error: object::selector::SelectorError| Status::bad_request(error.to_string());
    Ok(ListOptions {
        labels: LabelSelector::parse(options.label_selector.as_deref().unwrap_or_default()).map_err(refuse)?,
        fields: FieldSelector::parse(options.field_selector.as_deref().unwrap_or_default()).map_err(refuse)?,
        limit: options.limit.unwrap_or(0) as usize,
        continue_token: options.continue_token,
        resource_version: options.resource_version.as_deref().map(parse_revision).transpose()?,
        version_match: options.resource_version_match.map(|m| match m {
            call::VersionMatch::Exact => ResourceVersionMatch::Exact,
            call::VersionMatch::NotOlderThan => ResourceVersionMatch::NotOlderThan,
        }),
        ..ListOptions::default()
    })
}

fn delete_options(options: call::DeleteOptions) -> DeleteOptions {
    DeleteOptions {
        dry_run: options.dry_run,
        grace_period_seconds: options.grace_period_seconds,
        propagation: options.propagation_policy.map(|p| match p {
            call::PropagationPolicy::Orphan => Propagation::Orphan,
            call::PropagationPolicy::Background => Propagation::Background,
            call::PropagationPolicy::Foreground => Propagation::Foreground,
        }),
        uid: options.preconditions.uid,
        resource_version: options.preconditions.resource_version,
        raw: serde_json::json!({"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions"}),
    }
}
