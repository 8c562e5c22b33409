//! One mutation: evaluates its expression and applies the result to the object.

use cel::{Activation, Budget, Opaque, Value};
use object::patch::typed::{atomic_fields, check_typed, merge};
use object::patch::{self, PatchError};
use object::{Object, depth};
use serde_json::{Map, Value as Json, json};

use super::Mutation;
use crate::admission::dynamic::conditions::{Expression, Failure};
use crate::admission::dynamic::facts::Facts;
use crate::admission::dynamic::{Matched, reshape, shown_resource};

/// Returns the object after the mutation, with its defaults set. `object` is in the version the policy matched.
pub(super) fn apply(
    facts: &Facts<'_>,
    matched: &Matched,
    mutation: &Mutation,
    object: &Object,
    variables: &Activation<'_>,
) -> Result<Object, String> {
    let patched = match mutation {
        Mutation::ApplyConfiguration(expression) => {
            let configuration = configuration_of(evaluate(expression, variables)?)?;
            merge_configuration(facts, matched, object, configuration)?
        }
        Mutation::JsonPatch(expression) => patch_json(object, &operations_of(&evaluate(expression, variables)?)?)?,
    };
    if patched == *object {
        return Ok(patched);
    }
    if depth::of(patched.as_value()) > depth::DEPTH_MAX {
        return Err(format!("the object would be nested more than {} levels deep", depth::DEPTH_MAX));
    }
    reshape(facts, matched, object, patched)
}

fn evaluate<'a>(expression: &Expression, variables: &Activation<'a>) -> Result<Value<'a>, String> {
    expression.eval(variables, &mut Budget::for_validation()).map_err(|failure| match failure {
        Failure::Expression(problem) | Failure::Budget(problem) => problem,
    })
}

fn configuration_of(value: Value<'_>) -> Result<Map<String, Json>, String> {
    let Value::Opaque(Opaque::Record(record)) = &value else {
        return Err(format!("unsupported return type from ApplyConfiguration expression: {}", value.type_of()));
    };
    record.check_type_names().map_err(|problem| format!("type mismatch: {problem}"))?;
    match value.to_json() {
        Ok(Json::Object(map)) => Ok(map),
        Ok(_) => Err("invalid return type: not an object".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Merges as server-side apply does, without owners: lists by their keys, and nothing that merges only as a whole.
fn merge_configuration(
    facts: &Facts<'_>,
    matched: &Matched,
    object: &Object,
    configuration: Map<String, Json>,
) -> Result<Object, String> {
    let mut configuration = Object::from_map(configuration);
    configuration.set_gvk(&object.gvk());
    let resource = shown_resource(facts, matched);
    if object.gvk() != resource.kind.gvk {
        let text = "an apply configuration is not supported for this subresource";
        return Err(format!("error applying patch: {text}: {}", object.gvk()));
    }
    let (schema, failed) = (&resource.kind.schema, "error applying patch: failed to convert");
    check_typed(schema, configuration.as_value(), false)
        .map_err(|problem| format!("{failed} patch object to typed object: {problem}"))?;
    let atomics = atomic_fields(schema, configuration.as_value());
    if !atomics.is_empty() {
        let listed = atomics.join(", ");
        return Err(format!(
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {listed}"
        ));
    }
    check_typed(schema, object.as_value(), true)
        .map_err(|problem| format!("{failed} original object to typed object: {problem}"))?;
    let merged = merge(schema, object.as_value(), configuration.as_value());
    Object::from_value(merged).ok_or_else(|| "error applying patch: the result is not an object".to_owned())
}

/// The operations of a JSON patch, from a list of `JSONPatch{…}`.
fn operations_of(value: &Value<'_>) -> Result<Json, String> {
    let mismatch = "type mismatch: JSONPatchType.expression should evaluate to array";
    let Value::List(list) = value else { return Err(mismatch.to_owned()) };
    let mut operations = Vec::new();
    for item in list.items().map_err(|error| error.to_string())? {
        let Value::Opaque(Opaque::Record(record)) = &item else {
            return Err(format!("{mismatch} of JSONPatch: got element of {}", item.type_of()));
        };
        if let Some(Value::Opaque(Opaque::Record(built))) = record.field("value") {
            built.check_type_names().map_err(|problem| format!("type mismatch: {problem}"))?;
        }
        let mut operation = item.to_json().map_err(|error| {
            format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {error}")
        })?;
        for key in ["op", "path"] {
            if operation[key].is_null() {
                operation[key] = json!("");
            }
        }
        operations.push(operation);
    }
    Ok(Json::Array(operations))
}

fn patch_json(object: &Object, operations: &Json) -> Result<Object, String> {
    let mut value = object.to_value();
    match patch::json::apply(&mut value, operations) {
        Ok(()) => {}
        // A patch whose test fails does not apply, which is not an error.
        Err(PatchError::TestFailed { .. }) => return Ok(object.clone()),
        Err(error) => return Err(format!("JSON Patch: {error}")),
    }
    let patched = Object::from_value(value).ok_or("JSON Patch: the result is not an object")?;
    if patched.gvk() != object.gvk() {
        return Err(format!("JSON Patch: the patch changes {} into {}", object.gvk(), patched.gvk()));
    }
    Ok(patched)
}
