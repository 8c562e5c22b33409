//! Builds the configuration of a pod sandbox: names, DNS, namespaces. Pure.

use std::collections::BTreeMap;
use std::path::Path;

use object::Object;
use serde_json::Value;

use crate::cri::messages::{
    DnsConfig, Int64Value, LinuxPodSandboxConfig, LinuxSandboxSecurityContext, NamespaceMode, NamespaceOption,
    PodSandboxConfig, PodSandboxMetadata, ProfileType, SecurityProfile,
};
use crate::pod::{flag, hostname, number, text, texts, uses_host_network};

pub(crate) const LABEL_NAME: &str = "io.kubernetes.pod.name";
pub(crate) const LABEL_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub(crate) const LABEL_UID: &str = "io.kubernetes.pod.uid";
pub(crate) const LABEL_CONTAINER: &str = "io.kubernetes.container.name";

/// Maximum number of search domains, and their total length.
const SEARCHES_MAX: usize = 32;

/// DNS settings for pods of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeDns {
    pub cluster_dns: Vec<String>,
    pub cluster_domain: String,
    /// The content of this machine's resolv.conf.
    pub host: DnsSettings,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DnsSettings {
    pub servers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<String>,
}

/// Returns the labels of every sandbox and container of a pod.
pub(crate) fn labels(pod: &Object) -> BTreeMap<String, String> {
    BTreeMap::from([
        (LABEL_NAME.to_owned(), pod.name().to_owned()),
        (LABEL_NAMESPACE.to_owned(), pod.namespace().to_owned()),
        (LABEL_UID.to_owned(), pod.uid().to_owned()),
    ])
}

pub(crate) fn sandbox_config(
    pod: &Object,
    attempt: u32,
    log_directory: &Path,
    cgroup_parent: &str,
    resolving: &NodeDns,
) -> PodSandboxConfig {
    let mut all_labels: BTreeMap<String, String> =
        pod.labels().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    all_labels.extend(labels(pod));
    let annotations = pod.annotations().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let metadata = PodSandboxMetadata {
        name: pod.name().to_owned(),
        uid: pod.uid().to_owned(),
        namespace: pod.namespace().to_owned(),
        attempt,
    };
    let dns = dns_of(pod, resolving);
    PodSandboxConfig {
        metadata: Some(metadata),
        hostname: if uses_host_network(pod) { String::new() } else { hostname(pod) },
        log_directory: log_directory.display().to_string(),
        dns_config: Some(DnsConfig { servers: dns.servers, searches: dns.searches, options: dns.options }),
        labels: all_labels,
        annotations,
        linux: Some(LinuxPodSandboxConfig {
            cgroup_parent: cgroup_parent.to_owned(),
            security_context: Some(sandbox_security(pod)),
            sysctls: sysctls(pod),
        }),
    }
}

fn sandbox_security(pod: &Object) -> LinuxSandboxSecurityContext {
    let nothing = Value::Null;
    let context = pod.get(&["spec", "securityContext"]).unwrap_or(&nothing);
    let id = |field: &str| number(context, field).map(|value| Int64Value { value });
    let privileged = crate::pod::containers(pod)
        .iter()
        .any(|(_, container)| container.get("securityContext").is_some_and(|c| flag(c, "privileged")));
    LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces(pod)),
        run_as_user: id("runAsUser"),
        run_as_group: id("runAsUser").and(id("runAsGroup")),
        readonly_rootfs: false,
        supplemental_groups: supplemental_groups(pod),
        privileged,
        seccomp: Some(seccomp(context.get("seccompProfile"), privileged)),
    }
}

pub(crate) fn namespaces(pod: &Object) -> NamespaceOption {
    let mode = |field: &str, otherwise: NamespaceMode| {
        let is_host = pod.bool_at(&["spec", field]).unwrap_or_default();
        if is_host { NamespaceMode::Node as i32 } else { otherwise as i32 }
    };
    let shares = pod.bool_at(&["spec", "shareProcessNamespace"]).unwrap_or_default();
    NamespaceOption {
        network: mode("hostNetwork", NamespaceMode::Pod),
        pid: mode("hostPID", if shares { NamespaceMode::Pod } else { NamespaceMode::Container }),
        ipc: mode("hostIPC", NamespaceMode::Pod),
        target_id: String::new(),
    }
}

pub(crate) fn supplemental_groups(pod: &Object) -> Vec<i64> {
    let asked = pod.items(&["spec", "securityContext", "supplementalGroups"]).iter().filter_map(Value::as_i64);
    asked.chain(pod.i64_at(&["spec", "securityContext", "fsGroup"])).collect()
}

pub(crate) fn seccomp(profile: Option<&Value>, privileged: bool) -> SecurityProfile {
    let kind = profile.map(|profile| text(profile, "type")).unwrap_or_default();
    let (kind, localhost_ref) = match kind {
        _ if privileged => (ProfileType::Unconfined, ""),
        "RuntimeDefault" => (ProfileType::RuntimeDefault, ""),
        "Localhost" => (ProfileType::Localhost, profile.map(|p| text(p, "localhostProfile")).unwrap_or_default()),
        _ => (ProfileType::Unconfined, ""),
    };
    SecurityProfile { profile_type: kind as i32, localhost_ref: localhost_ref.to_owned() }
}

fn sysctls(pod: &Object) -> BTreeMap<String, String> {
    let asked = pod.items(&["spec", "securityContext", "sysctls"]).iter();
    asked.map(|sysctl| (text(sysctl, "name").to_owned(), text(sysctl, "value").to_owned())).collect()
}

/// Returns the DNS settings by the pod's policy, with its own additions.
pub(crate) fn dns_of(pod: &Object, resolving: &NodeDns) -> DnsSettings {
    let policy = pod.str_at(&["spec", "dnsPolicy"]);
    let in_cluster = match policy {
        "ClusterFirstWithHostNet" => true,
        "Default" | "None" => false,
        _ => !uses_host_network(pod),
    };
    let mut dns = match policy {
        "None" => DnsSettings::default(),
        _ if in_cluster && !resolving.cluster_dns.is_empty() => in_cluster_dns(pod, resolving),
        _ => resolving.host.clone(),
    };
    if let Some(own) = pod.get(&["spec", "dnsConfig"]) {
        append_new(&mut dns.servers, texts(own, "nameservers"));
        append_new(&mut dns.searches, texts(own, "searches"));
        for option in crate::pod::list(own, "options") {
            let name = text(option, "name");
            dns.options.retain(|old| old.split(':').next() != Some(name));
            let value = option.get("value").and_then(Value::as_str);
            dns.options.push(value.map_or(name.to_owned(), |value| format!("{name}:{value}")));
        }
    }
    dns.searches.truncate(SEARCHES_MAX);
    dns
}

fn in_cluster_dns(pod: &Object, resolving: &NodeDns) -> DnsSettings {
    let domain = &resolving.cluster_domain;
    let mut searches = vec![format!("{}.svc.{domain}", pod.namespace()), format!("svc.{domain}"), domain.clone()];
    append_new(&mut searches, resolving.host.searches.clone());
    DnsSettings { servers: resolving.cluster_dns.clone(), searches, options: vec!["ndots:5".to_owned()] }
}

fn append_new(to: &mut Vec<String>, more: Vec<String>) {
    for item in more {
        if !to.contains(&item) {
            to.push(item);
        }
    }
}

/// Parses a resolv.conf.
pub(crate) fn parse_resolv_conf(text: &str) -> DnsSettings {
    let mut dns = DnsSettings::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("nameserver") => dns.servers.extend(words.next().map(str::to_owned)),
            Some("search" | "domain") => dns.searches = words.map(str::to_owned).collect(),
            Some("options") => dns.options.extend(words.map(str::to_owned)),
            _ => {}
        }
    }
    dns
}

/// Renders the pod's /etc/hosts: its own name and its host aliases.
pub(crate) fn hosts_file(pod: &Object, pod_ips: &[String], cluster_domain: &str) -> String {
    let mut text = String::from("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n");
    text.push_str("::1\tlocalhost ip6-localhost ip6-loopback\n");
    let (name, subdomain) = (hostname(pod), pod.str_at(&["spec", "subdomain"]));
    let names = if subdomain.is_empty() {
        name
    } else {
        format!("{name}.{subdomain}.{}.svc.{cluster_domain}\t{name}", pod.namespace())
    };
    for ip in pod_ips {
        text.push_str(&format!("{ip}\t{names}\n"));
    }
    let aliases = pod.items(&["spec", "hostAliases"]);
    if !aliases.is_empty() {
        text.push_str("\n# Entries added by HostAliases.\n");
    }
    for alias in aliases {
        text.push_str(&format!("{}\t{}\n", self::text(alias, "ip"), texts(alias, "hostnames").join("\t")));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pod::pod_of;

    fn resolving() -> NodeDns {
        let host = parse_resolv_conf("nameserver 9.9.9.9\nsearch lan\noptions edns0\n# nameserver 1.1.1.1\n");
        NodeDns { cluster_dns: vec!["10.96.0.10".into()], cluster_domain: "cluster.local".into(), host }
    }

    #[track_caller]
    fn check_dns(spec: Value, servers: &[&str], searches: &[&str], options: &[&str]) {
        let dns = dns_of(&pod_of(spec), &resolving());
        assert_eq!((dns.servers, dns.searches, dns.options), {
            let owned = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
            (owned(servers), owned(searches), owned(options))
        });
    }

    #[test]
    fn the_dns_policy_is_applied() {
        let searches = ["default.svc.cluster.local", "svc.cluster.local", "cluster.local", "lan"];
        check_dns(json!({"dnsPolicy": "ClusterFirst"}), &["10.96.0.10"], &searches, &["ndots:5"]);
        check_dns(json!({"dnsPolicy": "ClusterFirst", "hostNetwork": true}), &["9.9.9.9"], &["lan"], &["edns0"]);
        check_dns(json!({"dnsPolicy": "Default"}), &["9.9.9.9"], &["lan"], &["edns0"]);
        check_dns(
            json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.2.3.4"], "searches": ["x"],
                "options": [{"name": "ndots", "value": "2"}, {"name": "rotate"}]}}),
            &["1.2.3.4"],
            &["x"],
            &["ndots:2", "rotate"],
        );
        check_dns(
            json!({"dnsConfig": {"options": [{"name": "ndots", "value": "1"}]}}),
            &["10.96.0.10"],
            &searches,
            &["ndots:1"],
        );
    }

    #[test]
    fn the_hosts_file_has_the_pod_and_its_aliases() {
        let pod =
            pod_of(json!({"hostAliases": [{"ip": "10.0.0.9", "hostnames": ["db", "db.lan"]}], "subdomain": "sub"}));
        let hosts = hosts_file(&pod, &["10.1.0.4".to_owned()], "cluster.local");
        assert!(hosts.contains("10.1.0.4\tweb.sub.default.svc.cluster.local\tweb\n"), "{hosts}");
        assert!(hosts.ends_with("10.0.0.9\tdb\tdb.lan\n"), "{hosts}");
    }

    #[test]
    fn namespaces_are_private_unless_the_host_is_requested() {
        let modes = |spec: Value| {
            let modes = namespaces(&pod_of(spec));
            (modes.network, modes.pid, modes.ipc)
        };
        assert_eq!(modes(json!({})), (0, 1, 0));
        assert_eq!(modes(json!({"hostNetwork": true, "hostPID": true, "hostIPC": true})), (2, 2, 2));
        assert_eq!(modes(json!({"shareProcessNamespace": true})), (0, 0, 0));
    }
}
