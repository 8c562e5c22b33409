//! Between the version a client speaks and the version the store keeps.

use std::sync::Arc;

use object::{Object, Status};

use crate::crd::{Conversion, Custom};
use crate::resources::Resources;
use crate::served_resources::Resource;
use crate::storage::Stored;

/// A stored object as the resource's own version shows it.
pub async fn to_served(resources: Resources<'_>, resource: &Resource, object: Object) -> Result<Object, Status> {
    if is_served_form(resource, &object) {
        return Ok(object);
    }
    match by_definition(resource) {
        None => Ok(resource.kind.strategy.from_storage(object)),
        Some(custom) => {
            let converted = convert_custom(resources, custom, object, &resource.kind.gvk.api_version()).await?;
            Ok(if custom.has_defaults { with_defaults(resource, converted) } else { converted })
        }
    }
}

/// Sets what the definition of a custom kind may have gained since the object was stored.
fn with_defaults(resource: &Resource, object: Object) -> Object {
    let mut value = object.into_value();
    object::schema::apply_defaults(&resource.kind.schema, &mut value);
    Object::from_value(value).unwrap_or_default()
}

/// The same for an object that others hold too.
pub async fn shared_to_served(
    resources: Resources<'_>,
    resource: &Resource,
    object: Arc<Object>,
) -> Result<Arc<Object>, Status> {
    if is_served_form(resource, &object) {
        return Ok(object);
    }
    Ok(Arc::new(to_served(resources, resource, (*object).clone()).await?))
}

/// The same for what was stored, by its tree where that is still at hand.
pub async fn stored_to_served(
    resources: Resources<'_>,
    resource: &Resource,
    stored: &Stored,
    tree: Option<Box<Object>>,
) -> Result<Arc<Object>, Status> {
    let tree = tree.map_or_else(|| stored.decode(), |tree| Ok(*tree))?;
    Ok(Arc::new(to_served(resources, resource, tree).await?))
}

/// Reports whether a stored object is already in the served form and needs no conversion.
pub fn is_served_form(resource: &Resource, object: &Object) -> bool {
    resource.served_is_stored() && object.api_version() == resource.kind.gvk.api_version()
}

pub async fn to_storage(resources: Resources<'_>, resource: &Resource, object: Object) -> Result<Object, Status> {
    if resource.served_is_stored() {
        return Ok(object);
    }
    match by_definition(resource) {
        None => Ok(resource.kind.strategy.to_storage(object)),
        Some(custom) => convert_custom(resources, custom, object, &resource.kind.storage.api_version()).await,
    }
}

/// The definition that says how to convert, unless the kind itself knows.
fn by_definition(resource: &Resource) -> Option<&Custom> {
    resource.custom.as_deref().filter(|custom| custom.conversion != Conversion::Native)
}

async fn convert_custom(
    resources: Resources<'_>,
    custom: &Custom,
    object: Object,
    api_version: &str,
) -> Result<Object, Status> {
    if object.api_version() == api_version {
        return Ok(object);
    }
    match &custom.conversion {
        Conversion::None | Conversion::Native => Ok(custom.convert_plainly(object, api_version)),
        Conversion::Webhook(webhook) => {
            crate::crd::conversion::call(resources, custom, webhook, object, api_version).await
        }
    }
}
