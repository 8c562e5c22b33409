//! The objects a pod refers to, which must exist where it runs.

use std::collections::BTreeSet;

use api::config::DependentObjectReference;
use serde_json::Value;

/// A reference by name.
pub fn reference(api_version: &str, kind: &str, namespace: &str, name: &str) -> DependentObjectReference {
    DependentObjectReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        label_selector: None,
    }
}

/// ConfigMaps, Secrets, ServiceAccounts and PersistentVolumeClaims of a pod spec, in this order and by name.
pub fn dependencies(spec: &Value, namespace: &str) -> Vec<DependentObjectReference> {
    let mut names = Names::default();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        items(spec, list).iter().for_each(|container| names.visit_container(container));
    }
    for secret in items(spec, "imagePullSecrets") {
        add(&mut names.secrets, &secret["name"]);
    }
    items(spec, "volumes").iter().for_each(|volume| names.visit_volume(volume));
    if spec["serviceAccountName"] != "default" {
        add(&mut names.accounts, &spec["serviceAccountName"]);
    }
    let groups = [
        ("ConfigMap", names.config_maps),
        ("Secret", names.secrets),
        ("ServiceAccount", names.accounts),
        ("PersistentVolumeClaim", names.claims),
    ];
    let found = groups.iter().flat_map(|(kind, names)| names.iter().map(move |name| (kind, name)));
    found.map(|(kind, name)| reference("v1", kind, namespace, name)).collect()
}

#[derive(Default)]
struct Names<'a> {
    config_maps: BTreeSet<&'a str>,
    secrets: BTreeSet<&'a str>,
    accounts: BTreeSet<&'a str>,
    claims: BTreeSet<&'a str>,
}

impl<'a> Names<'a> {
    fn visit_container(&mut self, container: &'a Value) {
        for source in items(container, "envFrom") {
            add(&mut self.config_maps, &source["configMapRef"]["name"]);
            add(&mut self.secrets, &source["secretRef"]["name"]);
        }
        for variable in items(container, "env") {
            add(&mut self.config_maps, &variable["valueFrom"]["configMapKeyRef"]["name"]);
            add(&mut self.secrets, &variable["valueFrom"]["secretKeyRef"]["name"]);
        }
    }

    fn visit_volume(&mut self, volume: &'a Value) {
        for source in items(&volume["projected"], "sources") {
            add(&mut self.config_maps, &source["configMap"]["name"]);
            add(&mut self.secrets, &source["secret"]["name"]);
        }
        add(&mut self.config_maps, &volume["configMap"]["name"]);
        add(&mut self.claims, &volume["persistentVolumeClaim"]["claimName"]);
        add(&mut self.secrets, &volume["secret"]["secretName"]);
        add(&mut self.secrets, &volume["azureFile"]["secretName"]);
        add(&mut self.secrets, &volume["csi"]["nodePublishSecretRef"]["name"]);
        for source in ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"] {
            add(&mut self.secrets, &volume[source]["secretRef"]["name"]);
        }
    }
}

fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn add<'a>(names: &mut BTreeSet<&'a str>, name: &'a Value) {
    if let Some(name) = name.as_str().filter(|name| !name.is_empty()) {
        names.insert(name);
    }
}
