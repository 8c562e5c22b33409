//! Reads the ConfigMaps, Secrets and Services a pod refers to, once for all containers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, ListOptions, ResourceRef};
use object::builtin;
use object::{Object, Status};
use serde_json::Value;

use crate::pod::{containers, list, text};

/// The referenced objects. A missing name was looked up and does not exist.
#[derive(Default)]
pub(crate) struct References {
    config_maps: BTreeMap<String, Arc<Object>>,
    secrets: BTreeMap<String, Arc<Object>>,
    pub services: Vec<Arc<Object>>,
}

/// Names of ConfigMaps and of Secrets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub config_maps: BTreeSet<String>,
    pub secrets: BTreeSet<String>,
}

/// Reads the sources of environment variables.
pub(crate) async fn gather_for_environment(client: &ClusterClient, pod: &Object) -> Result<References, Status> {
    let mut references = gather(client, pod.namespace(), names_in_environment(pod)).await?;
    let services = client.list_all(ResourceRef::within(&builtin::services(), pod.namespace()), ListOptions::default());
    references.services = services.await?.items;
    if pod.namespace() != "default" {
        let target = ResourceRef::namespaced(&builtin::services(), "default", "kubernetes");
        references.services.extend(client.find(target).await?);
    }
    Ok(references)
}

/// Reads the sources of volumes.
pub(crate) async fn gather_for_volumes(client: &ClusterClient, pod: &Object) -> Result<References, Status> {
    gather(client, pod.namespace(), names_in_volumes(pod)).await
}

async fn gather(client: &ClusterClient, namespace: &str, names: Names) -> Result<References, Status> {
    let mut references = References::default();
    for (resource, names, found) in [
        ("configmaps", names.config_maps, &mut references.config_maps),
        ("secrets", names.secrets, &mut references.secrets),
    ] {
        for name in names {
            let target = ResourceRef::namespaced(&builtin::core(resource), namespace, &name);
            if let Some(object) = client.find(target).await? {
                found.insert(name, object);
            }
        }
    }
    Ok(references)
}

fn names_in_environment(pod: &Object) -> Names {
    let mut names = Names::default();
    let mut note = |source: &Value, config_map: &str, secret: &str| {
        for (field, names) in [(config_map, &mut names.config_maps), (secret, &mut names.secrets)] {
            if let Some(reference) = source.get(field) {
                names.insert(text(reference, "name").to_owned());
            }
        }
    };
    for (_, container) in containers(pod) {
        for source in list(container, "env").iter().filter_map(|e| e.get("valueFrom")) {
            note(source, "configMapKeyRef", "secretKeyRef");
        }
        for source in list(container, "envFrom") {
            note(source, "configMapRef", "secretRef");
        }
    }
    names
}

fn names_in_volumes(pod: &Object) -> Names {
    let mut names = Names::default();
    let mut note = |source: &Value| {
        if let Some(config_map) = source.get("configMap") {
            names.config_maps.insert(text(config_map, "name").to_owned());
        }
        if let Some(secret) = source.get("secret") {
            // A secret volume has `secretName`, a projected source has `name`.
            let name = [text(secret, "secretName"), text(secret, "name")].into_iter().find(|name| !name.is_empty());
            names.secrets.extend(name.map(str::to_owned));
        }
    };
    for volume in pod.items(&["spec", "volumes"]) {
        note(volume);
        for source in volume.get("projected").map(|p| list(p, "sources")).unwrap_or_default() {
            note(source);
        }
    }
    names
}

impl References {
    /// Returns all entries of a ConfigMap; `None` if it does not exist.
    pub fn config_map(&self, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        let object = self.config_maps.get(name)?;
        let mut entries: BTreeMap<String, Vec<u8>> = entries(object, "binaryData").collect();
        entries.extend(plain_entries(object, "data"));
        Some(entries)
    }

    /// Returns all entries of a Secret, decoded; `None` if it does not exist.
    pub fn secret(&self, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        Some(entries(self.secrets.get(name)?, "data").collect())
    }

    #[cfg(test)]
    pub fn with_config_map(mut self, object: Value) -> Self {
        let object = Object::from_value(object).expect("a map");
        self.config_maps.insert(object.name().to_owned(), Arc::new(object));
        self
    }

    #[cfg(test)]
    pub fn with_secret(mut self, object: Value) -> Self {
        let object = Object::from_value(object).expect("a map");
        self.secrets.insert(object.name().to_owned(), Arc::new(object));
        self
    }
}

fn plain_entries<'a>(object: &'a Object, field: &str) -> impl Iterator<Item = (String, Vec<u8>)> + use<'a> {
    let map = object.get(&[field]).and_then(Value::as_object);
    map.into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.as_bytes().to_vec())))
}

/// Decodes base64 values; invalid ones are omitted.
pub(crate) fn entries<'a>(object: &'a Object, field: &str) -> impl Iterator<Item = (String, Vec<u8>)> + use<'a> {
    let map = object.get(&[field]).and_then(Value::as_object);
    map.into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), STANDARD.decode(value.as_str()?).ok()?)))
}
