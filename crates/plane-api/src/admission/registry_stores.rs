//! Limits registries with an OpenSearch backend to callers that could send the data themselves.
//!
//! The control plane sends objects of members, and the login in a Secret, to the addresses in a ResourceRegistry. A caller
//! that could write those, but read neither the members nor the Secret, would have both sent to themselves.

use api::cluster::CLUSTERS;
use api::search::RESOURCE_REGISTRIES;
use apiserver::admission::{Admission, AdmissionScope, Attributes};
use apiserver::context::Context;
use apiserver::request::RequestInfo;
use async_trait::async_trait;
use object::builtin;
use object::request::{Subresource, Verb};
use object::{Object, Status};

pub struct RegistryStoreAccess;

#[async_trait]
impl Admission for RegistryStoreAccess {
    fn name(&self) -> &'static str {
        "RegistryStoreAccess"
    }

    async fn validate(
        &self,
        scope: AdmissionScope<'_>,
        ctx: &Context,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let resource = attributes.resource.kind.group_resource();
        let is_registry = resource == RESOURCE_REGISTRIES.gvr().group_resource();
        let Some(registry) = attributes.written(object).filter(|_| is_registry) else { return Ok(()) };
        if !sends_data(registry) || attributes.old.is_some_and(|old| old.get(&["spec"]) == registry.get(&["spec"])) {
            return Ok(());
        }
        for (asked, what) in needed(registry) {
            if scope.auth.authorize(scope.resources, &ctx.user, &asked).await.is_err() {
                let why = format!(
                    "spec.backendStore.openSearch sends {what} to its addresses, which user {:?} cannot read",
                    ctx.user.name
                );
                return Err(Status::forbidden(&resource, registry.name(), why));
            }
        }
        Ok(())
    }
}

fn sends_data(registry: &Object) -> bool {
    registry.get(&["spec", "backendStore", "openSearch"]).is_some_and(|store| !store.is_null())
}

/// The reads that the caller must be allowed: any object of any member, and the Secret.
fn needed(registry: &Object) -> Vec<(RequestInfo, String)> {
    let proxy = RequestInfo {
        subresource: Some(Subresource::Proxy),
        name: "*".to_owned(),
        ..RequestInfo::on(CLUSTERS.gvr(), Verb::Get)
    };
    let mut needed = vec![(proxy, "objects of members (clusters/proxy)".to_owned())];
    let part = |name: &str| registry.str_at(&["spec", "backendStore", "openSearch", "secretRef", name]).to_owned();
    let (namespace, name) = (part("namespace"), part("name"));
    if !name.is_empty() {
        let what = format!("secret {namespace}/{name}");
        let secrets = RequestInfo::on(builtin::secrets(), Verb::Get);
        needed.push((RequestInfo { namespace, name, ..secrets }, what));
    }
    needed
}
