//! Defaults of a pod spec: policies, probe periods, pull policies, modes of mounted files.

use serde_json::{Map, Value, json};

use super::super::amount::{canonicalize, canonicalize_list};
use super::super::defaults::{is_set, map_at, map_or_new, maps_in, set_absent, set_empty_str, set_zero};
use super::resources;

type Spec = Map<String, Value>;

/// Defaults of any pod spec, in a pod or in a template.
pub fn default_spec(spec: &mut Spec) {
    drop_disabled(spec);
    set_empty_str(spec, "dnsPolicy", "ClusterFirst");
    set_empty_str(spec, "restartPolicy", "Always");
    set_absent(spec, "securityContext", json!({}));
    set_absent(spec, "terminationGracePeriodSeconds", 30);
    set_empty_str(spec, "schedulerName", "default-scheduler");
    mirror_service_account(spec);
    for volume in maps_in(spec, "volumes") {
        default_volume(volume);
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in maps_in(spec, list) {
            default_container(container);
        }
    }
    canonicalize_list(spec, "overhead");
    if let Some(resources) = map_at(spec, "resources") {
        canonicalize_list(resources, "limits");
        canonicalize_list(resources, "requests");
    }
}

/// Fields of features that are disabled in this version of Kubernetes are dropped.
fn drop_disabled(spec: &mut Spec) {
    spec.remove("schedulingGroup");
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in maps_in(spec, list) {
            let Some(lifecycle) = map_at(container, "lifecycle") else { continue };
            if lifecycle.remove("stopSignal").is_some() && lifecycle.is_empty() {
                container.remove("lifecycle");
            }
        }
    }
    for volume in maps_in(spec, "volumes") {
        let Some(projected) = map_at(volume, "projected") else { continue };
        for source in maps_in(projected, "sources") {
            source.remove("clusterTrustBundle");
            source.remove("podCertificate");
        }
    }
}

/// Defaults of a pod itself, not of a template.
pub fn default_pod_only(spec: &mut Spec) {
    for list in ["containers", "initContainers"] {
        for container in maps_in(spec, list) {
            requests_from_limits(container);
        }
    }
    resources::default_pod_level(spec);
    // A pod has at least one second to terminate; a template may still specify less.
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|s| s < 0) {
        spec.insert("terminationGracePeriodSeconds".into(), 1.into());
    }
    set_absent(spec, "enableServiceLinks", true);
    if spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or(false) {
        for list in ["containers", "initContainers"] {
            for container in maps_in(spec, list) {
                for port in maps_in(container, "ports") {
                    let number = port.get("containerPort").and_then(Value::as_i64).unwrap_or(0);
                    set_zero(port, "hostPort", number);
                }
            }
        }
    }
}

/// `serviceAccount` is the old name of `serviceAccountName`; both are always shown.
fn mirror_service_account(spec: &mut Spec) {
    let text = |spec: &Spec, key: &str| spec.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (name, old) = (text(spec, "serviceAccountName"), text(spec, "serviceAccount"));
    if !name.is_empty() && name != old {
        spec.insert("serviceAccount".into(), name.into());
    } else if name.is_empty() && !old.is_empty() {
        spec.insert("serviceAccountName".into(), old.into());
    }
}

fn requests_from_limits(container: &mut Spec) {
    let Some(resources) = map_at(container, "resources") else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).filter(|l| !l.is_empty()) else { return };
    let missing: Vec<(String, Value)> = limits
        .iter()
        .filter(|(name, _)| resources.get("requests").and_then(|r| r.get(name)).is_none())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if !missing.is_empty()
        && let Some(requests) = map_or_new(resources, "requests")
    {
        requests.extend(missing);
    }
}

fn default_container(container: &mut Spec) {
    default_pull_policy(container, "image", "imagePullPolicy");
    set_empty_str(container, "terminationMessagePath", "/dev/termination-log");
    set_empty_str(container, "terminationMessagePolicy", "File");
    // Kubernetes always shows the resources of a container, even if empty.
    set_absent(container, "resources", json!({}));
    for port in maps_in(container, "ports") {
        set_empty_str(port, "protocol", "TCP");
    }
    for variable in maps_in(container, "env") {
        default_env_source(variable);
    }
    if let Some(resources) = map_at(container, "resources") {
        canonicalize_list(resources, "limits");
        canonicalize_list(resources, "requests");
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = map_at(container, probe) {
            default_probe(probe);
        }
    }
    if let Some(lifecycle) = map_at(container, "lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(http) = map_at(lifecycle, hook).and_then(|hook| map_at(hook, "httpGet")) {
                default_http_get(http);
            }
        }
    }
}

fn default_env_source(variable: &mut Spec) {
    let Some(source) = map_at(variable, "valueFrom") else { return };
    if let Some(field) = map_at(source, "fieldRef") {
        set_empty_str(field, "apiVersion", "v1");
    }
    if let Some(file) = map_at(source, "fileKeyRef") {
        set_absent(file, "optional", false);
    }
    if let Some(resource) = map_at(source, "resourceFieldRef") {
        default_divisor(resource);
    }
}

fn default_divisor(resource: &mut Spec) {
    set_absent(resource, "divisor", "0");
    canonicalize(resource, "divisor");
}

fn default_probe(probe: &mut Spec) {
    set_zero(probe, "timeoutSeconds", 1);
    set_zero(probe, "periodSeconds", 10);
    set_zero(probe, "successThreshold", 1);
    set_zero(probe, "failureThreshold", 3);
    if let Some(http) = map_at(probe, "httpGet") {
        default_http_get(http);
    }
    if let Some(grpc) = map_at(probe, "grpc") {
        set_absent(grpc, "service", "");
    }
}

fn default_http_get(http: &mut Spec) {
    set_empty_str(http, "path", "/");
    set_empty_str(http, "scheme", "HTTP");
}

fn default_pull_policy(map: &mut Spec, image: &str, policy: &str) {
    let image = map.get(image).and_then(Value::as_str).unwrap_or_default();
    let default = if is_latest(image) { "Always" } else { "IfNotPresent" };
    set_empty_str(map, policy, default);
}

/// Reports whether the image has the tag `latest`, explicit or implied. An invalid reference does not.
fn is_latest(image: &str) -> bool {
    if image.contains('@') || image.is_empty() {
        return false;
    }
    let last = image.rsplit('/').next().unwrap_or(image);
    let (name, tag) = last.split_once(':').unwrap_or((last, "latest"));
    let plain =
        |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'/' | b':'));
    tag == "latest" && !name.is_empty() && plain(image) && !name.bytes().any(|b| b.is_ascii_uppercase())
}

/// The volume sources, in the order Kubernetes checks them.
pub const VOLUME_SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

fn default_volume(volume: &mut Spec) {
    if !VOLUME_SOURCES.iter().any(|source| is_set(volume, source)) {
        volume.insert("emptyDir".into(), json!({}));
    }
    if let Some(image) = map_at(volume, "image") {
        default_pull_policy(image, "reference", "pullPolicy");
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = map_at(volume, source) {
            set_absent(source, "defaultMode", 0o644);
        }
    }
    if let Some(empty_dir) = map_at(volume, "emptyDir") {
        canonicalize(empty_dir, "sizeLimit");
    }
    if let Some(downward) = map_at(volume, "downwardAPI") {
        default_downward_files(downward);
    }
    if let Some(projected) = map_at(volume, "projected") {
        for source in maps_in(projected, "sources") {
            if let Some(downward) = map_at(source, "downwardAPI") {
                default_downward_files(downward);
            }
            if let Some(token) = map_at(source, "serviceAccountToken") {
                set_absent(token, "expirationSeconds", 3600);
            }
        }
    }
    if let Some(claim) = map_at(volume, "ephemeral").and_then(|e| map_at(e, "volumeClaimTemplate")) {
        set_absent(claim, "metadata", json!({}));
        if let Some(spec) = map_at(claim, "spec") {
            default_claim_spec(spec);
        }
    }
    default_block_volume(volume);
}

/// Defaults of sources that persistent volumes share with pods.
pub fn default_block_volume(volume: &mut Spec) {
    if let Some(host_path) = map_at(volume, "hostPath") {
        set_absent(host_path, "type", "");
    }
    if let Some(iscsi) = map_at(volume, "iscsi") {
        set_empty_str(iscsi, "iscsiInterface", "default");
    }
    if let Some(rbd) = map_at(volume, "rbd") {
        set_empty_str(rbd, "pool", "rbd");
        set_empty_str(rbd, "user", "admin");
        set_empty_str(rbd, "keyring", "/etc/ceph/keyring");
    }
    if let Some(disk) = map_at(volume, "azureDisk") {
        set_absent(disk, "cachingMode", "ReadWrite");
        set_absent(disk, "fsType", "ext4");
        set_absent(disk, "readOnly", false);
        set_absent(disk, "kind", "Shared");
    }
    if let Some(scale_io) = map_at(volume, "scaleIO") {
        set_empty_str(scale_io, "storageMode", "ThinProvisioned");
        set_empty_str(scale_io, "fsType", "xfs");
    }
}

pub fn default_claim_spec(spec: &mut Spec) {
    set_absent(spec, "volumeMode", "Filesystem");
    set_absent(spec, "resources", json!({}));
    if let Some(resources) = map_at(spec, "resources") {
        canonicalize_list(resources, "limits");
        canonicalize_list(resources, "requests");
    }
}

fn default_downward_files(source: &mut Spec) {
    for file in maps_in(source, "items") {
        if let Some(field) = map_at(file, "fieldRef") {
            set_empty_str(field, "apiVersion", "v1");
        }
        if let Some(resource) = map_at(file, "resourceFieldRef") {
            default_divisor(resource);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_image_is_pulled_again() {
        let cases = [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1.25", false),
            ("localhost:5000/nginx", true),
            ("localhost:5000/nginx:1", false),
            ("nginx@sha256:aa", false),
            ("", false),
            ("Bad Image", false),
        ];
        for (image, expected) in cases {
            assert_eq!(is_latest(image), expected, "{image}");
        }
    }
}
