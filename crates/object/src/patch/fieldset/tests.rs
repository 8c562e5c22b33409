//! The JSON form of sets, and the laws of set algebra.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// From structured-merge-diff v6, fieldpath/serialize_test.go.
#[test]
fn sets_read_and_write_as_fields_v1() {
    let cases = [
        json!({}),
        json!({"f:a": {}}),
        json!({"f:a": {".": {}, "f:b": {}}}),
        json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}}}}}),
        json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"a\"": {}, "v:1": {}, "v:true": {}}}}),
        json!({"f:list": {"i:0": {}, "i:10": {}}}),
        json!({"f:a.b/c": {}, "f:": {}}),
        json!({"k:{\"name\":\"a\\u003cb\"}": {}}),
    ];
    for case in cases {
        let set = Set::from_json(&case).expect("valid");
        assert_eq!(set.to_json(), case);
    }
    assert_eq!(Set::from_json(&json!({"x:new": {}, "f:a": {}})).map(|set| set.to_json()), Ok(json!({"f:a": {}})));
    for bad in
        [json!({"a": {}}), json!({"k:[]": {}}), json!({"k:{": {}}), json!({"i:x": {}}), json!({"f:a": 1}), json!([])]
    {
        assert!(Set::from_json(&bad).is_err(), "{bad}");
    }
    let deep = (0..200).fold(json!({}), |inner, _| json!({"f:a": inner}));
    assert!(Set::from_json(&deep).is_err());
}

#[test]
fn paths_read_as_in_conflict_messages() {
    let set = json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {"f:name": {}}}, "f:tags": {"v:\"a\"": {}}, "f:l": {"i:3": {}}}});
    let paths: Vec<String> = Set::from_json(&set).expect("valid").paths().iter().map(ToString::to_string).collect();
    assert_eq!(paths, [".spec.l[3]", ".spec.ports[port=80,protocol=\"TCP\"].name", ".spec.tags[=\"a\"]"]);
}

fn element() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        "[abc]".prop_map(|name| PathElement::field(&name)),
        (0i64..3).prop_map(|n| PathElement::Key(vec![("k".into(), Value::from(n))])),
        prop_oneof![Just(json!("a")), Just(json!(1)), Just(json!(1.5)), Just(json!(true))].prop_map(PathElement::Value),
        (0i64..3).prop_map(PathElement::Index),
    ]
}

fn set() -> impl Strategy<Value = Set> {
    let path = prop::collection::vec(element(), 1..4).prop_map(Path);
    prop::collection::vec(path, 0..12).prop_map(|paths| paths.into_iter().collect())
}

proptest! {
    #[test]
    fn set_algebra_holds(a in set(), b in set(), c in set()) {
        prop_assert_eq!(a.clone().union(b.clone()), b.clone().union(a.clone()));
        prop_assert_eq!(a.clone().union(b.clone()).union(c.clone()), a.clone().union(b.clone().union(c.clone())));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.clone().union(a.clone()), a.clone());
        prop_assert_eq!(a.intersection(&a), a.clone());
        prop_assert!(a.clone().difference(&a).is_empty());
        prop_assert_eq!(a.clone().difference(&b).union(a.intersection(&b)), a.clone());
        prop_assert!(a.clone().difference(&b).intersection(&b).is_empty());
        prop_assert_eq!(a.intersection(&b.clone().union(c.clone())), a.intersection(&b).union(a.intersection(&c)));
        prop_assert_eq!(a.len() + b.len(), a.clone().union(b.clone()).len() + a.intersection(&b).len());
    }

    #[test]
    fn membership_agrees_with_algebra(a in set(), b in set()) {
        for path in a.clone().union(b.clone()).paths() {
            prop_assert!(a.contains(&path) || b.contains(&path));
            prop_assert_eq!(a.intersection(&b).contains(&path), a.contains(&path) && b.contains(&path));
            prop_assert_eq!(a.clone().difference(&b).contains(&path), a.contains(&path) && !b.contains(&path));
            if a.clone().recursive_difference(&b).contains(&path) {
                prop_assert!((1..=path.0.len()).all(|n| !b.contains(&Path(path.0[..n].to_vec()))));
            }
        }
        prop_assert_eq!(a.paths().into_iter().collect::<Set>(), a.clone());
    }

    #[test]
    fn sets_round_trip_through_json(a in set()) {
        prop_assert_eq!(Set::from_json(&a.to_json()), Ok(a));
    }
}
