//! The EndpointSlice a Work carries, and the limits that hold for slices from members.

use api::names::work_name;
use api::networking::{
    ANNOTATION_SLICE_PROVIDER, CONTROLLER_DISPATCH, CONTROLLER_IMPORT, LABEL_SLICE_CONTROLLER, LABEL_SLICE_SERVICE,
};
use object::Object;
use serde_json::Value;

use crate::services::{SLICE_KIND, SLICE_VERSION};

/// Slices of one service that are taken from one member; Kubernetes puts up to 100 endpoints into a slice.
pub const SLICES_PER_SERVICE_MAX: usize = 200;
/// Bytes of one slice: 1,000 endpoints, the most that Kubernetes allows, need less.
pub const SLICE_BYTES_MAX: usize = 384 * 1024;
/// Endpoints of one slice, as in Kubernetes.
const ENDPOINTS_MAX: usize = 1000;
/// Length of an object name.
const NAME_MAX: usize = 253;

/// The reason a slice from a member is not used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum SliceRefusal {
    #[error("work {work} does not carry exactly one {SLICE_VERSION} {SLICE_KIND}")]
    NotASlice { work: String },
    #[error("work {work} does not have the name of EndpointSlice {slice}")]
    OtherName { work: String, slice: String },
    #[error("cluster {cluster} does not provide service {service}")]
    NotAProvider { cluster: String, service: String },
    #[error("EndpointSlice {slice} of cluster {cluster} does not belong to service {service}")]
    OtherService { cluster: String, slice: String, service: String },
    #[error("EndpointSlice {slice} of cluster {cluster} is managed by the control plane and is not collected")]
    Managed { cluster: String, slice: String },
    #[error(
        "EndpointSlice {slice} of cluster {cluster} has more than {SLICE_BYTES_MAX} bytes or {ENDPOINTS_MAX} endpoints"
    )]
    TooLarge { cluster: String, slice: String },
    #[error("cluster {cluster} has more than {SLICES_PER_SERVICE_MAX} EndpointSlices of service {service}")]
    TooMany { cluster: String, service: String },
    #[error("the name {name:?} is too long for an EndpointSlice")]
    NameTooLong { name: String },
    #[error("EndpointSlice {slice} exists already and is not one of cluster {cluster}")]
    Taken { cluster: String, slice: String },
}

/// Returns the one slice a Work carries, without copying it.
pub fn carried_slice(work: &Object) -> Option<&Value> {
    match work.items(&["spec", "workload", "manifests"]) {
        [slice] if slice["apiVersion"] == SLICE_VERSION && slice["kind"] == SLICE_KIND => Some(slice),
        _ => None,
    }
}

/// Reports whether a Work holds a slice that was collected from a member, rather than one on its way to it.
pub fn is_collected(work: &Object) -> bool {
    carried_slice(work).is_some()
        && work.bool_at(&["spec", "suspendDispatching"]) == Some(true)
        && work.annotation(ANNOTATION_SLICE_PROVIDER).is_none()
}

/// Reports whether the control plane made a slice of a member: such slices are not collected again.
pub fn is_made_by_karmada(slice: &Object) -> bool {
    slice.label(LABEL_SLICE_CONTROLLER).is_some_and(is_our_controller)
}

fn is_our_controller(name: &str) -> bool {
    name == CONTROLLER_DISPATCH || name == CONTROLLER_IMPORT
}

/// Checks the slice in a Work of a member: it must belong to the service, under the name it says, within the limits.
pub(crate) fn check_carried<'a>(
    work: &'a Object,
    cluster: &str,
    namespace: &str,
    service: &str,
) -> Result<&'a Value, SliceRefusal> {
    let Some(slice) = carried_slice(work).filter(|_| is_collected(work)) else {
        return Err(SliceRefusal::NotASlice { work: format!("{}/{}", work.namespace(), work.name()) });
    };
    let metadata = |field: &str| slice["metadata"][field].as_str().unwrap_or_default();
    let name = metadata("name").to_owned();
    let cluster = cluster.to_owned();
    if work.name() != work_name(SLICE_KIND, &name, metadata("namespace")) || name.is_empty() {
        return Err(SliceRefusal::OtherName { work: work.name().to_owned(), slice: name });
    }
    let labels = &slice["metadata"]["labels"];
    if metadata("namespace") != namespace || labels[LABEL_SLICE_SERVICE] != service {
        return Err(SliceRefusal::OtherService { cluster, slice: name, service: format!("{namespace}/{service}") });
    }
    if labels[LABEL_SLICE_CONTROLLER].as_str().is_some_and(is_our_controller) {
        return Err(SliceRefusal::Managed { cluster, slice: name });
    }
    check_size(slice, &cluster, &name)?;
    Ok(slice)
}

/// Checks a slice as it is in a member.
pub(crate) fn check_size(slice: &Value, cluster: &str, name: &str) -> Result<(), SliceRefusal> {
    let endpoints = slice["endpoints"].as_array().map_or(0, Vec::len);
    let is_too_large = endpoints > ENDPOINTS_MAX || slice.to_string().len() > SLICE_BYTES_MAX;
    match is_too_large {
        true => Err(SliceRefusal::TooLarge { cluster: cluster.to_owned(), slice: name.to_owned() }),
        false => Ok(()),
    }
}

pub(crate) fn check_name(name: &str) -> Result<(), SliceRefusal> {
    match name.len() > NAME_MAX {
        true => Err(SliceRefusal::NameTooLong { name: name.to_owned() }),
        false => Ok(()),
    }
}

/// Returns a slice with nothing of its origin but what endpoints and ports say.
pub(crate) fn rebuilt(slice: &Value, name: &str) -> Object {
    let gvk = object::GroupVersionKind::new("discovery.k8s.io", "v1", SLICE_KIND);
    let mut built = Object::new(&gvk, slice["metadata"]["namespace"].as_str(), name);
    for field in ["addressType", "endpoints", "ports"] {
        if !slice[field].is_null() {
            built.set(&[field], slice[field].clone());
        }
    }
    built
}
