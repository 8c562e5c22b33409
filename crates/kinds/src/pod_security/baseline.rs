//! The rules of the level `baseline`: no known privilege escalations.

use serde_json::Value;

use super::pod::{PodView, containers_named, name, plural, quoted, setters, sorted, violation};
use super::{Row, Violation};

const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const DEFAULT_CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// Sysctls and the minor version that allowed them.
const SYSCTLS: &[(&str, u32)] = &[
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];

const fn row(id: &'static str, since: u32, rule: super::Rule) -> Row {
    Row { id, since, rule, replaces: None }
}

pub(super) const ROWS: &[Row] = &[
    row("appArmorProfile", 0, apparmor),
    row("capabilities_baseline", 0, capabilities),
    row("hostNamespaces", 0, host_namespaces),
    row("hostPathVolumes", 0, host_paths),
    row("hostPorts", 0, host_ports),
    row("hostProbesAndHostLifecycle", 34, probe_hosts),
    row("privileged", 0, privileged),
    row("procMount", 0, proc_mount),
    row("procMount", 35, proc_mount_of_host_users),
    row("seLinuxOptions", 0, |pod| selinux(pod, false)),
    row("seLinuxOptions", 31, |pod| selinux(pod, true)),
    row("seccompProfile_baseline", 0, seccomp_annotations),
    row("seccompProfile_baseline", 19, seccomp),
    row("sysctls", 0, |pod| sysctls(pod, 0)),
    row("sysctls", 27, |pod| sysctls(pod, 27)),
    row("sysctls", 29, |pod| sysctls(pod, 29)),
    row("sysctls", 32, |pod| sysctls(pod, 32)),
    row("windowsHostProcess", 0, windows_host_process),
];

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn apparmor(pod: &PodView<'_>) -> Option<Violation> {
    let kind = |security: &Value| {
        security["appArmorProfile"].is_object().then(|| text(&security["appArmorProfile"]["type"]).to_owned())
    };
    let is_bad =
        |security: &Value| kind(security).is_some_and(|kind| !matches!(kind.as_str(), "RuntimeDefault" | "Localhost"));
    let mut values: Vec<String> = Vec::new();
    let of_pod = is_bad(pod.security());
    values.extend(kind(pod.security()).filter(|_| of_pod));
    let bad = pod.names_of(|container| is_bad(&container["securityContext"]));
    let bad_contexts =
        pod.containers().map(|container| &container["securityContext"]).filter(|context| is_bad(context));
    values.extend(bad_contexts.filter_map(kind));
    let mut values = sorted(values);
    let is_allowed =
        |profile: &str| profile.is_empty() || profile == "runtime/default" || profile.starts_with("localhost/");
    let annotations = pod.annotations().filter(|(key, profile)| key.starts_with(APPARMOR) && !is_allowed(profile));
    let annotations = sorted(annotations.map(|(key, profile)| format!("{key}={profile:?}")).collect());
    let mut who: Vec<String> = setters(of_pod, &bad).into_iter().collect();
    if !annotations.is_empty() {
        who.push(plural(annotations.len(), "annotation", "annotations").to_owned());
        values.extend(annotations);
    }
    if who.is_empty() {
        return None;
    }
    let reason = plural(values.len(), "forbidden AppArmor profile", "forbidden AppArmor profiles");
    violation(reason, format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(&values)))
}

fn capabilities(pod: &PodView<'_>) -> Option<Violation> {
    let added = |container: &Value| -> Vec<String> {
        let added = container["securityContext"]["capabilities"]["add"].as_array().into_iter().flatten();
        added.map(text).filter(|name| !DEFAULT_CAPABILITIES.contains(name)).map(str::to_owned).collect()
    };
    let bad = pod.names_of(|container| !added(container).is_empty());
    if bad.is_empty() {
        return None;
    }
    let names = sorted(pod.containers().flat_map(added).collect());
    let detail =
        format!("{} must not include {} in securityContext.capabilities.add", containers_named(&bad), quoted(&names));
    violation("non-default capabilities", detail)
}

fn host_namespaces(pod: &PodView<'_>) -> Option<Violation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|field| pod.spec[*field] == true);
    let shared: Vec<String> = shared.map(|field| format!("{field}=true")).collect();
    if shared.is_empty() { None } else { violation("host namespaces", shared.join(", ")) }
}

fn host_paths(pod: &PodView<'_>) -> Option<Violation> {
    let volumes = pod.spec["volumes"].as_array().into_iter().flatten();
    let volumes: Vec<&str> = volumes.filter(|volume| volume["hostPath"].is_object()).map(name).collect();
    if volumes.is_empty() {
        return None;
    }
    violation("hostPath volumes", format!("{} {}", plural(volumes.len(), "volume", "volumes"), quoted(&volumes)))
}

fn host_ports(pod: &PodView<'_>) -> Option<Violation> {
    let ports = |container: &Value| -> Vec<String> {
        let ports = container["ports"].as_array().into_iter().flatten();
        let used = ports.filter_map(|port| port["hostPort"].as_i64()).filter(|port| *port != 0);
        used.map(|port| port.to_string()).collect()
    };
    let bad = pod.names_of(|container| !ports(container).is_empty());
    if bad.is_empty() {
        return None;
    }
    let ports = sorted(pod.containers().flat_map(ports).collect());
    let (uses, what) = (plural(bad.len(), "uses", "use"), plural(ports.len(), "hostPort", "hostPorts"));
    violation("hostPort", format!("{} {uses} {what} {}", containers_named(&bad), ports.join(", ")))
}

fn probe_hosts(pod: &PodView<'_>) -> Option<Violation> {
    let hosts = |container: &Value| -> Vec<String> {
        let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|probe| &container[probe]);
        let handlers = ["postStart", "preStop"].map(|handler| &container["lifecycle"][handler]);
        let both = probes.into_iter().chain(handlers);
        let hosts = both.flat_map(|handler| [&handler["httpGet"]["host"], &handler["tcpSocket"]["host"]]);
        hosts.map(text).filter(|host| !host.is_empty()).map(str::to_owned).collect()
    };
    let mut bad = pod.names_of(|container| !hosts(container).is_empty());
    if bad.is_empty() {
        return None;
    }
    bad.sort_unstable();
    bad.dedup();
    let hosts = sorted(pod.containers().flat_map(hosts).collect());
    let uses = plural(bad.len(), "uses", "use");
    let what = plural(hosts.len(), "probe or lifecycle host", "probe or lifecycle hosts");
    violation("probe or lifecycle host", format!("{} {uses} {what} {}", containers_named(&bad), quoted(&hosts)))
}

fn privileged(pod: &PodView<'_>) -> Option<Violation> {
    let bad = pod.names_of(|container| container["securityContext"]["privileged"] == true);
    if bad.is_empty() {
        return None;
    }
    violation("privileged", format!("{} must not set securityContext.privileged=true", containers_named(&bad)))
}

pub(super) fn proc_mount(pod: &PodView<'_>) -> Option<Violation> {
    let kind = |container: &Value| container["securityContext"]["procMount"].as_str().map(str::to_owned);
    let other = |container: &Value| kind(container).filter(|kind| kind != "Default");
    let bad = pod.names_of(|container| other(container).is_some());
    if bad.is_empty() {
        return None;
    }
    let kinds = sorted(pod.containers().filter_map(other).collect());
    let detail = format!("{} must not set securityContext.procMount to {}", containers_named(&bad), quoted(&kinds));
    violation("procMount", detail)
}

fn proc_mount_of_host_users(pod: &PodView<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { proc_mount(pod) }
}

fn selinux(pod: &PodView<'_>, engine_allowed: bool) -> Option<Violation> {
    let options = |security: &'_ Value| security["seLinuxOptions"].as_object().cloned().unwrap_or_default();
    let field = |security: &Value, key: &str| options(security).get(key).map(text).unwrap_or_default().to_owned();
    let bad_type = |security: &Value| {
        let kind = field(security, "type");
        let known = matches!(kind.as_str(), "" | "container_t" | "container_init_t" | "container_kvm_t")
            || (engine_allowed && kind == "container_engine_t");
        (!known).then_some(kind)
    };
    let sets = |security: &Value, key: &str| !field(security, key).is_empty();
    let is_bad = |security: &Value| bad_type(security).is_some() || sets(security, "user") || sets(security, "role");
    let bad = pod.names_of(|container| is_bad(&container["securityContext"]));
    let who = setters(is_bad(pod.security()), &bad)?;
    let contexts: Vec<&Value> = std::iter::once(pod.security())
        .chain(pod.containers().map(|container| &container["securityContext"]))
        .collect();
    let types = sorted(contexts.iter().filter_map(|security| bad_type(security)).collect());
    let mut data = Vec::new();
    if !types.is_empty() {
        data.push(format!("{} {}", plural(types.len(), "type", "types"), quoted(&types)));
    }
    for key in ["user", "role"] {
        if contexts.iter().any(|security| sets(security, key)) {
            data.push(format!("{key} may not be set"));
        }
    }
    violation("seLinuxOptions", format!("{who} set forbidden securityContext.seLinuxOptions: {}", data.join("; ")))
}

fn seccomp_annotations(pod: &PodView<'_>) -> Option<Violation> {
    let is_valid =
        |profile: &str| matches!(profile, "runtime/default" | "docker/default") || profile.starts_with("localhost/");
    let keys: Vec<String> = std::iter::once(SECCOMP_POD.to_owned())
        .chain(pod.containers().map(|container| format!("{SECCOMP_CONTAINER}{}", name(container))))
        .collect();
    let forbidden = pod.annotations().filter(|(key, value)| keys.iter().any(|known| known == key) && !is_valid(value));
    let forbidden = sorted(forbidden.map(|(key, value)| format!("{key}={value:?}")).collect());
    if forbidden.is_empty() {
        return None;
    }
    let what = plural(forbidden.len(), "annotation", "annotations");
    violation("seccompProfile", format!("forbidden {what} {}", forbidden.join(", ")))
}

/// The type of a seccomp profile, if a security context sets one.
pub(super) fn seccomp_type(security: &Value) -> Option<String> {
    let profile = &security["seccompProfile"];
    profile.is_object().then(|| text(&profile["type"]).to_owned())
}

/// The pod or containers that set a profile other than the two good ones.
pub(super) fn seccomp(pod: &PodView<'_>) -> Option<Violation> {
    let bad_type = |security: &Value| {
        seccomp_type(security).filter(|kind| !matches!(kind.as_str(), "RuntimeDefault" | "Localhost"))
    };
    let bad = pod.names_of(|container| bad_type(&container["securityContext"]).is_some());
    let of_pod = bad_type(pod.security());
    let who = setters(of_pod.is_some(), &bad)?;
    let of_containers = pod.containers().filter_map(|container| bad_type(&container["securityContext"]));
    let types = sorted(of_pod.into_iter().chain(of_containers).collect());
    violation("seccompProfile", format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(&types)))
}

fn sysctls(pod: &PodView<'_>, minor: u32) -> Option<Violation> {
    let set = pod.security()["sysctls"].as_array().into_iter().flatten().map(name);
    let is_allowed = |wanted: &str| SYSCTLS.iter().any(|(known, since)| *known == wanted && *since <= minor);
    let forbidden: Vec<&str> = set.filter(|sysctl| !is_allowed(sysctl)).collect();
    if forbidden.is_empty() { None } else { violation("forbidden sysctls", forbidden.join(", ")) }
}

fn windows_host_process(pod: &PodView<'_>) -> Option<Violation> {
    let is_set = |security: &Value| security["windowsOptions"]["hostProcess"] == true;
    let bad = pod.names_of(|container| is_set(&container["securityContext"]));
    let who = setters(is_set(pod.security()), &bad)?;
    violation("hostProcess", format!("{who} must not set securityContext.windowsOptions.hostProcess=true"))
}
