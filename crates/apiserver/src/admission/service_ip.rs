//! Allocates cluster IPs and node ports when a Service is created or changes its type.
//!
//! An address is taken by creating the `IPAddress` object of that name, so that two replicas of the server can never
//! give out the same one: the store decides. It goes when the Service goes.

use std::net::{IpAddr, Ipv4Addr};

use async_trait::async_trait;
use kinds::strategies::core::service_addresses;
use object::{FieldError, FieldPath, GroupKind, GroupVersionKind, Object, Status};
use rand::RngExt;
use serde_json::json;

use super::{Admission, Attributes};
use crate::admission::AdmissionScope;
use crate::cache::Filter;
use crate::context::Context;
use crate::generated_name::generate_name;
use crate::resources::Resources;
use crate::storage::{self, Outcome};

/// The addresses Services get: 10.0.0.0/24's first one is the API server's own, as in kube-apiserver's default range.
const RANGE_START: u32 = u32::from_be_bytes([10, 0, 0, 0]);
const RANGE_SIZE: u32 = 1 << 16;
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;
/// Random tries before the range is walked from the start.
const RANDOM_TRIES: usize = 16;

pub struct ServiceAddresses;

#[async_trait]
impl Admission for ServiceAddresses {
    fn name(&self) -> &'static str {
        "ServiceAddresses"
    }

    async fn mutate(
        &self,
        scope: AdmissionScope<'_>,
        _ctx: &Context,
        attributes: &Attributes<'_>,
        service: &mut Object,
    ) -> Result<(), Status> {
        let kind = &attributes.resource.kind;
        if !attributes.is_write()
            || kind.gvk.kind != "Service"
            || !kind.gvk.group.is_empty()
            || attributes.subresource.is_some()
        {
            return Ok(());
        }
        // Addresses are held in the name of their Service, so this is the latest moment to have one.
        if service.name().is_empty() && !service.generate_name().is_empty() {
            service.set_name(&generate_name(service.generate_name()));
        }
        keep_allocated(service, attributes.old);
        let problems = service_addresses::problems(service, attributes.old);
        if !problems.is_empty() {
            return Err(Status::invalid(&GroupKind::new("", "Service"), service.name(), &problems));
        }
        let ty = service.str_at(&["spec", "type"]).to_owned();
        let wants_address = matches!(ty.as_str(), "" | "ClusterIP" | "NodePort" | "LoadBalancer");
        if wants_address && service.str_at(&["spec", "clusterIP"]) != "None" {
            allocate_address(scope.resources, attributes, service).await?;
        }
        if matches!(ty.as_str(), "NodePort" | "LoadBalancer")
            && service.bool_at(&["spec", "allocateLoadBalancerNodePorts"]) != Some(false)
        {
            allocate_ports(scope.resources, service).await?;
        }
        Ok(())
    }
}

/// An update without addresses keeps the stored ones.
fn keep_allocated(service: &mut Object, old: Option<&Object>) {
    let Some(old) = old else { return };
    if old.str_at(&["spec", "type"]) == "ExternalName" || service.str_at(&["spec", "type"]) == "ExternalName" {
        return;
    }
    for field in ["clusterIP", "clusterIPs"] {
        if service.get(&["spec", field]).is_none()
            && let Some(value) = old.get(&["spec", field])
        {
            service.set(&["spec", field], value.clone());
        }
    }
}

async fn allocate_address(
    resources: Resources<'_>,
    attributes: &Attributes<'_>,
    service: &mut Object,
) -> Result<(), Status> {
    let wanted = service.str_at(&["spec", "clusterIP"]).to_owned();
    let held = attributes.old.map(|old| old.str_at(&["spec", "clusterIP"])).unwrap_or_default();
    if !wanted.is_empty() && wanted == held {
        return Ok(());
    }
    let owner = (service.namespace().to_owned(), service.name().to_owned());
    if !wanted.is_empty() {
        let taken = !attributes.dry_run && !take(resources, &wanted, &owner).await?;
        let in_range = wanted.parse::<IpAddr>().is_ok_and(is_in_range);
        if taken || !in_range {
            let detail = if in_range {
                "failed to allocate IP: provided IP is already allocated".to_owned()
            } else {
                format!(
                    "failed to allocate IP {wanted}: the provided IP is not in the valid range. The range of valid IPs is 10.0.0.0/16"
                )
            };
            let error = FieldError::invalid(FieldPath::new("spec.clusterIPs"), json!([wanted]), detail);
            return Err(Status::invalid(&GroupKind::new("", "Service"), service.name(), &[error]));
        }
        service.set(&["spec", "clusterIPs"], json!([wanted]));
        return Ok(());
    }
    let address = if attributes.dry_run { candidate().to_string() } else { take_any(resources, &owner).await? };
    service.set(&["spec", "clusterIP"], address.clone());
    service.set(&["spec", "clusterIPs"], json!([address]));
    Ok(())
}

fn candidate() -> Ipv4Addr {
    // The first addresses are reserved for Services that set theirs; .1 is the API server's.
    Ipv4Addr::from_bits(RANGE_START + rand::rng().random_range(256..RANGE_SIZE - 1))
}

fn is_in_range(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(v4) if (RANGE_START + 1..RANGE_START + RANGE_SIZE - 1).contains(&v4.to_bits()))
}

async fn take_any(resources: Resources<'_>, owner: &(String, String)) -> Result<String, Status> {
    for _ in 0..RANDOM_TRIES {
        let address = candidate().to_string();
        if take(resources, &address, owner).await? {
            return Ok(address);
        }
    }
    for bits in RANGE_START + 2..RANGE_START + RANGE_SIZE - 1 {
        let address = Ipv4Addr::from_bits(bits).to_string();
        if take(resources, &address, owner).await? {
            return Ok(address);
        }
    }
    Err(Status::internal("failed to allocate a serviceIP: range is full"))
}

/// True when the address is now this Service's.
async fn take(resources: Resources<'_>, address: &str, (namespace, name): &(String, String)) -> Result<bool, Status> {
    let Some(resource) = resources.registry.find("networking.k8s.io", "v1", "ipaddresses") else { return Ok(true) };
    let mut object = Object::new(&GroupVersionKind::new("networking.k8s.io", "v1", "IPAddress"), None, address);
    object.set(&["metadata", "uid"], uuid::Uuid::new_v4().to_string());
    object.set(&["metadata", "creationTimestamp"], object::time::format_seconds(jiff::Timestamp::now()));
    object.set(&["metadata", "labels"], json!({"ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}));
    object.set(&["spec", "parentRef"], json!({"resource": "services", "namespace": namespace, "name": name}));
    match resources.objects.create(&resource.key("", address), storage::encode(&object), None).await? {
        Outcome::Written(_) => Ok(true),
        // A create that failed after taking its address may try again under the same name.
        Outcome::Raced(current) => Ok(current.is_some_and(|c| {
            c.object.str_at(&["spec", "parentRef", "namespace"]) == namespace
                && c.object.str_at(&["spec", "parentRef", "name"]) == name
        })),
    }
}

async fn allocate_ports(resources: Resources<'_>, service: &mut Object) -> Result<(), Status> {
    let missing = service.items(&["spec", "ports"]).iter().any(|port| port["nodePort"].as_i64().unwrap_or(0) == 0);
    if !missing {
        return Ok(());
    }
    let mut used = ports_in_use(resources).await?;
    let mut ports = service.items(&["spec", "ports"]).to_vec();
    used.extend(ports.iter().filter_map(|port| port["nodePort"].as_i64()));
    for port in ports.iter_mut().filter(|port| port["nodePort"].as_i64().unwrap_or(0) == 0) {
        let start = rand::rng().random_range(NODE_PORTS);
        let free =
            (start..=*NODE_PORTS.end()).chain(*NODE_PORTS.start()..start).find(|candidate| !used.contains(candidate));
        let free = free.ok_or_else(|| Status::internal("failed to allocate a nodePort: range is full"))?;
        port["nodePort"] = free.into();
        used.insert(free);
    }
    service.set(&["spec", "ports"], ports);
    Ok(())
}

async fn ports_in_use(resources: Resources<'_>) -> Result<std::collections::BTreeSet<i64>, Status> {
    let Some(resource) = resources.registry.find("", "v1", "services") else { return Ok(Default::default()) };
    resource.cache.fresh().await?;
    let services = resource.cache.entries(&Filter::default());
    let ports = services.iter().flat_map(|entry| {
        let service = entry.decode();
        service.items(&["spec", "ports"]).iter().filter_map(|p| p["nodePort"].as_i64()).collect::<Vec<_>>()
    });
    Ok(ports.collect())
}

/// Gives the addresses of a deleted Service back.
pub async fn release(resources: Resources<'_>, service: &Object) -> Result<(), Status> {
    let Some(resource) = resources.registry.find("networking.k8s.io", "v1", "ipaddresses") else { return Ok(()) };
    for address in service.items(&["spec", "clusterIPs"]).iter().filter_map(|ip| ip.as_str()).filter(|ip| *ip != "None")
    {
        let key = resource.key("", address);
        if let Some(current) = resources.objects.get(&key).await?
            && current.object.str_at(&["spec", "parentRef", "name"]) == service.name()
            && current.object.str_at(&["spec", "parentRef", "namespace"]) == service.namespace()
        {
            resources.objects.delete(&key, current.revision).await?;
        }
    }
    Ok(())
}
