//! Descriptions of nodes with the resources their pods request, in kubectl's form.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use object::Object;
use object::quantity::Quantity;
use serde_json::Value;

use super::kinds::Related;
use super::text::{conditions_with_times, labels_and_annotations, line, line_if, scalar, time};
use crate::durations;

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
/// Label for the role in old clusters.
const ROLE: &str = "kubernetes.io/role";
/// Resources that are always shown; those of devices follow.
const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
const HUGE_PAGES: &str = "hugepages-";

type Amounts = BTreeMap<String, Quantity>;

pub fn node(text: &mut String, node: &Object, related: &Related) {
    line(text, "Name", node.name());
    let roles = roles(node);
    line(text, "Roles", if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") });
    labels_and_annotations(text, node);
    line(text, "CreationTimestamp", time(node.creation_timestamp()));
    write_taints(text, node);
    line(text, "Unschedulable", node.bool_at(&["spec", "unschedulable"]).unwrap_or(false));
    write_lease(text, node, related);
    conditions_with_times(text, node, "LastHeartbeatTime", "lastHeartbeatTime");
    text.push_str("Addresses:\n");
    for address in node.items(&["status", "addresses"]) {
        line(text, &format!("  {}", scalar(&address["type"])), scalar(&address["address"]));
    }
    for (title, field) in [("Capacity", "capacity"), ("Allocatable", "allocatable")] {
        let amounts = node.get(&["status", field]).and_then(Value::as_object).filter(|map| !map.is_empty());
        let Some(amounts) = amounts else { continue };
        let _ = writeln!(text, "{title}:");
        let sorted: BTreeMap<&String, &Value> = amounts.iter().collect();
        for (name, amount) in sorted {
            line(text, &format!("  {name}"), scalar(amount));
        }
    }
    write_system(text, node);
    write_pods(text, node, related);
}

fn roles(node: &Object) -> Vec<String> {
    let role = |(key, value): (&str, &str)| match key.strip_prefix(ROLE_PREFIX) {
        Some(role) => Some(role.to_owned()),
        None => (key == ROLE).then(|| value.to_owned()),
    };
    let found: BTreeSet<String> = node.labels().filter_map(role).filter(|role| !role.is_empty()).collect();
    found.into_iter().collect()
}

fn write_taints(text: &mut String, node: &Object) {
    let mut taints: Vec<(String, String)> = Vec::new();
    for taint in node.items(&["spec", "taints"]) {
        let (key, value, effect) = (scalar(&taint["key"]), scalar(&taint["value"]), scalar(&taint["effect"]));
        let shown = if value.is_empty() { format!("{key}:{effect}") } else { format!("{key}={value}:{effect}") };
        taints.push((format!("{effect},{key}"), shown));
    }
    taints.sort();
    let shown: Vec<String> = taints.into_iter().map(|(_, shown)| shown).collect();
    line(text, "Taints", if shown.is_empty() { "<none>".to_owned() } else { shown.join("\n\t") });
}

fn write_lease(text: &mut String, node: &Object, related: &Related) {
    let Some(lease) = related.of_kind("Lease").next() else {
        let missing = format!("leases.coordination.k8s.io {:?} not found", node.name());
        line(text, "Lease", format_args!("Failed to get lease: {missing}"));
        return;
    };
    text.push_str("Lease:\n");
    let field = |name: &str| lease.get(&["spec", name]).map(scalar);
    let unset = || "<unset>".to_owned();
    line(text, "  HolderIdentity", field("holderIdentity").unwrap_or_else(unset));
    for (title, name) in [("  AcquireTime", "acquireTime"), ("  RenewTime", "renewTime")] {
        line(text, title, field(name).map_or_else(unset, |value| time(&value)));
    }
}

fn write_system(text: &mut String, node: &Object) {
    text.push_str("System Info:\n");
    for (title, field) in [
        ("Machine ID", "machineID"),
        ("System UUID", "systemUUID"),
        ("Boot ID", "bootID"),
        ("Kernel Version", "kernelVersion"),
        ("OS Image", "osImage"),
        ("Operating System", "operatingSystem"),
        ("Architecture", "architecture"),
        ("Container Runtime Version", "containerRuntimeVersion"),
        ("Kubelet Version", "kubeletVersion"),
    ] {
        line(text, &format!("  {title}"), node.str_at(&["status", "nodeInfo", field]));
    }
    line_if(text, "PodCIDR", node.str_at(&["spec", "podCIDR"]));
    let ranges: Vec<String> = node.items(&["spec", "podCIDRs"]).iter().map(scalar).collect();
    line_if(text, "PodCIDRs", &ranges.join(","));
    line_if(text, "ProviderID", node.str_at(&["spec", "providerID"]));
}

/// Writes the pods that have not ended, and the sum of what they request.
fn write_pods(text: &mut String, node: &Object, related: &Related) {
    let pods: Vec<&Object> = related.of_kind("Pod").collect();
    let _ = writeln!(text, "Non-terminated Pods:\t({} in total)", pods.len());
    text.push_str("  Namespace\tName\t\tCPU Requests\tCPU Limits\tMemory Requests\tMemory Limits\tAge\n");
    text.push_str("  ---------\t----\t\t------------\t----------\t---------------\t-------------\t---\n");
    let available = allocatable(node);
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    for pod in pods {
        let (wanted, allowed) = (amounts_of(pod, "requests"), amounts_of(pod, "limits"));
        let share = |amounts: &Amounts, name: &str| share(amounts, &available, name);
        let _ = writeln!(
            text,
            "  {}\t{}\t\t{}\t{}\t{}\t{}\t{}",
            pod.namespace(),
            pod.name(),
            share(&wanted, "cpu"),
            share(&allowed, "cpu"),
            share(&wanted, "memory"),
            share(&allowed, "memory"),
            durations::since(pod.creation_timestamp(), jiff::Timestamp::now())
        );
        add(&mut requests, &wanted);
        add(&mut limits, &allowed);
    }
    text.push_str("Allocated resources:\n  (Total limits may be over 100 percent, i.e., overcommitted.)\n");
    text.push_str("  Resource\tRequests\tLimits\n  --------\t--------\t------\n");
    let huge_pages = available.keys().filter(|name| name.starts_with(HUGE_PAGES)).map(String::as_str);
    for name in STANDARD.into_iter().chain(huge_pages) {
        let (wanted, allowed) = (share(&requests, &available, name), share(&limits, &available, name));
        let _ = writeln!(text, "  {name}\t{wanted}\t{allowed}");
    }
    let is_device =
        |name: &&String| !STANDARD.contains(&name.as_str()) && !name.starts_with(HUGE_PAGES) && name.as_str() != "pods";
    for name in available.keys().filter(is_device) {
        let amount = |amounts: &Amounts| amounts.get(name).cloned().unwrap_or_default();
        let _ = writeln!(text, "  {name}\t{}\t{}", amount(&requests), amount(&limits));
    }
}

fn allocatable(node: &Object) -> Amounts {
    let of = |field: &str| amounts(node.get(&["status", field]));
    let allocatable = of("allocatable");
    if allocatable.is_empty() { of("capacity") } else { allocatable }
}

fn amounts(map: Option<&Value>) -> Amounts {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    entries.map(|(name, amount)| (name.clone(), Quantity::parse(&scalar(amount)).unwrap_or_default())).collect()
}

/// An amount with its percentage of what is available.
fn share(amounts: &Amounts, available: &Amounts, name: &str) -> String {
    let amount = amounts.get(name).cloned().unwrap_or_default();
    let in_units = |quantity: &Quantity| match name {
        "cpu" => quantity.milli_value() as f64,
        _ => quantity.value() as f64,
    };
    let whole = available.get(name).map_or(0.0, in_units);
    let percent = if whole == 0.0 { 0.0 } else { in_units(&amount) / whole * 100.0 };
    format!("{amount} ({}%)", percent as i64)
}

fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = total.get(name).map_or_else(|| amount.clone(), |total| total.plus(amount));
        total.insert(name.clone(), sum);
    }
}

fn raise(to: &mut Amounts, at_least: &Amounts) {
    for (name, amount) in at_least {
        if to.get(name).is_none_or(|have| have < amount) {
            to.insert(name.clone(), amount.clone());
        }
    }
}

/// The requests or the limits of a pod: those of its containers and sidecars, or of an init container if that is more.
fn amounts_of(pod: &Object, field: &str) -> Amounts {
    let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
    for container in pod.items(&["spec", "initContainers"]) {
        let mut own = amounts(container["resources"].get(field));
        if container["restartPolicy"] == "Always" {
            add(&mut sidecars, &own);
            own.clone_from(&sidecars);
        } else {
            add(&mut own, &sidecars);
        }
        raise(&mut starting, &own);
    }
    let mut total = sidecars;
    for container in pod.items(&["spec", "containers"]) {
        add(&mut total, &amounts(container["resources"].get(field)));
    }
    raise(&mut total, &starting);
    total.extend(amounts(pod.get(&["spec", "resources", field])));
    let overhead = amounts(pod.get(&["spec", "overhead"]));
    // A limit of the overhead alone is none.
    let counts = |name: &String| field == "requests" || total.contains_key(name);
    let overhead: Amounts = overhead.into_iter().filter(|(name, _)| counts(name)).collect();
    add(&mut total, &overhead);
    total
}

/// The selector of the pods of a node that have not ended.
pub fn pods_of(node: &str) -> String {
    format!("spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tabs;

    fn pod(name: &str, spec: Value) -> Object {
        let metadata = json!({"name": name, "namespace": "shop"});
        Object::from_value(json!({"kind": "Pod", "metadata": metadata, "spec": spec})).unwrap()
    }

    #[test]
    fn a_node_is_described_with_the_share_of_its_pods() {
        let object = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "n1", "labels": {"node-role.kubernetes.io/control-plane": ""}},
            "spec": {"taints": [{"key": "b", "effect": "NoSchedule"}, {"key": "a", "value": "x", "effect": "NoExecute"}]},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "example.com/gpu": "2"}}});
        let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}});
        let pods = vec![
            pod("web", json!({"containers": [container("500m"), container("500m")]})),
            pod("init", json!({"initContainers": [container("2")], "containers": [container("1")]})),
        ];
        let mut text = String::new();
        node(&mut text, &Object::from_value(object).unwrap(), &Related { objects: pods });
        let shown = tabs::align(&text, tabs::DESCRIPTION);
        for part in [
            "Roles:              control-plane\n",
            "Taints:             a=x:NoExecute\n                    b:NoSchedule\n",
            "  (Total limits may be over 100 percent, i.e., overcommitted.)\n",
            "  cpu                3 (75%)   0 (0%)\n",
            "  memory             3Gi (37%)  0 (0%)\n",
            "  example.com/gpu    0",
        ] {
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words(&shown).contains(&words(part)), "{part:?} is missing: {shown}");
        }
    }

    #[test]
    fn sidecars_count_together_with_containers() {
        let resources = |cpu: &str| json!({"requests": {"cpu": cpu}});
        let spec = json!({
            "initContainers": [
                {"restartPolicy": "Always", "resources": resources("100m")},
                {"resources": resources("150m")},
            ],
            "containers": [{"resources": resources("200m")}],
            "overhead": {"cpu": "50m"},
        });
        assert_eq!(amounts_of(&pod("p", spec.clone()), "requests")["cpu"].to_string(), "350m");
        assert!(amounts_of(&pod("p", spec), "limits").is_empty());
    }
}
