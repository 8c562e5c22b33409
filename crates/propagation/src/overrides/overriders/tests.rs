//! Cases of every overrider, as they are written in policies.

use super::*;

fn object(value: Value) -> Object {
    Object::from_value(value).expect("a map")
}

/// Applies overriders written as in a policy.
#[track_caller]
fn overridden(manifest: Value, overriders: Value) -> Result<Value, String> {
    let overriders: Overriders = serde_json::from_value(overriders).expect("overriders");
    let mut manifest = object(manifest);
    apply(&mut manifest, &overriders).map_err(|error| error.to_string())?;
    Ok(manifest.to_value())
}

#[track_caller]
fn check(manifest: Value, overriders: Value, path: &str, expected: Value) {
    let changed = overridden(manifest, overriders.clone()).unwrap_or_else(|error| panic!("{overriders}: {error}"));
    assert_eq!(changed.pointer(path), Some(&expected), "{overriders} made {changed}");
}

#[track_caller]
fn check_refused(manifest: Value, overriders: Value, expected: &str) {
    let error = overridden(manifest, overriders.clone()).expect_err("it was applied");
    assert!(error.contains(expected), "{overriders}: {error}");
}

fn workload(kind: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w"}, "spec": {"template": {"spec": {
    "initContainers": [{"name": "init", "image": "a.example/init:v1"}],
    "containers": [
        {"name": "web", "image": "a.example/web:v1", "command": ["echo", "hi"]},
        {"name": "side", "image": "side", "args": ["-v", "-x"]},
    ]}}}})
}

#[test]
fn images_of_all_containers_are_overridden() {
    let registry = json!({"imageOverrider": [{"component": "Registry", "operator": "replace", "value": "b.example"}]});
    let containers = "/spec/template/spec/containers";
    for kind in ["Deployment", "ReplicaSet", "DaemonSet", "StatefulSet", "Job"] {
        check(workload(kind), registry.clone(), &format!("{containers}/0/image"), json!("b.example/web:v1"));
        check(workload(kind), registry.clone(), &format!("{containers}/1/image"), json!("b.example/side"));
        let init = "/spec/template/spec/initContainers/0/image";
        check(workload(kind), registry.clone(), init, json!("a.example/init:v1"));
    }
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "x:1"}]}});
    check(pod, registry.clone(), "/spec/containers/0/image", json!("b.example/x:1"));
    assert_eq!(overridden(workload("CronJob"), registry), Ok(workload("CronJob")));
}

#[test]
fn a_predicate_names_the_one_image_to_change() {
    let at = |path: &str| {
        json!({"imageOverrider": [{"predicate": {"path": path}, "component": "Tag", "operator": "replace",
            "value": "v2"}]})
    };
    let path = "/spec/template/spec/containers/0/image";
    check(workload("Anything"), at(path), path, json!("a.example/web:v2"));
    check(workload("Anything"), at(path), "/spec/template/spec/containers/1/image", json!("side"));
    let init = "/spec/template/spec/initContainers/0/image";
    check(workload("Deployment"), at(init), init, json!("a.example/init:v2"));
    check_refused(workload("Deployment"), at("/spec/nothing/image"), "failed to obtain imageValue");
    check_refused(workload("Deployment"), at("/spec/template/spec/containers/x/image"), "is not number");
    check_refused(workload("Deployment"), at("/spec/template/spec/containers/9/image"), "no field");
    check_refused(workload("Deployment"), at("/spec/template"), "to string");
    check_refused(workload("Deployment"), at(&path[1..]), "imagePath should be start with / character");
}

#[test]
fn an_invalid_image_fails_the_whole_manifest() {
    let tag = json!({"imageOverrider": [{"component": "Tag", "operator": "remove"}]});
    let mut bad = workload("Deployment");
    bad["spec"]["template"]["spec"]["containers"][1]["image"] = "Not An Image".into();
    check_refused(bad.clone(), tag.clone(), "failed to parse image value(Not An Image), error:");
    bad["spec"]["template"]["spec"]["containers"][1] = json!({"name": "no-image"});
    check_refused(bad, tag, "at least one component");
    let odd = json!({"imageOverrider": [{"component": "Digest", "operator": "remove"}]});
    check_refused(workload("Deployment"), odd, "unsupported image component(Digest)");
}

#[test]
fn items_are_added_to_and_removed_from_commands_and_arguments() {
    let command = |name: &str, operator: &str, value: Value| json!({"commandOverrider": [{"containerName": name, "operator": operator, "value": value}]});
    let at = "/spec/template/spec/containers/0/command";
    let other = "/spec/template/spec/containers/1/command";
    check(workload("Deployment"), command("web", "add", json!(["x"])), at, json!(["echo", "hi", "x"]));
    check(workload("Deployment"), command("web", "remove", json!(["echo", "no"])), at, json!(["hi"]));
    check(workload("Deployment"), command("web", "replace", json!(["x"])), at, json!(["echo", "hi"]));
    check(workload("Deployment"), command("side", "add", json!(["x"])), other, json!(["x"]));
    check(workload("Deployment"), command("side", "remove", json!(["x"])), other, json!([]));
    let absent = command("absent", "add", json!(["x"]));
    assert_eq!(overridden(workload("Deployment"), absent), Ok(workload("Deployment")));
    let args = json!({"argsOverrider": [{"containerName": "side", "operator": "remove", "value": ["-v"]}]});
    check(workload("StatefulSet"), args.clone(), "/spec/template/spec/containers/1/args", json!(["-x"]));
    assert_eq!(overridden(workload("CronJob"), args), Ok(workload("CronJob")));
}

#[test]
fn labels_and_annotations_are_added_and_existing_ones_replaced() {
    let with =
        |field: &str, texts: Value| json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x", field: texts}});
    let over = |field: &str, operator: &str, value: Value| json!({format!("{field}Overrider"): [{"operator": operator, "value": value}]});
    for field in ["labels", "annotations"] {
        let at = format!("/metadata/{field}");
        let old = || with(field, json!({"a": "1", "x/y": "2"}));
        check(old(), over(field, "add", json!({"b": "3"})), &at, json!({"a": "1", "x/y": "2", "b": "3"}));
        check(old(), over(field, "add", json!({"a": "3"})), &at, json!({"a": "3", "x/y": "2"}));
        check(old(), over(field, "replace", json!({"x/y": "3", "b": "4"})), &at, json!({"a": "1", "x/y": "3"}));
        check(old(), over(field, "remove", json!({"x/y": "", "b": ""})), &at, json!({"a": "1"}));
        let bare = || json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}});
        check(bare(), over(field, "add", json!({"x/y": "3"})), &at, json!({"x/y": "3"}));
        for operator in ["replace", "remove"] {
            assert_eq!(overridden(bare(), over(field, operator, json!({"a": "1"}))), Ok(bare()), "{operator}");
        }
    }
}

#[test]
fn a_field_that_holds_a_document_is_patched_inside() {
    let map = |text: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"file.x": text, "a/b": text}});
    let over = |format: &str, operator: &str, sub_path: &str, value: Value| {
        json!({"fieldOverrider": [{"fieldPath": "/data/file.x",
            format: [{"subPath": sub_path, "operator": operator, "value": value}]}]})
    };
    let at = "/data/file.x";
    let yaml = "\nkey: \n  key1: value\n";
    check(
        map(yaml),
        over("yaml", "replace", "/key/key1", json!("updated_value")),
        at,
        json!("key:\n  key1: updated_value\n"),
    );
    check(
        map(yaml),
        over("yaml", "add", "/list", json!([1, "2"])),
        at,
        json!("key:\n  key1: value\nlist:\n- 1\n- \"2\"\n"),
    );
    check(map(yaml), over("yaml", "remove", "/key/key1", Value::Null), at, json!("key: {}\n"));
    let json = r#"{"key":{"key1":"value"}}"#;
    let replaced = json!(r#"{"key":{"key1":"updated_value"}}"#);
    check(map(json), over("json", "replace", "/key/key1", json!("updated_value")), at, replaced);
    check(map(json), over("json", "add", "/key/n", json!(1)), at, json!(r#"{"key":{"key1":"value","n":1}}"#));
    let kept = json!(r#"{"z":1,"a":3}"#);
    check(map("{\"z\": 1,\n \"a\": 2}"), over("json", "replace", "/a", json!(3)), at, kept);
    // Slashes in keys are written ~1.
    let escaped = json!({"fieldOverrider": [{"fieldPath": "/data/a~1b",
        "json": [{"subPath": "/key", "operator": "remove"}]}]});
    check(map(json), escaped, "/data/a~1b", json!("{}"));

    check_refused(map(json), over("json", "remove", "/absent", Value::Null), "remove");
    check_refused(map("{"), over("json", "remove", "/a", Value::Null), "is not JSON");
    check_refused(map("a: [}"), over("yaml", "remove", "/a", Value::Null), "is not YAML");
    let number = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"file.x": 5}});
    check_refused(number, over("json", "remove", "/a", Value::Null), "path(/data/file.x) is not string");
    let bare = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    check_refused(bare, over("json", "remove", "/a", Value::Null), "no field");
    for format in ["json", "yaml"] {
        let mistyped = over(format, "replace", "/kee", json!(1));
        check_refused(map(r#"{"key": 1}"#), mistyped, "doc is missing key: /kee: missing value");
    }
}

#[test]
fn plaintext_is_one_patch_of_the_whole_object() {
    let over = |operations: Value| json!({"plaintext": operations});
    let replicas = over(json!([{"path": "/spec/replicas", "operator": "replace", "value": 4}]));
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1, "paused": true}});
    check(deployment.clone(), replicas, "/spec", json!({"replicas": 4, "paused": true}));
    let both = over(json!([
        {"path": "/spec/new", "operator": "add", "value": {"a": [1]}},
        {"path": "/spec/new/a/-", "operator": "add", "value": 2},
        {"path": "/spec/paused", "operator": "remove"},
    ]));
    check(deployment.clone(), both, "/spec", json!({"replicas": 1, "new": {"a": [1, 2]}}));
    let absent = over(json!([{"path": "/spec/absent", "operator": "remove"}]));
    check_refused(deployment.clone(), absent, "remove");
    let mistyped = over(json!([{"path": "/spec/replica", "operator": "replace", "value": 4}]));
    check_refused(deployment.clone(), mistyped, "doc is missing key: /spec/replica: missing value");
    for path in ["/kind", "/apiVersion"] {
        check_refused(deployment.clone(), over(json!([{"path": path, "operator": "remove"}])), "without apiVersion");
    }
    check_refused(deployment, over(json!([{"path": "", "operator": "replace", "value": [1]}])), "without apiVersion");
}

#[test]
fn general_overriders_apply_after_specific_ones_in_any_order() {
    let all = json!({
        "plaintext": [{"path": "/metadata/labels/l", "operator": "replace", "value": "plaintext"}],
        "labelsOverrider": [{"operator": "add", "value": {"l": "first"}}, {"operator": "replace", "value": {"l": "second"}}],
        "imageOverrider": [{"component": "Tag", "operator": "replace", "value": "v2"},
            {"component": "Tag", "operator": "add", "value": "-x"}],
    });
    check(workload("Deployment"), all.clone(), "/metadata/labels/l", json!("plaintext"));
    check(workload("Deployment"), all, "/spec/template/spec/containers/0/image", json!("a.example/web:v2-x"));
}
