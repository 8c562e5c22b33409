//! The server as a backend of in-process clients: the same authorization, admission and validation, no socket, no encoding.

use std::sync::Arc;

use access::impersonation;
use async_trait::async_trait;
use bytes::Bytes;
use cluster_client::backend::{Backend, Identity, Origin};
use cluster_client::call::{
    ApiCall, ApiRequest, ObjectList, Reply, ReplyBody, ResourceRef, WatchCall, WatchEvent, WatchEvents,
};
use futures::StreamExt;
use object::request::{Verb, WriteOptions};
use object::{GroupVersionResource, Object, Status};

use crate::audit::Record;
use crate::cache::{Change, ChangeKind};
use crate::context::Context;
use crate::decode::{Decoded, Findings};
use crate::http::{Peer, RequestBody};
use crate::request::{ListSelection, RequestInfo, parse_revision};
use crate::resources::Resources;
use crate::served_resources::Resource;
use crate::server::Server;
use crate::verbs::watch::WatchItem;
use crate::verbs::{self, Answer, Target};
use crate::{convert, shape, subresource};

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

    /// The caller, or the user it impersonates when it may.
    async fn context(&self, identity: &Identity) -> Result<Context, Status> {
        let caller = &identity.user;
        let Some(wanted) = &identity.impersonated else {
            return Ok(Context::new(Arc::new(caller.clone()), AGENT));
        };
        impersonation::check(wanted).map_err(Status::bad_request)?;
        for action in impersonation::actions(wanted) {
            self.server.require(caller, &action).await?;
        }
        Ok(Context::new(Arc::new(impersonation::into_user(wanted.clone())), AGENT))
    }

    fn find(&self, gvr: &GroupVersionResource) -> Result<Arc<Resource>, Status> {
        let found = self.server.registry.find(&gvr.group, &gvr.version, &gvr.resource);
        found.ok_or_else(Status::resource_not_served)
    }

    async fn authorize(&self, ctx: &Context, target: &Target, verb: Verb) -> Result<(), Status> {
        let info = RequestInfo {
            namespace: target.namespace.clone(),
            subresource: target.subresource.clone(),
            name: target.name.clone(),
            ..RequestInfo::on(target.resource.kind.gvr(), verb)
        };
        self.server.authorize(&ctx.user, &info).await
    }

    async fn reply(&self, resource: &Resource, answer: Answer) -> Result<Reply, Status> {
        Ok(match answer {
            Answer::Stored { code, stored, tree } => {
                if let Some(tree) = tree.as_ref().filter(|_| resource.served_is_stored()) {
                    resource.cache.hand_over(stored.revision, tree);
                }
                Reply::object(code, convert::stored_to_served(self.server.resources(), resource, &stored, tree).await?)
            }
            Answer::Object { code, object } => Reply::object(code, object),
            Answer::Status(value) => Reply::object(200, Arc::new(Object::from_value(value).unwrap_or_default())),
        })
    }

    async fn write(&self, ctx: &Context, target: &Target, request: ApiRequest) -> Result<Answer, Status> {
        let scope = self.server.write_scope();
        match request {
            ApiRequest::Create { object, options } => {
                let object = self.shape(ctx, target, object, &options)?;
                verbs::create::create(scope, ctx, target, object, &options).await
            }
            ApiRequest::Update { object, options } => {
                let object = self.shape(ctx, target, object, &options)?;
                verbs::update::replace(scope, ctx, target, object, &options).await
            }
            ApiRequest::Patch { patch, mut options } => {
                if patch.kind.is_apply() {
                    options.field_manager.get_or_insert_with(|| AGENT.to_owned());
                }
                verbs::patch::patch_value(scope, ctx, target, patch.kind, patch.body, &options).await
            }
            ApiRequest::Delete(options) => verbs::delete::delete(scope, ctx, target, &options.into()).await,
            ApiRequest::Get { .. } | ApiRequest::List(_) | ApiRequest::DeleteCollection { .. } => {
                Err(Status::internal("reads do not come this way"))
            }
        }
    }

    fn shape(&self, ctx: &Context, target: &Target, object: Object, options: &WriteOptions) -> Result<Object, Status> {
        let decoded = Decoded { value: object.into_value(), findings: Findings::default() };
        shape::read_object(ctx, &target.resource, decoded, options.field_validation.unwrap_or_default())
    }

    async fn special(
        &self,
        ctx: &Context,
        target: &Target,
        kind: &kinds::SubresourceKind,
        request: ApiRequest,
    ) -> Result<Answer, Status> {
        let verb = request.verb();
        let (options, content_type, body) = match request {
            ApiRequest::Get { .. } => (WriteOptions::default(), None, Bytes::new()),
            ApiRequest::Create { object, options } | ApiRequest::Update { object, options } => {
                (options, None, object.encode())
            }
            ApiRequest::Patch { patch, options } => {
                (options, Some(patch.kind.content_type().to_owned()), Bytes::from(patch.body.to_string()))
            }
            _ => return Err(Status::method_not_allowed(&target.resource.kind.group_resource(), Verb::Delete)),
        };
        let asked = subresource::Call { verb, options, content_type, body };
        subresource::answer(self.server.write_scope(), ctx, target, kind, &asked).await
    }
}

impl Direct {
    /// The audit record of a write, when there is an audit log.
    fn record(&self, identity: &Identity, request: &ApiCall) -> Option<Record> {
        let ApiCall { target, request } = request;
        if request.verb().is_read_only() {
            return None;
        }
        let record = self.server.audit.begin_in_process(&identity.user, || RequestInfo {
            namespace: target.namespace.clone().unwrap_or_default(),
            name: target.name.clone().unwrap_or_default(),
            subresource: target.subresource.clone(),
            ..RequestInfo::on(target.gvr.clone(), request.verb())
        })?;
        match request {
            ApiRequest::Create { object, .. } | ApiRequest::Update { object, .. } => {
                record.request_object(|| object.to_value());
            }
            ApiRequest::Patch { patch, .. } => record.request_object(|| patch.body.clone()),
            _ => {}
        }
        Some(record)
    }

    async fn perform(&self, identity: &Identity, request: ApiCall, record: Option<&Record>) -> Result<Reply, Status> {
        let ctx = self.context(identity).await?;
        if let Some(record) = record {
            record.impersonated(&identity.user, &ctx.user);
        }
        let ApiCall { target: wanted, request } = request;
        let resource = self.find(&wanted.gvr)?;
        let target = Target {
            namespace: if resource.kind.namespaced { wanted.namespace.unwrap_or_default() } else { String::new() },
            name: wanted.name.unwrap_or_default(),
            subresource: wanted.subresource,
            resource,
        };
        self.authorize(&ctx, &target, request.verb()).await?;
        let mut reply = match (subresource::special(&target)?, request) {
            (Some(kind), request) => {
                let answer = self.special(&ctx, &target, &kind, request).await?;
                self.reply(&target.resource, answer).await?
            }
            (None, ApiRequest::Create { object, options }) if !target.resource.kind.stored => {
                let object = self.shape(&ctx, &target, object, &options)?;
                let object = crate::reviews::answer(self.server.write_scope(), &ctx, &target, object, options).await?;
                Reply::object(201, Arc::new(object))
            }
            (None, ApiRequest::Get { resource_version }) => {
                let revision = resource_version.as_deref().map(parse_revision).transpose()?;
                let answer = verbs::get::get(&self.server.objects, &target, revision).await?;
                self.reply(&target.resource, answer).await?
            }
            (None, ApiRequest::List(options)) => {
                let listed = verbs::list::list(&self.server.objects, &target, &ListSelection::of(options)?).await?;
                self.list_reply(&target.resource, listed).await?
            }
            (None, ApiRequest::DeleteCollection { delete, list }) => {
                let (list, delete) = (ListSelection::of(list)?, delete.into());
                let listed =
                    verbs::delete::delete_collection(self.server.write_scope(), &ctx, &target, &list, &delete).await?;
                self.list_reply(&target.resource, listed).await?
            }
            (None, request) => {
                let answer = self.write(&ctx, &target, request).await?;
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
            // A role in a namespace says nothing about objects that are in none.
            namespace: if resource.kind.namespaced { request.namespace.unwrap_or_default() } else { String::new() },
            name: String::new(),
            subresource: None,
        };
        self.authorize(&ctx, &target, Verb::Watch).await?;
        let mut options = request.options;
        // A streaming list ends its initial events by a bookmark.
        options.bookmarks |= options.send_initial_events == Some(true);
        let watch = verbs::watch::watch(self.server.read_scope(), &target, &ListSelection::of(options)?).await?;
        let state = (self.server.clone(), resource, watch);
        let events = futures::stream::unfold(state, |(server, resource, mut watch)| async move {
            let items = watch.next().await?;
            let mut events = Vec::with_capacity(items.len());
            for item in items {
                events.push(event(server.resources(), &resource, item).await);
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
        let peer = Arc::new(Peer { address: ([127, 0, 0, 1], 0).into(), certificates: Vec::new(), server_name: None });
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
            items.push(convert::shared_to_served(self.server.resources(), resource, entry.decode()).await?);
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

async fn event(resources: Resources<'_>, resource: &Resource, item: WatchItem) -> WatchEvent {
    match item {
        WatchItem::Bookmark { revision, initial_events_end } => {
            WatchEvent::Bookmark { resource_version: revision.to_string(), initial_events_end }
        }
        WatchItem::Error(status) => WatchEvent::Error(status),
        WatchItem::Change(Change { kind, entry, .. }) => {
            match convert::shared_to_served(resources, resource, resource.cache.share(&entry)).await {
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
