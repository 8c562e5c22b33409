//! The resource-statistics controller: counts clusters, nodes, resources and objects of each instance into `status.summary`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::cluster::CLUSTERS;
use api::work::{CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS, WORKS};
use cluster_client::{ClusterClient, ListOptions, ResourceRef};
use manager_kinds::KARMADAS;
use object::quantity::Quantity;
use object::{GroupVersionResource, Object, Status, conditions};
use reconcile::{ObjectKey, commit_status};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::lifecycle::Lifecycle;
use crate::plane::Connection;
use crate::readiness::{is_applied, is_failed, is_fully_applied, is_healthy, is_scheduled, is_workload_ready};
use crate::running::RunningInstance;

const FIELD_MANAGER: &str = "flotilla-statistics";
/// Interval for looking at the revision of planes in this process.
const INTERVAL: Duration = Duration::from_secs(2);
/// Least time between two writes for one instance, and the interval for planes in other processes.
const WRITE_INTERVAL: Duration = Duration::from_secs(5);

/// The time between two counts is at least this many times the time of one, so that large instances are counted less often.
const COUNT_COST: u32 = 20;

/// Workloads, counted with those that are ready.
const WORKLOADS: &[(&str, &str, &str)] = &[
    ("apps", "v1", "deployments"),
    ("apps", "v1", "statefulsets"),
    ("apps", "v1", "daemonsets"),
    ("batch", "v1", "jobs"),
    ("batch", "v1", "cronjobs"),
];
/// Objects of which only the number counts: the field of the summary, the name in it and the resource.
const COUNTED: &[(&str, &str, (&str, &str, &str))] = &[
    ("resourceTotalNum", "services", ("", "v1", "services")),
    ("resourceTotalNum", "configmaps", ("", "v1", "configmaps")),
    ("resourceTotalNum", "secrets", ("", "v1", "secrets")),
    ("resourceTotalNum", "namespaces", ("", "v1", "namespaces")),
    ("resourceTotalNum", "ingresses", ("networking.k8s.io", "v1", "ingresses")),
    ("policyTotalNum", "propagationpolicies", ("policy.karmada.io", "v1alpha1", "propagationpolicies")),
    ("policyTotalNum", "clusterpropagationpolicies", ("policy.karmada.io", "v1alpha1", "clusterpropagationpolicies")),
    ("policyTotalNum", "overridepolicies", ("policy.karmada.io", "v1alpha1", "overridepolicies")),
    ("policyTotalNum", "clusteroverridepolicies", ("policy.karmada.io", "v1alpha1", "clusteroverridepolicies")),
];

/// The last count of an instance.
struct Counted {
    revision: u64,
    at: Instant,
    took: Duration,
}

impl Counted {
    fn is_due(&self, revision: u64) -> bool {
        let is_changed = self.revision != revision || revision == 0;
        is_changed && self.at.elapsed() >= WRITE_INTERVAL.max(self.took * COUNT_COST)
    }
}

/// Keeps `status.summary` of all running instances current until cancelled.
pub async fn run(lifecycle: Lifecycle, cancel: CancellationToken) {
    let mut counted: HashMap<String, Counted> = HashMap::new();
    loop {
        let instances = lifecycle.running().all();
        counted.retain(|uid, _| instances.iter().any(|instance| instance.uid == *uid));
        for instance in instances {
            let revision = revision(&instance).await;
            if counted.get(&instance.uid).is_some_and(|last| !last.is_due(revision)) {
                continue;
            }
            let began = Instant::now();
            let Some(object) = lifecycle.karmadas().get(&instance.key) else { continue };
            if let Err(status) = update(&lifecycle.writer(&object), &instance).await {
                tracing::debug!(instance = %instance.key, %status, "statistics could not be updated; will retry");
            }
            counted.insert(instance.uid.clone(), Counted { revision, at: Instant::now(), took: began.elapsed() });
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}

/// Returns the revision of a plane in this process; 0 for others.
async fn revision(instance: &RunningInstance) -> u64 {
    match &instance.connection {
        Connection::InProcess(server) => server.objects.store().revision().await.unwrap_or(0),
        Connection::Remote(_) => 0,
    }
}

async fn update(client: &ClusterClient, instance: &RunningInstance) -> Result<(), Status> {
    let summary = count(&instance.admin).await?;
    let ObjectKey { namespace, name } = &instance.key;
    let target = ResourceRef::namespaced(&KARMADAS.gvr(), namespace, name);
    let Some(current) = client.find(target.clone()).await? else { return Ok(()) };
    if current.uid() != instance.uid {
        return Ok(());
    }
    let mut desired = (*current).clone();
    desired.set(&["status", "summary"], summary);
    commit_status(client, target, &current, &desired, FIELD_MANAGER).await.map(drop)
}

/// Counts the objects of an instance.
async fn count(admin: &ClusterClient) -> Result<Value, Status> {
    let clusters = admin.list_all(ResourceRef::all(&CLUSTERS.gvr()), ListOptions::default()).await?;
    let mut summary = summarize(&clusters.items);
    for (field, name, (group, version, plural)) in COUNTED {
        let gvr = GroupVersionResource::new(*group, *version, *plural);
        if let Some(total) = total(admin, &gvr).await? {
            summary[*field][*name] = total.into();
        }
    }
    for (group, version, plural) in WORKLOADS {
        let gvr = GroupVersionResource::new(*group, *version, *plural);
        if let Some((total, [ready])) = count_each(admin, &gvr, [is_workload_ready]).await? {
            summary["workLoadSummary"][*plural] = json!({"totalNum": total, "readyNum": ready});
        }
    }
    let (mut bindings, mut states) = (0, [0; 3]);
    for resource in [RESOURCE_BINDINGS, CLUSTER_RESOURCE_BINDINGS] {
        let tests = [is_scheduled, is_fully_applied, is_healthy];
        let Some((total, counts)) = count_each(admin, &resource.gvr(), tests).await? else { continue };
        bindings += total;
        states.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    let [scheduled, applied, healthy] = states;
    summary["bindings"] =
        json!({"total": bindings, "scheduled": scheduled, "fullyApplied": applied, "healthy": healthy});
    let works = count_each(admin, &WORKS.gvr(), [is_applied, is_failed]).await?;
    let (total, [applied, failed]) = works.unwrap_or_default();
    summary["works"] = json!({"total": total, "applied": applied, "failed": failed});
    Ok(summary)
}

/// Returns the number of objects of a resource, or nothing if the instance does not serve it.
async fn total(admin: &ClusterClient, gvr: &GroupVersionResource) -> Result<Option<i64>, Status> {
    let one = ListOptions { limit: Some(1), ..ListOptions::default() };
    match admin.list(ResourceRef::all(gvr), one).await {
        Ok(list) => Ok(Some(list.items.len() as i64 + list.remaining_item_count.unwrap_or(0) as i64)),
        Err(status) if status.is_not_found() => Ok(None),
        Err(status) => Err(status),
    }
}

/// Returns the number of objects, and of those that pass each test. Only one page is held at a time.
async fn count_each<const N: usize>(
    admin: &ClusterClient,
    gvr: &GroupVersionResource,
    tests: [fn(&Object) -> bool; N],
) -> Result<Option<(i64, [i64; N])>, Status> {
    let mut pages = admin.pages(ResourceRef::all(gvr), ListOptions::default());
    let (mut total, mut counts) = (0, [0; N]);
    loop {
        let page = match pages.next().await {
            Ok(Some(page)) => page,
            Ok(None) => return Ok(Some((total, counts))),
            Err(status) if status.is_not_found() => return Ok(None),
            Err(status) => return Err(status),
        };
        total += page.items.len() as i64;
        for object in &page.items {
            counts.iter_mut().zip(&tests).for_each(|(count, test)| *count += i64::from(test(object)));
        }
    }
}

/// Sums the clusters of an instance. Clusters that are being removed do not count; clusters that are not ready count in the
/// totals only.
pub fn summarize(clusters: &[Arc<Object>]) -> Value {
    let (mut ready, mut nodes, mut nodes_ready) = (0i64, 0i64, 0i64);
    let mut sums: BTreeMap<&str, BTreeMap<String, Quantity>> = BTreeMap::new();
    let (mut states, mut cluster_nodes) = (Map::new(), Map::new());
    let counted: Vec<&Arc<Object>> = clusters.iter().filter(|cluster| !cluster.is_deleting()).collect();
    for cluster in &counted {
        let is_ready = conditions::is_true(cluster, "Ready");
        ready += i64::from(is_ready);
        states.insert(cluster.name().to_owned(), if is_ready { "True" } else { "False" }.into());
        let count = |field: &str| cluster.i64_at(&["status", "nodeSummary", field]).unwrap_or(0);
        nodes += count("totalNum");
        nodes_ready += count("readyNum");
        let own = json!({"totalNum": count("totalNum"), "readyNum": count("readyNum")});
        cluster_nodes.insert(cluster.name().to_owned(), own);
        for field in ["allocatable", "allocating", "allocated"] {
            let quantities = cluster.get(&["status", "resourceSummary", field]).and_then(Value::as_object);
            for (name, value) in quantities.into_iter().flatten() {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                if let Ok(quantity) = Quantity::parse(&text) {
                    let sum = sums.entry(field).or_default().entry(name.clone()).or_default();
                    *sum = sum.plus(&quantity);
                }
            }
        }
    }
    let texts = |field: &str| -> Map<String, Value> {
        let sums = sums.get(field).into_iter().flatten();
        sums.map(|(name, sum)| (name.clone(), sum.to_string().into())).collect()
    };
    json!({
        "clusterSummary": {"totalNum": counted.len(), "readyNum": ready, "clusterConditions": states},
        "nodeSummary": {"totalNum": nodes, "readyNum": nodes_ready, "clusterNodeSummary": cluster_nodes},
        "resourceSummary": {
            "allocatable": texts("allocatable"), "allocating": texts("allocating"), "allocated": texts("allocated"),
        },
        "workLoadSummary": {}, "resourceTotalNum": {}, "policyTotalNum": {}, "bindings": {}, "works": {},
    })
}

#[cfg(test)]
mod tests {
    use cluster_client::testing::MemoryApi;

    use super::*;

    fn cluster(name: &str, ready: &str, nodes: i64, cpu: &str, gpu: &str) -> Arc<Object> {
        let mut cluster = CLUSTERS.object("", name);
        cluster.set(&["status", "conditions"], json!([{"type": "Ready", "status": ready}]));
        cluster.set(&["status", "nodeSummary"], json!({"totalNum": nodes, "readyNum": nodes}));
        let allocatable = json!({"cpu": cpu, "nvidia.com/gpu": gpu});
        cluster.set(&["status", "resourceSummary"], json!({"allocatable": allocatable}));
        Arc::new(cluster)
    }

    #[test]
    fn clusters_are_summed_exactly_and_an_empty_instance_has_zeros() {
        let mut leaving = (*cluster("c", "True", 9, "9", "9")).clone();
        leaving.set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
        let clusters =
            [cluster("a", "True", 2, "1500m", "1"), cluster("b", "False", 1, "2500m", "3"), Arc::new(leaving)];
        let summary = summarize(&clusters);
        assert_eq!(
            (&summary["clusterSummary"]["totalNum"], &summary["clusterSummary"]["readyNum"]),
            (&json!(2), &json!(1))
        );
        assert_eq!(summary["nodeSummary"]["totalNum"], 3);
        assert_eq!(summary["resourceSummary"]["allocatable"], json!({"cpu": "4", "nvidia.com/gpu": "4"}));
        let empty = summarize(&[]);
        assert_eq!((&empty["clusterSummary"]["totalNum"], &empty["nodeSummary"]["readyNum"]), (&json!(0), &json!(0)));
    }

    #[tokio::test]
    async fn ready_objects_are_counted_apart_from_all() {
        let api = MemoryApi::default();
        let put = |resource: &api::Resource, name: &str, spec: Value, status: Value| {
            let mut object = resource.object("shop", name);
            object.set(&["spec"], spec);
            object.set(&["status"], status);
            api.seed(&resource.gvr(), object);
        };
        let deployments = api::Resource::namespaced("apps", "v1", "Deployment", "deployments");
        put(&deployments, "up", json!({"replicas": 2}), json!({"readyReplicas": 2}));
        put(&deployments, "half", json!({"replicas": 2}), json!({"readyReplicas": 1}));
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
        let done = json!([condition("Scheduled", "True"), condition("FullyApplied", "True")]);
        let healthy = json!([{"clusterName": "m1", "health": "Healthy"}]);
        let status = json!({"conditions": done, "aggregatedStatus": healthy});
        put(&RESOURCE_BINDINGS, "up", json!({}), status);
        put(&RESOURCE_BINDINGS, "half", json!({}), json!({"conditions": [condition("Scheduled", "True")]}));
        put(&WORKS, "up", json!({}), json!({"conditions": [condition("Applied", "True")]}));
        put(&WORKS, "refused", json!({}), json!({"conditions": [condition("Applied", "False")]}));
        put(&WORKS, "new", json!({}), json!({}));
        let summary = count(&api.client()).await.expect("counted");
        assert_eq!(summary["workLoadSummary"]["deployments"], json!({"totalNum": 2, "readyNum": 1}));
        assert_eq!(summary["workLoadSummary"]["jobs"], json!({"totalNum": 0, "readyNum": 0}));
        assert_eq!(summary["bindings"], json!({"total": 2, "scheduled": 2, "fullyApplied": 1, "healthy": 1}));
        assert_eq!(summary["works"], json!({"total": 3, "applied": 1, "failed": 1}));
    }
}
