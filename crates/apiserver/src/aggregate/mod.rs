//! APIService aggregation: groups and versions that another server answers for, reached through this one.

mod availability;
mod documents;
mod forward;
mod local;

use std::collections::HashMap;
use std::sync::Arc;

use object::request::User;
use object::{Object, Status, conditions};
use parking_lot::RwLock;
use pki::tls::client::ReloadableClientCert;
use serde_json::Value;

use crate::cache::Filter;
use crate::outgoing::{Destination, OutgoingError};
use crate::request::RequestInfo;
use crate::resources::Resources;
use crate::served_resources::ServedResources;

pub use availability::start;
pub use forward::Proxied;

/// The groups and versions of other servers.
#[derive(Default)]
pub struct Aggregator {
    /// The certificate this server shows them, by which they believe its `X-Remote-*` headers.
    identity: Option<Arc<ReloadableClientCert>>,
    /// External group versions, kept by the follower; empty on nearly every plane, and then nothing is looked up.
    external: RwLock<HashMap<(String, String), Arc<External>>>,
}

/// One APIService with a server of its own.
pub struct External {
    pub name: String,
    pub group: String,
    pub version: String,
    group_priority: i32,
    namespace: String,
    service: String,
    port: u16,
    ca: Option<Vec<u8>>,
    insecure: bool,
    available: bool,
    reason: String,
}

impl Aggregator {
    pub fn new(identity: Arc<ReloadableClientCert>) -> Self {
        Self { identity: Some(identity), external: RwLock::default() }
    }

    /// The server that answers for the group and version of a request, when it is not this one.
    pub fn proxy(&self, user: &Arc<User>, info: &RequestInfo) -> Option<Proxied> {
        if self.external.read().is_empty() {
            return None;
        }
        let (group, version) = group_version_of(info)?;
        let external = self.external.read().get(&(group, version)).cloned()?;
        Some(Proxied { external, user: user.clone(), identity: self.identity.clone() })
    }

    /// Returns true when another server answers for the group and version of a request.
    pub fn serves(&self, info: &RequestInfo) -> bool {
        let external = self.external.read();
        !external.is_empty() && group_version_of(info).is_some_and(|of| external.contains_key(&of))
    }

    fn all(&self) -> Vec<Arc<External>> {
        self.external.read().values().cloned().collect()
    }

    /// Reads the current APIServices.
    fn refresh(&self, services: &[Arc<Object>]) {
        let external = services.iter().filter_map(|service| External::read(service));
        let external = external.map(|e| ((e.group.clone(), e.version.clone()), Arc::new(e))).collect();
        *self.external.write() = external;
    }
}

impl External {
    fn read(service: &Object) -> Option<Self> {
        let reference = service.get(&["spec", "service"]).filter(|r| r.is_object())?;
        let condition = conditions::find(service, "Available");
        let ca = service.str_at(&["spec", "caBundle"]);
        let ca =
            base64::Engine::decode(&base64::engine::general_purpose::STANDARD, ca).ok().filter(|ca| !ca.is_empty());
        Some(Self {
            name: service.name().to_owned(),
            group: service.str_at(&["spec", "group"]).to_owned(),
            version: service.str_at(&["spec", "version"]).to_owned(),
            group_priority: service.i64_at(&["spec", "groupPriorityMinimum"]).unwrap_or(0) as i32,
            namespace: reference["namespace"].as_str().unwrap_or_default().to_owned(),
            service: reference["name"].as_str().unwrap_or_default().to_owned(),
            port: reference["port"].as_u64().unwrap_or(443) as u16,
            ca,
            insecure: service.bool_at(&["spec", "insecureSkipTLSVerify"]).unwrap_or(false),
            available: condition.is_some_and(|condition| condition.is_true()),
            reason: condition.map(|condition| condition.message()).unwrap_or_default().to_owned(),
        })
    }

    async fn destination(&self, resources: Resources<'_>, path: String) -> Result<Destination, OutgoingError> {
        let found =
            Destination::of_service(resources, &self.namespace, &self.service, self.port, path, self.ca.clone());
        let mut destination = found.await?;
        destination.insecure = self.insecure;
        Ok(destination)
    }

    fn unavailable(&self) -> Status {
        tracing::debug!(name = self.name, reason = self.reason, "an aggregated API is unavailable");
        Status::unavailable("service unavailable")
    }
}

/// `/apis/G/V…` and the OpenAPI document of that group version.
fn group_version_of(info: &RequestInfo) -> Option<(String, String)> {
    if info.is_resource {
        return Some((info.group.clone(), info.version.clone()));
    }
    let path = info.path.strip_prefix("/openapi/v3").unwrap_or(&info.path);
    let mut parts = path.strip_prefix("/apis/")?.trim_end_matches('/').split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(group), Some(version), None) => Some((group.to_owned(), version.to_owned())),
        _ => None,
    }
}

async fn services(registry: &ServedResources) -> Result<Vec<Arc<Object>>, Status> {
    let Some(resource) = registry.find("apiregistration.k8s.io", "v1", "apiservices") else {
        return Ok(Vec::new());
    };
    resource.cache.fresh().await?;
    Ok(resource.cache.entries(&Filter::default()).iter().map(|entry| entry.decode()).collect())
}

/// A JSON document another server publishes at `path`.
async fn fetch(
    aggregator: &Aggregator,
    resources: Resources<'_>,
    external: &External,
    path: &str,
) -> Result<Value, OutgoingError> {
    let destination = external.destination(resources, path.to_owned()).await?;
    forward::get_json(&destination, aggregator.identity.clone()).await
}
