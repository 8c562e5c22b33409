//! Conversion between JSON and Lua. An empty table is ambiguous (list or map), so its type is taken from a reference.

use std::collections::HashSet;
use std::ffi::c_void;

use mlua::{Lua, Table, Value};
use object::depth::DEPTH_MAX;
use serde_json::{Map, Number, Value as Json};

/// Null does not exist in Lua: the field is absent, the item is skipped.
pub fn to_lua(lua: &Lua, json: &Json) -> mlua::Result<Value> {
    Ok(match json {
        Json::Null => Value::Nil,
        Json::Bool(flag) => Value::Boolean(*flag),
        Json::Number(number) => Value::Number(number.as_f64().unwrap_or_default()),
        Json::String(text) => Value::String(lua.create_string(text)?),
        Json::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            let present = items.iter().filter(|item| !item.is_null());
            for (index, item) in present.enumerate() {
                table.raw_set(index + 1, to_lua(lua, item)?)?;
            }
            Value::Table(table)
        }
        Json::Object(map) => Value::Table(map_to_lua(lua, map)?),
    })
}

pub fn map_to_lua(lua: &Lua, map: &Map<String, Json>) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, map.len())?;
    for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
        table.raw_set(key.as_str(), to_lua(lua, value)?)?;
    }
    Ok(table)
}

/// A table as JSON, with every empty table as an empty list: `settle` resolves those.
pub fn to_json(table: &Table) -> Result<Json, String> {
    let mut seen = HashSet::new();
    table_to_json(table, &mut seen, 1)
}

fn value_to_json(value: &Value, seen: &mut HashSet<*const c_void>, depth: usize) -> Result<Json, String> {
    match value {
        Value::Nil => Ok(Json::Null),
        Value::Boolean(flag) => Ok(Json::Bool(*flag)),
        Value::Integer(number) => Ok((*number).into()),
        Value::Number(number) => number_to_json(*number),
        Value::String(text) => Ok(Json::String(text.to_string_lossy())),
        Value::Table(table) => table_to_json(table, seen, depth + 1),
        other => Err(format!("cannot encode {} to JSON", other.type_name())),
    }
}

/// A number without a fraction becomes an integer if it fits in 64 bits.
fn number_to_json(number: f64) -> Result<Json, String> {
    if number.fract() == 0.0 && number.abs() < 9.223_372_036_854_775e18 {
        return Ok((number as i64).into());
    }
    Number::from_f64(number).map(Json::Number).ok_or_else(|| format!("{number} is not a number JSON knows"))
}

/// A table that appears twice is rejected, as in Karmada: it may contain itself, or double with every level.
fn table_to_json(table: &Table, seen: &mut HashSet<*const c_void>, depth: usize) -> Result<Json, String> {
    if depth > DEPTH_MAX {
        return Err(format!("cannot encode tables nested deeper than {DEPTH_MAX} to JSON"));
    }
    if !seen.insert(table.to_pointer()) {
        return Err("cannot encode recursively nested tables to JSON".to_owned());
    }
    let mut map = Map::new();
    let mut items: Vec<(i64, Json)> = Vec::new();
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair.map_err(|error| super::state::error_text(&error))?;
        let value = value_to_json(&value, seen, depth)?;
        match key {
            Value::String(key) => drop(map.insert(key.to_string_lossy(), value)),
            Value::Integer(index) => items.push((index, value)),
            Value::Number(_) => return Err("cannot encode sparse array".to_owned()),
            _ => return Err("cannot encode mixed or invalid key types".to_owned()),
        }
    }
    match (items.is_empty(), map.is_empty()) {
        (true, true) => Ok(Json::Array(Vec::new())),
        (true, false) => Ok(Json::Object(map)),
        (false, false) => Err("cannot encode mixed or invalid key types".to_owned()),
        (false, true) => {
            items.sort_by_key(|(index, _)| *index);
            let is_complete = items.iter().zip(1..).all(|((index, _), expected)| *index == expected);
            if !is_complete {
                return Err("cannot encode sparse array".to_owned());
            }
            Ok(Json::Array(items.into_iter().map(|(_, value)| value).collect()))
        }
    }
}

/// The meaning of an empty result as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    Map,
    List,
}

/// Resolves each empty table by the references at the same path (items of a list share theirs); without a reference
/// it is dropped.
pub fn settle(mut json: Json, root: Root, references: &[&Map<String, Json>]) -> Json {
    if is_empty_list(&json) {
        return if root == Root::Map { Json::Object(Map::new()) } else { json };
    }
    if !has_empty_list(&json) {
        return json;
    }
    let mut known = Empties::default();
    for reference in references {
        known.collect_map(reference, &mut String::new());
    }
    known.settle(&mut json, &mut String::new());
    json
}

fn is_empty_list(json: &Json) -> bool {
    json.as_array().is_some_and(Vec::is_empty)
}

fn has_empty_list(json: &Json) -> bool {
    match json {
        Json::Array(items) => items.is_empty() || items.iter().any(has_empty_list),
        Json::Object(map) => map.values().any(has_empty_list),
        _ => false,
    }
}

/// The paths of empty lists and empty maps; each key ends with a character that does not occur in keys.
#[derive(Default)]
struct Empties {
    lists: HashSet<String>,
    maps: HashSet<String>,
}

impl Empties {
    fn collect_map(&mut self, map: &Map<String, Json>, path: &mut String) {
        for (key, value) in map {
            let length = path.len();
            path.push_str(key);
            path.push('\0');
            self.collect(value, path);
            path.truncate(length);
        }
    }

    fn collect(&mut self, json: &Json, path: &mut String) {
        match json {
            Json::Array(items) if items.is_empty() => drop(self.lists.insert(path.clone())),
            Json::Object(map) if map.is_empty() => drop(self.maps.insert(path.clone())),
            Json::Array(items) => items.iter().for_each(|item| self.collect(item, path)),
            Json::Object(map) => self.collect_map(map, path),
            _ => {}
        }
    }

    fn settle(&self, json: &mut Json, path: &mut String) {
        match json {
            Json::Array(items) => items.retain_mut(|item| self.keeps(item, path)),
            Json::Object(map) => map.retain(|key, value| {
                let length = path.len();
                path.push_str(key);
                path.push('\0');
                let keeps = self.keeps(value, path);
                path.truncate(length);
                keeps
            }),
            _ => {}
        }
    }

    fn keeps(&self, json: &mut Json, path: &mut String) -> bool {
        if !is_empty_list(json) {
            self.settle(json, path);
            return true;
        }
        if self.maps.contains(path.as_str()) {
            *json = Json::Object(Map::new());
            return true;
        }
        self.lists.contains(path.as_str())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check_settle(result: Json, references: &[Json], expected: Json) {
        let maps: Vec<&Map<String, Json>> = references.iter().filter_map(Json::as_object).collect();
        assert_eq!(settle(result.clone(), Root::Map, &maps), expected, "{result}");
    }

    #[test]
    fn an_empty_table_takes_its_type_from_the_reference() {
        let desired = json!({"spec": {"a": {}, "rules": [{"on": {}}, {"off": []}]}});
        let observed = json!({"spec": {"b": []}, "metadata": {"annotations": {"a.b/c:d": {}}}});
        let both = [desired, observed];
        check_settle(json!({"spec": {"a": [], "b": [], "c": []}}), &both, json!({"spec": {"a": {}, "b": []}}));
        check_settle(
            json!({"spec": {"rules": [{"on": []}, {"on": [], "off": [], "new": []}]}}),
            &both,
            json!({"spec": {"rules": [{"on": {}}, {"on": {}, "off": []}]}}),
        );
        check_settle(
            json!({"metadata": {"annotations": {"a.b/c:d": [], "a": []}}}),
            &both,
            json!({"metadata": {"annotations": {"a.b/c:d": {}}}}),
        );
        check_settle(json!({"status": {"conditions": []}}), &[], json!({"status": {}}));
        check_settle(json!({"list": [[], [1]]}), &[], json!({"list": [[1]]}));
        check_settle(json!([]), &[], json!({}));
        assert_eq!(settle(json!([]), Root::List, &[]), json!([]));
    }

    fn through_lua(json: &Json) -> Result<Json, String> {
        let lua = Lua::new();
        match to_lua(&lua, json).map_err(|error| error.to_string())? {
            Value::Table(table) => to_json(&table),
            other => Err(format!("{json} became {other:?}")),
        }
    }

    #[test]
    fn nulls_are_left_out_and_whole_numbers_stay_whole() {
        let cases = [
            (json!({"a": null, "b": [1, null, 2]}), json!({"b": [1, 2]})),
            (
                json!({"a": 1.0, "b": 2.5, "c": -3, "d": 9007199254740992i64}),
                json!({"a": 1, "b": 2.5, "c": -3, "d": 9007199254740992i64}),
            ),
            (json!({"a": true, "b": "ü", "c": {"d": {}}}), json!({"a": true, "b": "ü", "c": {"d": []}})),
        ];
        for (json, expected) in cases {
            assert_eq!(through_lua(&json), Ok(expected));
        }
    }

    #[test]
    fn tables_that_are_no_json_are_refused() {
        let lua = Lua::new();
        for (script, expected) in [
            ("return {1, nil, 3}", "cannot encode sparse array"),
            ("return {[2] = 1}", "cannot encode sparse array"),
            ("return {[1.5] = 1}", "cannot encode sparse array"),
            ("return {1, a = 2}", "cannot encode mixed or invalid key types"),
            ("return {[true] = 1}", "cannot encode mixed or invalid key types"),
            ("local t = {} t.t = t return t", "cannot encode recursively nested tables to JSON"),
            ("local t = {1} return {t, t}", "cannot encode recursively nested tables to JSON"),
            ("return {f = print}", "cannot encode function to JSON"),
            ("return {n = 0/0}", "NaN is not a number JSON knows"),
            (
                "local t = {1} for i = 1, 200 do t = {t} end return t",
                "cannot encode tables nested deeper than 100 to JSON",
            ),
        ] {
            let table: Table = lua.load(script).eval().expect("a table");
            assert_eq!(to_json(&table), Err(expected.to_owned()), "{script}");
        }
        let table: Table = lua.load("local t = {} t[3] = 'c' t[2] = 'b' t[1] = 'a' return t").eval().expect("a table");
        assert_eq!(to_json(&table), Ok(json!(["a", "b", "c"])));
    }

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Json::from),
            (-(1i64 << 53)..(1i64 << 53)).prop_map(Json::from),
            (-1000i32..1000).prop_map(|n| json!(f64::from(n) + 0.5)),
            ".{0,8}".prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 64, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
                prop::collection::hash_map("[a-z.:/]{1,6}", inner, 0..5)
                    .prop_map(|map| Json::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// With itself as the reference, an object is converted back unchanged. (Lists with both kinds of empty items
        /// are ambiguous by the rule itself, so only one kind is generated.)
        #[test]
        fn an_object_round_trips_through_lua(json in prop::collection::hash_map("[a-z]{1,4}", any_json(), 1..5)) {
            let map: Map<String, Json> = json.into_iter().collect();
            let mut known = Empties::default();
            known.collect_map(&map, &mut String::new());
            prop_assume!(known.lists.is_disjoint(&known.maps));
            let json = Json::Object(map.clone());
            let back = through_lua(&json).map(|back| settle(back, Root::Map, &[&map]));
            prop_assert_eq!(back, Ok(json));
        }
    }
}
