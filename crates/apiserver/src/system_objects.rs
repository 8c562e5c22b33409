//! Objects a cluster always has: the `kubernetes` Service that stands for this server, the system's priority classes, and the
//! default objects of priority and fairness.

use object::{Object, Status};
use serde_json::{Value, json};

use crate::resources::Resources;
use crate::storage;

/// The first address of the range Services get theirs from.
const SERVER_ADDRESS: &str = "10.0.0.1";

/// Creates what is missing; what is there is left as it is.
pub async fn ensure(resources: Resources<'_>, port: u16) -> Result<(), Status> {
    let all = objects(port).into_iter().chain(crate::flow::default_objects());
    let writes = all.filter_map(|(group, plural, value)| {
        let resource = resources.registry.find(group, "v1", plural)?;
        let mut object = Object::from_value(value)?;
        object.set_gvk(&resource.kind.gvk);
        object.set(&["metadata", "uid"], uuid::Uuid::new_v4().to_string());
        object.set(&["metadata", "creationTimestamp"], object::time::format_seconds(jiff::Timestamp::now()));
        let key = resource.key(object.namespace(), object.name());
        Some(async move { resources.objects.create(&key, storage::encode(&object), None).await.map(|_| ()) })
    });
    futures::future::join_all(writes).await.into_iter().collect()
}

fn objects(port: u16) -> Vec<(&'static str, &'static str, Value)> {
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    let service = json!({
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "spec": {
            "type": "ClusterIP", "clusterIP": SERVER_ADDRESS, "clusterIPs": [SERVER_ADDRESS], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
        },
        "status": {"loadBalancer": {}},
    });
    let address = json!({
        "metadata": {"name": SERVER_ADDRESS, "labels": {"ipaddress.kubernetes.io/ip-family": "IPv4",
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}},
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "kubernetes"}},
    });
    let class = |name: &str, value: i64, what: &str| {
        let description = format!("Used for system critical pods that must {what}.");
        json!({"metadata": {"name": name, "generation": 1}, "value": value, "description": description,
            "preemptionPolicy": "PreemptLowerPriority"})
    };
    vec![
        ("", "services", service),
        ("networking.k8s.io", "ipaddresses", address),
        (
            "scheduling.k8s.io",
            "priorityclasses",
            class(
                "system-cluster-critical",
                2_000_000_000,
                "run in the cluster, but can be moved to another node if necessary",
            ),
        ),
        (
            "scheduling.k8s.io",
            "priorityclasses",
            class("system-node-critical", 2_000_001_000, "not be moved from their current node"),
        ),
    ]
}
