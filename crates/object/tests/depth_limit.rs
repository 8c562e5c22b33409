//! No sequence of patch operations builds a document deeper than the limit or overflows a small stack.

use object::depth::{self, DEPTH_MAX};
use object::patch::json;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A fraction of what the server's threads have.
const STACK_BYTES: usize = 256 * 1024;

/// Runs the patch in a thread with a small stack; an overflow aborts the test process. Returns the status code.
fn check(document: Value, patch: Value) -> u16 {
    let applied = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        let before = depth::of(&document);
        let mut patched = document;
        let code = match json::apply(&mut patched, &patch) {
            Ok(()) => 200,
            Err(error) => error.to_status().code,
        };
        assert!(depth::of(&patched) <= DEPTH_MAX.max(before), "depth {}", depth::of(&patched));
        code
    });
    applied.expect("a thread").join().expect("the patch does not panic")
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!({"x": inner}))
}

/// Nests by moving a tree into a longer one again and again: the values are never copied.
fn nesting_moves(rounds: usize, levels: usize) -> Value {
    let mut operations = vec![json!({"op": "add", "path": "/q0", "value": {}})];
    for round in 0..rounds {
        let (from, to) = (round % 2, (round + 1) % 2);
        operations.push(json!({"op": "add", "path": format!("/q{to}"), "value": nested(levels)}));
        let path = format!("/q{to}{}", "/x".repeat(levels));
        operations.push(json!({"op": "move", "from": format!("/q{from}"), "path": path}));
    }
    operations.into()
}

#[test]
fn moves_that_nest_are_refused_at_the_limit() {
    let cases = [(1, 10, 200), (9, 10, 200), (10, 10, 422), (200, 99, 422), (200, 100, 422), (4_000, 20, 422)];
    for (rounds, levels, expected) in cases {
        assert_eq!(check(json!({"kind": "ConfigMap"}), nesting_moves(rounds, levels)), expected, "{rounds} x {levels}");
    }
}

#[test]
fn each_operation_is_checked_against_its_target() {
    let deep = nested(DEPTH_MAX - 1);
    let path = "/x".repeat(DEPTH_MAX - 1);
    let cases = [
        (json!([{"op": "add", "path": "/a", "value": deep}]), 200),
        (json!([{"op": "add", "path": "/a/b", "value": deep}]), 422),
        (json!([{"op": "replace", "path": "/a", "value": nested(DEPTH_MAX)}]), 422),
        (json!([{"op": "replace", "path": "", "value": nested(DEPTH_MAX)}]), 200),
        (json!([{"op": "replace", "path": "", "value": nested(DEPTH_MAX + 1)}]), 422),
        (
            json!([{"op": "add", "path": "/x", "value": nested(DEPTH_MAX - 2)}, {"op": "copy", "from": "/x", "path": "/a/b"}]),
            200,
        ),
        (json!([{"op": "add", "path": "/x", "value": deep}, {"op": "copy", "from": "/x", "path": "/a/b"}]), 422),
        (json!([{"op": "add", "path": "/x", "value": deep}, {"op": "move", "from": "/x", "path": "/a/b"}]), 422),
        (json!([{"op": "add", "path": "/x", "value": deep}, {"op": "move", "from": path, "path": "/a/b"}]), 200),
        (json!([{"op": "add", "path": "/x", "value": deep}, {"op": "move", "from": "/a", "path": path}]), 200),
        (json!([{"op": "add", "path": "/x", "value": deep}, {"op": "move", "from": "/b", "path": path}]), 422),
    ];
    for (patch, expected) in cases {
        assert_eq!(check(json!({"a": {}, "b": [[]]}), patch.clone()), expected, "{patch}");
    }
}

#[test]
fn a_document_that_is_too_deep_already_can_be_patched_but_not_deepened() {
    let document = json!({"a": nested(120), "b": 1});
    assert_eq!(check(document.clone(), json!([{"op": "replace", "path": "/b", "value": 2}])), 200);
    assert_eq!(check(document.clone(), json!([{"op": "remove", "path": "/a"}])), 200);
    assert_eq!(
        check(
            document,
            json!([{"op": "add", "path": "/c", "value": {}}, {"op": "move", "from": "/a", "path": "/c/a"}])
        ),
        422
    );
}

fn operation() -> impl Strategy<Value = Value> {
    let op = prop::sample::select(vec!["add", "replace", "move", "move", "copy", "remove"]);
    let root = || prop::sample::select(vec!["a", "b", "c"]);
    let path = move || (root(), 0_usize..120).prop_map(|(root, levels)| format!("/{root}{}", "/x".repeat(levels)));
    let value = (0_usize..=126).prop_map(nested);
    (op, path(), path(), value)
        .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_operations_stay_below_the_limit(operations in prop::collection::vec(operation(), 0..40)) {
        let document = json!({"a": nested(50), "b": nested(5), "c": {"x": {"x": []}}});
        // One at a time, so that a refused operation does not hide those after it.
        let mut patched = document.clone();
        for operation in &operations {
            let mut next = patched.clone();
            if json::apply(&mut next, &Value::from(vec![operation.clone()])).is_ok() {
                patched = next;
            }
            prop_assert!(depth::of(&patched) <= DEPTH_MAX);
        }
        check(document, operations.into());
    }
}
