//! Security contexts of pods and containers.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use super::super::fields::Field;
use super::all_containers;

const SYSCTL: &str = "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
static SYSCTL_NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(SYSCTL).expect("a constant pattern"));
static CONTROL: LazyLock<Regex> = LazyLock::new(|| Regex::new("[[:cntrl:]]+").expect("a constant pattern"));
static NET_BIOS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"^[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}$"#).expect("a constant pattern"));
static DNS_DOMAIN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$")
        .expect("a constant pattern")
});

impl Field<'_> {
    fn id(self) {
        self.in_range(0, i64::from(i32::MAX));
    }
}

pub fn validate_pod(spec: Field<'_>) {
    let context = spec.field("securityContext");
    for id in ["fsGroup", "runAsUser", "runAsGroup"] {
        context.field(id).id();
    }
    for group in context.field("supplementalGroups").items() {
        group.id();
    }
    let (share, host_pid) = (spec.field("shareProcessNamespace"), spec.field("hostPID"));
    if share.flag() && host_pid.flag() {
        context
            .field("shareProcessNamespace")
            .invalid_as(true, "ShareProcessNamespace and HostPID cannot both be enabled");
    }
    validate_sysctls(context.field("sysctls"), spec);
    context.field("fsGroupChangePolicy").optional_one_of(&["Always", "OnRootMismatch"]);
    validate_seccomp(context.field("seccompProfile"));
    validate_windows(context.field("windowsOptions"));
    validate_app_armor(context.field("appArmorProfile"));
    context.field("supplementalGroupsPolicy").optional_one_of(&["Merge", "Strict"]);
    context.field("seLinuxChangePolicy").optional_one_of(&["Recursive"]);
}

pub fn validate_container(context: Field<'_>, host_users: bool) {
    if !context.is_set() {
        return;
    }
    context.field("runAsUser").id();
    context.field("runAsGroup").id();
    let proc_mount = context.field("procMount");
    if proc_mount.is_set() {
        proc_mount.one_of(&["Default", "Unmasked"]);
        if host_users && proc_mount.text() == "Unmasked" {
            proc_mount.invalid("`hostUsers` must be false to use `Unmasked`");
        }
    }
    validate_seccomp(context.field("seccompProfile"));
    if context.field("allowPrivilegeEscalation").value().is_some_and(|v| v == false) {
        if context.field("privileged").flag() {
            context.invalid_internal(
                "SSecurityContext",
                "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
            );
        }
        if context.field("capabilities").field("add").texts().any(|c| c == "CAP_SYS_ADMIN") {
            context.invalid_internal(
                "SSecurityContext",
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
            );
        }
    }
    validate_windows(context.field("windowsOptions"));
    validate_app_armor(context.field("appArmorProfile"));
}

pub fn validate_host_users(spec: Field<'_>, host_users: bool) {
    const WHEN: &str = "when `hostUsers` is false";
    if host_users {
        return;
    }
    if spec.field("hostNetwork").flag() {
        spec.field("hostNetwork").forbidden(WHEN);
    }
    if spec.field("hostPID").flag() {
        spec.field("HostPID").forbidden(WHEN);
    }
    if spec.field("hostIPC").flag() {
        spec.field("HostIPC").forbidden(WHEN);
    }
    for container in all_containers(spec) {
        if !container.field("volumeDevices").is_empty() {
            container.field("volumeDevices").forbidden(WHEN);
        }
    }
}

fn validate_sysctls(sysctls: Field<'_>, spec: Field<'_>) {
    let mut seen = BTreeSet::new();
    for sysctl in sysctls.items() {
        let name = sysctl.field("name");
        if name.is_empty() {
            name.required("");
        } else if name.len() > 253 || !SYSCTL_NAME.is_match(name.text()) {
            name.invalid(format!("must have at most 253 characters and match regex {SYSCTL}"));
        } else if seen.contains(name.text()) {
            name.duplicate();
        }
        match sysctl_namespace(name.text()) {
            Some("net") if spec.field("hostNetwork").flag() => {
                name.invalid("may not be specified when 'hostNetwork' is true");
            }
            Some("ipc") if spec.field("hostIPC").flag() => {
                name.invalid("may not be specified when 'hostIPC' is true");
            }
            _ => {}
        }
        seen.insert(name.text());
    }
}

fn sysctl_namespace(name: &str) -> Option<&'static str> {
    let name = name.replace('/', ".");
    let ipc = ["kernel.sem", "kernel.shm", "kernel.msg", "fs.mqueue."];
    if name.starts_with("net.") {
        Some("net")
    } else if ipc.iter().any(|prefix| name.starts_with(prefix)) {
        Some("ipc")
    } else {
        None
    }
}

fn validate_seccomp(profile: Field<'_>) {
    const TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
    if !profile.is_set() {
        return;
    }
    let (kind, local) = (profile.field("type"), profile.field("localhostProfile"));
    if kind.require_because("type is required when seccompProfile is set") {
        kind.one_of(&TYPES);
    }
    if kind.text() == "Localhost" {
        if local.is_set() {
            local.descending_path();
        } else {
            local.required("must be set when seccomp type is Localhost");
        }
    } else if local.is_set() {
        local
            .with(profile.value())
            .invalid_internal("SSeccompProfile", "can only be set when seccomp type is Localhost");
    }
}

fn validate_app_armor(profile: Field<'_>) {
    if !profile.is_set() {
        return;
    }
    let (kind, local) = (profile.field("type"), profile.field("localhostProfile"));
    match kind.text() {
        "Localhost" => {
            if local.text().trim() != local.text() {
                local.invalid("must not be padded with whitespace");
            } else if local.is_empty() {
                local.required("must be set when AppArmor type is Localhost");
            }
            if local.len() > 4095 {
                local.too_long(4095);
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if local.is_set() {
                local.invalid("can only be set when AppArmor type is Localhost");
            }
        }
        "" => kind.required("type is required when appArmorProfile is set"),
        _ => kind.not_supported(&["Localhost", "RuntimeDefault", "Unconfined"]),
    }
}

fn validate_windows(options: Field<'_>) {
    let (name, spec, user) =
        (options.field("gmsaCredentialSpecName"), options.field("gmsaCredentialSpec"), options.field("runAsUserName"));
    if name.is_set() {
        name.dns1123_subdomain();
    }
    if spec.is_set() {
        if spec.is_empty() {
            spec.invalid("gmsaCredentialSpec cannot be an empty string");
        } else if spec.len() > 64 * 1024 {
            spec.invalid("gmsaCredentialSpec size must be under 64 KiB");
        }
    }
    if user.is_set() {
        validate_windows_user(user);
    }
}

fn validate_windows_user(field: Field<'_>) {
    let text = field.text();
    if text.is_empty() {
        return field.invalid("runAsUserName cannot be an empty string");
    }
    if CONTROL.is_match(text) {
        return field.invalid("runAsUserName cannot contain control characters");
    }
    let (domain, user) = match text.split('\\').collect::<Vec<_>>()[..] {
        [user] => (None, user),
        [domain, user] => (Some(domain), user),
        _ => return field.invalid("runAsUserName cannot contain more than one backslash"),
    };
    if let Some(domain) = domain {
        if domain.len() >= 256 {
            field.invalid("runAsUserName's Domain length must be under 256 characters");
        }
        if !NET_BIOS.is_match(domain) && !DNS_DOMAIN.is_match(domain) {
            field.invalid("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
        }
    }
    if user.is_empty() {
        field.invalid("runAsUserName's User cannot be empty");
    } else if user.len() > 104 {
        field.invalid("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        field.invalid("runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        field.invalid(r#"runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]"#);
    }
}
