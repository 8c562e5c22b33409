//! API discovery: the resources of an API, and the mapping between kinds and resources.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, header};
use object::request::Verb;
use object::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource, Status};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use crate::client::ClusterClient;
use crate::remote::bounded::{MemoryBudget, OBJECT_MEMORY_MAX, read_value};

/// An unknown kind makes the mapper refresh, but not more often than this.
pub const REFRESH_INTERVAL: Duration = Duration::from_secs(2);

/// Most resources an API may serve, all versions of all groups together. Large clusters serve a few thousand.
pub const RESOURCES_MAX: usize = 20_000;
/// Most group versions that are asked for one by one.
const GROUP_VERSIONS_MAX: usize = 4_000;
/// Longest text of a resource that is kept, and most texts of a list, such as verbs.
const TEXT_LENGTH_MAX: usize = 256;
const TEXTS_MAX: usize = 64;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// A resource as described by discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiResource {
    pub gvr: GroupVersionResource,
    pub kind: String,
    pub singular: String,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    /// Names without the resource's own: `status`, `scale`.
    pub subresources: Vec<String>,
}

/// All resources of an API; versions in the server's order of preference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiResources {
    pub resources: Vec<ApiResource>,
    /// Groups whose server did not respond: their missing resources are unknown, not gone.
    pub incomplete: Vec<GroupVersion>,
}

/// The ETags of the discovery documents seen last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryTags {
    tags: BTreeMap<&'static str, String>,
}

impl ApiResource {
    pub fn gvk(&self) -> GroupVersionKind {
        self.gvr.group_version().kind(self.kind.clone())
    }

    pub fn has_verb(&self, verb: Verb) -> bool {
        self.verbs.iter().any(|name| name == verb.as_str())
    }
}

impl ApiResources {
    /// Queries the API: once each for `/api` and `/apis` if it supports aggregated discovery, else group by group.
    pub async fn discover(client: &ClusterClient) -> Result<Self, Status> {
        let mut found = Self::default();
        for root in ["/api", "/apis"] {
            let answer = match get(client, root, AGGREGATED).await {
                // A server without a core group, or with nothing else.
                Err(status) if status.code == 404 => continue,
                answer => answer?,
            };
            match answer["kind"].as_str() {
                Some("APIGroupDiscoveryList") => found.read_aggregated(&answer)?,
                Some("APIVersions") => {
                    for version in strings(&answer["versions"]).into_iter().take(GROUP_VERSIONS_MAX) {
                        found.discover_version(client, GroupVersion::new("", version)).await?;
                    }
                }
                _ => {
                    let versions = group_versions(&answer);
                    if versions.len() > GROUP_VERSIONS_MAX {
                        return Err(too_many(versions.len(), "group versions", GROUP_VERSIONS_MAX));
                    }
                    for gv in versions {
                        found.discover_version(client, gv).await?;
                    }
                }
            }
        }
        Ok(found)
    }

    /// Like `discover`, unless the server reports that its documents still match `tags`, which makes frequent calls
    /// cheap.
    pub async fn discover_changed(client: &ClusterClient, tags: &mut DiscoveryTags) -> Result<Option<Self>, Status> {
        let mut seen = BTreeMap::new();
        let mut is_same = true;
        for root in ["/api", "/apis"] {
            let request = Request::get(root).header(header::ACCEPT, AGGREGATED);
            let request = match tags.tags.get(root) {
                Some(tag) => request.header(header::IF_NONE_MATCH, tag),
                None => request,
            };
            let request = request.body(Bytes::new()).map_err(|e| Status::bad_request(e.to_string()))?;
            let response = client.raw(request).await?;
            is_same &= response.status() == http::StatusCode::NOT_MODIFIED;
            let tag = response.headers().get(header::ETAG).and_then(|tag| tag.to_str().ok());
            if let Some(tag) = tag.or(tags.tags.get(root).map(String::as_str).filter(|_| is_same)) {
                seen.insert(root, tag.to_owned());
            }
        }
        if is_same {
            return Ok(None);
        }
        let found = Self::discover(client).await?;
        // An incomplete document may become complete without a new tag.
        tags.tags = if found.incomplete.is_empty() { seen } else { BTreeMap::new() };
        Ok(Some(found))
    }

    async fn discover_version(&mut self, client: &ClusterClient, gv: GroupVersion) -> Result<(), Status> {
        let path = if gv.group.is_empty() { format!("/api/{gv}") } else { format!("/apis/{gv}") };
        match get(client, &path, "application/json").await {
            Ok(list) => self.read_list(&gv, &list)?,
            // The server of one group may be away; that is no reason to know nothing.
            Err(status) if matches!(status.code, 404 | 500..) => self.incomplete.push(gv),
            Err(status) => return Err(status),
        }
        Ok(())
    }

    fn read_list(&mut self, gv: &GroupVersion, list: &Value) -> Result<(), Status> {
        self.check_count(items(&list["resources"]).count())?;
        let (subresources, resources): (Vec<&Value>, Vec<&Value>) =
            items(&list["resources"]).partition(|r| text(&r["name"]).contains('/'));
        for resource in resources {
            let name = text(&resource["name"]);
            let of_this = subresources.iter().filter_map(|s| text(&s["name"]).split_once('/'));
            let of_this = of_this.filter(|(parent, _)| *parent == name);
            self.resources.push(ApiResource {
                gvr: gv.resource(name),
                kind: text(&resource["kind"]).to_owned(),
                singular: text(&resource["singularName"]).to_owned(),
                namespaced: resource["namespaced"] == true,
                verbs: strings(&resource["verbs"]),
                short_names: strings(&resource["shortNames"]),
                categories: strings(&resource["categories"]),
                subresources: of_this.map(|(_, sub)| sub.to_owned()).collect(),
            });
        }
        Ok(())
    }

    /// Refuses an API with more resources than any real one has: each may cost a mirror.
    fn check_count(&self, more: usize) -> Result<(), Status> {
        match self.resources.len() + more {
            count if count > RESOURCES_MAX => Err(too_many(count, "resources", RESOURCES_MAX)),
            _ => Ok(()),
        }
    }

    fn read_aggregated(&mut self, list: &Value) -> Result<(), Status> {
        for group in items(&list["items"]) {
            for version in items(&group["versions"]) {
                let gv = GroupVersion::new(text(&group["metadata"]["name"]), text(&version["version"]));
                if version["freshness"] == "Stale" {
                    self.incomplete.push(gv.clone());
                }
                self.check_count(items(&version["resources"]).count())?;
                self.resources.extend(items(&version["resources"]).map(|r| aggregated_resource(&gv, r)));
            }
        }
        Ok(())
    }
}

fn too_many(found: usize, what: &str, max: usize) -> Status {
    Status::internal(format!("discovery reports {found} {what}, and no more than {max} are read"))
}

fn aggregated_resource(gv: &GroupVersion, resource: &Value) -> ApiResource {
    let subresources = items(&resource["subresources"]).map(|s| text(&s["subresource"]).to_owned());
    ApiResource {
        gvr: gv.resource(text(&resource["resource"])),
        kind: text(&resource["responseKind"]["kind"]).to_owned(),
        singular: text(&resource["singularResource"]).to_owned(),
        namespaced: resource["scope"] == "Namespaced",
        verbs: strings(&resource["verbs"]),
        short_names: strings(&resource["shortNames"]),
        categories: strings(&resource["categories"]),
        subresources: subresources.collect(),
    }
}

/// Group versions of an `APIGroupList`, the preferred version of each group first.
fn group_versions(list: &Value) -> Vec<GroupVersion> {
    let mut found = Vec::new();
    for group in items(&list["groups"]) {
        let preferred = text(&group["preferredVersion"]["version"]);
        let mut versions: Vec<&str> = items(&group["versions"]).map(|v| text(&v["version"])).collect();
        versions.sort_by_key(|version| *version != preferred);
        found.extend(versions.into_iter().map(|version| GroupVersion::new(text(&group["name"]), version)));
    }
    found
}

async fn get(client: &ClusterClient, path: &str, accept: &str) -> Result<Value, Status> {
    let request = Request::get(path).header(header::ACCEPT, accept).body(Bytes::new());
    let request = request.map_err(|e| Status::bad_request(format!("{path} is not a path: {e}")))?;
    let response = client.raw(request).await?;
    match response.status().as_u16() {
        code if code >= 400 => Err(Status::from_response(code, response.body())),
        _ => read_value(response.body(), &MemoryBudget::new(OBJECT_MEMORY_MAX))
            .map_err(|e| Status::internal(format!("the discovery document at {path} is not understood: {e}"))),
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Names are short; a longer text names nothing.
fn text(value: &Value) -> &str {
    value.as_str().filter(|text| text.len() <= TEXT_LENGTH_MAX).unwrap_or_default()
}

fn strings(value: &Value) -> Vec<String> {
    let texts = items(value).filter_map(Value::as_str).filter(|text| text.len() <= TEXT_LENGTH_MAX);
    texts.take(TEXTS_MAX).map(str::to_owned).collect()
}

/// Maps kinds to resources and back. Results are cached; an unknown kind triggers a refresh.
pub struct RestMapper {
    client: ClusterClient,
    known: Mutex<Known>,
    /// Held during a refresh, so that many callers cause only one.
    refreshing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    catalog: Arc<Catalog>,
    refreshed: Option<Instant>,
}

#[derive(Default)]
struct Catalog {
    by_kind: BTreeMap<GroupKind, Vec<ApiResource>>,
    by_resource: BTreeMap<GroupResource, Vec<ApiResource>>,
    all: ApiResources,
}

impl RestMapper {
    pub fn new(client: ClusterClient) -> Self {
        Self { client, known: Mutex::default(), refreshing: tokio::sync::Mutex::default() }
    }

    /// The resource of the kind, in that version.
    pub async fn resource_of(&self, gvk: &GroupVersionKind) -> Result<ApiResource, Status> {
        let found = self.find(|catalog| {
            let versions = catalog.by_kind.get(&gvk.group_kind())?;
            versions.iter().find(|r| r.gvr.version == gvk.version).cloned()
        });
        found.await?.ok_or_else(|| {
            Status::new(
                404,
                "NotFound",
                format!("no matches for kind {:?} in version {:?}", gvk.kind, gvk.api_version()),
            )
        })
    }

    /// The resource of the kind, in the version the API prefers.
    pub async fn preferred_resource_of(&self, kind: &GroupKind) -> Result<ApiResource, Status> {
        let found = self.find(|catalog| catalog.by_kind.get(kind)?.first().cloned());
        found.await?.ok_or_else(|| Status::new(404, "NotFound", format!("no matches for kind {kind}")))
    }

    pub async fn kind_of(&self, gvr: &GroupVersionResource) -> Result<ApiResource, Status> {
        let found = self.find(|catalog| {
            let versions = catalog.by_resource.get(&gvr.group_resource())?;
            versions.iter().find(|r| r.gvr.version == gvr.version).cloned()
        });
        found.await?.ok_or_else(|| Status::new(404, "NotFound", format!("no matches for {gvr}")))
    }

    /// All known resources; queries the API if there are none.
    pub async fn all(&self) -> Result<ApiResources, Status> {
        let known = self.find(|catalog| (!catalog.all.resources.is_empty()).then(|| catalog.all.clone()));
        Ok(known.await?.unwrap_or_default())
    }

    /// Clears the cache; the next lookup queries the API.
    pub fn invalidate(&self) {
        *self.known.lock() = Known::default();
    }

    async fn find<T>(&self, look: impl Fn(&Catalog) -> Option<T>) -> Result<Option<T>, Status> {
        let before = Arc::clone(&self.known.lock().catalog);
        if let Some(found) = look(&before) {
            return Ok(Some(found));
        }
        let _asking = self.refreshing.lock().await;
        let (current, is_recent) = {
            let known = self.known.lock();
            (Arc::clone(&known.catalog), known.refreshed.is_some_and(|at| at.elapsed() < REFRESH_INTERVAL))
        };
        if is_recent {
            return Ok(look(&current));
        }
        let catalog = Arc::new(Catalog::new(ApiResources::discover(&self.client).await?));
        *self.known.lock() = Known { catalog: Arc::clone(&catalog), refreshed: Some(Instant::now()) };
        Ok(look(&catalog))
    }
}

impl Catalog {
    fn new(all: ApiResources) -> Self {
        let mut catalog = Self::default();
        for resource in &all.resources {
            let kind = GroupKind::new(resource.gvr.group.clone(), resource.kind.clone());
            catalog.by_kind.entry(kind).or_default().push(resource.clone());
            catalog.by_resource.entry(resource.gvr.group_resource()).or_default().push(resource.clone());
        }
        catalog.all = all;
        catalog
    }
}
