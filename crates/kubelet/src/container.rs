//! Builds the configuration of a container: command, environment, mounts, security context and resources. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use object::Object;
use object::quantity::Quantity;
use serde_json::Value;

use crate::cri::messages::{
    Capability, ContainerConfig, ContainerMetadata, ImageSpec, Int64Value, KeyValue, LinuxContainerConfig,
    LinuxContainerResources, LinuxContainerSecurityContext, Mount, MountPropagation, NamespaceMode,
};
use crate::env::{Variables, expand};
use crate::pod::{flag, list, number, qos_class, text, texts};
use crate::sandbox::{LABEL_CONTAINER, labels, namespaces, seccomp, supplemental_groups};
use crate::volumes::{Mounted, part_of};

/// Set on every container to detect changes of its spec.
pub(crate) const ANNOTATION_HASH: &str = "io.kubernetes.container.hash";
pub(crate) const TERMINATION_LOG_DEFAULT: &str = "/dev/termination-log";

const CPU_PERIOD_MICROS: i64 = 100_000;
const CPU_QUOTA_MIN: i64 = 1_000;
const CPU_SHARES_MIN: i64 = 2;
const CPU_SHARES_MAX: i64 = 262_144;

/// The inputs for the configuration of a container.
pub(crate) struct ContainerInputs<'a> {
    pub pod: &'a Object,
    pub container: &'a Value,
    pub attempt: u32,
    /// The image reference of the runtime.
    pub image_ref: &'a str,
    /// The numeric user of the image, if any; for `runAsNonRoot`.
    pub image_user: Option<i64>,
    pub image_user_name: &'a str,
    pub variables: &'a Variables,
    pub mounted: &'a Mounted,
    pub hosts_file: Option<PathBuf>,
    pub termination_log: PathBuf,
    pub node_memory_bytes: i64,
    /// The target container of an ephemeral container that shares its process namespace.
    pub target_id: Option<String>,
}

/// Returns the configuration, or the error message for users.
pub(crate) fn container_config(inputs: &ContainerInputs) -> Result<ContainerConfig, String> {
    let ContainerInputs { pod, container, variables, .. } = inputs;
    let name = text(container, "name");
    let expanded = |field: &str| -> Vec<String> {
        texts(container, field).iter().map(|word| expand(word, |name| variables.get(name))).collect()
    };
    let mut all_labels = labels(pod);
    all_labels.insert(LABEL_CONTAINER.to_owned(), name.to_owned());
    let envs = variables.iter().map(|(key, value)| KeyValue { key: key.to_owned(), value: value.to_owned() });
    Ok(ContainerConfig {
        metadata: Some(ContainerMetadata { name: name.to_owned(), attempt: inputs.attempt }),
        image: Some(ImageSpec { image: inputs.image_ref.to_owned() }),
        command: expanded("command"),
        args: expanded("args"),
        working_dir: text(container, "workingDir").to_owned(),
        envs: envs.collect(),
        mounts: mounts(inputs)?,
        labels: all_labels,
        annotations: BTreeMap::from([(ANNOTATION_HASH.to_owned(), hash(container))]),
        log_path: format!("{name}/{}.log", inputs.attempt),
        stdin: flag(container, "stdin"),
        stdin_once: flag(container, "stdinOnce"),
        tty: flag(container, "tty"),
        linux: Some(LinuxContainerConfig {
            resources: Some(resources(pod, container, inputs.node_memory_bytes)),
            security_context: Some(security(inputs)?),
        }),
    })
}

/// Changes if the container must be recreated: in a running pod only the image is mutable.
pub(crate) fn hash(container: &Value) -> String {
    // FNV-1a, written out so that it is the same in every build.
    let identity = format!("{}\0{}", text(container, "name"), text(container, "image"));
    let hash = identity
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

fn mounts(inputs: &ContainerInputs) -> Result<Vec<Mount>, String> {
    let container = inputs.container;
    let mut mounts = Vec::new();
    for mount in list(container, "volumeMounts") {
        let name = text(mount, "name");
        let volume = inputs.mounted.get(name).ok_or_else(|| format!("volume {name:?} not found"))?;
        let part = match text(mount, "subPathExpr") {
            "" => text(mount, "subPath").to_owned(),
            expression => expand(expression, |name| inputs.variables.get(name)),
        };
        let propagation = match text(mount, "mountPropagation") {
            "HostToContainer" => MountPropagation::HostToContainer,
            "Bidirectional" => MountPropagation::Bidirectional,
            _ => MountPropagation::Private,
        };
        mounts.push(Mount {
            container_path: absolute(text(mount, "mountPath")),
            host_path: part_of(volume, &part)?.display().to_string(),
            readonly: volume.read_only || flag(mount, "readOnly"),
            propagation: propagation as i32,
        });
    }
    let mut own = |host: &PathBuf, at: &str| {
        if mounts.iter().all(|mount| mount.container_path != at) {
            let host_path = host.display().to_string();
            mounts.push(Mount { container_path: at.to_owned(), host_path, readonly: false, propagation: 0 });
        }
    };
    if let Some(hosts) = &inputs.hosts_file {
        own(hosts, "/etc/hosts");
    }
    own(&inputs.termination_log, termination_path(container));
    Ok(mounts)
}

fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

pub(crate) fn termination_path(container: &Value) -> &str {
    Some(text(container, "terminationMessagePath")).filter(|path| !path.is_empty()).unwrap_or(TERMINATION_LOG_DEFAULT)
}

fn amount(container: &Value, kind: &str, name: &str) -> Option<Quantity> {
    let value = container.get("resources")?.get(kind)?.get(name)?;
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Quantity::parse(&text).ok()
}

fn resources(pod: &Object, container: &Value, node_memory_bytes: i64) -> LinuxContainerResources {
    let cpu_limit = amount(container, "limits", "cpu").map(|q| q.milli_value());
    let cpu_request = amount(container, "requests", "cpu").map(|q| q.milli_value()).or(cpu_limit);
    let memory_limit = amount(container, "limits", "memory").map(|q| q.value()).unwrap_or_default();
    let memory_request = amount(container, "requests", "memory").map_or(memory_limit, |q| q.value());
    let quota = cpu_limit.filter(|millis| *millis > 0);
    let quota = quota.map(|millis| (millis * CPU_PERIOD_MICROS / 1000).max(CPU_QUOTA_MIN));
    LinuxContainerResources {
        cpu_period: if quota.is_some() { CPU_PERIOD_MICROS } else { 0 },
        cpu_quota: quota.unwrap_or_default(),
        cpu_shares: (cpu_request.unwrap_or_default() * 1024 / 1000).clamp(CPU_SHARES_MIN, CPU_SHARES_MAX),
        memory_limit_in_bytes: memory_limit,
        oom_score_adj: oom_score(pod, memory_request, node_memory_bytes),
    }
}

/// The OOM score: a burstable container with a larger memory request is killed later.
fn oom_score(pod: &Object, memory_request: i64, node_memory_bytes: i64) -> i64 {
    match qos_class(pod) {
        "Guaranteed" => -997,
        "BestEffort" => 1000,
        _ => (1000 - (1000 * memory_request) / node_memory_bytes.max(1)).clamp(3, 999),
    }
}

fn security(inputs: &ContainerInputs) -> Result<LinuxContainerSecurityContext, String> {
    let ContainerInputs { pod, container, .. } = inputs;
    let nothing = Value::Null;
    let own = container.get("securityContext").unwrap_or(&nothing);
    let shared = pod.get(&["spec", "securityContext"]).unwrap_or(&nothing);
    let either = |field: &str| own.get(field).or_else(|| shared.get(field));
    let id = |field: &str| either(field).and_then(Value::as_i64).map(|value| Int64Value { value });
    let privileged = flag(own, "privileged");
    if either("runAsNonRoot").and_then(Value::as_bool).unwrap_or_default() {
        check_not_root(inputs, id("runAsUser").map(|id| id.value))?;
    }
    let capabilities = own.get("capabilities").map(|capabilities| Capability {
        add_capabilities: texts(capabilities, "add"),
        drop_capabilities: texts(capabilities, "drop"),
    });
    let mut namespaces = namespaces(pod);
    if let Some(target) = &inputs.target_id {
        namespaces.pid = NamespaceMode::Target as i32;
        namespaces.target_id.clone_from(target);
    }
    let escalates = own.get("allowPrivilegeEscalation").and_then(Value::as_bool).unwrap_or(true);
    Ok(LinuxContainerSecurityContext {
        capabilities,
        privileged,
        namespace_options: Some(namespaces),
        run_as_user: id("runAsUser"),
        // Runtimes reject a group without a user; the image's group then applies.
        run_as_group: if id("runAsUser").is_some() || inputs.image_user.is_some() { id("runAsGroup") } else { None },
        readonly_rootfs: flag(own, "readOnlyRootFilesystem"),
        supplemental_groups: supplemental_groups(pod),
        no_new_privs: !escalates && !privileged,
        masked_paths: Vec::new(),
        readonly_paths: Vec::new(),
        seccomp: Some(seccomp(either("seccompProfile"), privileged)),
    })
}

fn check_not_root(inputs: &ContainerInputs, asked: Option<i64>) -> Result<(), String> {
    let name = text(inputs.container, "name");
    let pod =
        format!("(pod: \"{}_{}({})\", container: {name})", inputs.pod.name(), inputs.pod.namespace(), inputs.pod.uid());
    match asked.or(inputs.image_user) {
        Some(0) if asked.is_some() => Err(format!("container's runAsUser breaks non-root policy {pod}")),
        Some(0) => Err(format!("container has runAsNonRoot and image will run as root {pod}")),
        Some(_) => Ok(()),
        None if inputs.image_user_name.is_empty() => {
            Err(format!("container has runAsNonRoot and image will run as root {pod}"))
        }
        None => Err(format!(
            "container has runAsNonRoot and image has non-numeric user ({}), cannot verify user is non-root {pod}",
            inputs.image_user_name
        )),
    }
}

/// Returns the host ports of a pod: host address, host port, container port.
pub(crate) fn host_ports(pod: &Object) -> Vec<(String, u16, u16)> {
    let mut ports = Vec::new();
    for (_, container) in crate::pod::containers(pod) {
        for port in list(container, "ports").iter().filter(|port| text(port, "protocol") != "UDP") {
            let number = |field: &str| number(port, field).and_then(|n| u16::try_from(n).ok()).filter(|n| *n > 0);
            if let (Some(host), Some(inside)) = (number("hostPort"), number("containerPort")) {
                ports.push((text(port, "hostIP").to_owned(), host, inside));
            }
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pod::pod_of;

    fn made(spec: Value) -> Result<ContainerConfig, String> {
        let pod = pod_of(spec);
        let (_, container) = crate::pod::container(&pod, "a").expect("it is there");
        let inputs = ContainerInputs {
            pod: &pod,
            container,
            attempt: 2,
            image_ref: "sha256:1",
            image_user: Some(0),
            image_user_name: "",
            variables: &Variables::default(),
            mounted: &Mounted::new(),
            hosts_file: Some(PathBuf::from("/x/hosts")),
            termination_log: PathBuf::from("/x/log"),
            node_memory_bytes: 1 << 30,
            target_id: None,
        };
        container_config(&inputs)
    }

    fn with(container: Value) -> ContainerConfig {
        let mut container = container;
        container["name"] = "a".into();
        made(json!({"containers": [container]})).expect("a valid container")
    }

    #[test]
    fn resources_map_to_shares_quotas_and_limits() {
        let resources = |resources: Value| {
            let resources = with(json!({"resources": resources})).linux.and_then(|l| l.resources).expect("set");
            (resources.cpu_shares, resources.cpu_quota, resources.memory_limit_in_bytes, resources.oom_score_adj)
        };
        assert_eq!(resources(json!({})), (2, 0, 0, 1000));
        assert_eq!(resources(json!({"requests": {"cpu": "250m", "memory": "512Mi"}})), (256, 0, 0, 500));
        assert_eq!(resources(json!({"limits": {"cpu": "2", "memory": "64Mi"}})), (2048, 200_000, 64 << 20, -997));
        assert_eq!(resources(json!({"limits": {"cpu": 1}})).1, 100_000);
    }

    #[test]
    fn the_security_context_is_applied() {
        let security = |context: Value| {
            with(json!({"securityContext": context})).linux.and_then(|l| l.security_context).expect("set")
        };
        let plain = security(json!({}));
        assert!(!plain.privileged && !plain.readonly_rootfs && !plain.no_new_privs && plain.run_as_user.is_none());
        let strict = security(json!({"runAsUser": 1000, "runAsGroup": 7, "readOnlyRootFilesystem": true,
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}));
        assert_eq!(strict.run_as_user, Some(Int64Value { value: 1000 }));
        assert_eq!(strict.run_as_group, Some(Int64Value { value: 7 }));
        assert!(strict.readonly_rootfs && strict.no_new_privs);
        assert_eq!(strict.capabilities.expect("set").drop_capabilities, ["ALL"]);
        assert!(security(json!({"privileged": true})).privileged);
    }

    #[test]
    fn run_as_non_root_is_enforced() {
        let run = |context: Value| made(json!({"containers": [{"name": "a", "securityContext": context}]}));
        assert!(run(json!({"runAsNonRoot": true})).is_err());
        assert!(run(json!({"runAsNonRoot": true, "runAsUser": 0})).is_err());
        assert!(run(json!({"runAsNonRoot": true, "runAsUser": 5})).is_ok());
    }

    #[test]
    fn the_hosts_file_and_termination_log_are_mounted() {
        let config = with(json!({"terminationMessagePath": "/tmp/last"}));
        let mounts: Vec<(&str, &str)> =
            config.mounts.iter().map(|m| (m.container_path.as_str(), m.host_path.as_str())).collect();
        assert_eq!(mounts, [("/etc/hosts", "/x/hosts"), ("/tmp/last", "/x/log")]);
        assert_eq!(config.log_path, "a/2.log");
    }

    #[test]
    fn only_the_image_changes_the_hash() {
        let hash = |container: Value| hash(&container);
        assert_eq!(hash(json!({"name": "a", "image": "x"})), hash(json!({"name": "a", "image": "x", "env": []})));
        assert_ne!(hash(json!({"name": "a", "image": "x"})), hash(json!({"name": "a", "image": "y"})));
    }

    #[test]
    fn host_ports_are_tcp_only() {
        let pod = pod_of(json!({"containers": [{"name": "a", "ports": [{"containerPort": 80, "hostPort": 8080},
            {"containerPort": 53, "hostPort": 53, "protocol": "UDP"}, {"containerPort": 90}]}]}));
        assert_eq!(host_ports(&pod), [(String::new(), 8080, 80)]);
    }
}
