//! Collections: kinds that are searched together under one name.

use jiff::Timestamp;
use manager_api::*;
use object::Status;

use super::query::Query;

const WORKLOADS: &[&str] =
    &["deployments.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch", "cronjobs.batch"];
const POLICIES: &[&str] = &[
    "propagationpolicies.policy.karmada.io",
    "clusterpropagationpolicies.policy.karmada.io",
    "overridepolicies.policy.karmada.io",
    "clusteroverridepolicies.policy.karmada.io",
];
const NETWORK: &[&str] = &["services", "ingresses.networking.k8s.io"];
const BINDINGS: &[&str] = &["resourcebindings.work.karmada.io", "clusterresourcebindings.work.karmada.io"];

/// Names with their kinds. `kuberesources` and `workloads` are names of Clusterpedia.
const COLLECTIONS: &[(&str, &[&[&str]])] = &[
    ("bindings", &[BINDINGS]),
    ("kuberesources", &[WORKLOADS, NETWORK, &["configmaps", "namespaces"]]),
    ("network", &[NETWORK]),
    ("policies", &[POLICIES]),
    ("workloads", &[WORKLOADS]),
];

fn kinds(parts: &[&[&str]]) -> Vec<String> {
    parts.iter().flat_map(|part| part.iter()).map(|kind| (*kind).to_owned()).collect()
}

pub fn all() -> Vec<Collection> {
    let shown = |(name, parts): &(&str, &[&[&str]])| Collection { name: (*name).to_owned(), kinds: kinds(parts) };
    COLLECTIONS.iter().map(shown).collect()
}

/// Returns the search over the kinds of a collection.
pub fn search_of(request: GetCollectionRequest) -> Result<SearchRequest, Status> {
    let missing = || Status::new(404, "NotFound", format!("there is no collection {:?}", request.name));
    let (_, parts) = COLLECTIONS.iter().find(|(name, _)| *name == request.name).ok_or_else(missing)?;
    if !Query::parse(&request.query, Timestamp::now())?.kinds.is_empty() {
        return Err(Status::bad_request("query: kind: is not a term of a collection, which has its own kinds"));
    }
    Ok(SearchRequest {
        query: format!("kind:{} {}", kinds(parts).join(","), request.query),
        page_size: request.page_size,
        page_token: request.page_token,
        order_by: request.order_by,
        include_objects: request.include_objects,
        clusters: request.clusters,
        at_least: request.at_least,
        fields: request.fields,
        include_total: request.include_total,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_is_a_search_over_its_kinds() {
        let request = |name: &str, query: &str| GetCollectionRequest {
            name: name.to_owned(),
            query: query.to_owned(),
            page_size: 7,
            ..GetCollectionRequest::default()
        };
        for collection in all() {
            let search = search_of(request(&collection.name, "name~web ns:shop")).expect("a search");
            let query = Query::parse(&search.query, Timestamp::now()).expect("a query");
            assert_eq!((query.kinds, search.page_size), (collection.kinds, 7));
            assert_eq!(Query::parse(&search.query, Timestamp::now()).expect("a query").namespace(), Some("shop"));
        }
        assert!(search_of(request("none", "")).is_err());
        assert!(search_of(request("workloads", "kind:secrets")).is_err());
    }
}
