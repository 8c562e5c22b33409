//! Gets, lists and watches of members' objects: parses options and writes responses in the requested format.

use std::sync::{Arc, Weak};
use std::time::Duration;

use apiserver::http::Incoming;
use apiserver::request::RequestInfo;
use apiserver::respond::{self, Body, ForeignEvent, Format, ListHead, Shape};
use apiserver::served_resources::Resource;
use apiserver::server::Server;
use apiserver::subresource::ConnectRequest;
use apiserver::verbs::list::check_fields;
use futures::{Stream, StreamExt};
use http::{Method, Response};
use object::query::Query;
use object::request::{Subresource, User, Verb};
use object::selector::{FieldSelector, FieldTerm, LabelSelector};
use object::{Object, Status};
use search::{Filter, ListRequest, Listed, ReadField, ReadScope, Search, SearchEvent, Watch, WatchRequest};
use serde_json::json;
use tokio::time::Instant;

use super::ProxiedRequest;
use super::cluster_column::with_cluster_column;
use super::rights::{CallerRights, DECISION_TIME, MemberRequest};

/// A caller that reads, with what decides about it.
pub struct Reader<'a> {
    pub search: &'a Search,
    pub rights: &'a Arc<CallerRights>,
    pub server: &'a Arc<Server>,
    pub user: &'a Arc<User>,
}

impl Reader<'_> {
    /// Serves `search/cache/PATH` with Karmada's responses.
    pub async fn search(&self, request: &ConnectRequest) -> Result<Response<Body>, Status> {
        let info = &request.incoming.info;
        let asked = format!("{}/{}", Subresource::name_of(info.subresource.as_ref()), info.tail);
        let path = search::parse_path(&asked).map_err(Status::bad_request)?;
        match request.target.name.as_str() {
            "cache" => {}
            // Karmada's response is empty.
            "opensearch" => return Ok(respond::text(200, "text/plain; charset=utf-8", "")),
            other => return Err(Status::bad_request(format!("connect with unrecognized search category {other}"))),
        }
        let labels = request.incoming.query.get("labelSelector").unwrap_or_default();
        let labels = match LabelSelector::parse(labels) {
            Ok(labels) => labels,
            Err(error) => return Ok(refusal(400, &error.to_string())),
        };
        let Some(resource) = self.server.registry.find(&path.gvr.group, &path.gvr.version, &path.gvr.resource) else {
            return Ok(refusal(500, &format!("no matches for {}", path.gvr)));
        };
        let info = RequestInfo::parse(&Method::GET, &format!("/{}", asked.trim_matches('/')), "");
        let member_request = MemberRequest { info: &info, proxy_verb: Verb::Get, namespaced: resource.kind.namespaced };
        let scope = self.rights.scope(self.server, self.search, self.user, &member_request).await?;
        let filter = Filter { labels, ..Filter::everything(&path.namespace) };
        let (items, unread) = self.search.find(&path.gvr, &path.name, filter, scope).await;
        let kind = &resource.kind.gvk;
        let mut out = format!(
            "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{{}},\"items\":[",
            kind.kind,
            kind.api_version()
        )
        .into_bytes();
        out.extend(items.join(&b","[..]));
        out.extend_from_slice(b"]}\n");
        let mut answer = respond::text(200, "application/json; charset=utf-8", out);
        respond::add_warnings(&mut answer, &left_out(&unread));
        Ok(answer)
    }

    /// Serves reads from the cached objects of all members.
    pub async fn serve(&self, proxied: Arc<ProxiedRequest>, incoming: &Incoming) -> Result<Response<Body>, Status> {
        let query = &incoming.query;
        let format = Format::for_resource(&proxied.resource, &incoming.headers, query.flag("pretty"))?;
        let resource = match format.shape {
            Shape::Table => with_cluster_column(&proxied.resource),
            _ => Arc::clone(&proxied.resource),
        };
        let asked = proxied.of_member(&incoming.method);
        let scope = self.rights.scope(self.server, self.search, self.user, &asked).await?;
        match proxied.info.verb {
            Verb::Get => {
                let version = query.get("resourceVersion");
                let object = self.search.get(&proxied.gvr, &proxied.key(), version, &scope).await?;
                Ok(respond::foreign_object(&resource, &object, format))
            }
            Verb::List => {
                let request = ListRequest {
                    filter: filter(&proxied, query)?,
                    scope,
                    limit: number(query, "limit")?.unwrap_or(0) as usize,
                    continue_token: text(query, "continue"),
                    version: text(query, "resourceVersion"),
                    is_exact: query.get("resourceVersionMatch") == Some("Exact"),
                };
                let listed = self.search.list(&proxied.gvr, &request).await?;
                list(listed, &resource, query, format)
            }
            _ => {
                let request = WatchRequest {
                    filter: filter(&proxied, query)?,
                    scope,
                    version: text(query, "resourceVersion"),
                    bookmarks: query.flag("allowWatchBookmarks"),
                    initial_events: query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents")),
                    duration: number(query, "timeoutSeconds")?.map(Duration::from_secs),
                };
                let watch = self.search.watch(&proxied.gvr, request).await;
                let events = self.watched(watch, proxied).events();
                let events = events.take_until(self.server.stop.clone().cancelled_owned());
                respond::foreign_watch(resource, events, format)
            }
        }
    }

    fn watched(&self, watch: Watch, proxied: Arc<ProxiedRequest>) -> WatchedAsCaller {
        WatchedAsCaller {
            watch,
            proxied,
            search: self.search.clone(),
            rights: Arc::clone(self.rights),
            server: Arc::downgrade(self.server),
            user: Arc::clone(self.user),
            decide_at: Instant::now() + DECISION_TIME,
            is_over: false,
        }
    }
}

/// A watch that ends when its caller may see more or fewer objects than when it began.
struct WatchedAsCaller {
    watch: Watch,
    proxied: Arc<ProxiedRequest>,
    search: Search,
    rights: Arc<CallerRights>,
    /// Weak, so that an open watch does not keep a stopped server.
    server: Weak<Server>,
    user: Arc<User>,
    decide_at: Instant,
    is_over: bool,
}

impl WatchedAsCaller {
    fn events(self) -> impl Stream<Item = Vec<ForeignEvent>> {
        futures::stream::unfold(self, |mut watched| async move {
            let events = watched.next().await?;
            Some((events.into_iter().map(foreign).collect(), watched))
        })
    }

    async fn next(&mut self) -> Option<Vec<SearchEvent>> {
        while !self.is_over {
            let is_limited = *self.watch.scope() != ReadScope::Everything;
            let events = tokio::select! {
                events = self.watch.next() => Some(events?),
                () = tokio::time::sleep_until(self.decide_at), if is_limited => None,
            };
            let is_due = events.is_none() || self.watch.take_open_question();
            let mut events = events.unwrap_or_default();
            if is_due && let Err(status) = self.decide().await {
                self.is_over = true;
                events.push(SearchEvent::Error(status));
            }
            if !events.is_empty() {
                return Some(events);
            }
        }
        None
    }

    /// Decides again. The client of a watch whose rights changed lists again, which shows and hides what it must.
    async fn decide(&mut self) -> Result<(), Status> {
        let server = self.server.upgrade().ok_or_else(|| Status::unavailable("the server is stopping"))?;
        let asked = self.proxied.of_member(&Method::GET);
        let scope = self.rights.scope(&server, &self.search, &self.user, &asked).await?;
        self.decide_at = Instant::now() + DECISION_TIME;
        if !self.watch.scope().shows_the_same(&scope) {
            return Err(Status::gone("the permissions of the caller have changed, list again".to_owned()));
        }
        self.watch.refine_scope(scope);
        Ok(())
    }
}

fn refusal(code: u16, problem: &str) -> Response<Body> {
    respond::text(code, "application/json", format!("{}\n", json!({"error": problem})))
}

fn left_out(unread: &[String]) -> Vec<String> {
    unread.iter().map(|unread| format!("left out: {unread}")).collect()
}

fn list(listed: Listed, resource: &Resource, query: &Query, format: Format) -> Result<Response<Body>, Status> {
    let mut metadata = json!({"resourceVersion": listed.version});
    if !listed.continue_token.is_empty() {
        metadata["continue"] = listed.continue_token.into();
    }
    let kind = &resource.kind;
    let (api_version, kind) = match listed.is_cached {
        true => (kind.gvk.api_version(), kind.list_kind.clone()),
        false => ("v1".to_owned(), "List".to_owned()),
    };
    let head = ListHead { api_version, kind, metadata, is_kind_on_items: true };
    let mut answer = respond::foreign_list(resource, head, &listed.items, format, query.get("includeObject"))?;
    respond::add_warnings(&mut answer, &left_out(&listed.unread));
    Ok(answer)
}

fn filter(proxied: &ProxiedRequest, query: &Query) -> Result<Filter, Status> {
    let refuse = |error: object::selector::SelectorError| Status::bad_request(error.to_string());
    let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default()).map_err(refuse)?;
    let mut fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default()).map_err(refuse)?;
    check_fields(&proxied.target(), &fields)?;
    if !proxied.info.name.is_empty() {
        fields.terms.push(FieldTerm { field: "metadata.name".into(), equal: true, value: proxied.info.name.clone() });
    }
    let namespace = proxied.key().namespace;
    Ok(Filter { namespace, labels, fields, read_field: read_field(&proxied.resource) })
}

fn read_field(resource: &Arc<Resource>) -> ReadField {
    let resource = Arc::clone(resource);
    Arc::new(move |object: &Object, name: &str| {
        let field = resource.kind.selectable_fields.iter().find(|field| field.name == name);
        field.map(|field| field.value(object)).unwrap_or_default()
    })
}

fn text(query: &Query, key: &str) -> String {
    query.get(key).unwrap_or_default().to_owned()
}

fn number(query: &Query, key: &str) -> Result<Option<u64>, Status> {
    let refuse = |text: &str| Status::bad_request(format!("query parameter {key}: {text:?} is not a whole number"));
    let parsed = query.get(key).map(|text| text.parse::<i64>().map_err(|_| refuse(text))).transpose()?;
    Ok(parsed.map(|number| number.max(0).unsigned_abs()))
}

fn foreign(event: SearchEvent) -> ForeignEvent {
    match event {
        SearchEvent::Added(object) => ForeignEvent::Change("ADDED", object),
        SearchEvent::Modified(object) => ForeignEvent::Change("MODIFIED", object),
        SearchEvent::Deleted(object) => ForeignEvent::Change("DELETED", object),
        SearchEvent::Bookmark { version, initial_events_end } => ForeignEvent::Bookmark { version, initial_events_end },
        SearchEvent::Error(status) => ForeignEvent::Error(status),
    }
}
