//! Between the version a client speaks and the version the store keeps.

use object::{Object, Status};

use crate::crd::Conversion;
use crate::registry::Resource;
use crate::server::Server;

/// A stored object as the resource's own version shows it.
pub async fn to_served(server: &Server, resource: &Resource, object: Object) -> Result<Object, Status> {
    if resource.served_is_stored() && object.api_version() == resource.kind.gvk.api_version() {
        return Ok(object);
    }
    match &resource.custom {
        None => Ok(resource.kind.strategy.from_storage(object)),
        Some(custom) => convert_custom(server, custom, object, &resource.kind.gvk.api_version()).await,
    }
}

pub async fn to_storage(server: &Server, resource: &Resource, object: Object) -> Result<Object, Status> {
    if resource.served_is_stored() {
        return Ok(object);
    }
    match &resource.custom {
        None => Ok(resource.kind.strategy.to_storage(object)),
        Some(custom) => convert_custom(server, custom, object, &resource.kind.storage.api_version()).await,
    }
}

async fn convert_custom(
    server: &Server,
    custom: &crate::crd::Custom,
    object: Object,
    api_version: &str,
) -> Result<Object, Status> {
    if object.api_version() == api_version {
        return Ok(object);
    }
    match &custom.conversion {
        Conversion::None => Ok(custom.convert_plainly(object, api_version)),
        Conversion::Webhook(webhook) => {
            crate::crd::conversion::call(server, custom, webhook, object, api_version).await
        }
    }
}
