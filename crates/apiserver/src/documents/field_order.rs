//! Discovery documents with their fields in the order kube-apiserver writes them, for clients that compare text.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

/// Fields of lists and groups.
const LISTS: &[&str] = &[
    "kind",
    "apiVersion",
    "metadata",
    "name",
    "groupVersion",
    "version",
    "versions",
    "preferredVersion",
    "groups",
    "resources",
    "items",
    "freshness",
    "clientCIDR",
    "serverAddress",
    "serverAddressByClientCIDRs",
];

/// Fields of resources and of the kinds they answer with.
const RESOURCES: &[&str] = &[
    "name",
    "singularName",
    "namespaced",
    "subresource",
    "resource",
    "responseKind",
    "acceptedTypes",
    "group",
    "version",
    "kind",
    "scope",
    "singularResource",
    "verbs",
    "shortNames",
    "categories",
    "subresources",
    "storageVersionHash",
];

/// A discovery document; fields that the order does not know come last.
pub struct InOrder<'a>(pub &'a Value);

impl Serialize for InOrder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(items) => serializer.collect_seq(items.iter().map(InOrder)),
            Value::Object(fields) => {
                let order = order_of(fields);
                let rank = |name: &str| order.iter().position(|known| *known == name).unwrap_or(order.len());
                let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
                sorted.sort_by_key(|(name, _)| rank(name));
                let mut map = serializer.serialize_map(Some(sorted.len()))?;
                for (name, value) in sorted {
                    map.serialize_entry(name, &InOrder(value))?;
                }
                map.end()
            }
            plain => plain.serialize(serializer),
        }
    }
}

/// `kind` is the first field of a list and one of the last of a resource.
fn order_of(fields: &Map<String, Value>) -> &'static [&'static str] {
    let is_resource = ["singularName", "responseKind", "verbs"].iter().any(|name| fields.contains_key(*name));
    let is_kind = fields.contains_key("group") && fields.contains_key("kind");
    if is_resource || is_kind { RESOURCES } else { LISTS }
}
