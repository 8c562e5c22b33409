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

const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;
/// Random tries before the range is walked from the start.
const RANDOM_TRIES: usize = 16;

/// Prefix lengths that kube-apiserver accepts: a larger range could not be walked, a smaller one has too few addresses.
const PREFIXES: std::ops::RangeInclusive<u32> = 12..=28;
/// Addresses at the start of a range for Services that set theirs.
const RESERVED: std::ops::RangeInclusive<u32> = 16..=256;

/// The addresses that Services get. The first one is that of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRange {
    start: u32,
    prefix: u32,
}

impl Default for ServiceRange {
    fn default() -> Self {
        Self { start: u32::from_be_bytes([10, 0, 0, 0]), prefix: 16 }
    }
}

impl ServiceRange {
    /// Reads an IPv4 network such as `10.96.0.0/12`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = || format!("{text:?} is not an IPv4 network such as 10.96.0.0/12");
        let (address, prefix) = text.split_once('/').ok_or_else(invalid)?;
        let address: Ipv4Addr = address.parse().map_err(|_| invalid())?;
        let prefix: u32 = prefix.parse().map_err(|_| invalid())?;
        if !PREFIXES.contains(&prefix) {
            return Err(format!("the prefix length of {text} must be {} to {}", PREFIXES.start(), PREFIXES.end()));
        }
        Ok(Self { start: address.to_bits() & (u32::MAX << (32 - prefix)), prefix })
    }

    fn size(self) -> u32 {
        1 << (32 - self.prefix)
    }

    /// The address of the API server.
    pub fn first(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.start + 1)
    }

    fn contains(self, address: IpAddr) -> bool {
        matches!(address, IpAddr::V4(v4) if (self.start + 1..self.start + self.size() - 1).contains(&v4.to_bits()))
    }

    fn candidate(self) -> Ipv4Addr {
        let reserved = (self.size() / 16).clamp(*RESERVED.start(), *RESERVED.end());
        let from = if reserved + 1 < self.size() { reserved } else { 2 };
        Ipv4Addr::from_bits(self.start + rand::rng().random_range(from..self.size() - 1))
    }
}

impl std::fmt::Display for ServiceRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from_bits(self.start), self.prefix)
    }
}

pub struct ServiceAddresses {
    pub range: ServiceRange,
}

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
            allocate_address(self.range, scope.resources, attributes, service).await?;
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
    range: ServiceRange,
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
        let in_range = wanted.parse::<IpAddr>().is_ok_and(|address| range.contains(address));
        if taken || !in_range {
            let detail = if in_range {
                "failed to allocate IP: provided IP is already allocated".to_owned()
            } else {
                format!(
                    "failed to allocate IP {wanted}: the provided IP is not in the valid range. The range of valid IPs is {range}"
                )
            };
            let error = FieldError::invalid(FieldPath::new("spec.clusterIPs"), json!([wanted]), detail);
            return Err(Status::invalid(&GroupKind::new("", "Service"), service.name(), &[error]));
        }
        service.set(&["spec", "clusterIPs"], json!([wanted]));
        return Ok(());
    }
    let address =
        if attributes.dry_run { range.candidate().to_string() } else { take_any(range, resources, &owner).await? };
    service.set(&["spec", "clusterIP"], address.clone());
    service.set(&["spec", "clusterIPs"], json!([address]));
    Ok(())
}

async fn take_any(range: ServiceRange, resources: Resources<'_>, owner: &(String, String)) -> Result<String, Status> {
    for _ in 0..RANDOM_TRIES {
        let address = range.candidate().to_string();
        if take(resources, &address, owner).await? {
            return Ok(address);
        }
    }
    for bits in range.start + 2..range.start + range.size() - 1 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<(&str, &str), &str>) {
        match (ServiceRange::parse(text), expected) {
            (Ok(range), Ok((shown, first))) => {
                assert_eq!((range.to_string().as_str(), range.first().to_string().as_str()), (shown, first));
                for _ in 0..100 {
                    let address = range.candidate();
                    assert!(range.contains(address.into()) && address != range.first(), "{text}: {address}");
                }
            }
            (Err(problem), Err(part)) => assert!(problem.contains(part), "{problem}"),
            (found, _) => panic!("{text}: {found:?}"),
        }
    }

    #[test]
    fn a_service_range_is_an_ipv4_network() {
        check("10.96.0.0/12", Ok(("10.96.0.0/12", "10.96.0.1")));
        check("10.100.7.9/12", Ok(("10.96.0.0/12", "10.96.0.1")));
        check("192.168.3.0/28", Ok(("192.168.3.0/28", "192.168.3.1")));
        check("10.0.0.0/8", Err("must be 12 to 28"));
        check("10.0.0.0/29", Err("must be 12 to 28"));
        check("10.0.0.0", Err("not an IPv4 network"));
        check("fd00::/112", Err("not an IPv4 network"));
        check("10.0.0.0/12,fd00::/112", Err("not an IPv4 network"));
    }
}
