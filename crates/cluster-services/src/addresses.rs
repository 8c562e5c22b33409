//! Maintains the endpoints of the Service `kubernetes`, through which pods reach the API.

use std::net::SocketAddr;
use std::sync::Arc;

use cluster_client::{ResourceRef, WriteOptions};
use object::builtin;
use object::{GroupVersionResource, Object, Status};
use reconcile::{ObjectKey, commit_object};
use serde_json::json;

use crate::mirrors::{ClusterMirrors, FIELD_MANAGER};
use crate::start::Service;

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";

pub fn start(mirrors: &Arc<ClusterMirrors>) -> Service {
    let mirrors = Arc::clone(mirrors);
    Service::new(async move {
        // The API rejects loopback addresses in endpoints.
        let address = mirrors
            .settings
            .api_address
            .filter(|address| !address.ip().is_loopback() && !address.ip().is_unspecified());
        let Some(address) = address else { return };
        for (gvr, object) in
            [(builtin::endpoint_slices(), plan_slice(address)), (builtin::endpoints(), plan_endpoints(address))]
        {
            if let Err(error) = ensure(&mirrors, &gvr, object).await {
                tracing::warn!(%error, resource = gvr.resource, "failed to write the endpoints of the API");
            }
        }
    })
}

async fn ensure(mirrors: &ClusterMirrors, gvr: &GroupVersionResource, desired: Object) -> Result<(), Status> {
    let mirror = if *gvr == builtin::endpoint_slices() { &mirrors.slices } else { &mirrors.endpoints };
    match mirror.get(&ObjectKey::new(NAMESPACE, NAME)) {
        Some(current) => {
            let mut wanted = Object::clone(&current);
            for (field, value) in desired.as_map().iter().filter(|(field, _)| *field != "metadata") {
                wanted.set(&[field], value.clone());
            }
            commit_object(&mirrors.client, ResourceRef::of(gvr, &current), &current, &wanted, FIELD_MANAGER).await?;
        }
        None => {
            let options = WriteOptions::managed_by(FIELD_MANAGER);
            match mirrors.client.create(ResourceRef::within(gvr, NAMESPACE), desired, options).await {
                Err(status) if !status.is_already_exists() => return Err(status),
                _ => {}
            }
        }
    }
    Ok(())
}

fn plan_slice(address: SocketAddr) -> Object {
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": NAME}},
        "addressType": family,
        "endpoints": [{"addresses": [address.ip().to_string()], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}]});
    Object::from_value(slice).unwrap_or_default()
}

fn plan_endpoints(address: SocketAddr) -> Object {
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": address.ip().to_string()}],
            "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}]}]});
    Object::from_value(endpoints).unwrap_or_default()
}
