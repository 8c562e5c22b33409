//! Fields of a pod that are only valid on Linux or only on Windows.

use super::super::fields::Field;
use super::all_containers;

const NOT_ON_WINDOWS: &str = "cannot be set for a windows pod";

pub fn validate_os(spec: Field<'_>) {
    let os = spec.field("os");
    if !os.is_set() {
        return;
    }
    match os.field("name").text() {
        "" => os.field("name").required(""),
        "linux" => validate_linux(spec),
        "windows" => validate_windows(spec),
        other => os.push(object::FieldError::not_supported(os.field_path(), other, &["linux", "windows"])),
    }
}

fn validate_linux(spec: Field<'_>) {
    let contexts = [spec.field("securityContext")]
        .into_iter()
        .chain(all_containers(spec).map(|container| container.field("securityContext")));
    for context in contexts {
        if context.field("windowsOptions").is_set() {
            context.field("windowsOptions").forbidden("windows options cannot be set for a linux pod");
        }
    }
}

fn validate_windows(spec: Field<'_>) {
    let context = spec.field("securityContext");
    let refuse = |parent: Field<'_>, names: &[&'static str]| {
        for name in names {
            let field = parent.field(name);
            if field.is_set() && field.value().is_none_or(|v| v != false) {
                field.forbidden(NOT_ON_WINDOWS);
            }
        }
    };
    refuse(context, &["appArmorProfile", "seLinuxOptions"]);
    refuse_set(spec.field("hostUsers"));
    refuse(spec, &["hostPID", "hostIPC"]);
    refuse(context, &["seccompProfile", "fsGroup", "fsGroupChangePolicy"]);
    if !context.field("sysctls").is_empty() {
        context.field("sysctls").forbidden(NOT_ON_WINDOWS);
    }
    refuse_set(spec.field("shareProcessNamespace"));
    refuse(
        context,
        &["runAsUser", "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy"],
    );
    for container in all_containers(spec) {
        let context = container.field("securityContext");
        for name in [
            "appArmorProfile",
            "seLinuxOptions",
            "seccompProfile",
            "capabilities",
            "readOnlyRootFilesystem",
            "privileged",
            "allowPrivilegeEscalation",
            "procMount",
            "runAsUser",
            "runAsGroup",
        ] {
            refuse_set(context.field(name));
        }
    }
}

fn refuse_set(field: Field<'_>) {
    if field.is_set() {
        field.forbidden(NOT_ON_WINDOWS);
    }
}

/// Windows host processes: all containers or none, and on the host's network.
pub fn validate_host_process(spec: Field<'_>) {
    let of = |parent: Field<'_>| {
        parent.field("securityContext").field("windowsOptions").field("hostProcess").value().and_then(|v| v.as_bool())
    };
    let pod = of(spec);
    let (mut containers, mut host_processes) = (0, 0);
    for container in all_containers(spec) {
        containers += 1;
        let own = of(container);
        if let (Some(pod), Some(own)) = (pod, own)
            && pod != own
        {
            container
                .path(&["securityContext", "windowsOptions", "hostProcess"])
                .invalid_as(own, format!("pod hostProcess value must be identical if both are specified, was {pod}"));
        }
        if own.or(pod) == Some(true) {
            host_processes += 1;
        }
    }
    if host_processes == 0 {
        return;
    }
    if host_processes != containers {
        spec.invalid_as(
            "",
            "If pod contains any hostProcess containers then all containers must be HostProcess containers",
        );
    }
    if !spec.field("hostNetwork").flag() {
        spec.field("hostNetwork")
            .invalid_as(false, "hostNetwork must be true if pod contains any hostProcess containers");
    }
}
