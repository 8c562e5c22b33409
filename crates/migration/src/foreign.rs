//! Reads all objects of a Karmada: through its API, or from the values in its etcd.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::cluster::CLUSTERS;
use cluster_client::{ApiResource, ApiResources, ClusterClient, ListOptions, ResourceRef};
use kinds::{Catalog, protobuf};
use object::request::Verb;
use object::{GroupResource, Object, Status};

/// Prefix of values that kube-apiserver has encrypted.
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// The objects of a control plane.
#[derive(Debug, Default)]
pub struct ForeignPlane {
    pub objects: Vec<Object>,
    /// Values in etcd that are not objects of a known form.
    pub unreadable: Vec<UnreadableValue>,
    pub warnings: Vec<String>,
    /// The newest resourceVersion.
    pub revision: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub struct UnreadableValue {
    pub key: String,
    pub reason: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ForeignError {
    #[error("cannot read which resources the API serves")]
    Discover(#[source] Status),
    #[error("there are no clusters.cluster.karmada.io: this is not a Karmada control plane")]
    NotKarmada,
    #[error("the API does not answer for {0}: karmada-aggregated-apiserver must be running")]
    Incomplete(String),
    #[error("cannot list {resource}")]
    List {
        resource: String,
        #[source]
        source: Status,
    },
    #[error("{0} objects are too large or too deep to be read through the API: use --from-etcd")]
    Unreadable(u64),
    #[error(
        "{count} values are encrypted at rest, such as {key}: use --from-encryption-provider-config with the EncryptionConfiguration \
         of the kube-apiserver, or --from-kubeconfig, which reads them through it"
    )]
    Encrypted { count: usize, key: String },
}

/// Reads all objects through the API. `progress` gets the number of objects read.
pub async fn gather_from_api(
    client: &ClusterClient,
    catalog: &Catalog,
    progress: &(dyn Fn(u64) + Send + Sync),
) -> Result<ForeignPlane, ForeignError> {
    let served = ApiResources::discover(client).await.map_err(ForeignError::Discover)?;
    let mut plane = ForeignPlane::default();
    for version in &served.incomplete {
        if version.group == CLUSTERS.group {
            return Err(ForeignError::Incomplete(version.to_string()));
        }
        plane.warnings.push(format!("the API does not answer for {version}: its objects are not taken over"));
    }
    let resources = pick_versions(catalog, &served.resources);
    if !resources.iter().any(|resource| resource.gvr == CLUSTERS.gvr()) {
        return Err(ForeignError::NotKarmada);
    }
    for resource in resources {
        let list = client.list_all(ResourceRef::all(&resource.gvr), ListOptions::default()).await;
        let list = match list {
            Ok(list) => list,
            // An endpoint that is in discovery and does not list, as those of virtual resources.
            Err(status) if matches!(status.code, 404 | 405) => continue,
            Err(source) => return Err(ForeignError::List { resource: resource.gvr.to_string(), source }),
        };
        plane.revision = plane.revision.max(list.resource_version.parse().unwrap_or_default());
        plane.objects.extend(list.items.into_iter().map(Arc::unwrap_or_clone));
        progress(plane.objects.len() as u64);
    }
    match client.unreadable_objects() {
        0 => Ok(plane),
        count => Err(ForeignError::Unreadable(count)),
    }
}

/// Returns one version of every resource that can be listed: the stored one of Flotilla, or the preferred one of the server.
fn pick_versions<'r>(catalog: &Catalog, resources: &'r [ApiResource]) -> Vec<&'r ApiResource> {
    let mut picked: BTreeMap<GroupResource, &ApiResource> = BTreeMap::new();
    for resource in resources.iter().filter(|resource| resource.has_verb(Verb::List)) {
        let name = GroupResource { group: resource.gvr.group.clone(), resource: resource.gvr.resource.clone() };
        let is_stored = catalog.find(&resource.gvr).is_some_and(|kind| kind.storage == kind.gvk);
        if is_stored || !picked.contains_key(&name) {
            picked.insert(name, resource);
        }
    }
    picked.into_values().collect()
}

/// A key of an etcd, without the prefix of all keys.
#[derive(Clone, Copy, Debug)]
pub struct EtcdValue<'v> {
    pub key: &'v str,
    pub value: &'v [u8],
    /// The revision at which it was last written.
    pub revision: u64,
}

/// Reads the objects from the keys and values of an etcd. Built-in kinds are protobuf, others are JSON.
pub fn read_etcd<'v>(values: impl Iterator<Item = EtcdValue<'v>>, revision: u64) -> Result<ForeignPlane, ForeignError> {
    let mut plane = ForeignPlane { revision, ..ForeignPlane::default() };
    let mut encrypted: Vec<&str> = Vec::new();
    for EtcdValue { key, value, revision } in values {
        if value.starts_with(ENCRYPTED) {
            encrypted.push(key);
            continue;
        }
        match read_value(value) {
            Ok(mut object) => {
                object.set_resource_version(revision);
                plane.objects.push(object);
            }
            Err(reason) => plane.unreadable.push(UnreadableValue { key: key.to_owned(), reason }),
        }
    }
    if let Some(first) = encrypted.first() {
        return Err(ForeignError::Encrypted { count: encrypted.len(), key: (*first).to_owned() });
    }
    let is_clusters = |object: &Object| object.gvk().group == CLUSTERS.group || is_definition_of_karmada(object);
    if !plane.objects.iter().any(is_clusters) {
        return Err(ForeignError::NotKarmada);
    }
    Ok(plane)
}

fn read_value(value: &[u8]) -> Result<Object, String> {
    if value.starts_with(protobuf::MAGIC) {
        let tree = protobuf::decode(value).map_err(|error| error.to_string())?;
        return Object::from_value(tree).ok_or_else(|| "the value is not an object".to_owned());
    }
    let object = Object::decode(value).map_err(|error| format!("the value is neither protobuf nor JSON: {error}"))?;
    match object.kind() {
        "" => Err("the value has no kind".to_owned()),
        _ => Ok(object),
    }
}

/// Every Karmada has these definitions; one without members has no cluster.
fn is_definition_of_karmada(object: &Object) -> bool {
    object.kind() == "CustomResourceDefinition" && object.str_at(&["spec", "group"]).ends_with(".karmada.io")
}
