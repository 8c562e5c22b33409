//! The schemas of Karmada's kinds, as CustomResourceDefinitions would have them, from the tables beside the sources.
//!
//! A table names types, each with its fields: `name! type words -- description`, where `!` marks what is required,
//! `[T]` is a list and `{T}` a map, `k8s.core.v1.Toleration` is Kubernetes' own type, and `+ T` takes in the fields of
//! another type. One type is written once, however many kinds use it.

mod build;
mod table;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use table::Type;

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

/// Who reads the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// OpenAPI and the validation of custom objects.
    Custom,
    /// The decoder of typed objects, which knows the canonical spelling of quantities and leaves required fields and
    /// enumerations to the kind's rules.
    Typed,
}

/// All types of all tables, and the types of Kubernetes they refer to.
pub struct Schemas {
    types: BTreeMap<&'static str, Type>,
    kubernetes: Map<String, Value>,
}

impl Schemas {
    pub fn read() -> Self {
        let types = TABLES.iter().flat_map(|text| table::read(text));
        Self { types: types.collect(), kubernetes: kinds::schemas::described() }
    }

    /// The schema of a kind: the named type with what every object has.
    pub fn of_kind(&self, name: &str, form: Form) -> Value {
        build::kind(self, name, form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_the_tables_can_be_built() {
        let schemas = Schemas::read();
        for name in schemas.types.keys() {
            for form in [Form::Custom, Form::Typed] {
                let schema = schemas.of_kind(name, form);
                assert!(object::schema::Schema::from_openapi(&schema).is_ok(), "{name}");
            }
        }
    }

    #[test]
    fn every_type_and_field_says_what_it_is_for() {
        for (name, ty) in &Schemas::read().types {
            assert!(!ty.about.is_empty(), "{name}");
            for field in ty.fields() {
                assert!(!field.about.is_empty(), "{name}.{}", field.name);
            }
        }
    }
}
