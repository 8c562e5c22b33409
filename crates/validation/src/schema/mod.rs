//! The schemas of Karmada's kinds, as CustomResourceDefinitions would have them, from the tables next to the sources.
//!
//! A table names types, each with its fields: `name! type words -- description`, where `!` marks what is required,
//! `[T]` is a list and `{T}` a map, `k8s.core.v1.Toleration` is Kubernetes' own type, and `+ T` takes in the fields of
//! another type. One type is written once, however many kinds use it.

mod openapi;
mod table;
mod typed;

use std::collections::BTreeMap;

use object::schema::Schema;
use serde_json::{Map, Value};

use table::{Field, Part, Type};

const TABLES: &[&str] = &[
    include_str!("../../schemas/shared.schema"),
    include_str!("../../schemas/policy.schema"),
    include_str!("../../schemas/work.schema"),
    include_str!("../../schemas/config.schema"),
    include_str!("../../schemas/networking.schema"),
    include_str!("../../schemas/autoscaling.schema"),
    include_str!("../../schemas/operations.schema"),
    include_str!("../../schemas/multicluster.schema"),
    include_str!("../../schemas/cluster.schema"),
    include_str!("../../schemas/search.schema"),
];

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta";

/// All types of all tables, and the types of Kubernetes they refer to.
pub struct Schemas {
    types: BTreeMap<&'static str, Type>,
    kubernetes: Map<String, Value>,
}

impl Schemas {
    pub fn read() -> Self {
        Self::of(TABLES)
    }

    /// Reads other tables. They can use the types that Karmada's groups share.
    pub fn with_shared(tables: &[&'static str]) -> Self {
        Self::of(&[&TABLES[..1], tables].concat())
    }

    fn of(tables: &[&'static str]) -> Self {
        let types = tables.iter().flat_map(|text| table::read(text));
        Self { types: types.collect(), kubernetes: kinds::schemas::described() }
    }

    /// The schema of a kind for OpenAPI and for the validation of custom objects: every reference written out.
    pub fn openapi(&self, name: &str) -> Value {
        openapi::kind(self, name)
    }

    /// The schema of a kind for the decoder of typed objects: types by name, so that quantities and times get their
    /// canonical spelling. Required fields, enumerations and bounds are up to the kind's rules.
    pub fn typed(&self, name: &str) -> Schema {
        typed::kind(self, name)
    }

    /// The fields of a type with those it takes in.
    fn fields(&self, name: &str) -> Vec<&Field> {
        let mut fields = Vec::new();
        for part in &self.types[name].parts {
            match part {
                Part::Include(other) => fields.extend(self.fields(other)),
                Part::Field(field) => fields.push(field),
            }
        }
        fields
    }
}

/// The structure of a type.
enum Shape<'a> {
    List(&'a str),
    Map(&'a str),
    Scalar(&'a str),
    /// By its full name.
    Kubernetes(String),
    Own(&'a str),
}

fn shape(ty: &str) -> Shape<'_> {
    let within = |open: char, close: char| ty.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    if let Some(item) = within('[', ']') {
        return Shape::List(item);
    }
    if let Some(item) = within('{', '}') {
        return Shape::Map(item);
    }
    if let Some(name) = ty.strip_prefix("k8s.") {
        return Shape::Kubernetes(match name.strip_prefix("meta.") {
            Some(rest) => format!("{META}.{rest}"),
            None => format!("io.k8s.api.{name}"),
        });
    }
    if ty.starts_with(char::is_lowercase) { Shape::Scalar(ty) } else { Shape::Own(ty) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_the_tables_can_be_built() {
        let schemas = Schemas::read();
        for name in schemas.types.keys() {
            assert!(Schema::from_openapi(&schemas.openapi(name)).is_ok(), "{name}");
            assert!(schemas.typed(name).root().property("metadata").is_some(), "{name}");
        }
    }

    #[test]
    fn every_type_and_field_has_a_description() {
        let schemas = Schemas::read();
        for (name, ty) in &schemas.types {
            assert!(!ty.about.is_empty(), "{name}");
            for field in schemas.fields(name) {
                assert!(!field.about.is_empty(), "{name}.{}", field.name);
            }
        }
    }

    #[test]
    fn typed_objects_normalize_quantities_and_times() {
        let mut cluster = serde_json::json!({"spec": {
            "resourceModels": [{"grade": 0, "ranges": [{"name": "cpu", "min": 0, "max": "2000m"}]}],
            "taints": [{"key": "k", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00.5Z"}],
        }});
        object::schema::canonicalize(&Schemas::read().typed("Cluster"), &mut cluster);
        let range = &cluster["spec"]["resourceModels"][0]["ranges"][0];
        assert_eq!((&range["min"], &range["max"]), (&Value::from("0"), &Value::from("2")));
        assert_eq!(cluster["spec"]["taints"][0]["timeAdded"], "2026-01-01T00:00:00Z");
    }
}
