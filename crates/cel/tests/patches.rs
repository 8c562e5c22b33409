//! Expressions that build apply configurations and JSON patches.

use cel::{Activation, Budget, Env, Library, Opaque, Type, Value};
use serde_json::{Value as Json, json};

fn env() -> Env {
    Env::builder().variable("object", Type::Dyn).library(Library::Patches).build()
}

/// The JSON of the result, or the error of the compiler, of the evaluation or of the type names.
#[track_caller]
fn check(expression: &str, expected: Result<Json, &str>) {
    let object = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 2}});
    let found = env().compile(expression).map_err(|error| error.to_string()).and_then(|program| {
        let variables = Activation::new().with("object", Value::from_json(&object));
        let value = program.eval(&variables, &mut Budget::for_validation()).map_err(|error| error.to_string())?;
        if let Value::Opaque(Opaque::Record(record)) = &value {
            record.check_type_names()?;
        }
        value.to_json().map_err(|error| error.to_string())
    });
    match expected {
        Ok(expected) => assert_eq!(found, Ok(expected), "{expression}"),
        Err(expected) => {
            let found = found.expect_err(expression);
            assert!(found.contains(expected), "{expression}: {found}");
        }
    }
}

#[test]
fn objects_are_built_from_literals_and_data() {
    check("Object{}", Ok(json!({})));
    check("Object{spec: Object.spec{replicas: object.spec.replicas + 1}}", Ok(json!({"spec": {"replicas": 3}})));
    check("Object{metadata: Object.metadata{labels: {'x': 'y'}}}", Ok(json!({"metadata": {"labels": {"x": "y"}}})));
    check(
        "Object{spec: Object.spec{containers: [1, 2].map(i, Object.spec.containers{name: string(i)})}}",
        Ok(json!({"spec": {"containers": [{"name": "1"}, {"name": "2"}]}})),
    );
    check("Object{?spec: object.?nope, kind: 'a'}", Ok(json!({"kind": "a"})));
    check("Object{spec: Object.spec{replicas: 2.0}}", Ok(json!({"spec": {"replicas": 2}})));
    check("Object{spec: Object.spec{a: 1}}.spec.a", Ok(json!(1)));
}

#[test]
fn types_are_checked() {
    let mismatch = "unexpected type name \"Object.other\", expected \"Object.spec\", which matches field name path";
    check("Object{spec: Object.other{}}", Err(mismatch));
    check("Other{}", Err("undeclared reference to 'Other'"));
    check("JSONPatch{op: 1}", Err("expected type of field 'op' is 'string' but provided type is 'int'"));
    check("JSONPatch{nope: 'x'}", Err("undefined field 'nope'"));
    let plain = Env::builder().build().compile("Object{}").expect_err("patches are not available everywhere");
    assert!(plain.to_string().contains("undeclared reference to 'Object'"), "{plain}");
    for (expression, expected) in
        [("Object{}", Type::apply_configuration()), ("[JSONPatch{}]", Type::list(Type::json_patch()))]
    {
        assert_eq!(*env().compile(expression).expect(expression).result_type(), expected);
    }
}

#[test]
fn patches_are_lists_of_operations() {
    check(
        "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b~c'), value: 'v'}]",
        Ok(json!([{"op": "add", "path": "/metadata/labels/a~1b~0c", "value": "v"}])),
    );
    check(
        "has(object.spec) ? [JSONPatch{op: 'remove', path: '/spec'}] : []",
        Ok(json!([{"op": "remove", "path": "/spec"}])),
    );
    check(
        "[JSONPatch{op: 'add', path: '/spec', value: Object.spec{a: [true, false]}}]",
        Ok(json!([{"op": "add", "path": "/spec", "value": {"a": [true, false]}}])),
    );
    check("JSONPatch{op: 'add', value: type(1)}", Err("has no JSON form"));
}
