//! The resource-statistics controller: counts clusters, nodes, resources and objects of each instance into `status.summary`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::cluster::CLUSTERS;
use cluster_client::{ClusterClient, ListOptions, ResourceRef};
use manager_kinds::KARMADAS;
use object::quantity::Quantity;
use object::{GroupVersionResource, Object, Status, conditions};
use reconcile::{ObjectKey, commit_status};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::plane::Connection;
use crate::running::{RunningInstance, RunningInstances};

const FIELD_MANAGER: &str = "flotilla-statistics";
/// Interval for looking at the revision of planes in this process.
const INTERVAL: Duration = Duration::from_secs(2);
/// Least time between two writes for one instance, and the interval for planes in other processes.
const WRITE_INTERVAL: Duration = Duration::from_secs(5);

/// Objects that are counted: the field of the summary, the name in it and the resource.
const COUNTED: &[(&str, &str, (&str, &str, &str))] = &[
    ("workLoadSummary", "deployments", ("apps", "v1", "deployments")),
    ("workLoadSummary", "statefulsets", ("apps", "v1", "statefulsets")),
    ("workLoadSummary", "daemonsets", ("apps", "v1", "daemonsets")),
    ("workLoadSummary", "jobs", ("batch", "v1", "jobs")),
    ("workLoadSummary", "cronjobs", ("batch", "v1", "cronjobs")),
    ("resourceTotalNum", "services", ("", "v1", "services")),
    ("resourceTotalNum", "configmaps", ("", "v1", "configmaps")),
    ("resourceTotalNum", "secrets", ("", "v1", "secrets")),
    ("resourceTotalNum", "namespaces", ("", "v1", "namespaces")),
    ("resourceTotalNum", "ingresses", ("networking.k8s.io", "v1", "ingresses")),
    ("policyTotalNum", "propagationpolicies", ("policy.karmada.io", "v1alpha1", "propagationpolicies")),
    ("policyTotalNum", "clusterpropagationpolicies", ("policy.karmada.io", "v1alpha1", "clusterpropagationpolicies")),
    ("policyTotalNum", "overridepolicies", ("policy.karmada.io", "v1alpha1", "overridepolicies")),
    ("policyTotalNum", "clusteroverridepolicies", ("policy.karmada.io", "v1alpha1", "clusteroverridepolicies")),
    ("bindings", "total", ("work.karmada.io", "v1alpha2", "resourcebindings")),
    ("works", "total", ("work.karmada.io", "v1alpha1", "works")),
];

/// Keeps `status.summary` of all running instances current until cancelled.
pub async fn run(client: ClusterClient, running: Arc<RunningInstances>, cancel: CancellationToken) {
    let mut counted: HashMap<String, (u64, Instant)> = HashMap::new();
    loop {
        let instances = running.all();
        counted.retain(|uid, _| instances.iter().any(|instance| instance.uid == *uid));
        for instance in instances {
            let revision = revision(&instance).await;
            let is_due = counted
                .get(&instance.uid)
                .is_none_or(|(at, when)| when.elapsed() >= WRITE_INTERVAL && (*at != revision || revision == 0));
            if !is_due {
                continue;
            }
            counted.insert(instance.uid.clone(), (revision, Instant::now()));
            if let Err(status) = update(&client, &instance).await {
                tracing::debug!(instance = %instance.key, %status, "statistics could not be updated; will retry");
            }
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
    let clusters = instance.admin.list_all(ResourceRef::all(&CLUSTERS.gvr()), ListOptions::default()).await?;
    let mut summary = summarize(&clusters.items);
    for (field, name, (group, version, plural)) in COUNTED {
        let gvr = GroupVersionResource::new(*group, *version, *plural);
        let one = ListOptions { limit: Some(1), ..ListOptions::default() };
        let list = match instance.admin.list(ResourceRef::all(&gvr), one).await {
            Ok(list) => list,
            Err(status) if status.is_not_found() => continue,
            Err(status) => return Err(status),
        };
        let total = list.items.len() as i64 + list.remaining_item_count.unwrap_or(0) as i64;
        match *field {
            "workLoadSummary" => summary[*field][*name] = json!({"totalNum": total}),
            _ => summary[*field][*name] = total.into(),
        }
    }
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
}
