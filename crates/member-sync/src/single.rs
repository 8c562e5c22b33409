//! Syncs one member: runs in the agent.

use std::sync::Arc;

use api::cluster::CLUSTERS;
use api::features::Features;
use api::names;
use api::work::WORKS;
use cluster_client::ClusterClient;
use parking_lot::Mutex;
use plane_metrics::PlaneMetrics;
use plane_state::MemberCapacity;
use reconcile::{Change, Clock, Mirror, MirrorSpec};
use tokio_util::sync::CancellationToken;

use crate::collect;
use crate::gate::Gate;
use crate::member::{Member, Plane, Recorders, index_ground_works};
use crate::settings::Settings;
use crate::status::threshold::Threshold;

/// Dependencies of the sync of one member.
pub struct MemberDeps {
    pub plane: ClusterClient,
    pub member: ClusterClient,
    pub cluster: String,
    pub interpreter: interpreter_runtime::SharedInterpreter,
    pub member_capacity: MemberCapacity,
    pub features: Arc<Features>,
    pub clock: Arc<dyn Clock>,
    pub metrics: PlaneMetrics,
    pub recorders: Recorders,
    pub settings: Settings,
}

/// Keeps the member in sync until cancelled. Reads no work and no Cluster but its own.
pub async fn run_member(deps: MemberDeps, cancel: CancellationToken) {
    let works = MirrorSpec::new(&WORKS.gvr()).packed().within(&names::execution_namespace(&deps.cluster));
    let own = MirrorSpec::new(&CLUSTERS.gvr()).fields(&format!("metadata.name={}", deps.cluster));
    let gate_client = deps.plane.clone();
    let works = Mirror::start(deps.plane.clone(), works, cancel.clone());
    let plane = Plane {
        slice_works: collect::index_works(&works),
        ground_works: index_ground_works(&works),
        works,
        clusters: Mirror::start(deps.plane.clone(), own, cancel.clone()),
        client: deps.plane,
        interpreter: deps.interpreter,
        member_capacity: deps.member_capacity,
        features: deps.features,
        clock: deps.clock,
        metrics: deps.metrics,
        recorders: deps.recorders,
        settings: Settings { gate: Gate::asking(gate_client), ..deps.settings },
    };
    let synced = async {
        plane.clusters.synced().await;
        plane.works.synced().await;
    };
    tokio::select! {
        () = cancel.cancelled() => return,
        () = synced => {}
    }
    let thresholds = Threshold::new(plane.settings.success_threshold, plane.settings.failure_threshold);
    // The member looks at all works at its start.
    let (works, clusters) = (plane.works.subscribe_to_changes(), plane.clusters.subscribe());
    let member = Member::new(plane, &deps.cluster, deps.member, None, Arc::new(Mutex::new(thresholds)), cancel);
    tokio::join!(Arc::clone(&member).run(), follow(&member, works, clusters));
}

/// Ends with the mirrors.
async fn follow(member: &Member, mut works: reconcile::Subscription, mut clusters: reconcile::Subscription) {
    loop {
        tokio::select! {
            change = works.next() => {
                let Some(Change { before, now, .. }) = change else { return };
                member.work_changed(before.as_deref(), now.as_deref());
            }
            change = clusters.next() => {
                let Some(Change { before, now, .. }) = change else { return };
                if let Some(now) = now {
                    if let Ok(status) = api::read_at(&now, &["status"]) {
                        member.plane.metrics.members.observed(&member.cluster, &status);
                    }
                    member.cluster_changed(before.as_deref(), &now);
                }
            }
        }
    }
}
