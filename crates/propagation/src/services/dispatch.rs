//! The slices that consumers of a MultiClusterService get, out of those collected from its providers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::names::{cluster_of_execution_namespace, execution_namespace, work_name};
use api::networking::{
    ANNOTATION_SLICE_PROVIDER, CONTROLLER_DISPATCH, LABEL_SLICE_CONTROLLER, LABEL_SLICE_SERVICE, SERVICE_NAME,
    SERVICE_NAMESPACE,
};
use object::Object;
use serde_json::Value;

use crate::services::SLICE_KIND;
use crate::services::exposure::Clusters;
use crate::services::slices::{
    SLICES_PER_SERVICE_MAX, SliceRefusal, carried_slice, check_carried, check_name, is_collected, rebuilt,
};
use crate::works::DesiredWork;

/// Everything a plan is made of.
pub struct DispatchFacts<'a> {
    /// `None` when it is gone, is being deleted or has another type: nothing is dispatched then.
    pub service: Option<&'a Object>,
    pub clusters: &'a Clusters,
    /// Consumers that can take slices now. Others keep what they have.
    pub able: &'a BTreeSet<String>,
    /// All Works with the labels of the service.
    pub works: &'a [Arc<Object>],
    /// The Work of this key that is none of those; the name may be taken.
    pub other_work: &'a dyn Fn(&str, &str) -> Option<Arc<Object>>,
}

/// The writes of one service.
#[derive(Debug, Default)]
pub struct DispatchPlan {
    pub works: Vec<DesiredWork>,
    pub deletes: Vec<Arc<Object>>,
    pub refused: BTreeSet<SliceRefusal>,
    /// Collected slices that are used.
    pub sources: usize,
    pub unreachable: Vec<Unreachable>,
}

/// Endpoints of a provider that a consumer is known not to reach.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unreachable {
    pub consumer: String,
    pub provider: String,
    /// An address that both have, each for an endpoint of its own.
    pub address: String,
}

/// A slice that may be dispatched.
struct Source<'a> {
    cluster: &'a str,
    work: &'a Object,
    slice: &'a Value,
}

/// Plans the Works of consumers.
pub fn plan_dispatch(facts: &DispatchFacts<'_>) -> DispatchPlan {
    let mut plan = DispatchPlan::default();
    let dispatched: Vec<&Arc<Object>> = facts.works.iter().filter(|work| is_dispatched(work)).collect();
    let mut kept = BTreeSet::new();
    if let Some(service) = facts.service {
        let sources = check_sources(facts, service, &mut plan);
        plan.sources = sources.len();
        plan.unreachable = find_unreachable(&sources, &facts.clusters.consumers);
        let by_key = facts.works.iter().map(|work| ((work.namespace(), work.name()), work)).collect();
        for consumer in &facts.clusters.consumers {
            let mut names = BTreeSet::new();
            for source in sources.iter().filter(|source| source.cluster != consumer) {
                let name = slice_name(source);
                if let Err(refusal) = check_name(&name) {
                    plan.refused.insert(refusal);
                    continue;
                }
                // Clusters a and a-b may both have a slice that is called a-b-c here.
                if !names.insert(name.clone()) {
                    let cluster = source.cluster.to_owned();
                    plan.refused.insert(SliceRefusal::Taken { cluster, slice: name });
                    continue;
                }
                let key = (execution_namespace(consumer), place(facts, &by_key, consumer, source));
                if facts.able.contains(consumer) {
                    plan.works.push(dispatched_work(service, source, consumer, &key.1, &name));
                }
                kept.insert(key);
            }
        }
    }
    let is_left = |work: &&Arc<Object>| !kept.contains(&(work.namespace().to_owned(), work.name().to_owned()));
    plan.deletes = dispatched.into_iter().filter(is_left).filter(|work| !work.is_deleting()).cloned().collect();
    plan
}

/// Reports whether a Work takes a slice of another cluster to its own.
pub fn is_dispatched(work: &Object) -> bool {
    work.annotation(ANNOTATION_SLICE_PROVIDER).is_some() && carried_slice(work).is_some()
}

/// The collected Work a dispatched one was made of: its namespace and name.
pub fn source_of(dispatched: &Object) -> Option<(String, String)> {
    let provider = dispatched.annotation(ANNOTATION_SLICE_PROVIDER)?;
    let slice = carried_slice(dispatched)?;
    let text = |field: &str| slice["metadata"][field].as_str().unwrap_or_default();
    let name = text("name").strip_prefix(provider)?.strip_prefix('-')?;
    Some((execution_namespace(provider), work_name(SLICE_KIND, name, text("namespace"))))
}

/// Returns the slices that clusters provide for the service, at most so many of each cluster.
fn check_sources<'a>(facts: &DispatchFacts<'a>, service: &Object, plan: &mut DispatchPlan) -> Vec<Source<'a>> {
    let title = format!("{}/{}", service.namespace(), service.name());
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut sources = Vec::new();
    let collected = facts.works.iter().filter(|work| is_collected(work) && !work.is_deleting());
    for work in collected {
        let Some(cluster) = cluster_of_execution_namespace(work.namespace()) else { continue };
        if !facts.clusters.providers.contains(cluster) {
            let cluster = cluster.to_owned();
            plan.refused.insert(SliceRefusal::NotAProvider { cluster, service: title.clone() });
            continue;
        }
        match check_carried(work, cluster, service.namespace(), service.name()) {
            Ok(slice) => {
                let count = counts.entry(cluster).or_default();
                *count += 1;
                if *count <= SLICES_PER_SERVICE_MAX {
                    sources.push(Source { cluster, work, slice });
                } else {
                    plan.refused.insert(SliceRefusal::TooMany { cluster: cluster.to_owned(), service: title.clone() });
                }
            }
            Err(refusal) => drop(plan.refused.insert(refusal)),
        }
    }
    sources
}

/// The name of a slice in consumers.
fn slice_name(source: &Source<'_>) -> String {
    format!("{}-{}", source.cluster, source.slice["metadata"]["name"].as_str().unwrap_or_default())
}

/// The name of the Work in a consumer: that of the source, as in Karmada, unless another Work has it.
fn place(
    facts: &DispatchFacts<'_>,
    by_key: &BTreeMap<(&str, &str), &Arc<Object>>,
    consumer: &str,
    source: &Source<'_>,
) -> String {
    let namespace = execution_namespace(consumer);
    let here = by_key.get(&(namespace.as_str(), source.work.name())).map(|work| Arc::clone(work));
    let existing = here.or_else(|| (facts.other_work)(&namespace, source.work.name()));
    let is_free = existing.is_none_or(|existing| {
        is_dispatched(&existing) && existing.annotation(ANNOTATION_SLICE_PROVIDER) == Some(source.cluster)
    });
    match is_free {
        true => source.work.name().to_owned(),
        false => work_name(
            SLICE_KIND,
            &slice_name(source),
            source.slice["metadata"]["namespace"].as_str().unwrap_or_default(),
        ),
    }
}

fn dispatched_work(service: &Object, source: &Source<'_>, consumer: &str, name: &str, slice: &str) -> DesiredWork {
    let mut manifest = rebuilt(source.slice, slice);
    manifest.set_label(LABEL_SLICE_SERVICE, service.name());
    manifest.set_label(LABEL_SLICE_CONTROLLER, CONTROLLER_DISPATCH);
    manifest.set_annotation(ANNOTATION_SLICE_PROVIDER, source.cluster);
    let mut work = DesiredWork::named(consumer, name.to_owned(), manifest);
    work.annotations.insert(ANNOTATION_SLICE_PROVIDER.to_owned(), source.cluster.to_owned());
    work.labels.insert(SERVICE_NAME.to_owned(), service.name().to_owned());
    work.labels.insert(SERVICE_NAMESPACE.to_owned(), service.namespace().to_owned());
    work
}

/// Finds addresses that a provider and another cluster both use for endpoints of their own: a consumer routes such an
/// address to its own pod. Other missing routes cannot be seen from here.
fn find_unreachable(sources: &[Source<'_>], consumers: &BTreeSet<String>) -> Vec<Unreachable> {
    let mut owners: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for source in sources {
        let endpoints = source.slice["endpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
        for address in endpoints.iter().filter_map(|endpoint| endpoint["addresses"][0].as_str()) {
            owners.entry(address).or_default().insert(source.cluster);
        }
    }
    let mut found: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for (address, clusters) in owners.iter().filter(|(_, clusters)| clusters.len() > 1) {
        for consumer in clusters.iter().filter(|cluster| consumers.contains(**cluster)) {
            for provider in clusters.iter().filter(|provider| provider != &consumer) {
                found.entry((consumer, provider)).or_insert(address);
            }
        }
    }
    let unreachable = |((consumer, provider), address): ((&str, &str), &str)| Unreachable {
        consumer: consumer.to_owned(),
        provider: provider.to_owned(),
        address: address.to_owned(),
    };
    found.into_iter().map(unreachable).collect()
}

/// The message of the condition that names network paths which do not exist.
pub fn unreachable_message(unreachable: &[Unreachable]) -> String {
    const SHOWN_MAX: usize = 5;
    let one = |path: &Unreachable| {
        format!(
            "pods of {} cannot reach {}: both clusters have an endpoint with address {}, so their pod networks overlap",
            path.consumer, path.provider, path.address
        )
    };
    let mut texts: Vec<String> = unreachable.iter().take(SHOWN_MAX).map(one).collect();
    if unreachable.len() > SHOWN_MAX {
        texts.push(format!("and {} more pairs of clusters", unreachable.len() - SHOWN_MAX));
    }
    texts.join("; ")
}

#[cfg(test)]
mod tests;
