//! Descriptions of claims and storage classes, in kubectl's form.

use std::fmt::Write;

use object::Object;

use super::containers::items;
use super::kinds::Related;
use super::text::{conditions_with_times, format_labels, labels_and_annotations, line, name_and_namespace, scalar};
use crate::durations;

/// Annotations for what are fields today.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const DEFAULT_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

pub fn claim(text: &mut String, claim: &Object, related: &Related) {
    name_and_namespace(text, claim);
    let class = claim.annotation(CLASS_ANNOTATION).unwrap_or_else(|| claim.str_at(&["spec", "storageClassName"]));
    line(text, "StorageClass", class);
    match claim.deletion_timestamp() {
        Some(since) => line(
            text,
            "Status",
            format_args!("Terminating (lasts {})", durations::since(since, jiff::Timestamp::now())),
        ),
        None => line(text, "Status", claim.str_at(&["status", "phase"])),
    }
    let volume = claim.str_at(&["spec", "volumeName"]);
    line(text, "Volume", volume);
    labels_and_annotations(text, claim);
    let finalizers: Vec<String> = claim.items(&["metadata", "finalizers"]).iter().map(scalar).collect();
    line(text, "Finalizers", format_args!("[{}]", finalizers.join(" ")));
    let is_bound = !volume.is_empty();
    let capacity = if is_bound { claim.str_at(&["status", "capacity", "storage"]) } else { "" };
    line(text, "Capacity", capacity);
    let modes: Vec<&str> =
        claim.items(&["status", "accessModes"]).iter().filter_map(|mode| mode.as_str()).map(short_mode).collect();
    line(text, "Access Modes", if is_bound { modes.join(",") } else { String::new() });
    if let Some(mode) = claim.get(&["spec", "volumeMode"]) {
        line(text, "VolumeMode", scalar(mode));
    }
    if let Some(source) = claim.get(&["spec", "dataSource"]) {
        text.push_str("DataSource:\n");
        for (title, field) in [("  APIGroup", "apiGroup"), ("  Kind", "kind"), ("  Name", "name")] {
            if field != "apiGroup" || source[field].is_string() {
                line(text, title, scalar(&source[field]));
            }
        }
    }
    write_users(text, claim, related);
    conditions_with_times(text, claim, "LastProbeTime", "lastProbeTime");
}

/// Writes the pods that mount a claim.
fn write_users(text: &mut String, claim: &Object, related: &Related) {
    let mounts = |pod: &&Object| {
        let volumes = pod.items(&["spec", "volumes"]);
        volumes.iter().any(|volume| volume["persistentVolumeClaim"]["claimName"] == claim.name())
            || claim.owner_references().iter().any(|owner| owner.kind == "Pod" && owner.uid == pod.uid())
    };
    let mut users: Vec<&str> = related.of_kind("Pod").filter(mounts).map(Object::name).collect();
    users.sort_unstable();
    let _ = writeln!(text, "Used By:\t{}", if users.is_empty() { "<none>".to_owned() } else { users.join("\n\t") });
}

fn short_mode(mode: &str) -> &str {
    match mode {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        other => other,
    }
}

pub fn class(text: &mut String, class: &Object) {
    line(text, "Name", class.name());
    let is_default = DEFAULT_ANNOTATIONS.iter().any(|name| class.annotation(name) == Some("true"));
    line(text, "IsDefaultClass", if is_default { "Yes" } else { "No" });
    line(text, "Annotations", format_labels(class.get(&["metadata", "annotations"])));
    line(text, "Provisioner", class.str_at(&["provisioner"]));
    line(text, "Parameters", format_labels(class.get(&["parameters"])));
    let expansion = match class.bool_at(&["allowVolumeExpansion"]) {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    line(text, "AllowVolumeExpansion", expansion);
    let options = class.items(&["mountOptions"]);
    if options.is_empty() {
        line(text, "MountOptions", "<none>");
    } else {
        text.push_str("MountOptions:\n");
        for option in options {
            let _ = writeln!(text, "  {}", scalar(option));
        }
    }
    for (title, field) in [("ReclaimPolicy", "reclaimPolicy"), ("VolumeBindingMode", "volumeBindingMode")] {
        if let Some(value) = class.get(&[field]) {
            line(text, title, scalar(value));
        }
    }
    write_topologies(text, class);
}

fn write_topologies(text: &mut String, class: &Object) {
    if class.get(&["allowedTopologies"]).is_none() {
        return;
    }
    let terms = class.items(&["allowedTopologies"]);
    text.push_str(if terms.is_empty() { "AllowedTopologies:\t<none>\n" } else { "AllowedTopologies:\t\n" });
    for (index, term) in terms.iter().enumerate() {
        let requirements = items(term, "matchLabelExpressions").iter().map(|requirement| {
            let values: Vec<String> = items(requirement, "values").iter().map(scalar).collect();
            let values = if values.is_empty() { String::new() } else { format!(" [{}]", values.join(", ")) };
            format!("{} in{values}", scalar(&requirement["key"]))
        });
        let requirements = requirements.collect::<Vec<_>>().join("\n  \t");
        let shown = if requirements.is_empty() { "<none>" } else { &requirements };
        let _ = writeln!(text, "  Term {index}:\t{shown}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tabs;

    #[test]
    fn a_claim_names_the_pods_that_mount_it() {
        let object = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "shop", "finalizers": ["kubernetes.io/pvc-protection"]},
            "spec": {"storageClassName": "fast", "volumeName": "pv-1", "volumeMode": "Filesystem"},
            "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "capacity": {"storage": "1Gi"}}});
        let pod = |name: &str, claim: &str| {
            let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
            Object::from_value(json!({"kind": "Pod", "metadata": {"name": name}, "spec": {"volumes": volumes}}))
                .unwrap()
        };
        let related = Related { objects: vec![pod("web-1", "data"), pod("other", "logs"), pod("web-0", "data")] };
        let mut text = String::new();
        claim(&mut text, &Object::from_value(object).unwrap(), &related);
        let expected = "\
Name:          data
Namespace:     shop
StorageClass:  fast
Status:        Bound
Volume:        pv-1
Labels:        <none>
Annotations:   <none>
Finalizers:    [kubernetes.io/pvc-protection]
Capacity:      1Gi
Access Modes:  RWO,ROX
VolumeMode:    Filesystem
Used By:       web-0
               web-1
";
        assert_eq!(tabs::align(&text, tabs::DESCRIPTION), expected);
    }

    #[test]
    fn a_class_is_described_with_its_topologies() {
        let object = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "csi.example.com",
            "metadata": {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "reclaimPolicy": "Delete", "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}]});
        let mut text = String::new();
        class(&mut text, &Object::from_value(object).unwrap());
        let shown = tabs::align(&text, tabs::DESCRIPTION);
        for part in [
            "IsDefaultClass:        Yes\n",
            "AllowVolumeExpansion:  <unset>\n",
            "  Term 0:              zone in [a, b]\n",
        ] {
            assert!(shown.contains(part), "{part:?} is missing: {shown}");
        }
    }
}
