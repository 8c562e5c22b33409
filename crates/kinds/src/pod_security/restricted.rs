//! The rules that the level `restricted` adds: hardening that pods must ask for.

use serde_json::Value;

use super::baseline::{proc_mount, seccomp, seccomp_type};
use super::pod::{PodView, containers_named, name, plural, quoted, setters, sorted, violation};
use super::{Row, Violation};

const VOLUMES_ALLOWED: &[&str] = &[
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];
const VOLUMES_KNOWN: &[&str] = &[
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

const fn row(id: &'static str, since: u32, rule: super::Rule, replaces: Option<&'static str>) -> Row {
    Row { id, since, rule, replaces }
}

pub(super) const ROWS: &[Row] = &[
    row("allowPrivilegeEscalation", 8, privilege_escalation, None),
    row("allowPrivilegeEscalation", 25, |pod| unless_windows(pod, privilege_escalation), None),
    row("capabilities_restricted", 22, capabilities, Some("capabilities_baseline")),
    row("capabilities_restricted", 25, |pod| unless_windows(pod, capabilities), Some("capabilities_baseline")),
    row("procMount_restricted", 35, proc_mount, Some("procMount")),
    row("restrictedVolumes", 0, volumes, Some("hostPathVolumes")),
    row("runAsNonRoot", 0, non_root, None),
    row("runAsNonRoot", 35, |pod| unless_own_users(pod, non_root), None),
    row("runAsUser", 23, run_as_user, None),
    row("runAsUser", 35, |pod| unless_own_users(pod, run_as_user), None),
    row("seccompProfile_restricted", 19, seccomp_required, Some("seccompProfile_baseline")),
    row("seccompProfile_restricted", 25, |pod| unless_windows(pod, seccomp_required), Some("seccompProfile_baseline")),
];

fn unless_windows(pod: &PodView<'_>, rule: super::Rule) -> Option<Violation> {
    if pod.is_windows() { None } else { rule(pod) }
}

fn unless_own_users(pod: &PodView<'_>, rule: super::Rule) -> Option<Violation> {
    if pod.has_own_users() { None } else { rule(pod) }
}

fn privilege_escalation(pod: &PodView<'_>) -> Option<Violation> {
    let bad = pod.names_of(|container| container["securityContext"]["allowPrivilegeEscalation"] != false);
    if bad.is_empty() {
        return None;
    }
    let detail = format!("{} must set securityContext.allowPrivilegeEscalation=false", containers_named(&bad));
    violation("allowPrivilegeEscalation != false", detail)
}

fn capabilities(pod: &PodView<'_>) -> Option<Violation> {
    let list = |container: &Value, key: &str| -> Vec<String> {
        let names = container["securityContext"]["capabilities"][key].as_array().into_iter().flatten();
        names.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let forbidden = |container: &Value| -> Vec<String> {
        list(container, "add").into_iter().filter(|name| name != "NET_BIND_SERVICE").collect()
    };
    let keeps = pod.names_of(|container| !list(container, "drop").iter().any(|name| name == "ALL"));
    let adds = pod.names_of(|container| !forbidden(container).is_empty());
    let mut details = Vec::new();
    if !keeps.is_empty() {
        details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers_named(&keeps)));
    }
    if !adds.is_empty() {
        let names = sorted(pod.containers().flat_map(forbidden).collect());
        let who = containers_named(&adds);
        details.push(format!("{who} must not include {} in securityContext.capabilities.add", quoted(&names)));
    }
    if details.is_empty() { None } else { violation("unrestricted capabilities", details.join("; ")) }
}

fn volumes(pod: &PodView<'_>) -> Option<Violation> {
    let has = |volume: &Value, kinds: &[&'static str]| kinds.iter().copied().find(|kind| volume[*kind].is_object());
    let volumes = pod.spec["volumes"].as_array().into_iter().flatten();
    let bad: Vec<&Value> = volumes.filter(|volume| has(volume, VOLUMES_ALLOWED).is_none()).collect();
    if bad.is_empty() {
        return None;
    }
    let kinds = bad.iter().map(|volume| has(volume, VOLUMES_KNOWN).unwrap_or("unknown").to_owned());
    let kinds = sorted(kinds.collect());
    let names: Vec<&str> = bad.iter().map(|volume| name(volume)).collect();
    let (noun, uses) = (plural(names.len(), "volume", "volumes"), plural(names.len(), "uses", "use"));
    let what = plural(kinds.len(), "restricted volume type", "restricted volume types");
    violation("restricted volume types", format!("{noun} {} {uses} {what} {}", quoted(&names), quoted(&kinds)))
}

fn non_root(pod: &PodView<'_>) -> Option<Violation> {
    let of_pod = &pod.security()["runAsNonRoot"];
    let refuses = pod.names_of(|container| container["securityContext"]["runAsNonRoot"] == false);
    if let Some(who) = setters(of_pod == false, &refuses) {
        return violation("runAsNonRoot != true", format!("{who} must not set securityContext.runAsNonRoot=false"));
    }
    let silent = pod.names_of(|container| !container["securityContext"]["runAsNonRoot"].is_boolean());
    if of_pod == true || silent.is_empty() {
        return None;
    }
    let detail = format!("pod or {} must set securityContext.runAsNonRoot=true", containers_named(&silent));
    violation("runAsNonRoot != true", detail)
}

fn run_as_user(pod: &PodView<'_>) -> Option<Violation> {
    let is_root = |security: &Value| security["runAsUser"] == 0;
    let bad = pod.names_of(|container| is_root(&container["securityContext"]));
    let who = setters(is_root(pod.security()), &bad)?;
    violation("runAsUser=0", format!("{who} must not set runAsUser=0"))
}

fn seccomp_required(pod: &PodView<'_>) -> Option<Violation> {
    if let Some(bad) = seccomp(pod) {
        return Some(bad);
    }
    let silent = pod.names_of(|container| seccomp_type(&container["securityContext"]).is_none());
    if seccomp_type(pod.security()).is_some() || silent.is_empty() {
        return None;
    }
    let who = containers_named(&silent);
    let what = "must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"";
    violation("seccompProfile", format!("pod or {who} {what}"))
}
