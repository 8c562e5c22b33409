//! The schemas of the built-in kinds: a compact set for decoding, and one with descriptions for OpenAPI documents.

use std::io::Read;
use std::sync::{Arc, OnceLock};

use object::GroupVersionKind;
use object::schema::{Schema, SchemaSet, SchemaSetBuilder};
use serde_json::{Map, Value};

use crate::builtin;

const COMPACT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/compact.json.gz"));
const DESCRIBED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/described.json.gz"));

/// Changes whenever the definitions or the document code change.
pub const FINGERPRINT: &str = include_str!(concat!(env!("OUT_DIR"), "/fingerprint"));

/// All built-in definitions without descriptions, parsed once per process: constants do not differ between control
/// planes.
///
/// Without required fields and enumerations, because Kubernetes checks them in the kind's strategy. In addition to
/// the published keywords: the formats `quantity` and `micro-time` of types with a canonical form.
pub fn compact() -> Arc<SchemaSet> {
    static SET: OnceLock<Arc<SchemaSet>> = OnceLock::new();
    SET.get_or_init(|| Arc::new(read_compact())).clone()
}

/// The schema of one built-in definition, such as `io.k8s.api.apps.v1.Deployment`.
pub fn named(definition: &str) -> Option<Schema> {
    compact().named(definition)
}

/// The schema of a built-in kind, or of a body that is not a resource: Scale, Eviction, TokenRequest,
/// `meta.k8s.io/v1` DeleteOptions.
pub fn for_kind(gvk: &GroupVersionKind) -> Option<Schema> {
    named(&builtin::definition_name(gvk))
}

/// All definitions with descriptions, decompressed each time: about a megabyte that should not stay in memory.
///
/// References are bare definition names; defaults are those of `/openapi/v3`.
pub fn described() -> Map<String, Value> {
    parse(DESCRIBED)
}

fn read_compact() -> SchemaSet {
    let mut builder = SchemaSetBuilder::default();
    for (name, schema) in parse(COMPACT) {
        builder.define(&name, &schema).expect("built-in schemas are shallow");
    }
    builder.finish().expect("built-in definitions refer to each other only")
}

fn parse(compressed: &[u8]) -> Map<String, Value> {
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(compressed).read_to_end(&mut text).expect("written by the build script");
    serde_json::from_slice(&text).expect("written by the build script")
}

#[cfg(test)]
mod tests {
    use object::schema::{ListType, SchemaType};

    use super::*;

    #[test]
    fn containers_of_a_pod_merge_by_name() {
        let schema = named("io.k8s.api.core.v1.Pod").expect("built in");
        let containers = schema.root().property("spec").and_then(|spec| spec.property("containers")).expect("a field");
        assert_eq!(containers.node().list_type, ListType::Map(vec!["name".to_owned()]));
        assert_eq!(containers.node().patch.merge_key.as_deref(), Some("name"));
        let ports = containers.items().and_then(|item| item.property("ports")).expect("a field");
        assert_eq!(ports.node().list_type, ListType::Map(vec!["containerPort".to_owned(), "protocol".to_owned()]));
        let protocol = ports.items().and_then(|port| port.property("protocol")).expect("a field");
        assert_eq!(protocol.node().default.as_deref(), Some(&Value::from("TCP")));
    }

    #[test]
    fn bodies_of_subresources_have_schemas() {
        for (group, kind) in [
            ("autoscaling", "Scale"),
            ("policy", "Eviction"),
            ("authentication.k8s.io", "TokenRequest"),
            ("meta.k8s.io", "DeleteOptions"),
        ] {
            assert!(for_kind(&GroupVersionKind::new(group, "v1", kind)).is_some(), "{kind}");
        }
    }

    #[test]
    fn keywords_next_to_a_reference_belong_to_the_position() {
        let deployment = named("io.k8s.api.apps.v1.Deployment").expect("built in");
        let strategy = deployment.root().property("spec").and_then(|spec| spec.property("strategy")).expect("a field");
        assert!(strategy.node().patch.retain_keys && strategy.property("rollingUpdate").is_some());
    }

    #[test]
    fn values_with_a_special_format_are_marked() {
        let quantity = named("io.k8s.apimachinery.pkg.api.resource.Quantity").expect("built in");
        assert_eq!(quantity.root().ty(), SchemaType::IntOrString);
        assert_eq!(quantity.root().rules().and_then(|rules| rules.format.as_deref()), Some("quantity"));
        let raw = named("io.k8s.apimachinery.pkg.runtime.RawExtension").expect("built in");
        assert!(raw.root().node().preserve_unknown);
    }
}
