//! Writes a changed JSON document with its keys where they were, so that nothing but the change shows.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// The order of the keys of a document, all the way down.
#[derive(Debug, PartialEq, Eq)]
pub enum Order {
    Map(Vec<(String, Order)>),
    List(Vec<Order>),
    Leaf,
}

/// Compact JSON. Keys the document had come first and as it had them, new ones after them.
pub fn to_string(value: &Value, order: &Order) -> String {
    let mut out = String::new();
    write(&mut out, value, order);
    out
}

fn write(out: &mut String, value: &Value, order: &Order) {
    match (value, order) {
        (Value::Object(map), Order::Map(keys)) => {
            let known = keys.iter().filter_map(|(key, order)| Some((key, map.get(key)?, order)));
            let is_new = |key: &&String| !keys.iter().any(|(known, _)| known == *key);
            let new = map.iter().filter(|(key, _)| is_new(key)).map(|(key, value)| (key, value, &Order::Leaf));
            out.push('{');
            for (index, (key, value, order)) in known.chain(new).enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write(out, value, order);
            }
            out.push('}');
        }
        (Value::Array(items), Order::List(orders)) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(out, item, orders.get(index).unwrap_or(&Order::Leaf));
            }
            out.push(']');
        }
        (value, _) => out.push_str(&value.to_string()),
    }
}

impl<'de> Deserialize<'de> for Order {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OrderVisitor)
    }
}

struct OrderVisitor;

macro_rules! leaves {
    ($($method:ident $type:ty),*) => {
        $(fn $method<E>(self, _: $type) -> Result<Order, E> {
            Ok(Order::Leaf)
        })*
    };
}

impl<'de> Visitor<'de> for OrderVisitor {
    type Value = Order;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    leaves!(visit_bool bool, visit_i64 i64, visit_u64 u64, visit_f64 f64, visit_str &str);

    fn visit_unit<E>(self) -> Result<Order, E> {
        Ok(Order::Leaf)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Order, A::Error> {
        let mut keys: Vec<(String, Order)> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            // Of duplicate keys the last counts, as for other readers of YAML.
            match keys.iter_mut().find(|(known, _)| *known == key) {
                Some(known) => known.1 = map.next_value()?,
                None => keys.push((key, map.next_value()?)),
            }
        }
        Ok(Order::Map(keys))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Order, A::Error> {
        let mut orders = Vec::new();
        while let Some(order) = items.next_element()? {
            orders.push(order);
        }
        Ok(Order::List(orders))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, value: Value, expected: &str) {
        let order: Order = serde_json::from_str(text).expect("JSON");
        assert_eq!(to_string(&value, &order), expected);
    }

    #[test]
    fn keys_keep_their_order_and_new_ones_are_appended() {
        let text = r#"{ "z": 1, "a": {"y": 1, "b": [ {"q": 1, "c": null} ]}, "m": "x" }"#;
        let value: Value = serde_json::from_str(text).expect("JSON");
        check(text, value.clone(), r#"{"z":1,"a":{"y":1,"b":[{"q":1,"c":null}]},"m":"x"}"#);
        let mut changed = value;
        changed["a"]["new"] = serde_json::json!({"k": [true, 1.5]});
        changed["a"]["b"][0]["q"] = "\"<".into();
        changed.as_object_mut().expect("a map").remove("m");
        check(text, changed, r#"{"z":1,"a":{"y":1,"b":[{"q":"\"<","c":null}],"new":{"k":[true,1.5]}}}"#);
        check("[1, {}]", serde_json::json!([{"b": 1}, {"a": 1}, 3]), r#"[{"b":1},{"a":1},3]"#);
        check(r#"{"a":1,"b":2,"a":3}"#, serde_json::json!({"a": 3, "b": 2}), r#"{"a":3,"b":2}"#);
    }
}
