//! `SearchService`: one query over many instances and their clusters, with the caller's rights in each.
//!
//! Instances are read through their APIs, which answer lists from their caches; clusters through the proxy of their instance.
//! A source that cannot be read is named in the response; it is never an empty list.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::cluster::CLUSTERS;
use async_trait::async_trait;
use cluster_client::{ApiResource, ApiResources, ClusterClient, ListOptions, ResourceRef};
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use manager_api::*;
use object::request::User;
use object::{Object, Status};
use serde_json::Value;
use transcode::Raw;
use transcode::call::Results;

use super::convert::{created, labels};
use super::lists::{ListItem, ListRequest, page_sorted};
use super::query::{Found, Query};
use super::{ApiCaller, ManagerApi, collections};

/// Sources that are read at the same time.
const PARALLEL: usize = 8;
/// Time for the answer of one source.
const SOURCE_TIMEOUT: Duration = Duration::from_secs(10);
/// Objects of one search; a query that finds more must be narrowed.
const OBJECTS_MAX: usize = 100_000;
/// Pages of one collection; a server chooses how small they are.
const PAGES_MAX: usize = 1000;
const KINDS_MAX: usize = 30;
const SUGGESTIONS_MAX: usize = 20;
const FACET_VALUES_MAX: usize = 50;
/// Kinds of a query that names none. Secrets are found by name only when they are asked for.
const DEFAULT_KINDS: [&str; 12] = [
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "jobs.batch",
    "cronjobs.batch",
    "services",
    "configmaps",
    "ingresses.networking.k8s.io",
    "namespaces",
    "propagationpolicies.policy.karmada.io",
    "clusterpropagationpolicies.policy.karmada.io",
    "clusters.cluster.karmada.io",
];
/// Short names that users type and that begin no plural.
const SHORT: [(&str, &str); 6] = [
    ("sts", "statefulsets"),
    ("ds", "daemonsets"),
    ("cj", "cronjobs"),
    ("svc", "services"),
    ("cm", "configmaps"),
    ("ns", "namespaces"),
];

/// Returns true for a usual abbreviation of a plural.
pub fn is_short(name: &str, plural: &str) -> bool {
    SHORT.iter().any(|(short, long)| *short == name && *long == plural)
}

/// An object with its source.
struct Hit {
    instance: Arc<str>,
    cluster: Arc<str>,
    object: Arc<Object>,
}

impl ListItem for Hit {
    fn found(&self) -> Found<'_> {
        Found { instance: &self.instance, cluster: &self.cluster, object: &self.object }
    }
}

/// The result of reading one source.
struct SourceResult {
    hits: Vec<Hit>,
    as_of: SourceVersion,
    unread: Vec<Unread>,
}

#[derive(Default)]
struct Searched {
    hits: Vec<Hit>,
    as_of: Vec<SourceVersion>,
    unread: Vec<Unread>,
}

/// Returns the resources that a name means: plural, singular, kind or short name, with or without its group.
fn resolve(name: &str, resources: &[ApiResource]) -> Vec<ApiResource> {
    let wanted = name.to_lowercase();
    let matches = |resource: &&ApiResource| {
        let plural = &resource.gvr.resource;
        let names = [plural.as_str(), resource.singular.as_str()];
        names.contains(&wanted.as_str())
            || resource.kind.eq_ignore_ascii_case(&wanted)
            || resource.short_names.contains(&wanted)
            || is_short(&wanted, plural)
            || format!("{plural}.{}", resource.gvr.group) == wanted
    };
    let mut found: Vec<ApiResource> = Vec::new();
    for resource in resources.iter().filter(matches) {
        let is_listed = resource.verbs.iter().any(|verb| verb == "list");
        let is_known = found
            .iter()
            .any(|other| other.gvr.resource == resource.gvr.resource && other.gvr.group == resource.gvr.group);
        // `events` exist in two groups with the same objects.
        let is_copy = resource.gvr.group == "events.k8s.io";
        if is_listed && !is_known && !is_copy {
            found.push(resource.clone());
        }
    }
    found
}

impl ManagerApi {
    async fn run(&self, user: &User, query: &Query, with_clusters: bool) -> Result<Searched, Status> {
        let names: Vec<String> = match query.kinds.is_empty() {
            true => DEFAULT_KINDS.iter().map(|name| (*name).to_owned()).collect(),
            false => query.kinds.clone(),
        };
        if names.len() > KINDS_MAX {
            return Err(Status::bad_request(format!("the query names more than {KINDS_MAX} kinds")));
        }
        let entries = self.operations.visible_instances(user).into_iter().map(|entry| entry.name());
        let entries: Vec<String> = entries.filter(|name| query.covers_instance(name)).collect();
        let mut reads: Vec<BoxFuture<'_, Vec<SourceResult>>> = Vec::new();
        for instance in &entries {
            reads.push(Box::pin(self.read_instance(user, instance, query, &names, with_clusters)));
        }
        let mut searched = Searched::default();
        let mut reads = stream::iter(reads).buffer_unordered(PARALLEL);
        while let Some(results) = reads.next().await {
            for result in results {
                searched.hits.extend(result.hits);
                searched.unread.extend(result.unread);
                if !result.as_of.version.is_empty() {
                    searched.as_of.push(result.as_of);
                }
            }
            if searched.hits.len() > OBJECTS_MAX {
                let text = format!("the query finds more than {OBJECTS_MAX} objects: narrow it");
                return Err(Status::bad_request(text));
            }
        }
        Ok(searched)
    }

    async fn read_instance(
        &self,
        user: &User,
        instance: &str,
        query: &Query,
        names: &[String],
        with_clusters: bool,
    ) -> Vec<SourceResult> {
        let unread = |cluster: &str, status: Status| SourceResult {
            hits: Vec::new(),
            as_of: SourceVersion::default(),
            unread: vec![Unread { instance: instance.to_owned(), cluster: cluster.to_owned(), reason: status.message }],
        };
        let client = match self.operations.instance_client(user, instance).await {
            Ok(client) => client,
            Err(status) => return vec![unread("", status)],
        };
        let mut results = Vec::new();
        if query.covers_cluster("") {
            let source = Source { client: &client, instance, cluster: "", prefix: String::new() };
            results.push(source.read_in_time(query, names).await.unwrap_or_else(|status| unread("", status)));
        }
        if with_clusters {
            match client.list_all(ResourceRef::all(&CLUSTERS.gvr()), ListOptions::default()).await {
                Ok(list) => {
                    if let Err(status) = self.operations.prepare_member_user(user, instance).await {
                        tracing::debug!(instance, %status, "members do not know the user yet");
                    }
                    for cluster in list.items.iter().filter(|cluster| query.covers_cluster(cluster.name())) {
                        let name = cluster.name();
                        let prefix = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{name}/proxy");
                        let source = Source { client: &client, instance, cluster: name, prefix };
                        let read = source.read_in_time(query, names).await;
                        results.push(read.unwrap_or_else(|status| unread(name, status)));
                    }
                }
                Err(status) => results.push(unread("*", status)),
            }
        }
        results
    }
}

/// An instance, or a cluster behind it.
struct Source<'a> {
    client: &'a ClusterClient,
    instance: &'a str,
    cluster: &'a str,
    /// Path of the proxy to the cluster.
    prefix: String,
}

impl Source<'_> {
    async fn read_in_time(&self, query: &Query, names: &[String]) -> Result<SourceResult, Status> {
        let read = tokio::time::timeout(SOURCE_TIMEOUT, self.read(query, names)).await;
        read.unwrap_or_else(|_| Err(Status::timeout("the source did not answer in time")))
    }

    async fn read(&self, query: &Query, names: &[String]) -> Result<SourceResult, Status> {
        let discovered = ApiResources::discover(self.client).await?;
        let (instance, cluster): (Arc<str>, Arc<str>) = (self.instance.into(), self.cluster.into());
        let mut result = SourceResult {
            hits: Vec::new(),
            as_of: SourceVersion {
                instance: self.instance.to_owned(),
                cluster: self.cluster.to_owned(),
                version: String::new(),
            },
            unread: Vec::new(),
        };
        for name in names {
            for resource in resolve(name, &discovered.resources) {
                let (items, version) = match self.list(&resource, query.namespace()).await {
                    Ok(list) => list,
                    // Kinds that a member does not have are not missing.
                    Err(status) if status.code == 404 && !self.cluster.is_empty() => continue,
                    Err(status) => {
                        let reason = format!("{}: {}", resource.gvr.resource, status.message);
                        let (instance, cluster) = (self.instance.to_owned(), self.cluster.to_owned());
                        result.unread.push(Unread { instance, cluster, reason });
                        continue;
                    }
                };
                result.as_of.version = version;
                let hits = items.into_iter().map(|object| Hit {
                    instance: Arc::clone(&instance),
                    cluster: Arc::clone(&cluster),
                    object,
                });
                result.hits.extend(hits.filter(|hit| query.matches(&hit.found())));
            }
        }
        Ok(result)
    }

    /// Reads a collection of an instance. A source may be hostile: its pages need not end.
    async fn list_bounded(&self, scope: ResourceRef) -> Result<(Vec<Arc<Object>>, String), Status> {
        let mut pages = self.client.pages(scope, ListOptions::default());
        let (mut items, mut version, mut count) = (Vec::new(), String::new(), 0);
        while let Some(mut page) = pages.next().await? {
            count += 1;
            items.append(&mut page.items);
            version = page.resource_version;
            if items.len() > OBJECTS_MAX || count > PAGES_MAX {
                return Err(Status::bad_request(format!("has more than {OBJECTS_MAX} objects: narrow the query")));
            }
        }
        Ok((items, version))
    }

    async fn list(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
    ) -> Result<(Vec<Arc<Object>>, String), Status> {
        let namespace = namespace.filter(|_| resource.namespaced);
        if self.prefix.is_empty() {
            let scope = match namespace {
                Some(namespace) => ResourceRef::within(&resource.gvr, namespace),
                None => ResourceRef::all(&resource.gvr),
            };
            return match self.list_bounded(scope.clone()).await {
                // The version of the first page was dropped meanwhile.
                Err(status) if status.is_expired() => self.list_bounded(scope).await,
                listed => listed,
            };
        }
        let group = match resource.gvr.group.as_str() {
            "" => format!("/api/{}", resource.gvr.version),
            group => format!("/apis/{group}/{}", resource.gvr.version),
        };
        let scope = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
        let path = format!("{}{group}{scope}/{}", self.prefix, resource.gvr.resource);
        let list = self.client.get_json(&path).await?;
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let items = list["items"].as_array().into_iter().flatten().filter_map(|item| {
            let mut object = Object::from_value(item.clone())?;
            object.set_gvk(&resource.gvk());
            Some(Arc::new(object))
        });
        Ok((items.collect(), version))
    }
}

fn result(hit: &Hit, with_object: bool) -> SearchResult {
    let object = &hit.object;
    // The content of Secrets is not searched for and not shown.
    let shown = (with_object && object.kind() != "Secret").then(|| object.unmanaged().into_value());
    SearchResult {
        instance: hit.instance.to_string(),
        cluster: hit.cluster.to_string(),
        api_version: object.api_version().to_owned(),
        kind: object.kind().to_owned(),
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        uid: object.uid().to_owned(),
        labels: labels(object),
        create_time: created(object),
        object: shown.and_then(|value| match value {
            Value::Object(fields) => Some(json::object::from_json(fields)),
            _ => None,
        }),
    }
}

fn facets(hits: &[Hit]) -> Vec<Facet> {
    let mut counts: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for hit in hits {
        let found = hit.found();
        for (field, value) in [
            ("instance", found.instance),
            ("cluster", found.cluster),
            ("namespace", found.object.namespace()),
            ("kind", found.object.kind()),
        ] {
            if !value.is_empty() {
                *counts.entry((field, value)).or_default() += 1;
            }
        }
    }
    let mut facets: Vec<Facet> = counts
        .into_iter()
        .map(|((field, value), count)| Facet { field: field.to_owned(), value: value.to_owned(), count })
        .collect();
    facets.sort_by(|a, b| (&a.field, b.count, &a.value).cmp(&(&b.field, a.count, &b.value)));
    let mut kept: BTreeMap<String, usize> = BTreeMap::new();
    facets.retain(|facet| {
        let count = kept.entry(facet.field.clone()).or_default();
        *count += 1;
        *count <= FACET_VALUES_MAX
    });
    facets
}

#[async_trait]
impl SearchService<ApiCaller> for ManagerApi {
    async fn search(&self, caller: &ApiCaller, request: SearchRequest) -> Result<SearchResponse, Status> {
        let query = Query::parse(&request.query, Timestamp::now())?;
        let searched = self.run(&caller.user, &query, request.clusters).await?;
        let facets = facets(&searched.hits);
        let list = ListRequest {
            filter: &request.query,
            order_by: &request.order_by,
            page_size: request.page_size,
            page_token: &request.page_token,
            page: 0,
            include_total: request.include_total,
            scope: format!("search {} {}", caller.user.name, request.clusters),
        };
        let found = page_sorted(&self.page_key, searched.hits, &query, &list)?;
        Ok(SearchResponse {
            items: found.items.iter().map(|hit| result(hit, request.include_objects)).collect(),
            next_page_token: found.next_page_token,
            total: found.total,
            as_of: searched.as_of,
            unread: searched.unread,
            facets,
        })
    }

    async fn suggest(&self, caller: &ApiCaller, request: SuggestRequest) -> Result<SuggestResponse, Status> {
        if request.text.is_empty() || request.text.contains(char::is_whitespace) {
            return Err(Status::bad_request("text: must be one word"));
        }
        let limit = usize::try_from(request.limit).ok().filter(|limit| (1..=SUGGESTIONS_MAX).contains(limit));
        let query = Query::parse(&format!("name~{}", request.text), Timestamp::now())?;
        let mut searched = self.run(&caller.user, &query, false).await?;
        let rank = |hit: &Hit| (!hit.object.name().starts_with(&request.text), hit.object.name().to_owned());
        searched.hits.sort_by_key(rank);
        let suggestions = searched.hits.iter().take(limit.unwrap_or(SUGGESTIONS_MAX)).map(|hit| Suggestion {
            instance: hit.instance.to_string(),
            kind: hit.object.kind().to_owned(),
            namespace: hit.object.namespace().to_owned(),
            name: hit.object.name().to_owned(),
        });
        Ok(SuggestResponse { suggestions: suggestions.collect(), unread: searched.unread })
    }

    async fn list_sources(&self, caller: &ApiCaller, _: ListSourcesRequest) -> Result<ListSourcesResponse, Status> {
        let mut sources = Vec::new();
        for entry in self.operations.visible_instances(&caller.user) {
            let instance = entry.name();
            let client = self.operations.instance_client(&caller.user, &instance).await;
            let problem = client.as_ref().err().map(|status| status.message.clone()).unwrap_or_default();
            sources.push(SearchSource {
                instance: instance.clone(),
                cluster: String::new(),
                reads: "cache".to_owned(),
                available: client.is_ok(),
                message: problem,
            });
            let Ok(client) = client else { continue };
            let list = client.list_all(ResourceRef::all(&CLUSTERS.gvr()), ListOptions::default()).await;
            for cluster in list.map(|list| list.items).unwrap_or_default() {
                let ready = object::conditions::find(&cluster, "Ready");
                sources.push(SearchSource {
                    instance: instance.clone(),
                    cluster: cluster.name().to_owned(),
                    reads: "live".to_owned(),
                    available: ready.is_some_and(|ready| ready.is_true()),
                    message: ready.map(|ready| ready.message().to_owned()).unwrap_or_default(),
                });
            }
        }
        Ok(ListSourcesResponse { sources })
    }

    async fn list_collections(
        &self,
        _: &ApiCaller,
        _: ListCollectionsRequest,
    ) -> Result<ListCollectionsResponse, Status> {
        Ok(ListCollectionsResponse { collections: collections::all() })
    }

    async fn get_collection(
        &self,
        caller: &ApiCaller,
        request: GetCollectionRequest,
    ) -> Result<SearchResponse, Status> {
        self.search(caller, collections::search_of(request)?).await
    }

    async fn export(&self, caller: &ApiCaller, request: SearchRequest) -> Result<Results<Raw>, Status> {
        let query = Query::parse(&request.query, Timestamp::now())?;
        let searched = self.run(&caller.user, &query, request.clusters).await?;
        let unread = searched.unread.into_iter().map(|unread| serde_json::json!({"unread": unread}));
        let with_object = request.include_objects;
        let items = searched.hits.into_iter().map(move |hit| serde_json::json!({"item": result(&hit, with_object)}));
        let lines = unread.chain(items).map(|value| Ok(Raw::text("application/x-ndjson", format!("{value}\n"))));
        Ok(Box::pin(stream::iter(lines)))
    }
}
