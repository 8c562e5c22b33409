//! Plans the caches from registries and clusters.

use std::collections::{BTreeMap, BTreeSet};

use api::cluster::{ApiSupport, ClusterSpec, ClusterStatus};
use api::search::RegistrySpec;
use cluster_client::ApiResource;
use object::{GroupVersionResource, Object, Status};

use crate::opensearch::Destination;

/// Maximum number of caches, each with a watch on a member.
pub const CACHES_MAX: usize = 5_000;

/// A kind in a selector: apiVersion and kind.
pub type KindName = (String, String);

/// The cached namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    All,
    Only(BTreeSet<String>),
}

/// A planned cache. It is restarted if any of this changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCache {
    pub namespaces: Namespaces,
    /// Distinguishes a member from another of the same name, and from itself at another address.
    pub identity: String,
}

/// The planned caches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CachePlan {
    /// Resources selected by some registry, whether or not any member has them.
    pub registered: BTreeMap<GroupVersionResource, ApiResource>,
    pub caches: BTreeMap<(GroupVersionResource, String), PlannedCache>,
    /// Caches that are written to OpenSearch, where, and their namespaces.
    pub exports: BTreeMap<(GroupVersionResource, String, Destination), Namespaces>,
    /// Number of caches beyond `CACHES_MAX`.
    pub left_out: usize,
}

/// The parts of a cluster the plan depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its name and labels.
    head: Object,
    spec: ClusterSpec,
    is_ready: bool,
    support: BTreeMap<KindName, ApiSupport>,
    identity: String,
}

impl Candidate {
    pub fn of(cluster: &Object, kinds: &BTreeSet<KindName>) -> Result<Self, Status> {
        let mut spec: ClusterSpec = api::read(cluster)?;
        // Taints change often and do not matter here.
        spec.taints = Vec::new();
        let status: ClusterStatus = api::read_at(cluster, &["status"])?;
        let mut head = Object::default();
        head.set_name(cluster.name());
        for (key, value) in cluster.labels() {
            head.set_label(key, value);
        }
        let support = kinds.iter().map(|kind| (kind.clone(), status.api_support(&kind.0, &kind.1)));
        let identity = format!("{} {} {:?} {}", cluster.uid(), spec.api_endpoint, spec.sync_mode, spec.proxy_url);
        let is_ready = status.is_ready() && !cluster.is_deleting();
        Ok(Self { head, support: support.collect(), is_ready, identity, spec })
    }

    pub fn name(&self) -> &str {
        self.head.name()
    }
}

/// The kinds selected by registries.
pub fn named_kinds(registries: &[RegistrySpec]) -> BTreeSet<KindName> {
    let selectors = registries.iter().flat_map(|registry| &registry.resource_selectors);
    selectors.map(|selector| (selector.api_version.clone(), selector.kind.clone())).collect()
}

/// `resources` contains the selected kinds that the control plane serves; others are skipped.
pub fn plan_caches<'a>(
    registries: &[RegistrySpec],
    candidates: impl Iterator<Item = &'a Candidate> + Clone,
    resources: &BTreeMap<KindName, ApiResource>,
) -> CachePlan {
    let mut plan = CachePlan::default();
    for registry in registries {
        for selector in &registry.resource_selectors {
            let kind = (selector.api_version.clone(), selector.kind.clone());
            let Some(resource) = resources.get(&kind) else { continue };
            plan.registered.entry(resource.gvr.clone()).or_insert_with(|| resource.clone());
            let namespace = if resource.namespaced { selector.namespace.as_str() } else { "" };
            let meant = candidates.clone().filter(|candidate| {
                candidate.is_ready
                    && candidate.support.get(&kind) != Some(&ApiSupport::Disabled)
                    && registry.target_cluster.matches(&candidate.head, &candidate.spec)
            });
            let store = registry.backend_store.as_ref().and_then(|store| store.open_search.as_ref());
            for candidate in meant {
                plan.add(&resource.gvr, candidate, namespace, store.map(Destination::of));
            }
        }
    }
    plan
}

impl CachePlan {
    fn add(
        &mut self,
        gvr: &GroupVersionResource,
        candidate: &Candidate,
        namespace: &str,
        destination: Option<Destination>,
    ) {
        let key = (gvr.clone(), candidate.name().to_owned());
        if self.caches.len() >= CACHES_MAX && !self.caches.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let wanted = self.caches.entry(key).or_insert_with(|| PlannedCache {
            namespaces: Namespaces::Only(BTreeSet::new()),
            identity: candidate.identity.clone(),
        });
        wanted.namespaces.add(namespace);
        if let Some(destination) = destination {
            let export = self.exports.entry((gvr.clone(), candidate.name().to_owned(), destination));
            export.or_insert_with(|| Namespaces::Only(BTreeSet::new())).add(namespace);
        }
    }
}

impl Namespaces {
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(namespace),
        }
    }

    /// An empty name means all.
    fn add(&mut self, namespace: &str) {
        match self {
            Self::Only(_) if namespace.is_empty() => *self = Self::All,
            Self::Only(names) => drop(names.insert(namespace.to_owned())),
            Self::All => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn resource(api_version: &str, kind: &str, plural: &str, namespaced: bool) -> (KindName, ApiResource) {
        let gv = object::GroupVersion::parse(api_version).expect("a version");
        let found = ApiResource { gvr: gv.resource(plural), kind: kind.into(), namespaced, ..ApiResource::default() };
        ((api_version.into(), kind.into()), found)
    }

    fn cluster(name: &str, ready: &str, more: Value) -> Object {
        let mut cluster = Object::from_value(json!({"metadata": {"name": name, "uid": name, "labels": {"at": name}},
            "spec": {"syncMode": "Push", "region": "north"},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}}))
        .expect("a map");
        for (path, value) in more.as_object().into_iter().flatten() {
            cluster.set(&path.split('/').collect::<Vec<_>>(), value.clone());
        }
        cluster
    }

    #[track_caller]
    fn check(registries: Value, clusters: &[Object], expected: &[&str]) {
        let registries: Vec<RegistrySpec> = serde_json::from_value(registries).expect("registries");
        let resources = BTreeMap::from([
            resource("v1", "Pod", "pods", true),
            resource("v1", "Node", "nodes", false),
            resource("apps/v1", "Deployment", "deployments", true),
        ]);
        let kinds = named_kinds(&registries);
        let candidates: Vec<Candidate> =
            clusters.iter().map(|cluster| Candidate::of(cluster, &kinds).expect("readable")).collect();
        let plan = plan_caches(&registries, candidates.iter(), &resources);
        let registered = plan.registered.keys().map(|gvr| format!("+{}", gvr.resource));
        let caches = plan.caches.iter().map(|((gvr, cluster), wanted)| match &wanted.namespaces {
            Namespaces::All => format!("{} {cluster}", gvr.resource),
            Namespaces::Only(names) => {
                format!("{} {cluster} {}", gvr.resource, names.iter().cloned().collect::<Vec<_>>().join(","))
            }
        });
        assert_eq!(registered.chain(caches).collect::<Vec<_>>(), expected);
    }

    fn registry(clusters: Value, selectors: &[(&str, &str, &str)]) -> Value {
        let selectors = selectors.iter().map(
            |(api_version, kind, namespace)| json!({"apiVersion": api_version, "kind": kind, "namespace": namespace}),
        );
        json!({"targetCluster": clusters, "resourceSelectors": selectors.collect::<Value>()})
    }

    #[test]
    fn a_registry_caches_its_resources_in_selected_clusters() {
        let clusters = [cluster("a", "True", json!({})), cluster("b", "True", json!({}))];
        let pods = [("v1", "Pod", "")];
        check(json!([registry(json!({}), &pods)]), &clusters, &["+pods", "pods a", "pods b"]);
        check(json!([registry(json!({"clusterNames": ["b"]}), &pods)]), &clusters, &["+pods", "pods b"]);
        check(json!([registry(json!({"exclude": ["b"]}), &pods)]), &clusters, &["+pods", "pods a"]);
        check(
            json!([registry(json!({"labelSelector": {"matchLabels": {"at": "a"}}}), &pods)]),
            &clusters,
            &["+pods", "pods a"],
        );
        check(json!([]), &clusters, &[]);
        check(json!([registry(json!({}), &[])]), &clusters, &[]);
    }

    #[test]
    fn a_resource_is_registered_even_where_no_cluster_has_it() {
        let clusters = [cluster("a", "False", json!({})), cluster("b", "Unknown", json!({}))];
        check(json!([registry(json!({}), &[("v1", "Pod", "")])]), &clusters, &["+pods"]);
        let gone = [cluster("a", "True", json!({"metadata/deletionTimestamp": "2026-01-01T00:00:00Z"}))];
        check(json!([registry(json!({}), &[("v1", "Pod", "")])]), &gone, &["+pods"]);
        check(json!([registry(json!({}), &[("v1", "Unheard", "")])]), &[cluster("a", "True", json!({}))], &[]);
    }

    #[test]
    fn an_api_that_a_cluster_lacks_is_not_cached() {
        let enabled = json!([{"groupVersion": "v1", "resources": [{"name": "pods", "kind": "Pod"}]}]);
        let complete = json!([{"type": "Ready", "status": "True"},
            {"type": "CompleteAPIEnablements", "status": "True"}]);
        let known = cluster("a", "True", json!({"status/apiEnablements": enabled, "status/conditions": complete}));
        let guessed = cluster("b", "True", json!({"status/apiEnablements": enabled}));
        let asked = [("v1", "Pod", ""), ("apps/v1", "Deployment", "")];
        let expected = ["+pods", "+deployments", "pods a", "pods b", "deployments b"];
        check(json!([registry(json!({}), &asked)]), &[known, guessed], &expected);
    }

    #[test]
    fn namespaces_of_all_selectors_count_together() {
        let clusters = [cluster("a", "True", json!({})), cluster("b", "True", json!({}))];
        let everywhere = registry(json!({}), &[("v1", "Pod", "x"), ("v1", "Node", "x")]);
        let more = registry(json!({"clusterNames": ["a"]}), &[("v1", "Pod", "y"), ("v1", "Pod", "x")]);
        let all = registry(json!({"clusterNames": ["b"]}), &[("v1", "Pod", "")]);
        check(
            json!([everywhere, more]),
            &clusters,
            &["+nodes", "+pods", "nodes a", "nodes b", "pods a x,y", "pods b x"],
        );
        check(
            json!([everywhere, all, more]),
            &clusters,
            &["+nodes", "+pods", "nodes a", "nodes b", "pods a x,y", "pods b"],
        );
    }

    #[test]
    fn the_number_of_caches_is_bounded() {
        let registries: Vec<RegistrySpec> =
            serde_json::from_value(json!([registry(json!({}), &[("v1", "Pod", "")])])).expect("registries");
        let kinds = named_kinds(&registries);
        let clusters = (0..CACHES_MAX + 7).map(|n| cluster(&format!("c{n:05}"), "True", json!({})));
        let candidates: Vec<Candidate> = clusters.map(|c| Candidate::of(&c, &kinds).expect("readable")).collect();
        let resources = BTreeMap::from([resource("v1", "Pod", "pods", true)]);
        let plan = plan_caches(&registries, candidates.iter(), &resources);
        assert_eq!((plan.caches.len(), plan.left_out), (CACHES_MAX, 7));
    }
}
