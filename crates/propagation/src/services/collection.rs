//! The slices of a member that are reported to the control plane, each as a Work that is never dispatched.
//!
//! Two controllers of Karmada report slices: serviceExport for ServiceExports and endpointsliceCollect for
//! MultiClusterServices. A slice that both want is one Work with the labels and finalizers of both.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::multicluster::SERVICE_EXPORTS;
use api::names::work_name;
use api::networking::{
    FINALIZER_SLICE_DISPATCH, FINALIZER_SLICES, LABEL_SLICE_MANAGED_BY, LABEL_SLICE_NAME, LABEL_SLICE_NAMESPACE,
    LABEL_SLICE_SERVICE, MULTI_CLUSTER_SERVICES, SERVICE_NAME, SERVICE_NAMESPACE,
};
use api::work::CONDITION_APPLIED;
use object::{Object, conditions};

use crate::services::slices::{SLICES_PER_SERVICE_MAX, SliceRefusal, carried_slice, check_size, is_collected};
use crate::services::{SLICE_KIND, exposure, is_made_by_karmada};
use crate::works::DesiredWork;

/// A reason to collect the slices of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Collector {
    /// A MultiClusterService provides it.
    Service,
    /// A ServiceExport exports it.
    Export,
}

/// A service of a member, by namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceKey {
    pub namespace: String,
    pub name: String,
}

/// The change of one collected Work.
#[derive(Clone, Debug, PartialEq)]
pub enum CollectedChange {
    /// The Work carries this slice.
    Report(Box<DesiredWork>),
    /// The Work loses the marks of collectors that no longer want it, or goes when no other is left.
    Release(Arc<Object>, Released),
}

/// The marks a Work keeps.
#[derive(Clone, Debug, PartialEq)]
pub enum Released {
    Delete,
    Relabel(Box<Object>),
}

/// The writes one service of a member needs, and the slices that are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CollectionPlan {
    pub changes: Vec<CollectedChange>,
    pub refused: Vec<SliceRefusal>,
}

/// Everything a plan is made of.
pub struct CollectionFacts<'a> {
    pub cluster: &'a str,
    pub service: &'a ServiceKey,
    /// The collectors that are switched on, and whether they want the service. Marks of others are left alone.
    pub wanted: &'a BTreeMap<Collector, bool>,
    /// The slices of the service in the member.
    pub slices: &'a [Arc<Object>],
    /// The collected Works that bear the service's name.
    pub works: &'a [Arc<Object>],
}

impl Collector {
    pub const ALL: [Self; 2] = [Self::Service, Self::Export];

    /// The mark in the label that lists the collectors of a Work.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Service => MULTI_CLUSTER_SERVICES.kind,
            Self::Export => SERVICE_EXPORTS.kind,
        }
    }

    /// The labels that name the service.
    pub fn labels(self) -> &'static [&'static str; 2] {
        match self {
            Self::Service => &[SERVICE_NAMESPACE, SERVICE_NAME],
            Self::Export => &[LABEL_SLICE_NAMESPACE, LABEL_SLICE_NAME],
        }
    }

    fn finalizer(self) -> &'static str {
        match self {
            Self::Service => FINALIZER_SLICE_DISPATCH,
            Self::Export => FINALIZER_SLICES,
        }
    }

    /// The service a Work belongs to, by the labels of this collector.
    pub fn service_of(self, work: &Object) -> Option<ServiceKey> {
        let [namespace, name] = self.labels().map(|label| work.label(label).unwrap_or_default().to_owned());
        (!name.is_empty()).then_some(ServiceKey { namespace, name })
    }
}

/// The services whose slices a Work makes its member report, and why.
pub fn wanted_by(work: &Object) -> Vec<(Collector, ServiceKey)> {
    if work.is_deleting() {
        return Vec::new();
    }
    let mut wanted = Vec::new();
    if exposure::carries_service(work) {
        wanted.extend(Collector::Service.service_of(work).map(|service| (Collector::Service, service)));
    }
    if exposure::carries(work, &SERVICE_EXPORTS) && conditions::is_true(work, CONDITION_APPLIED) {
        let manifests = work.items(&["spec", "workload", "manifests"]).iter();
        let exports = manifests.filter(|manifest| manifest["kind"] == SERVICE_EXPORTS.kind);
        wanted.extend(exports.map(|export| {
            let text = |field: &str| export["metadata"][field].as_str().unwrap_or_default().to_owned();
            (Collector::Export, ServiceKey { namespace: text("namespace"), name: text("name") })
        }));
    }
    wanted
}

/// The services whose collected slices a Work holds.
pub fn collected_for(work: &Object) -> BTreeSet<ServiceKey> {
    match is_collected(work) {
        true => Collector::ALL.into_iter().filter_map(|collector| collector.service_of(work)).collect(),
        false => BTreeSet::new(),
    }
}

/// The service a slice of a member belongs to, if it is one to collect.
pub fn service_of_slice(slice: &Object) -> Option<ServiceKey> {
    let name = slice.label(LABEL_SLICE_SERVICE).filter(|name| !name.is_empty())?;
    (!is_made_by_karmada(slice)).then(|| ServiceKey { namespace: slice.namespace().to_owned(), name: name.to_owned() })
}

/// Plans the Works of one service.
pub fn plan_collection(facts: &CollectionFacts<'_>) -> CollectionPlan {
    let mut plan = CollectionPlan::default();
    let mut reported = BTreeSet::new();
    let is_wanted = facts.wanted.values().any(|wanted| *wanted);
    let mut slices: Vec<&Arc<Object>> =
        facts.slices.iter().filter(|slice| service_of_slice(slice).as_ref() == Some(facts.service)).collect();
    slices.sort_unstable_by_key(|slice| slice.name().to_owned());
    for slice in slices.into_iter().filter(|_| is_wanted) {
        if reported.len() == SLICES_PER_SERVICE_MAX {
            let service = format!("{}/{}", facts.service.namespace, facts.service.name);
            plan.refused.push(SliceRefusal::TooMany { cluster: facts.cluster.to_owned(), service });
            break;
        }
        match check_size(slice.as_value(), facts.cluster, slice.name()) {
            Ok(()) => {
                let name = work_name(SLICE_KIND, slice.name(), slice.namespace());
                let existing = facts.works.iter().find(|work| work.name() == name);
                plan.changes.push(CollectedChange::Report(Box::new(report(
                    facts,
                    slice,
                    existing.map(|work| &**work),
                ))));
                reported.insert(name);
            }
            Err(refusal) => plan.refused.push(refusal),
        }
    }
    let gone = facts.works.iter().filter(|work| is_collected(work) && !reported.contains(work.name()));
    for work in gone.filter(|work| !work.is_deleting()) {
        let leaving: Vec<Collector> = facts.wanted.keys().copied().filter(|c| marks(work).contains(c.mark())).collect();
        if !leaving.is_empty() {
            plan.changes.push(CollectedChange::Release(Arc::clone(work), release(work, &leaving)));
        }
    }
    plan
}

fn report(facts: &CollectionFacts<'_>, slice: &Object, existing: Option<&Object>) -> DesiredWork {
    let mut work = DesiredWork::new(facts.cluster, slice.clone());
    work.suspend_dispatching = Some(true);
    work.finalizers.clear();
    let mut marks: BTreeSet<String> = existing.map(marks).unwrap_or_default();
    for (collector, is_wanted) in facts.wanted {
        if *is_wanted {
            marks.insert(collector.mark().to_owned());
            work.finalizers.push(collector.finalizer());
            let [namespace, name] = *collector.labels();
            work.labels.insert(namespace.to_owned(), facts.service.namespace.clone());
            work.labels.insert(name.to_owned(), facts.service.name.clone());
        } else {
            marks.remove(collector.mark());
            work.stale = [collector.labels(), &[]];
        }
    }
    work.labels.insert(LABEL_SLICE_MANAGED_BY.to_owned(), joined(&marks));
    work
}

/// Takes the marks of collectors off a Work.
pub fn release(work: &Object, leaving: &[Collector]) -> Released {
    let mut left = marks(work);
    for collector in leaving {
        left.remove(collector.mark());
    }
    if left.is_empty() {
        return Released::Delete;
    }
    let mut relabelled = work.clone();
    for label in leaving.iter().flat_map(|collector| collector.labels()) {
        relabelled.remove(&["metadata", "labels", label]);
    }
    relabelled.set_label(LABEL_SLICE_MANAGED_BY, &joined(&left));
    Released::Relabel(Box::new(relabelled))
}

/// Reports whether the name a slice's Work would have is taken by a Work that carries something else.
pub fn is_taken(work: &Object, slice: &Object) -> bool {
    let carried = carried_slice(work).filter(|_| is_collected(work));
    carried.is_none_or(|carried| {
        carried["metadata"]["name"] != slice.name() || carried["metadata"]["namespace"] != slice.namespace()
    })
}

fn marks(work: &Object) -> BTreeSet<String> {
    let label = work.label(LABEL_SLICE_MANAGED_BY).unwrap_or_default();
    label.split('.').filter(|mark| !mark.is_empty()).map(str::to_owned).collect()
}

fn joined(marks: &BTreeSet<String>) -> String {
    marks.iter().map(String::as_str).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests;
