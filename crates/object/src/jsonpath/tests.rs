//! Paths and templates against the values kubectl prints for them.

use serde_json::json;

use super::*;

#[test]
fn paths_find_the_values_kubectl_finds() {
    let root = json!({
        "spec": {"replicas": 3, "a.b": "dotted", "list": [1, 2, 3, 4]},
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "count": 2},
            {"type": "Synced", "status": "False", "count": 7},
        ]},
    });
    let cases = [
        (".spec.replicas", json!([3])),
        ("$.spec.replicas", json!([3])),
        (".spec['a\\.b']", json!(["dotted"])),
        (".spec.a\\.b", json!(["dotted"])),
        (".spec.missing", json!([])),
        (".spec.list[1]", json!([2])),
        (".spec.list[-1]", json!([4])),
        (".spec.list[-1:]", json!([4])),
        (".spec.list[0:2]", json!([1, 2])),
        (".spec.list[::2]", json!([1, 3])),
        (".spec.list[0,2]", json!([1, 3])),
        (".spec.list[*]", json!([1, 2, 3, 4])),
        (".status.conditions[*].type", json!(["Ready", "Synced"])),
        (".status.conditions[?(@.type==\"Ready\")].status", json!(["True"])),
        (".status.conditions[?(@.type=='Synced')].status", json!(["False"])),
        (".status.conditions[?(@.count > 2)].type", json!(["Synced"])),
        (".status.conditions[?(@.count)].type", json!(["Ready", "Synced"])),
        ("..status", json!([root["status"], "True", "False"])),
    ];
    for (path, expected) in cases {
        let path = JsonPath::parse(path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let found: Vec<Value> = path.find(&root).expect("leads somewhere").into_iter().cloned().collect();
        assert_eq!(Value::from(found), expected, "{path:?}");
    }
}

#[test]
fn invalid_paths_are_refused() {
    for path in ["[", ".a[x]", ".a[?(@.b", ".a[?(@.b==1)", "#", "hello", ".a[1:2:3:4]", "'open"] {
        assert!(JsonPath::parse(path).is_err(), "{path}");
    }
}

#[test]
fn a_wrong_type_on_the_way_is_an_error_and_not_a_panic() {
    for (path, root) in [(".a[3]", json!({"a": [1]})), (".a[0]", json!({"a": "x"})), (".a[?(@.b)]", json!({"a": 1}))] {
        assert!(JsonPath::parse(path).expect("valid").find(&root).is_err(), "{path}");
    }
}

#[test]
fn templates_render_as_with_kubectl() {
    let value = json!({
        "kind": "List",
        "items": [
            {"metadata": {"name": "a", "labels": {"app.kubernetes.io/name": "x"}}, "spec": {"replicas": 2}, "ports": [1, 2, 3]},
            {"metadata": {"name": "b"}, "spec": {"replicas": 5}, "status": {"ready": true}},
        ],
    });
    let cases = [
        ("{.kind}", "List"),
        (".kind", "List"),
        ("{$.kind}", "List"),
        ("name: {.items[0].metadata.name}!", "name: a!"),
        ("{.items[*].metadata.name}", "a b"),
        ("{.items[-1].metadata.name}", "b"),
        ("{.items[0]['metadata'].name}", "a"),
        ("{.items[0].metadata.labels.app\\.kubernetes\\.io/name}", "x"),
        ("{.items[0].metadata.labels['app.kubernetes.io/name']}", "x"),
        ("{..name}", "a b"),
        ("{.items[0].ports[0:2]}", "1 2"),
        ("{.items[0].ports[::2]}", "1 3"),
        ("{.items[0].ports[0,2]}", "1 3"),
        ("{.items[?(@.spec.replicas>3)].metadata.name}", "b"),
        ("{.items[?(@.metadata.name==\"a\")].spec.replicas}", "2"),
        ("{.items[?(@.status)].metadata.name}", "b"),
        ("{.items[?(@.status.ready==true)].metadata.name}", "b"),
        ("{range .items[*]}{.metadata.name}={.spec.replicas}{\"\\n\"}{end}", "a=2\nb=5\n"),
        ("{range .items[*]}{@.metadata.name},{$.kind};{end}", "a,List;b,List;"),
        ("{.items[0].spec}", "{\"replicas\":2}"),
        ("{.missing.path}", ""),
        ("{.items[0].metadata['name','namespace']}", "a"),
    ];
    for (template, expected) in cases {
        let rendered = Template::parse(template).unwrap_or_else(|e| panic!("{template}: {e}")).render(&value);
        assert_eq!(rendered.unwrap(), expected, "{template}");
    }
}

#[test]
fn invalid_templates_are_refused() {
    for template in ["{.a", "{range .items}", "{.a[}", "{.a[?(@.b==)]}", "{end}", "{.a['b}", "{foo bar}"] {
        assert!(Template::parse(template).is_err(), "{template}");
    }
}

#[test]
fn missing_keys_are_errors_if_requested() {
    let value = json!({"a": {"b": "x"}, "list": [{"n": 1}, {}]});
    for (template, expected) in
        [("{.a.b}!", Ok("x!")), ("{.a.c}", Err("c is not found")), ("{.list[*].n}", Err("n is not found"))]
    {
        let rendered =
            Template::parse(template).expect("valid").render_strict(&value).map_err(|error| error.to_string());
        assert_eq!(rendered.as_deref().map_err(String::as_str), expected, "{template}");
    }
}

#[test]
fn an_index_outside_a_list_is_an_error_as_with_kubectl() {
    let error = Template::parse("{.a[3]}").expect("valid").render(&json!({"a": [1, 2]})).expect_err("outside");
    assert_eq!(error.to_string(), "array index out of bounds: index 3, length 2");
}

#[test]
fn filters_compare_with_the_root() {
    let value = json!({"kind": "List", "want": "b", "items": [{"n": "a"}, {"n": "b"}]});
    let path = JsonPath::parse(".items[?(@.n==$.want)].n").expect("valid");
    assert_eq!(path.find(&value).expect("found"), [&json!("b")]);
    assert_eq!(path.find_first(&Object::from_value(value).expect("an object")), Some(json!("b")));
}

#[test]
fn relaxed_paths_may_lack_the_dot_and_the_braces() {
    let value = json!({"a": {"b": 1}});
    for text in [".a.b", "a.b", "{.a.b}", "{a.b}"] {
        let path = JsonPath::parse_relaxed(text).expect("valid");
        assert_eq!(path.find(&value).expect("found"), [&json!(1)], "{text}");
    }
}
