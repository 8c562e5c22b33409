//! Volume sources: exactly one, with its required fields.

use std::sync::LazyLock;

use object::{FieldError, names};
use regex::Regex;

use super::super::core::claims;
use super::super::fields::Field;
use super::defaults::VOLUME_SOURCES;
use super::{Setting, env, images, projected, volumes};

const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
pub const ONE_TYPE: &str = "may not specify more than 1 volume type";

pub fn validate<'a>(volume: Field<'a>, setting: Setting<'a>) {
    let mut seen = false;
    for name in VOLUME_SOURCES {
        let source = volume.field(name);
        if !source.is_set() {
            continue;
        }
        if std::mem::replace(&mut seen, true) {
            // These two are spelled differently in Kubernetes.
            let reported = match name {
                "cephfs" => volume.field("cephFS"),
                "downwardAPI" => volume.field("downwarAPI"),
                _ => source,
            };
            reported.forbidden(ONE_TYPE);
        } else {
            validate_one(name, source, volume, setting);
        }
        if name == "iscsi" {
            validate_initiator_length(volume, source);
        }
    }
    if !seen {
        volume.required("must specify a volume type");
    }
}

fn validate_one<'a>(name: &str, source: Field<'a>, volume: Field<'a>, setting: Setting<'a>) {
    match name {
        "emptyDir" => {
            if source.field("sizeLimit").amount().is_negative() {
                source.field("sizeLimit").forbidden("SizeLimit field must be a valid resource quantity");
            }
        }
        "gitRepo" => {
            source.field("repository").require();
            source.field("directory").descending_path();
        }
        "secret" => {
            source.field("secretName").require();
            validate_files(source);
        }
        "configMap" => {
            source.field("name").require();
            validate_files(source);
        }
        "persistentVolumeClaim" => {
            source.field("claimName").require();
        }
        "downwardAPI" => {
            validate_mode(source.field("defaultMode"));
            for file in source.field("items").items() {
                validate_downward_file(source, file);
            }
        }
        "projected" => projected::validate(source),
        "csi" => {
            validate_driver_name(source.field("driver"));
            let secret = source.field("nodePublishSecretRef");
            if secret.is_set() && secret.field("name").require() {
                source
                    .field("name")
                    .problems_as(secret.field("name").text(), names::dns1123_subdomain(secret.field("name").text()));
            }
        }
        "ephemeral" => {
            let template = source.field("volumeClaimTemplate");
            if template.require() {
                claims::validate_template(template);
            }
            volumes::validate_claim_name(volume, setting.pod_name);
        }
        "image" => {
            if setting.is_pod {
                source.field("reference").require();
            }
            images::validate_pull_policy(source.field("pullPolicy"));
        }
        "gcePersistentDisk" => {
            // Reported under a shorter name.
            validate_shared("gcePersistentDisk", volume.field("persistentDisk").with(source.value()));
        }
        other => validate_shared(other, source),
    }
}

/// Sources that pods and persistent volumes have in common.
pub fn validate_shared(name: &str, source: Field<'_>) {
    match name {
        "hostPath" => validate_host_path(source),
        "gcePersistentDisk" => validate_disk(source, "pdName"),
        "awsElasticBlockStore" => validate_disk(source, "volumeID"),
        "nfs" => {
            source.field("server").require();
            source.field("path").require();
            if !source.field("path").text().starts_with('/') {
                source.field("path").invalid("must be an absolute path");
            }
        }
        "iscsi" => validate_iscsi(source),
        "glusterfs" => require_all(source, &["endpoints", "path"]),
        "flocker" => validate_flocker(source),
        "rbd" => require_all(source, &["monitors", "image"]),
        "cinder" | "storageos" => validate_cinder_or_storageos(name, source),
        "cephfs" => require_all(source, &["monitors"]),
        "quobyte" => validate_quobyte(source),
        "fc" => validate_fibre_channel(source),
        "flexVolume" => validate_flex(source),
        "azureFile" => require_all(source, &["secretName", "shareName"]),
        "azureDisk" => validate_azure_disk(source),
        "vsphereVolume" => require_all(source, &["volumePath"]),
        "photonPersistentDisk" => require_all(source, &["pdID"]),
        "portworxVolume" => require_all(source, &["volumeID"]),
        "scaleIO" => require_all(source, &["gateway", "system", "volumeName"]),
        _ => {}
    }
}

fn require_all(source: Field<'_>, names: &[&'static str]) {
    for name in names {
        source.field(name).require();
    }
}

fn validate_host_path(source: Field<'_>) {
    const TYPES: [&str; 8] =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    if source.field("path").require() {
        source.field("path").no_backsteps();
        source.field("type").optional_one_of(&TYPES);
    }
}

fn validate_disk(source: Field<'_>, id: &'static str) {
    source.field(id).require();
    if !(0..=255).contains(&source.field("partition").int_or(0)) {
        source.field("partition").invalid("must be between 1 and 255, inclusive");
    }
}

fn validate_files(source: Field<'_>) {
    validate_mode(source.field("defaultMode"));
    for item in source.field("items").items() {
        validate_key_to_path(item);
    }
}

pub fn validate_mode(mode: Field<'_>) {
    if mode.int().is_some_and(|m| !(0..=0o777).contains(&m)) {
        mode.invalid(FILE_MODE);
    }
}

pub fn validate_key_to_path(item: Field<'_>) {
    item.field("key").require();
    item.field("path").require();
    item.field("path").local_path();
    validate_mode(item.field("mode"));
}

/// Errors name the source that contains the file, not the file.
pub fn validate_downward_file<'a>(source: Field<'a>, file: Field<'a>) {
    let at = |name: &'static str| source.field(name).with(file.field(name).value());
    let (path, field, resource) = (at("path"), at("fieldRef"), at("resourceFieldRef"));
    path.require();
    path.local_path();
    if field.is_set() {
        env::validate_field_ref(field, &env::FILE_FIELDS);
        if resource.is_set() {
            source.invalid_as("resource", "fieldRef and resourceFieldRef can not be specified simultaneously");
        }
    } else if resource.is_set() {
        env::validate_resource_ref(resource, true);
    } else {
        source.required("one of fieldRef and resourceFieldRef is required");
    }
    validate_mode(at("mode"));
}

pub fn validate_driver_name(driver: Field<'_>) {
    if !driver.require() {
        return;
    }
    if driver.len() > 63 {
        driver.too_long(63);
    }
    driver.problems(names::dns1123_subdomain(&driver.text().to_lowercase()));
}

static IQN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$").expect("a constant pattern"));
static EUI: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^eui.[[:alnum:]]{16}$").expect("a constant pattern"));
static NAA: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^naa.[[:alnum:]]{32}$").expect("a constant pattern"));

/// The error of an iSCSI name; the text differs for an unknown naming scheme.
fn iscsi_name_problem(name: &str) -> Option<&'static str> {
    let pattern = match name.get(..3) {
        Some("iqn") => &IQN,
        Some("eui") => &EUI,
        Some("naa") => &NAA,
        _ => return Some("must be valid format starting with iqn, eui, or naa"),
    };
    (!pattern.is_match(name)).then_some("must be valid format")
}

fn validate_iscsi(source: Field<'_>) {
    source.field("targetPortal").require();
    let iqn = source.field("iqn");
    if iqn.require()
        && let Some(problem) = iscsi_name_problem(iqn.text())
    {
        iqn.invalid(problem);
    }
    source.field("lun").in_range(0, 255);
    let authenticates = source.field("chapAuthDiscovery").flag() || source.field("chapAuthSession").flag();
    if authenticates && !source.field("secretRef").is_set() {
        source.field("secretRef").required("");
    }
    let initiator = source.field("initiatorName");
    if initiator.is_set()
        && let Some(problem) = iscsi_name_problem(initiator.text())
    {
        source.field("initiatorname").with(initiator.value()).invalid(problem);
    }
}

fn validate_initiator_length(volume: Field<'_>, source: Field<'_>) {
    let length = volume.field("name").len() + 1 + source.field("targetPortal").len();
    if source.field("initiatorName").is_set() && length > 64 {
        volume.field("name").invalid(
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.",
        );
    }
}

fn validate_flocker(source: Field<'_>) {
    let (name, uuid) = (source.field("datasetName"), source.field("datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        source.required("one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !uuid.is_empty() {
        source.invalid_as("resource", "datasetName and datasetUUID can not be specified simultaneously");
    }
    if name.text().contains('/') {
        name.invalid("must not contain '/'");
    }
}

fn validate_cinder_or_storageos(name: &str, source: Field<'_>) {
    if name == "cinder" {
        source.field("volumeID").require();
    } else {
        if source.field("volumeName").require() {
            source.field("volumeName").dns1123_label();
        }
        if !source.field("volumeNamespace").is_empty() {
            source.field("volumeNamespace").dns1123_label();
        }
    }
    let secret = source.field("secretRef");
    if secret.is_set() {
        secret.field("name").require();
    }
}

fn validate_quobyte(source: Field<'_>) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let (registry, tenant) = (source.field("registry"), source.field("tenant"));
    if registry.is_empty() {
        registry.required(PAIRS);
    } else if tenant.len() >= 65 {
        tenant.required("must be a UUID and may not exceed a length of 64 characters");
    } else {
        for pair in registry.text().split(',') {
            let is_pair = pair.rsplit_once(':').is_some_and(|(host, _)| !host.contains(':') || host.ends_with(']'));
            if !is_pair {
                registry.invalid(PAIRS);
            }
        }
    }
    source.field("volume").require();
}

fn validate_fibre_channel(source: Field<'_>) {
    let (targets, ids, lun) = (source.field("targetWWNs"), source.field("wwids"), source.field("lun"));
    if targets.is_empty() && ids.is_empty() {
        targets.required("must specify either targetWWNs or wwids, but not both");
    }
    if !targets.is_empty() && !ids.is_empty() {
        targets.invalid("targetWWNs and wwids can not be specified simultaneously");
    }
    if !targets.is_empty() {
        if lun.is_set() {
            lun.in_range(0, 255);
        } else {
            lun.required("lun is required if targetWWNs is specified");
        }
    }
}

fn validate_flex(source: Field<'_>) {
    source.field("driver").require();
    for (key, option) in source.field("options").entries() {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let dotted = format!(".{}", namespace.to_lowercase());
        if dotted.ends_with(".kubernetes.io") || dotted.ends_with(".k8s.io") {
            option.invalid_as(key, "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

fn validate_azure_disk(source: Field<'_>) {
    let (kind, uri) = (source.field("kind"), source.field("diskURI"));
    source.field("diskName").require();
    uri.require();
    source.field("cachingMode").optional_one_of(&["None", "ReadOnly", "ReadWrite"]);
    kind.optional_one_of(&["Dedicated", "Managed", "Shared"]);
    let (prefix, form) = match kind.text() {
        "Managed" => (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        ),
        _ => ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"),
    };
    if kind.is_set() && !uri.text().starts_with(prefix) {
        uri.push(FieldError::not_supported(uri.field_path(), uri.text(), &[form]));
    }
}
