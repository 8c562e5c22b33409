//! The settings of components in the spec of an instance.

use api::features::Features;
use object::quantity::Quantity;
use object::{FieldError, FieldPath, Object};
use serde_json::Value;

use super::extra_args::{self, Component};
use super::{ExternalEtcd, STORAGE_BYTES_MIN, SpecReading, entries};

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
/// The Karmada release that is served.
const KARMADA_RELEASE: (u32, u32) = (1, 18);
/// The Kubernetes release whose API is served.
const KUBERNETES_RELEASE: (u32, u32) = (1, 36);
/// Components whose memory limits together are the memory of an instance.
const MEMORY_COMPONENTS: [&str; 2] = ["karmadaAPIServer", "karmadaControllerManager"];
/// Part of that memory that requests may hold: the rest is for objects and controllers.
const REQUEST_MEMORY_PART: i64 = 4;
const MEBIBYTE: i64 = 1 << 20;
/// The least and the most that requests may hold, in MiB. The most is the default of `flotilla server`.
const REQUEST_MEMORY_MIB: (i64, i64) = (64, 512);

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
    if instance.get(&["spec", "components", "karmadaSearch"]).is_some() {
        let why = "has no effect: search is part of the control plane; it caches what ResourceRegistries select";
        reading.ignore(&root.child("karmadaSearch"), why);
    }
    read_memory(reading, instance, &root);
    for component in Component::ALL {
        extra_args::read(reading, instance, *component);
    }
}

/// Components with feature gates of the control plane; later ones take precedence. Gates of kube-apiserver itself are unknown.
const GATED_COMPONENTS: [&str; 3] = ["karmadaAPIServer", "karmadaScheduler", "karmadaControllerManager"];

/// Gates of a component take precedence over those of the whole control plane, and fields over flags.
fn read_feature_gates(reading: &mut SpecReading, instance: &Object) {
    let mut gates = std::collections::BTreeMap::new();
    let root = FieldPath::new("spec");
    let mut add = |reading: &mut SpecReading, (gate, value): (&str, String), path: FieldPath, sets_groups: bool| {
        let is_known = Features::NAMES.contains(&gate) || (sets_groups && ["AllAlpha", "AllBeta"].contains(&gate));
        match is_known {
            true => drop(gates.insert(gate.to_owned(), value)),
            false => reading.ignore(&path, "is not a known feature gate"),
        }
    };
    for (gate, value) in entries(instance, &["spec", "featureGates"]) {
        add(reading, (gate, value), root.child("featureGates").key(gate), true);
    }
    for component in GATED_COMPONENTS {
        let path = root.child("components").child(component);
        // AllAlpha and AllBeta of kube-apiserver are other gates than ours.
        let sets_groups = component != "karmadaAPIServer";
        for (name, list) in entries(instance, &["spec", "components", component, "extraArgs"]) {
            let at = path.child("extraArgs").key(name);
            for entry in list.split(',').map(str::trim).filter(|entry| name == "feature-gates" && !entry.is_empty()) {
                match entry.split_once('=') {
                    Some((gate, value)) => add(reading, (gate, value.to_owned()), at.child(gate), sets_groups),
                    None => reading.refuse(FieldError::invalid(at.clone(), entry, "must be NAME=true or NAME=false")),
                }
            }
        }
        for (gate, value) in entries(instance, &["spec", "components", component, "featureGates"]) {
            add(reading, (gate, value), path.child("featureGates").key(gate), sets_groups);
        }
    }
    if !gates.is_empty() {
        let list: Vec<String> = gates.iter().map(|(gate, value)| format!("{gate}={value}")).collect();
        reading.flag("feature-gates", list.join(","));
    }
    for component in ["kubeControllerManager", "karmadaAggregatedAPIServer"] {
        if !entries(instance, &["spec", "components", component, "featureGates"]).is_empty() {
            let path = root.child("components").child(component).child("featureGates");
            reading.ignore(&path, "has no effect: the control plane has none of these gates");
        }
    }
}

/// Memory limits bound what requests may hold; the process itself is not limited.
fn read_memory(reading: &mut SpecReading, instance: &Object, root: &FieldPath) {
    let mut bytes = 0i64;
    for component in MEMORY_COMPONENTS {
        let at = ["spec", "components", component, "resources", "limits", "memory"];
        let Some(limit) = instance.get(&at) else { continue };
        let text = limit.as_str().map_or_else(|| limit.to_string(), str::to_owned);
        match Quantity::parse(&text) {
            Ok(limit) => bytes = bytes.saturating_add(limit.value()),
            Err(problem) => {
                let path = root.child(component).child("resources").child("limits").child("memory");
                reading.refuse(FieldError::invalid(path, text, problem.to_string()));
            }
        }
    }
    if bytes > 0 {
        let (least, most) = REQUEST_MEMORY_MIB;
        reading.flag("max-inflight-memory", (bytes / REQUEST_MEMORY_PART / MEBIBYTE).clamp(least, most));
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
    let namespace = external["secretRef"]["namespace"].as_str().unwrap_or_default();
    if !namespace.is_empty() && namespace != instance.namespace() {
        let at = path.child("secretRef").child("namespace");
        reading.refuse(FieldError::invalid(at, namespace, "must be the namespace of the instance"));
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
    if let Some(claim) = local["volumeData"].get("volumeClaim") {
        read_volume_claim(reading, claim, &volume.child("volumeClaim"));
    }
    if local["volumeData"].get("hostPath").is_some() {
        reading.ignore(&volume.child("hostPath"), "has no effect: data is kept in the manager's data directory");
    }
    if local["volumeData"].get("emptyDir").is_some() {
        reading.ignore(&volume.child("emptyDir"), "has no effect: data is always durable");
    }
}

/// The request of the claim is the size limit of the storage; there is no volume.
fn read_volume_claim(reading: &mut SpecReading, claim: &Value, path: &FieldPath) {
    let spec = path.child("spec");
    match &claim["spec"]["resources"]["requests"]["storage"] {
        Value::Null => {
            let why = "has no effect without a request of storage: data is kept in the manager's data directory";
            reading.ignore(path, why);
        }
        request => read_storage_request(reading, request, &spec.child("resources").child("requests").child("storage")),
    }
    if claim["spec"]["storageClassName"].as_str().is_some_and(|name| !name.is_empty()) {
        let why = "has no effect: data is kept in the manager's data directory";
        reading.ignore(&spec.child("storageClassName"), why);
    }
}

fn read_storage_request(reading: &mut SpecReading, request: &Value, path: &FieldPath) {
    let text = request.as_str().map_or_else(|| request.to_string(), str::to_owned);
    match Quantity::parse(&text).map(|quantity| u64::try_from(quantity.value()).unwrap_or(0)) {
        Ok(bytes) if bytes >= STORAGE_BYTES_MIN => reading.flag("quota-backend-bytes", bytes),
        Ok(_) => {
            let least = format!("must be at least {}Mi", STORAGE_BYTES_MIN >> 20);
            reading.refuse(FieldError::invalid(path.clone(), text, least));
        }
        Err(problem) => reading.refuse(FieldError::invalid(path.clone(), text, problem.to_string())),
    }
}

/// Reads the settings that all components share.
fn read_common(reading: &mut SpecReading, name: &str, component: &Value, path: &FieldPath) {
    read_image_tag(reading, name, component, &path.child("imageTag"));
    match component["replicas"].as_i64() {
        Some(negative) if negative < 0 => {
            reading.refuse(FieldError::invalid(path.child("replicas"), negative, "must not be negative"));
        }
        Some(0) if name == "karmadaAPIServer" => reading.plane.is_stopped = true,
        Some(0) => reading.ignore(&path.child("replicas"), "0 has no effect: components are not stopped one by one"),
        Some(2..) => reading.ignore(&path.child("replicas"), "has no effect: each instance runs once"),
        _ => {}
    }
    let budget = component["podDisruptionBudgetConfig"].as_object();
    if budget.is_some_and(|budget| budget.contains_key("minAvailable") == budget.contains_key("maxUnavailable")) {
        let at = path.child("podDisruptionBudgetConfig");
        reading.refuse(FieldError::invalid(at, "", "exactly one of minAvailable and maxUnavailable must be set"));
    }
}

/// No image is used. A tag that names a release asks for what that release does.
fn read_image_tag(reading: &mut SpecReading, name: &str, component: &Value, path: &FieldPath) {
    let tag = component["imageTag"].as_str().unwrap_or_default();
    let served = match name {
        "etcd" => None,
        name if KUBERNETES_COMPONENTS.contains(&name) => Some(("Kubernetes", KUBERNETES_RELEASE)),
        _ => Some(("Karmada", KARMADA_RELEASE)),
    };
    match (release(tag), served) {
        (Some(asked), Some((project, (major, minor)))) if asked > (major, minor) => {
            let why = format!("has no effect: the control plane is compatible with {project} {major}.{minor}");
            reading.ignore(path, &why);
        }
        (None, _) if !tag.is_empty() && tag != "latest" => {
            reading.ignore(path, "has no effect: the control plane uses no images, and the tag names no release");
        }
        _ => {}
    }
}

/// Returns major and minor version of a tag such as v1.18.2 or 3.6.6-0.
fn release(tag: &str) -> Option<(u32, u32)> {
    let mut parts = tag.strip_prefix('v').unwrap_or(tag).split(['.', '-', '+', '@']).map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

fn read_api_server(reading: &mut SpecReading, instance: &Object, path: &FieldPath) {
    let at = |field: &'static str| ["spec", "components", "karmadaAPIServer", field];
    reading.plane.has_own_port = matches!(instance.str_at(&at("serviceType")), "NodePort" | "LoadBalancer");
    let subnet = instance.str_at(&at("serviceSubnet"));
    if !subnet.is_empty() {
        reading.flag("service-cluster-ip-range", subnet);
    }
    let class = instance.str_at(&at("loadBalancerClass"));
    if !class.is_empty()
        && let Some(problem) = object::names::qualified_name(class).into_iter().next()
    {
        reading.refuse(FieldError::invalid(path.child("loadBalancerClass"), class, problem));
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
