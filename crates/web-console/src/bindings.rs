//! Answers of bindings for pages that would otherwise have to load all of them: totals, windows by cluster or policy,
//! failovers, and flows of replicas.

mod counts;
mod failovers;
mod filter;
mod flows;

use std::sync::Arc;

use api::work::{CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS};
use apiserver::cache::Entry;
use apiserver::extension::{Extension, ExtensionRequest};
use apiserver::request::{ListSelection, RequestInfo};
use apiserver::respond::{self, Body};
use apiserver::served_resources::Resource;
use apiserver::server::Server;
use apiserver::verbs::Target;
use apiserver::verbs::list::list;
use async_trait::async_trait;
use http::{Method, Response};
use object::query::Query;
use object::request::{ListOptions, Verb};
use object::{Object, Status};
use serde_json::{Value, json};

use crate::bindings::counts::BindingCounts;
use crate::bindings::failovers::Failovers;
use crate::bindings::filter::BindingFilter;
use crate::bindings::flows::{FlowGrouping, ReplicaFlows};

const OBJECTS: &str = "/flotilla/v1alpha1/bindings";
const SUMMARY: &str = "/flotilla/v1alpha1/bindings/summary";
const FAILOVERS: &str = "/flotilla/v1alpha1/bindings/failovers";
const FLOWS: &str = "/flotilla/v1alpha1/bindings/flows";

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 500;
/// Bindings that are read before other requests get a turn.
const CHUNK: usize = 128;

/// Serves what all bindings together say. It has the rights of the caller: without permission to list bindings in the
/// namespace, or in all of them, there is no answer.
pub struct BindingViews;

#[async_trait]
impl Extension for BindingViews {
    fn handles(&self, path: &str) -> bool {
        [OBJECTS, SUMMARY, FAILOVERS, FLOWS].contains(&path)
    }

    fn judges_callers(&self) -> bool {
        true
    }

    async fn serve(&self, server: &Arc<Server>, request: ExtensionRequest) -> Result<Response<Body>, Status> {
        request.check_method(&Method::GET, "read bindings with GET")?;
        let query = &request.incoming.query;
        let filter = BindingFilter::parse(query)?;
        let readable = ReadableBindings::gather(server, &request, &filter).await?;
        let mut answer = match request.incoming.info.path.as_str() {
            SUMMARY => readable.summary().await,
            FAILOVERS => readable.failovers(query).await?,
            FLOWS => readable.flows(query).await?,
            _ => readable.window(query, &filter).await?,
        };
        answer["metadata"] = json!({"resourceVersion": readable.revision.to_string()});
        answer["unread"] = json!(readable.unread);
        Ok(respond::value(200, &answer))
    }
}

/// The bindings that the caller may list.
struct ReadableBindings {
    entries: Vec<Arc<Entry>>,
    revision: u64,
    /// Kinds that the caller may not list.
    unread: Vec<&'static str>,
}

impl ReadableBindings {
    async fn gather(server: &Arc<Server>, request: &ExtensionRequest, filter: &BindingFilter) -> Result<Self, Status> {
        let namespace = request.incoming.query.get("namespace").unwrap_or_default();
        let mut all = Self { entries: Vec::new(), revision: 0, unread: Vec::new() };
        for kind in [RESOURCE_BINDINGS, CLUSTER_RESOURCE_BINDINGS] {
            // Bindings of cluster-wide objects are in no namespace.
            if !kind.namespaced && !namespace.is_empty() {
                continue;
            }
            let Some(resource) = server.registry.find(kind.group, kind.version, kind.plural) else {
                return Err(Status::new(404, "NotFound", "this server has no bindings"));
            };
            let listing = RequestInfo { namespace: namespace.to_owned(), ..RequestInfo::on(kind.gvr(), Verb::List) };
            match server.authorize(&request.user, &listing).await {
                Err(refused) if refused.code == 403 && !kind.namespaced => {
                    all.unread.push(kind.plural);
                    continue;
                }
                verdict => verdict?,
            }
            let (entries, revision) = match filter.keys(kind.namespaced) {
                Some(keys) => find(&resource, namespace, keys).await?,
                None => {
                    let namespace = namespace.to_owned();
                    let target = Target { resource, namespace, name: String::new(), subresource: None };
                    let everything = ListSelection::of(ListOptions::default())?;
                    let listed = list(server.resources().objects, &target, &everything).await?;
                    (listed.entries, listed.revision)
                }
            };
            // A watch from the lower version misses nothing.
            all.revision = if all.revision == 0 { revision } else { all.revision.min(revision) };
            all.entries.extend(entries);
        }
        Ok(all)
    }

    async fn each(&self, mut visit: impl FnMut(&Arc<Object>)) {
        for (index, entry) in self.entries.iter().enumerate() {
            if index % CHUNK == CHUNK - 1 {
                tokio::task::yield_now().await;
            }
            visit(&entry.decode());
        }
    }

    async fn summary(&self) -> Value {
        let mut counts = BindingCounts::default();
        self.each(|binding| counts.add(binding)).await;
        counts.to_value()
    }

    async fn failovers(&self, query: &Query) -> Result<Value, Status> {
        let mut found = Failovers::of_cluster(query.get("cluster").unwrap_or_default());
        self.each(|binding| found.add(binding)).await;
        Ok(found.newest(number(query, "limit", LIMIT_DEFAULT, LIMIT_MAX)?))
    }

    async fn flows(&self, query: &Query) -> Result<Value, Status> {
        let mut flows = ReplicaFlows::by(FlowGrouping::parse(query.get("by").unwrap_or_default())?);
        self.each(|binding| flows.add(binding)).await;
        Ok(flows.to_value())
    }

    /// The bindings that match the query, by namespace and name.
    async fn window(&self, query: &Query, filter: &BindingFilter) -> Result<Value, Status> {
        let (offset, limit) =
            (number(query, "offset", 0, usize::MAX)?, number(query, "limit", LIMIT_DEFAULT, LIMIT_MAX)?);
        let (mut matching, mut items) = (0, Vec::new());
        self.each(|binding| {
            if !filter.matches(binding) {
                return;
            }
            if matching >= offset && items.len() < limit {
                items.push(binding.unmanaged().into_value());
            }
            matching += 1;
        })
        .await;
        Ok(json!({"items": items, "matching": matching, "total": self.entries.len()}))
    }
}

/// The objects with these keys, of one namespace or of all.
async fn find(resource: &Resource, namespace: &str, keys: Vec<String>) -> Result<(Vec<Arc<Entry>>, u64), Status> {
    resource.cache.fresh().await?;
    let is_inside = |key: &String| namespace.is_empty() || key.split_once('/').is_some_and(|(own, _)| own == namespace);
    let entries = keys.iter().filter(|key| is_inside(key)).filter_map(|key| resource.cache.get(key)).collect();
    Ok((entries, resource.cache.revision()))
}

fn number(query: &Query, name: &str, default: usize, max: usize) -> Result<usize, Status> {
    match query.get(name) {
        None => Ok(default),
        Some(text) => text
            .parse()
            .ok()
            .filter(|number| *number <= max)
            .ok_or_else(|| Status::bad_request(format!("{name} must be a number from 0 to {max}, not {text:?}"))),
    }
}
