//! The settings of components in the spec of an instance.

use api::features::Features;
use object::{FieldError, FieldPath, Object};
use serde_json::Value;

use super::extra_args::{self, Component};
use super::{ExternalEtcd, SpecReading, entries};

/// Components whose image tag is a Karmada version.
const KARMADA_COMPONENTS: &[&str] = &[
    "karmadaAggregatedAPIServer",
    "karmadaControllerManager",
    "karmadaScheduler",
    "karmadaWebhook",
    "karmadaDescheduler",
    "karmadaSearch",
    "karmadaMetricsAdapter",
];
const KUBERNETES_COMPONENTS: &[&str] = &["karmadaAPIServer", "kubeControllerManager"];
/// Minor version of the Karmada release that is served.
const KARMADA_MINOR: u32 = 18;

pub fn read_all(reading: &mut SpecReading, instance: &Object) {
    read_feature_gates(reading, instance);
    let root = FieldPath::new("spec").child("components");
    read_etcd(reading, instance, &root.child("etcd"));
    for name in KARMADA_COMPONENTS.iter().chain(KUBERNETES_COMPONENTS) {
        let at = ["spec", "components", name];
        if let Some(component) = instance.get(&at) {
            read_common(reading, name, component, &root.child(name));
        }
    }
    read_api_server(reading, instance, &root.child("karmadaAPIServer"));
    read_controllers(reading, instance, &root);
    if instance.get(&["spec", "components", "karmadaDescheduler"]).is_some() {
        reading.flag("descheduler", true);
    }
    if instance.get(&["spec", "components", "karmadaMetricsAdapter"]).is_some() {
        reading.ignore(
            &root.child("karmadaMetricsAdapter"),
            "has no effect: the metrics adapter is part of the control plane",
        );
    }
    for component in Component::ALL {
        extra_args::read(reading, instance, *component);
    }
}

/// Gates of a component take precedence over those of the whole control plane.
fn read_feature_gates(reading: &mut SpecReading, instance: &Object) {
    let sources: [(&[&str], &str); 3] = [
        (&["spec", "featureGates"], "featureGates"),
        (&["spec", "components", "karmadaScheduler", "featureGates"], "components.karmadaScheduler.featureGates"),
        (
            &["spec", "components", "karmadaControllerManager", "featureGates"],
            "components.karmadaControllerManager.featureGates",
        ),
    ];
    let mut gates = std::collections::BTreeMap::new();
    for (at, name) in sources {
        for (gate, value) in entries(instance, at) {
            let is_known = Features::NAMES.contains(&gate) || ["AllAlpha", "AllBeta"].contains(&gate);
            match is_known {
                true => drop(gates.insert(gate.to_owned(), value)),
                false => reading.ignore(&FieldPath::new("spec").child(name).key(gate), "is not a known feature gate"),
            }
        }
    }
    if !gates.is_empty() {
        let list: Vec<String> = gates.iter().map(|(gate, value)| format!("{gate}={value}")).collect();
        reading.flag("feature-gates", list.join(","));
    }
    for component in ["karmadaAPIServer", "kubeControllerManager", "karmadaAggregatedAPIServer"] {
        if !entries(instance, &["spec", "components", component, "featureGates"]).is_empty() {
            let path = FieldPath::new("spec").child("components").child(component).child("featureGates");
            reading.ignore(&path, "has no effect: the control plane has none of these gates");
        }
    }
}

fn read_etcd(reading: &mut SpecReading, instance: &Object, path: &FieldPath) {
    let local = instance.get(&["spec", "components", "etcd", "local"]);
    let Some(external) = instance.get(&["spec", "components", "etcd", "external"]) else {
        return local.into_iter().for_each(|local| read_local_etcd(reading, local, &path.child("local")));
    };
    if local.is_some() {
        return reading.refuse(FieldError::invalid(
            path.clone(),
            "local and external",
            "local and external exclude each other",
        ));
    }
    let path = path.child("external");
    let endpoints: Vec<String> =
        external["endpoints"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    if endpoints.is_empty() {
        reading.refuse(FieldError::required(path.child("endpoints"), "names at least one etcd server"));
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
            let at = path.child("endpoints").index(index);
            reading.refuse(FieldError::invalid(at, endpoint.as_str(), "must begin with http:// or https://"));
        }
    }
    for field in ["caData", "certData", "keyData"] {
        if external.get(field).is_some() {
            reading
                .refuse(FieldError::forbidden(path.child(field), "is deprecated: put the credentials into secretRef"));
        }
    }
    let secret = external["secretRef"]["name"].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
    if secret.is_none() && endpoints.iter().any(|endpoint| endpoint.starts_with("https://")) {
        reading.refuse(FieldError::required(
            path.child("secretRef").child("name"),
            "https needs ca.crt, tls.crt and tls.key",
        ));
    }
    reading.plane.etcd = Some(ExternalEtcd { endpoints, secret, prefix: None });
}

fn read_local_etcd(reading: &mut SpecReading, local: &Value, path: &FieldPath) {
    read_common(reading, "etcd", local, path);
    let volume = path.child("volumeData");
    if local["volumeData"].get("volumeClaim").is_some() {
        reading.ignore(&volume.child("volumeClaim"), "has no effect: data is kept in the manager's data directory");
    }
    if local["volumeData"].get("hostPath").is_some() {
        reading.ignore(&volume.child("hostPath"), "has no effect: data is kept in the manager's data directory");
    }
    if local["volumeData"].get("emptyDir").is_some() {
        reading.ignore(&volume.child("emptyDir"), "has no effect: data is always durable");
    }
}

/// Reads the settings that all components share.
fn read_common(reading: &mut SpecReading, name: &str, component: &Value, path: &FieldPath) {
    let tag = component["imageTag"].as_str().unwrap_or_default();
    if KARMADA_COMPONENTS.contains(&name) && is_newer(tag) {
        reading.ignore(&path.child("imageTag"), "has no effect: the control plane is compatible with Karmada 1.18");
    }
    match component["replicas"].as_i64() {
        Some(negative) if negative < 0 => {
            reading.refuse(FieldError::invalid(path.child("replicas"), negative, "must not be negative"));
        }
        Some(0) if name == "karmadaAPIServer" => reading.plane.is_stopped = true,
        Some(0) => reading.ignore(&path.child("replicas"), "0 has no effect: components are not stopped one by one"),
        Some(2..) => reading.ignore(&path.child("replicas"), "has no effect: each instance runs once"),
        _ => {}
    }
    if component["resources"]["limits"].get("memory").is_some() {
        reading.ignore(&path.child("resources").child("limits").child("memory"), "has no effect yet");
    }
    let budget = component["podDisruptionBudgetConfig"].as_object();
    if budget.is_some_and(|budget| budget.contains_key("minAvailable") == budget.contains_key("maxUnavailable")) {
        let at = path.child("podDisruptionBudgetConfig");
        reading.refuse(FieldError::invalid(at, "", "exactly one of minAvailable and maxUnavailable must be set"));
    }
}

/// Returns true for tags such as v1.19.0 that name a release after the one that is served.
fn is_newer(tag: &str) -> bool {
    let mut parts = tag.trim_start_matches('v').split('.').map(|part| part.parse::<u32>().ok());
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(1), Some(minor)) => minor > KARMADA_MINOR,
        (Some(major), _) => major > 1,
        _ => false,
    }
}

fn read_api_server(reading: &mut SpecReading, instance: &Object, path: &FieldPath) {
    let at = |field: &'static str| ["spec", "components", "karmadaAPIServer", field];
    reading.plane.has_own_port = matches!(instance.str_at(&at("serviceType")), "NodePort" | "LoadBalancer");
    let subnet = instance.str_at(&at("serviceSubnet"));
    if !subnet.is_empty() {
        reading.flag("service-cluster-ip-range", subnet);
    }
    for field in ["loadBalancerClass", "serviceAnnotations"] {
        if instance.get(&at(field)).is_some() {
            reading.ignore(&path.child(field), "has no effect: no Service is created");
        }
    }
    for field in ["extraVolumes", "extraVolumeMounts", "sidecarContainers"] {
        if instance.get(&at(field)).is_some() {
            reading.ignore(&path.child(field), "has no effect: the control plane runs in no pod");
        }
    }
    for component in ["karmadaAPIServer", "karmadaAggregatedAPIServer"] {
        let names = instance.items(&["spec", "components", component, "certSANs"]).iter().filter_map(Value::as_str);
        for name in names.map(str::to_owned).collect::<Vec<_>>() {
            reading.flag("tls-san", name);
        }
    }
}

fn read_controllers(reading: &mut SpecReading, instance: &Object, root: &FieldPath) {
    let names = |component: &str| -> Vec<String> {
        let items = instance.items(&["spec", "components", component, "controllers"]);
        items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let karmada = names("karmadaControllerManager");
    if !karmada.is_empty() {
        reading.flag("controllers", karmada.join(","));
    }
    if !names("kubeControllerManager").is_empty() {
        let path = root.child("kubeControllerManager").child("controllers");
        reading.ignore(&path, "has no effect: the controllers of Kubernetes that Karmada needs always run");
    }
}
