//! Has every namespace of the plane in every member, so that what is propagated into it finds it there.
//!
//! Each namespace in each cluster is a key of its own: a cluster that takes no works holds up no other. Writes one Work
//! for each, owned by the namespace, so that they go with it.

mod overrides;

use std::sync::Arc;

use api::cluster::ClusterSpec;
use api::names::cluster_of_execution_namespace;
use api::policy::{ANNOTATION_APPLIED_CLUSTER_OVERRIDES, CLUSTER_OVERRIDE_POLICIES};
use object::Object;
use propagation::overrides::{Considered, Member, Verdict, apply};
use propagation::works::DesiredWork;
use reconcile::{Change, Controller, MirrorSpec, ObjectKey, Outcome, ReconcileError, Recorder, Source};
use tokio_util::sync::CancellationToken;

use crate::namespaces::overrides::{Policies, Selected};
use crate::plane::{Plane, cluster_of_new_space, new_cluster};
use crate::works;

const COMPONENT: &str = "namespace-sync-controller";

/// A namespace in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Pair {
    namespace: String,
    cluster: String,
}

struct Namespaces {
    plane: Arc<Plane>,
    policies: Policies,
    events: Recorder,
}

pub async fn run(plane: Arc<Plane>, cancel: CancellationToken) {
    let policies = plane.mirror(MirrorSpec::new(&CLUSTER_OVERRIDE_POLICIES.gvr()));
    let context =
        Arc::new(Namespaces { policies: Policies::new(&policies), events: plane.recorder(COMPONENT, &cancel), plane });
    let (by_namespace, by_cluster, by_policy) = (Arc::clone(&context), Arc::clone(&context), Arc::clone(&context));
    let sources = vec![
        Source::new(&context.plane.namespaces, move |change| by_namespace.pairs_of_namespace(change)),
        Source::new(&context.plane.clusters, move |change| by_cluster.pairs_of_clusters(&new_cluster(change))),
        Source::new(&policies, move |change| by_policy.pairs_of_policy(change)),
    ];
    let workers = context.plane.settings.concurrent_namespace_syncs;
    let controller = Controller::new(COMPONENT).observed_by(&context.plane.metrics.controllers);
    let reconcile = move |pair: Pair| reconcile(Arc::clone(&context), pair);
    controller.run(sources, workers, cancel, reconcile).await;
}

impl Namespaces {
    /// A namespace goes to all clusters; all namespaces go to a cluster whose execution namespace has just come.
    fn pairs_of_namespace(&self, change: &Change) -> Vec<Pair> {
        if cluster_of_execution_namespace(&change.key.name).is_some() {
            return self.pairs_of_clusters(&cluster_of_new_space(change));
        }
        let Some(now) = change.now.as_ref().filter(|now| self.is_synced(now)) else { return Vec::new() };
        if change.before.as_ref().is_some_and(|before| is_same_to_members(before, now)) {
            return Vec::new();
        }
        pairs(std::slice::from_ref(&change.key.name), &self.plane.cluster_names())
    }

    fn pairs_of_clusters(&self, clusters: &[ObjectKey]) -> Vec<Pair> {
        if clusters.is_empty() {
            return Vec::new();
        }
        let clusters: Vec<String> = clusters.iter().map(|cluster| cluster.name.clone()).collect();
        pairs(&self.namespace_names(), &clusters)
    }

    fn pairs_of_policy(&self, change: &Change) -> Vec<Pair> {
        // At the start every namespace is looked at anyway.
        if change.is_initial {
            return Vec::new();
        }
        let names = match overrides::selected_by_either(change) {
            Selected::None => return Vec::new(),
            Selected::Named(names) => names.into_iter().collect(),
            Selected::All => self.namespace_names(),
        };
        pairs(&names, &self.plane.cluster_names())
    }

    fn namespace_names(&self) -> Vec<String> {
        let namespaces = self.plane.namespaces.list().into_iter().filter(|namespace| self.is_synced(namespace));
        namespaces.map(|namespace| namespace.name().to_owned()).collect()
    }

    fn is_synced(&self, namespace: &Object) -> bool {
        self.plane.settings.skipped_namespaces.not_synced(namespace).is_none()
    }

    /// The Work that carries the namespace to the cluster, and the policies that changed it on the way.
    fn plan(&self, namespace: &Object, cluster: &Object) -> Result<(DesiredWork, Vec<Considered>), ReconcileError> {
        let policies = self.policies.for_namespaces()?;
        let spec: ClusterSpec = api::read(cluster)?;
        let mut manifest = namespace.clone();
        let member = Member { cluster, spec: &spec };
        let applied = apply(&mut manifest, member, policies.iter().map(|policy| &**policy), []);
        let applied = match applied {
            Ok(applied) => applied,
            Err(failure) => {
                self.record_overrides(namespace, cluster.name(), &failure.considered);
                return Err(ReconcileError::other(format!(
                    "sync namespace({}) to cluster({}) failed due to: {failure}",
                    namespace.name(),
                    cluster.name()
                )));
            }
        };
        let mut work = DesiredWork::new(cluster.name(), manifest);
        work.owner = Some(works::owner(namespace));
        let recorded = applied.recorded().cluster;
        work.annotations.extend(recorded.map(|text| (ANNOTATION_APPLIED_CLUSTER_OVERRIDES.to_owned(), text)));
        Ok((work, applied.considered))
    }

    fn record_overrides(&self, namespace: &Object, cluster: &str, considered: &[Considered]) {
        for policy in considered {
            let action = format!("Apply cluster override policy({}) for cluster({cluster})", policy.name);
            match policy.verdict {
                Verdict::Applied { .. } => {
                    self.events.normal(namespace, "ApplyOverridePolicySucceed", format!("{action} succeed."));
                }
                Verdict::Failed { .. } => {
                    self.events.warning(namespace, "ApplyOverridePolicyFailed", format!("{action} failed."));
                }
                Verdict::OtherResource | Verdict::OtherMember { .. } => {}
            }
        }
    }
}

async fn reconcile(context: Arc<Namespaces>, pair: Pair) -> Result<Outcome, ReconcileError> {
    let plane = &context.plane;
    let namespace = plane.namespaces.get(&ObjectKey::new("", &pair.namespace));
    let Some(namespace) = namespace.filter(|namespace| context.is_synced(namespace)) else { return Ok(Outcome::Done) };
    let Some(cluster) = plane.cluster(&pair.cluster).filter(|_| plane.takes_works(&pair.cluster)) else {
        return Ok(Outcome::Done);
    };
    let (work, considered) = context.plan(&namespace, &cluster)?;
    // An event only after a change: a restart would otherwise send one for each namespace in each cluster.
    if works::commit(&plane.client, work).await? {
        context.record_overrides(&namespace, &pair.cluster, &considered);
    }
    Ok(Outcome::Done)
}

fn pairs(namespaces: &[String], clusters: &[String]) -> Vec<Pair> {
    let pair = |namespace: &String, cluster: &String| Pair { namespace: namespace.clone(), cluster: cluster.clone() };
    namespaces.iter().flat_map(|namespace| clusters.iter().map(move |cluster| pair(namespace, cluster))).collect()
}

/// A namespace that gets the label after it was synced stays in the members.
/// Do members see no difference? A new namespace of the same name is another.
fn is_same_to_members(before: &Object, now: &Object) -> bool {
    let paths: [&[&str]; 4] = [&["metadata", "labels"], &["metadata", "annotations"], &["metadata", "uid"], &["spec"]];
    paths.iter().all(|path| before.get(path) == now.get(path))
}

#[cfg(test)]
mod tests;
