//! `EventService`.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use cluster_client::{ListOptions, ResourceRef, WatchCall, WatchEvent};
use futures::StreamExt;
use manager_api::*;
use object::builtin;
use object::{GroupVersionResource, Object, Status};
use transcode::call::Results;

use super::convert::timestamp;
use super::lists::{ListRequest, PAGE_SIZE_MAX};
use super::{ApiCaller, ManagerApi};

fn events() -> GroupVersionResource {
    builtin::events()
}

fn scope(namespace: &str) -> ResourceRef {
    match namespace {
        "" => ResourceRef::all(&events()),
        namespace => ResourceRef::within(&events(), namespace),
    }
}

/// The time an event happened last.
pub fn last_time(event: &Object) -> &str {
    let times = [event.str_at(&["lastTimestamp"]), event.str_at(&["eventTime"]), event.creation_timestamp()];
    times.into_iter().find(|time| !time.is_empty()).unwrap_or_default()
}

fn message(event: &Object) -> Event {
    let text = |path: &[&str]| event.str_at(path).to_owned();
    let source = text(&["source", "component"]);
    Event {
        namespace: event.namespace().to_owned(),
        kind: text(&["involvedObject", "kind"]),
        name: text(&["involvedObject", "name"]),
        r#type: text(&["type"]),
        reason: text(&["reason"]),
        message: text(&["message"]),
        source: if source.is_empty() { text(&["reportingComponent"]) } else { source },
        count: i32::try_from(event.i64_at(&["count"]).unwrap_or(1)).unwrap_or(i32::MAX),
        first_time: timestamp(event.str_at(&["firstTimestamp"])),
        last_time: timestamp(last_time(event)),
    }
}

#[async_trait]
impl EventService<ApiCaller> for ManagerApi {
    async fn list_events(&self, caller: &ApiCaller, request: ListEventsRequest) -> Result<ListEventsResponse, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let list = client.list_all(scope(&request.namespace), ListOptions::default()).await?;
        let is_meant = |event: &Arc<Object>| {
            let field = |path: &[&str], wanted: &str| wanted.is_empty() || event.str_at(path) == wanted;
            field(&["involvedObject", "kind"], &request.kind)
                && field(&["involvedObject", "name"], &request.name)
                && field(&["type"], &request.r#type)
        };
        let found: Vec<Newest> = list.items.into_iter().filter(is_meant).map(Newest::new).collect();
        let page = super::lists::page(
            &self.page_key,
            found,
            &ListRequest {
                order_by: "created desc",
                page_size: request.page_size.min(PAGE_SIZE_MAX as i32),
                page_token: &request.page_token,
                page: request.page,
                include_total: request.include_total,
                scope: format!(
                    "events {} {} {} {} {} {}",
                    caller.user.name, request.instance, request.namespace, request.kind, request.name, request.r#type
                ),
                filter: "",
            },
        )?;
        Ok(ListEventsResponse {
            events: page.items.iter().map(|event| message(&event.0)).collect(),
            next_page_token: page.next_page_token,
            total: page.total,
            version: self.version_of(&request.instance, &list.resource_version),
        })
    }

    async fn watch_events(&self, caller: &ApiCaller, request: WatchEventsRequest) -> Result<Results<Event>, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let namespace = Some(request.namespace.clone()).filter(|namespace| !namespace.is_empty());
        let call = WatchCall { gvr: events(), namespace, options: ListOptions::default(), as_table: false };
        let stream = client.watch(call).await?;
        let (operations, user) = (Arc::clone(&self.operations), Arc::clone(&caller.user));
        let messages = stream.filter_map(move |event| {
            let is_visible = operations.visible_instance(&user, &request.instance);
            let shown = match (is_visible, event) {
                (Err(status), _) | (Ok(_), WatchEvent::Error(status)) => Some(Err(status)),
                (Ok(_), WatchEvent::Added(event) | WatchEvent::Modified(event)) => Some(Ok(message(&event))),
                _ => None,
            };
            async move { shown }
        });
        Ok(Box::pin(messages))
    }

    async fn list_event_kinds(
        &self,
        caller: &ApiCaller,
        request: ListEventKindsRequest,
    ) -> Result<ListEventKindsResponse, Status> {
        let client = self.operations.instance_client(&caller.user, &request.instance).await?;
        let list = client.list_all(scope(""), ListOptions::default()).await?;
        let kinds: BTreeSet<String> =
            list.items.iter().map(|event| event.str_at(&["involvedObject", "kind"]).to_owned()).collect();
        Ok(ListEventKindsResponse { kinds: kinds.into_iter().collect() })
    }
}

/// An event that sorts by the time it happened last.
struct Newest(Object);

impl Newest {
    fn new(event: Arc<Object>) -> Self {
        let mut event = Arc::unwrap_or_clone(event);
        let last = last_time(&event).to_owned();
        event.set(&["metadata", "creationTimestamp"], last);
        Self(event)
    }
}

impl super::lists::ListItem for Newest {
    fn found(&self) -> super::query::Found<'_> {
        super::query::Found { instance: "", cluster: "", object: &self.0 }
    }
}
