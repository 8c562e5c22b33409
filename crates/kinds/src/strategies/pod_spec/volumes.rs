//! Volumes of a pod and their mounts.

use std::collections::{BTreeMap, BTreeSet};

use object::names;

use super::super::fields::Field;
use super::env::has_backstep;
use super::{Setting, volume_sources};

/// The valid volumes of a pod by name; true for claims, which can be block devices.
pub struct Mountable<'a>(BTreeMap<&'a str, bool>);

pub fn validate<'a>(volumes: Field<'a>, setting: Setting<'a>) -> Mountable<'a> {
    let created: Vec<String> = volumes
        .items()
        .filter(|v| !setting.pod_name.is_empty() && v.field("ephemeral").is_set())
        .map(|v| format!("{}-{}", setting.pod_name, v.field("name").text()))
        .collect();
    let mut mountable: BTreeMap<&str, bool> = setting.added_names().map(|name| (name, true)).collect();
    let mut names = BTreeSet::new();
    let report = volumes.report();
    for volume in volumes.items() {
        let name = volume.field("name");
        // A claim added by the controller replaces the template's volume of that name.
        if setting.added_names().any(|added| added == name.text()) {
            continue;
        }
        let before = report.len();
        volume_sources::validate(volume, setting);
        if name.require() {
            name.dns1123_label();
        }
        if names.contains(name.text()) {
            name.duplicate();
        }
        if report.len() == before {
            names.insert(name.text());
            let is_claim = volume.field("persistentVolumeClaim").is_set() || volume.field("ephemeral").is_set();
            mountable.insert(name.text(), is_claim);
        }
        let claim = volume.field("persistentVolumeClaim").field("claimName");
        if created.iter().any(|name| name == claim.text()) {
            claim.invalid("must not reference a PVC that gets created for an ephemeral volume");
        }
    }
    Mountable(mountable)
}

impl<'a> Mountable<'a> {
    pub fn validate_mounts(&self, container: Field<'a>) {
        let (mounts, devices) = (container.field("volumeMounts"), container.field("volumeDevices"));
        let mut points = BTreeSet::new();
        for mount in mounts.items() {
            let (name, path) = (mount.field("name"), mount.field("mountPath"));
            name.require();
            if !self.0.contains_key(name.text()) {
                name.not_found(name.text());
            }
            path.require();
            if !points.insert(path.text()) {
                path.invalid("must be unique");
            }
            if devices.items().any(|d| d.field("name").text() == name.text()) {
                name.invalid("must not already exist in volumeDevices");
            }
            if devices.items().any(|d| d.field("devicePath").text() == path.text()) {
                path.invalid("must not already exist as a path in volumeDevices");
            }
            validate_sub_path(mounts, mount);
            validate_propagation(mounts, mount, container);
            validate_recursive_read_only(mounts, mount);
        }
    }

    pub fn validate_devices(&self, container: Field<'a>) {
        let (mounts, devices) = (container.field("volumeMounts"), container.field("volumeDevices"));
        let (mut paths, mut names) = (BTreeSet::new(), BTreeSet::new());
        for device in devices.items() {
            let (name, path) = (device.field("name"), device.field("devicePath"));
            name.require();
            if names.contains(name.text()) {
                name.invalid("must be unique");
            }
            match self.0.get(name.text()) {
                Some(false) => {
                    name.invalid("can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode")
                }
                Some(true) => {}
                None => name.not_found(name.text()),
            }
            path.require();
            if paths.contains(path.text()) {
                path.invalid("must be unique");
            }
            if has_backstep(path.text()) {
                path.invalid("can not contain backsteps ('..')");
            } else {
                paths.insert(path.text());
            }
            if mounts.items().any(|m| m.field("name").text() == name.text()) {
                name.invalid("must not already exist in volumeMounts");
            }
            if mounts.items().any(|m| m.field("mountPath").text() == path.text()) {
                path.invalid("must not already exist as a path in volumeMounts");
            }
            if !name.is_empty() {
                names.insert(name.text());
            }
        }
    }
}

// The next three are reported at the list of mounts, not at the mount.

fn validate_sub_path<'a>(mounts: Field<'a>, mount: Field<'a>) {
    let (path, expression) = (mount.field("subPath"), mount.field("subPathExpr"));
    if !path.is_empty() {
        mounts.field("subPath").with(path.value()).descending_path();
    }
    if !expression.is_empty() {
        if !path.is_empty() {
            expression.invalid("subPathExpr and subPath are mutually exclusive");
        }
        mounts.field("subPathExpr").with(expression.value()).descending_path();
    }
}

fn validate_propagation<'a>(mounts: Field<'a>, mount: Field<'a>, container: Field<'a>) {
    let mode = mounts.field("mountPropagation").with(mount.field("mountPropagation").value());
    if !mode.is_set() {
        return;
    }
    mode.one_of(&["Bidirectional", "HostToContainer", "None"]);
    if mode.text() == "Bidirectional" && !container.field("securityContext").field("privileged").flag() {
        mode.forbidden("Bidirectional mount propagation is available only to privileged containers");
    }
}

fn validate_recursive_read_only<'a>(mounts: Field<'a>, mount: Field<'a>) {
    let mode = mounts.field("recursiveReadOnly").with(mount.field("recursiveReadOnly").value());
    match mode.text() {
        _ if !mode.is_set() => {}
        "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !mount.field("readOnly").flag() {
                mode.forbidden("may only be specified when readOnly is true");
            }
            if !matches!(mount.field("mountPropagation").text(), "" | "None") {
                mode.forbidden("may only be specified when mountPropagation is None or not specified");
            }
        }
        _ => mode.not_supported(&["Disabled", "Enabled", "IfPossible"]),
    }
}

/// The claim of an ephemeral volume is named after pod and volume; the combined name must be valid.
pub fn validate_claim_name(volume: Field<'_>, pod_name: &str) {
    let name = volume.field("name");
    if pod_name.is_empty() || name.is_empty() {
        return;
    }
    let claim = format!("{pod_name}-{}", name.text());
    for problem in names::dns1123_subdomain(&claim) {
        name.invalid(format!("PVC name {}: {problem}", object::field::go_quote(&claim)));
    }
}
