//! Properties of apply and ownership, and cases from structured-merge-diff v6 and apimachinery's managedfields tests.

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::patch::fieldset::Path;

fn schema() -> Schema {
    let item = json!({"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "integer"}}});
    Schema::from_openapi(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": {"type": "string"}, "n": {"type": "integer"},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "struct": {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string"}}},
        "atomic": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "plain": {"type": "array", "items": {"type": "string"}},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}}}))
    .expect("a schema")
}

fn object(spec: Value) -> Object {
    Object::from_value(json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec}))
        .expect("a map")
}

struct World {
    schema: Schema,
    now: Timestamp,
    live: Option<Object>,
}

impl World {
    fn new() -> Self {
        Self { schema: schema(), now: Timestamp::UNIX_EPOCH, live: None }
    }

    fn with<T>(&mut self, act: impl FnOnce(ApplyContext<'_>, Option<&Object>) -> T) -> T {
        let schema = self.schema.clone();
        let versions = move |_: &str| Some(schema.clone());
        let ctx = ApplyContext {
            schema: &self.schema,
            versions: &versions,
            subresource: "",
            now: self.now,
            reset_fields: None,
        };
        act(ctx, self.live.as_ref())
    }

    fn apply(&mut self, manager: &str, spec: Value, force: bool) -> Result<(), ApplyError> {
        let mut result = self.with(|ctx, live| apply(ctx, live, &object(spec), manager, force))?;
        result.set(&["metadata", "uid"], "u");
        self.live = Some(result);
        Ok(())
    }

    fn update(&mut self, manager: &str, spec: Value) {
        let mut new = self.live.clone().unwrap_or_else(|| object(json!({})));
        new.set(&["spec"], spec);
        self.with(|ctx, live| update_managers(ctx, live, &mut new, manager));
        new.set(&["metadata", "uid"], "u");
        self.live = Some(new);
    }

    fn spec(&self) -> Value {
        self.live.as_ref().and_then(|live| live.get(&["spec"])).cloned().unwrap_or(Value::Null)
    }

    fn owners(&self, path: &[&str]) -> Vec<String> {
        let fields = self.live.as_ref().and_then(|live| live.get(&["metadata", "managedFields"]));
        let managed = ManagedFields::decode(fields).expect("valid");
        let owns = |entry: &&ManagedEntry| entry.fields.contains(&Path::fields(path));
        managed.entries.iter().filter(owns).map(|entry| entry.manager.clone()).collect()
    }
}

#[test]
fn an_item_is_removed_when_its_last_owner_drops_it() {
    let mut world = World::new();
    world
        .apply("a", json!({"list": [{"name": "x", "value": 1}, {"name": "y", "value": 1}], "set": ["p", "q"]}), false)
        .expect("new");
    world.apply("b", json!({"list": [{"name": "x"}], "set": ["q"]}), false).expect("shares");
    world.apply("a", json!({"list": [{"name": "y", "value": 1}]}), false).expect("drops");
    assert_eq!(world.spec(), json!({"list": [{"name": "x"}, {"name": "y", "value": 1}], "set": ["q"]}));
    world.apply("b", json!({}), false).expect("drops");
    assert_eq!(world.spec(), json!({"list": [{"name": "y", "value": 1}]}));
}

#[test]
fn a_field_written_by_an_update_is_not_taken_without_force() {
    let mut world = World::new();
    world.apply("a", json!({"n": 1}), false).expect("new");
    world.update("b", json!({"n": 2}));
    assert_eq!(world.owners(&["spec", "n"]), ["b"]);
    let Err(ApplyError::Conflicts(conflicts)) = world.apply("a", json!({"n": 1}), false) else { panic!("no conflict") };
    assert_eq!(conflicts.message(), "Apply failed with 1 conflict: conflict with \"b\" using x/v1: .spec.n");
    world.apply("a", json!({"n": 1}), true).expect("forced");
    assert_eq!(world.owners(&["spec", "n"]), ["a"]);
    world.apply("a", json!({"n": 1}), false).expect("same again");
}

#[test]
fn a_write_without_effect_keeps_times() {
    let mut world = World::new();
    world.update("a", json!({"n": 1, "map": {"k": "v"}}));
    let before = world.live.clone();
    world.now = "2030-01-01T00:00:00Z".parse().expect("a time");
    world.update("b", json!({"n": 1, "map": {"k": "v"}}));
    assert_eq!(world.live, before);
    world.apply("c", json!({"n": 1}), false).expect("agrees");
    world.live.as_mut().expect("live").set(
        &["metadata", "managedFields"],
        before.as_ref().and_then(|o| o.get(&["metadata", "managedFields"])).cloned().expect("managed"),
    );
    assert_eq!(world.live, before);
}

#[test]
fn managed_fields_sent_by_a_writer_are_validated() {
    let managed: &[&str] = &["metadata", "managedFields"];
    let entry = json!({"manager": "z", "operation": "Update", "apiVersion": "x/v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:a": {}}}});
    let cases =
        [(json!([]), 0), (json!([{}]), 0), (json!([{"manager": "bad"}]), 1), (json!([entry]), 1), (json!(null), 1)];
    for (sent, entries) in cases {
        let mut world = World::new();
        world.update("a", json!({"n": 1}));
        let mut new = world.live.clone().expect("live");
        new.set(managed, sent.clone());
        world.with(|ctx, live| update_managers(ctx, live, &mut new, "b"));
        assert_eq!(new.items(managed).len(), entries, "{sent}");
        let kept = new.items(managed).first().map(|entry| entry["manager"].clone());
        let expected = if sent == json!([entry]) { json!("z") } else { json!("a") };
        assert!(kept.is_none_or(|manager| manager == expected), "{sent}");
    }
}

#[test]
fn a_schema_that_became_atomic_is_followed() {
    let mut world = World::new();
    world.apply("a", json!({"map": {"k": "v", "l": "w"}}), false).expect("new");
    let text = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "map": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}}}}}});
    world.schema = Schema::from_openapi(&text).expect("a schema");
    world.apply("a", json!({"map": {"k": "v"}}), false).expect("applies");
    assert_eq!(world.spec(), json!({"map": {"k": "v"}}));
    assert_eq!(world.owners(&["spec", "map"]), ["a"]);
}

#[test]
fn timestamps_alone_are_no_change() {
    let mut world = World::new();
    world.update("a", json!({"n": 1}));
    let old = world.live.clone().expect("live");
    let mut new = old.clone();
    new.as_map_mut()["metadata"]["managedFields"][0]["time"] = "2031-01-01T00:00:00Z".into();
    assert!(keep_times_of_unchanged(&old, &mut new));
    assert_eq!(new, old);
    new.set(&["spec", "n"], 2);
    new.as_map_mut()["metadata"]["managedFields"][0]["time"] = "2031-01-01T00:00:00Z".into();
    assert!(!keep_times_of_unchanged(&old, &mut new));
}

/// No empty maps or lists: for custom resources Kubernetes rejects an applier that empties what it owned.
fn spec() -> impl Strategy<Value = Value> {
    let word = "[ab]";
    let fields = (
        prop::option::of(word.prop_map(Value::from)),
        prop::option::of((0i64..3).prop_map(Value::from)),
        prop::option::of(prop::collection::btree_map("[kl]", word, 1..3).prop_map(|m| json!(m))),
        prop::option::of(prop::collection::btree_map("[xy]", word, 1..3).prop_map(|m| json!(m))),
        prop::option::of(prop::collection::btree_map("[xy]", word, 1..3).prop_map(|m| json!(m))),
        prop::option::of(prop::collection::btree_map("[pqr]", 0i64..3, 1..3).prop_map(|m| {
            Value::from(m.iter().map(|(name, value)| json!({"name": name, "value": value})).collect::<Vec<_>>())
        })),
        prop::option::of(prop::collection::btree_set("[stu]", 1..3).prop_map(|s| json!(s))),
        prop::option::of(prop::collection::vec(word, 1..3).prop_map(|s| json!(s))),
    );
    let specs = fields.prop_map(|(a, n, map, structure, atomic, list, set, plain)| {
        let names = ["a", "n", "map", "struct", "atomic", "list", "set", "plain"];
        let values = [a, n, map, structure, atomic, list, set, plain];
        Value::Object(names.iter().zip(values).filter_map(|(k, v)| v.map(|v| ((*k).to_owned(), v))).collect())
    });
    specs.prop_filter("nothing is asked for", |spec| spec != &json!({}))
}

fn manager() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "c"])
}

proptest! {
    #[test]
    fn applying_twice_changes_nothing(start in spec(), config in spec()) {
        let mut world = World::new();
        world.update("a", start);
        world.apply("b", config.clone(), true).expect("forced");
        let once = world.live.clone();
        world.now = "2030-01-01T00:00:00Z".parse().expect("a time");
        world.apply("b", config, false).expect("no conflict with oneself");
        prop_assert_eq!(&world.live, &once);
    }

    #[test]
    fn an_applied_configuration_is_in_the_result(steps in prop::collection::vec((manager(), spec(), any::<bool>()), 1..6)) {
        let mut world = World::new();
        for (manager, config, updates) in steps {
            if updates {
                world.update(manager, config.clone());
                prop_assert_eq!(world.spec(), config);
                continue;
            }
            world.apply(manager, config.clone(), true).expect("forced");
            let live = world.live.clone().expect("live").into_value();
            let merged = typed::merge(&world.schema, &live, &object(config).into_value());
            prop_assert_eq!(&merged["spec"], &live["spec"]);
        }
    }

    #[test]
    fn only_existing_fields_are_owned(steps in prop::collection::vec((manager(), spec(), any::<bool>()), 1..6)) {
        let mut world = World::new();
        for (manager, config, updates) in steps {
            if updates { world.update(manager, config) } else { world.apply(manager, config, true).expect("forced") }
        }
        let live = world.live.clone().expect("live");
        let present = typed::named_fields_as_members(&world.schema, &typed::to_field_set(&world.schema, &live.to_value()));
        let managed = ManagedFields::decode(live.get(&["metadata", "managedFields"])).expect("valid");
        for entry in managed.entries {
            for path in entry.fields.paths() {
                let name = path.to_string();
                prop_assert!(present.contains(&path) || name == ".spec" || live.get(&["spec"]).is_some() && matches!(name.matches('.').count(), 2), "{} of {} in {}", name, entry.manager, live.to_value());
            }
        }
    }

    #[test]
    fn merging_an_empty_configuration_changes_nothing(start in spec()) {
        let schema = schema();
        let live = object(start).into_value();
        prop_assert_eq!(&typed::merge(&schema, &live, &live), &live);
        prop_assert_eq!(&typed::merge(&schema, &live, &json!({"apiVersion": "x/v1"})), &live);
        prop_assert!(typed::compare(&schema, as_map(&live), as_map(&live)).is_same());
        prop_assert_eq!(&typed::remove_items(&schema, &live, &Set::default()), &live);
    }

    #[test]
    fn comparison_is_symmetric(a in spec(), b in spec()) {
        let schema = schema();
        let (a, b) = (object(a).into_value(), object(b).into_value());
        let (there, back) = (typed::compare(&schema, as_map(&a), as_map(&b)), typed::compare(&schema, as_map(&b), as_map(&a)));
        prop_assert_eq!(&there.added, &back.removed);
        prop_assert_eq!(&there.removed, &back.added);
        prop_assert_eq!(&there.modified, &back.modified);
        prop_assert_eq!(there.is_same(), a == b);
    }
}
